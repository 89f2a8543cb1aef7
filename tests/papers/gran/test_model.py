"""The networks: shapes, what is piecewise linear, and which layers have a bias."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from papers.gran.model import (
    ACTIVATIONS,
    CNNCritic,
    CNNGenerator,
    Residual,
    ResNetCritic,
    ResNetGenerator,
)


@pytest.mark.parametrize(
    ("critic", "generator"),
    [
        (CNNCritic(2, 3), CNNGenerator(2, 3, 8)),
        (ResNetCritic(4, 3), ResNetGenerator(4, 3, 8)),
    ],
    ids=["cnn", "resnet"],
)
def test_shapes(critic, generator):
    images = generator(torch.randn(5, 8))
    assert images.shape == (5, 3, 32, 32)
    assert images.abs().max() <= 1
    assert critic(images).shape == (5, 1)


@pytest.mark.parametrize(
    ("critic", "linear"),
    [(CNNCritic(2, 1, name), "relu" in name) for name in ACTIVATIONS]
    + [(ResNetCritic(4, 1), True)],
    ids=[*ACTIVATIONS, "resnet"],
)
def test_critics_are_piecewise_linear_but_for_the_controls(critic, linear):
    critic.double()
    x, direction = torch.randn(2, 20, 1, 32, 32, dtype=torch.float64)
    steps = [critic(x + k * 1e-5 * direction) for k in range(3)]
    bent = (steps[2] - 2 * steps[1] + steps[0]).abs() / (steps[1] - steps[0]).abs()
    # A few lines cross the edge of a piece, or happen to run where the curve is flat.
    assert ((bent < 1e-7) == linear).double().mean() > 0.7


def test_no_bias_before_a_batch_norm():
    layers = [m for m in CNNGenerator(2, 1, 8).modules() if hasattr(m, "in_channels")]
    assert [layer.bias is not None for layer in layers] == [False, False, True]


def test_the_residual_blocks_of_the_critic_and_of_the_generator():
    x = torch.randn(2, 4, 8, 8)
    block = Residual(4, 4)
    first, _, second = block.between
    torch.testing.assert_close(block(x), x + second(first(x.relu()).relu()))
    shrink = Residual(4, 6, shrink=True, first=True)
    first, _, second = shrink.between
    long = second(first(x).relu())
    expected = nn.functional.avg_pool2d(long + shrink.shortcut(x), 2)
    torch.testing.assert_close(shrink(x), expected)
    assert Residual(4, 4, grow=True)(x).shape == (2, 4, 16, 16)
    norms = [isinstance(m, nn.BatchNorm2d) for m in Residual(4, 4, grow=True).modules()]
    assert sum(norms) == 2
    assert not any(isinstance(m, nn.BatchNorm2d) for m in ResNetCritic(4, 1).modules())
