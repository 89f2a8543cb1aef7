"""The networks have the shapes of Tables 3 and 4."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from papers.sngan.model import (
    CNNCritic,
    CNNGenerator,
    DownBlock,
    ResNetCritic,
    ResNetGenerator,
    UpBlock,
)


def test_the_cnn_is_that_of_table_3():
    critic = CNNCritic("none", 64, 3)
    convs = [layer for layer in critic.modules() if isinstance(layer, nn.Conv2d)]
    assert [conv.out_channels for conv in convs] == [64, 64, 128, 128, 256, 256, 512]
    assert [conv.kernel_size[0] for conv in convs] == [3, 4, 3, 4, 3, 4, 3]
    assert [conv.stride[0] for conv in convs] == [1, 2, 1, 2, 1, 2, 1]
    assert {
        layer.negative_slope for layer in critic.modules() if isinstance(layer, nn.LeakyReLU)
    } == {0.1}
    assert critic(torch.zeros(2, 3, 32, 32)).shape == (2, 1)
    generator = CNNGenerator(64, 3)
    convs = [layer for layer in generator.modules() if isinstance(layer, nn.ConvTranspose2d)]
    assert generator.dense.out_features == 4 * 4 * 512
    assert [conv.out_channels for conv in convs] == [256, 128, 64]
    images = generator(torch.randn(2, 128))
    assert images.shape == (2, 3, 32, 32)
    assert images.abs().max() <= 1


def test_the_resnet_is_that_of_table_4_and_sums_over_positions():
    generator, critic = ResNetGenerator(8, 3), ResNetCritic("none", 4, 3)
    assert generator(torch.randn(2, 128)).shape == (2, 3, 32, 32)
    assert sum(isinstance(m, UpBlock) for m in generator.modules()) == 3
    downs = [m.down for m in critic.modules() if isinstance(m, DownBlock)]
    assert downs == [True, True, False, False]
    x = torch.randn(2, 3, 32, 32)
    maps = critic.blocks(x)
    assert maps.shape == (2, 4, 8, 8)
    by_sum = critic.dense(maps.clamp_min(0).flatten(2).sum(2))
    torch.testing.assert_close(critic(x), by_sum)


def test_a_block_of_the_critic_halves_after_the_sum_as_it_would_before():
    block = DownBlock(3, 3, down=True)
    x = torch.randn(2, 3, 8, 8)
    out = block.conv2(block.conv1(x.clamp_min(0)).clamp_min(0))
    pooled = nn.functional.avg_pool2d(out, 2) + block.shortcut(nn.functional.avg_pool2d(x, 2))
    torch.testing.assert_close(block(x), pooled, rtol=1e-4, atol=1e-5)


def test_methods_that_the_paper_has_no_resnet_for_are_refused():
    with pytest.raises(ValueError, match="'wn'"):
        ResNetCritic("wn", 4, 3)
