"""The networks: shapes, what is piecewise linear, and which layers have a bias."""

from __future__ import annotations

import pytest
import torch

from papers.gran.model import ACTIVATIONS, CNNCritic, CNNGenerator
from shared.training.gan_resnet import ResNetCritic


def test_shapes():
    images = CNNGenerator(2, 3, 8)(torch.randn(5, 8))
    assert images.shape == (5, 3, 32, 32)
    assert images.abs().max() <= 1
    assert CNNCritic(2, 3)(images).shape == (5, 1)


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
