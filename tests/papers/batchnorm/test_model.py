"""The networks against NumPy versions on copied weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from papers.batchnorm.inception import PAPER, Channels, Module, paper_inception, small_inception
from papers.batchnorm.model import Binarise, SigmoidMLP
from shared.norms import BatchNorm1d, BatchNorm2d
from tests.papers.batchnorm import naive


def array(tensor):
    return tensor.detach().numpy()


def randomised(net):
    """In float64, with biases and norms that would show if they were left out."""
    net.double()
    for module in net.modules():
        if isinstance(module, BatchNorm1d | BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 2.0)
        if getattr(module, "bias", None) is not None:
            nn.init.normal_(module.bias)
    return net


def affine(linear, norm, x):
    """BN(W x) or W x + b, from the weights of torch's modules."""
    y = x @ array(linear.weight).T
    if norm is None:
        return y + array(linear.bias)
    return naive.batch_norm(y, array(norm.weight), array(norm.bias), norm.eps)


@pytest.mark.parametrize("method", ["batchnorm", "none"])
def test_the_mlp_is_the_one_of_section_4_1(method):
    torch.manual_seed(0)
    net = randomised(SigmoidMLP(method, num_hidden=3, width=5, in_features=16, init_std=1.0))
    net.binarise.see_data(mean=0.3, std=0.35)
    pixels = torch.rand(7, 1, 4, 4, dtype=torch.float64)
    logits = net((pixels - 0.3) / 0.35)

    linears = [m for m in net.body if isinstance(m, nn.Linear)]
    norms = [m for m in net.body if isinstance(m, BatchNorm1d)]
    assert len(linears) == 3
    assert len(norms) == (3 if method == "batchnorm" else 0)
    h = (array(pixels).reshape(7, 16) > 0.5).astype(float)
    for index, linear in enumerate(linears):
        z = affine(linear, norms[index] if norms else None, h)
        h = naive.sigmoid(z)
    np.testing.assert_allclose(array(logits), affine(net.head[1], None, h), rtol=1e-10)
    np.testing.assert_allclose(array(net.last_inputs((pixels - 0.3) / 0.35)), z, rtol=1e-10)


def test_half_of_the_brightness_is_the_threshold():
    binarise = Binarise()
    binarise.see_data(mean=0.2860, std=0.3530)
    pixels = torch.arange(256.0)
    images = ((pixels / 255 - 0.2860) / 0.3530).view(256, 1, 1, 1)
    torch.testing.assert_close(binarise(images).flatten(), (pixels >= 128).float())


def test_initial_weights_have_the_asked_spread():
    torch.manual_seed(0)
    net = SigmoidMLP("none", num_hidden=2, init_std=0.03)
    for module in net.modules():
        if isinstance(module, nn.Linear):
            assert module.weight.std().item() == pytest.approx(0.03, rel=0.1)
            assert module.bias.abs().max() == 0
    scaled = SigmoidMLP("none", num_hidden=2, init_std=None)
    assert scaled.body[0].weight.std().item() == pytest.approx(784**-0.5, rel=0.05)
    assert scaled.body[2].weight.std().item() == pytest.approx(0.1, rel=0.05)


def unit(layers, x, *strides):
    """relu(BN(conv)) or relu(conv + b) of consecutive torch modules, with these strides."""
    position = 0
    for stride in strides:
        convolution = layers[position]
        bias = None if convolution.bias is None else array(convolution.bias)
        x = naive.convolution(x, array(convolution.weight), bias, stride)
        norm = layers[position + 1]
        if isinstance(norm, BatchNorm2d):
            y = naive.batch_norm(naive.places(x), array(norm.weight), array(norm.bias), norm.eps)
            x = naive.images(y, x.shape)
            position += 1
        assert isinstance(layers[position + 1], nn.ReLU)
        x = np.maximum(x, 0)
        position += 2
    assert position == len(layers)
    return x


@pytest.mark.parametrize("method", ["batchnorm", "none"])
@pytest.mark.parametrize(
    "channels",
    [
        Channels(2, (3, 4), (2, 5), 3),
        Channels(2, (3, 4), (2, 5), 3, "max"),
        Channels(0, (3, 4), (2, 5)),
    ],
    ids=["average", "max", "reduction"],
)
def test_an_inception_module_is_four_branches_side_by_side(method, channels):
    torch.manual_seed(0)
    module = randomised(Module(method, 4, channels, "relu"))
    x = torch.randn(3, 4, 6, 6, dtype=torch.float64)
    out = module(x)
    pool, three, double, *one = (list(branch) for branch in module.branches)
    if channels.pooling == "max" or not channels.one:
        pooled = naive.pooled(array(x), channels.stride, np.max, -np.inf)
    else:
        pooled = naive.pooled(array(x), 1, np.mean, 0.0)
    last = 1 if channels.one else 2  # the stride of the last 3x3 convolution of a branch
    expected = [unit(pool[1:], pooled, *[1] * (channels.pool > 0))]
    expected += [unit(three, array(x), 1, last), unit(double, array(x), 1, 1, last)]
    expected += [unit(branch, array(x), 1) for branch in one]
    assert len(one) == (1 if channels.one else 0)
    np.testing.assert_allclose(array(out), np.concatenate(expected, axis=1), rtol=1e-10, atol=1e-12)
    assert out.shape[1] == channels.out_channels(4)
    assert out.shape[2] == (6 if channels.one else 3)


def test_the_modules_of_the_paper_have_its_output_channels():
    width, widths = 192, []
    for channels in PAPER:
        width = channels.out_channels(width)
        widths.append(width)
    assert widths == [256, 320, 576, 576, 576, 608, 608, 1056, 1024, 1024]


@pytest.mark.parametrize("lrn", [True, False])
def test_the_paper_network_takes_a_whole_image_down_to_7x7(lrn):
    net = paper_inception("batchnorm", 10, "sigmoid", 0.4, lrn)
    with torch.device("meta"):
        net = net.to("meta")
        shapes = []
        for layer in net.features:
            if isinstance(layer, Module):
                layer.register_forward_hook(lambda *args: shapes.append(args[2].shape[-1]))
        x = torch.empty(2, 3, 224, 224)
        for layer in net.features:
            x = layer(x)
    assert shapes == [28, 28, 14, 14, 14, 14, 14, 7, 7, 7]
    responses = [m for m in net.features if isinstance(m, nn.LocalResponseNorm)]
    assert len(responses) == (2 if lrn else 0)
    assert not any(isinstance(m, nn.ReLU) for m in net.modules())


def test_the_small_network_is_ten_convolutions_deep_and_differs_only_in_batchnorm():
    normalised, plain = small_inception("batchnorm", 2), small_inception("none", 2)
    assert normalised(torch.randn(2, 1, 28, 28)).shape == (2, 10)
    sizes = [
        [m.weight.shape for m in net.modules() if isinstance(m, nn.Conv2d)]
        for net in (normalised, plain)
    ]
    assert sizes[0] == sizes[1]
    norms = [m for m in normalised.modules() if isinstance(m, BatchNorm2d)]
    assert len(norms) == len(sizes[0])
    assert not any(isinstance(m, BatchNorm2d) for m in plain.modules())
    assert 1 + sum(3 for m in plain.modules() if isinstance(m, Module)) == 10


def test_a_method_that_is_unknown_is_not_batchnorm():
    for build in (lambda: SigmoidMLP("batch"), lambda: small_inception("batch", 4)):
        with pytest.raises(KeyError, match="batch"):
            build()
