"""The ResNets: shapes, the order in a block, and where a norm goes."""

from __future__ import annotations

import torch
from torch import nn

from shared.norms import BatchNorm2d, InstanceNorm2d
from shared.training.gan_resnet import Residual, ResNetCritic, ResNetGenerator


def kinds(net, kind):
    return [module for module in net.modules() if isinstance(module, kind)]


def test_shapes_and_the_sum_over_positions():
    generator, critic = ResNetGenerator(8, 3, 16), ResNetCritic(4, 3)
    images = generator(torch.randn(2, 16))
    assert images.shape == (2, 3, 32, 32)
    assert images.abs().max() <= 1
    assert len(kinds(generator, Residual)) == 3
    maps = critic.blocks(images)
    assert maps.shape == (2, 4, 8, 8)
    by_sum = critic.dense(maps.clamp_min(0).flatten(2).sum(2))
    torch.testing.assert_close(critic(images), by_sum)


def test_a_block_by_hand():
    x = torch.randn(2, 4, 8, 8)
    block = Residual(4, 4)
    torch.testing.assert_close(block(x), x + block.conv2(block.conv1(x.relu()).relu()))
    shrink = Residual(4, 6, shrink=True, first=True)
    long = shrink.conv2(shrink.conv1(x).relu())
    halved = nn.functional.avg_pool2d(long + shrink.shortcut(x), 2)
    torch.testing.assert_close(shrink(x), halved)
    grow = Residual(4, 4, BatchNorm2d, grow=True)
    large = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
    middle = grow.between[0](grow.conv1(grow.before[0](large).relu())).relu()
    expected = grow.conv2(middle) + grow.shortcut(large)
    torch.testing.assert_close(grow(x), expected, rtol=1e-4, atol=1e-5)


def test_the_norm_is_before_each_relu_but_not_on_the_images():
    assert len(kinds(ResNetGenerator(4, 3, 8), BatchNorm2d)) == 3 * 2 + 1
    generator = ResNetGenerator(4, 3, 8, InstanceNorm2d)
    assert len(kinds(generator, InstanceNorm2d)) == 3 * 2 + 1
    assert not kinds(generator, BatchNorm2d)
    critic = ResNetCritic(4, 3, InstanceNorm2d)
    assert len(kinds(critic, InstanceNorm2d)) == 4 * 2 - 1
    assert not list(critic.blocks[0].before)
    plain = ResNetCritic(4, 3)
    layers = (nn.Conv2d, nn.Linear)
    assert {name.rpartition(".")[0] for name, _ in plain.named_parameters()} == {
        name for name, module in plain.named_modules() if isinstance(module, layers)
    }
