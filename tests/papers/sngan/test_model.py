"""The CNN has the shapes of Table 3, the ResNet the methods that the paper gives it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from papers.sngan.method import layers
from papers.sngan.model import CNNCritic, CNNGenerator, resnet_critic


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


def test_the_critic_of_the_resnet_is_normalised_by_its_method():
    plain, divided = resnet_critic("none", 4, 3), resnet_critic("sn", 4, 3)
    assert not any(parametrize.is_parametrized(layer) for layer in layers(plain))
    assert all(parametrize.is_parametrized(layer) for layer in layers(divided))
    assert len(layers(divided)) == 4 * 2 + 2 + 1  # two shortcuts and the dense layer


def test_methods_that_the_paper_has_no_resnet_for_are_refused():
    with pytest.raises(ValueError, match="'wn'"):
        resnet_critic("wn", 4, 3)
