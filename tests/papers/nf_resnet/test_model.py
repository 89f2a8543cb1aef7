"""The network: a second implementation of the blocks, timm's block, shapes, starts."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from timm.layers import ScaledStdConv2d
from timm.models.nfnet import NormFreeBlock, act_with_gamma, create_stem
from torch import nn
from torch.nn.functional import batch_norm, conv2d

from papers.nf_resnet.method import GAMMA, SCHEMES, planned_variances, signal
from papers.nf_resnet.model import Block, ResNet

SMALL = {"depths": [2, 1], "widths": [8, 16], "in_channels": 1}


# A second implementation, written from the paper's equations as functions of plain tensors.


def standardised_rows(p, name):
    weight, gain = (p[f"{name}.parametrizations.weight.{end}"] for end in ("original", "0.gain"))
    fan_in = weight[0].numel()
    mean = weight.mean(dim=(1, 2, 3), keepdim=True)
    var = weight.var(dim=(1, 2, 3), correction=0, keepdim=True)
    return gain.view(-1, 1, 1, 1) * (weight - mean) / (var * fan_in).sqrt()


def nf_convolution(x, p, name, **how):
    return conv2d(x, standardised_rows(p, name), p[f"{name}.bias"], **how)


def nf_block(x, p, stride, variance):
    entering = GAMMA * (x / variance**0.5).clamp(min=0)
    shortcut = x
    if "shortcut.bias" in p:
        shortcut = nf_convolution(entering, p, "shortcut", stride=stride)
    out = nf_convolution(entering, p, "branch.0")
    out = nf_convolution(GAMMA * out.clamp(min=0), p, "branch.2", stride=stride, padding=1)
    out = nf_convolution(GAMMA * out.clamp(min=0), p, "branch.4")
    return shortcut + 0.2 * p["skip_gain"] * out


def normalised(x, p, name):
    return batch_norm(x, None, None, p[f"{name}.norm.weight"], p[f"{name}.norm.bias"], True)


def batchnorm_block(x, p, stride, _):
    entering = normalised(x, p, "activation").clamp(min=0)
    shortcut = x
    if "shortcut.weight" in p:
        shortcut = conv2d(entering, p["shortcut.weight"], stride=stride)
    out = conv2d(entering, p["branch.0.weight"])
    out = normalised(out, p, "branch.1").clamp(min=0)
    out = conv2d(out, p["branch.2.weight"], stride=stride, padding=1)
    out = normalised(out, p, "branch.3").clamp(min=0)
    return shortcut + conv2d(out, p["branch.4.weight"])


def fixup_block(x, p, stride, _):
    def biased(x, name):
        return (x + p[f"{name}.bias_relu"]).clamp(min=0) + p[f"{name}.bias_conv"]

    entering = biased(x, "activation")
    shortcut = x
    if "shortcut.weight" in p:
        shortcut = conv2d(entering, p["shortcut.weight"], stride=stride)
    out = biased(conv2d(entering, p["branch.0.weight"]), "branch.1")
    out = biased(conv2d(out, p["branch.2.weight"], stride=stride, padding=1), "branch.3")
    return shortcut + p["skip_gain"] * conv2d(out, p["branch.4.weight"])


@pytest.mark.parametrize(("channels", "stride"), [(8, 1), (16, 1), (16, 2)])
@pytest.mark.parametrize(
    ("method", "second"),
    [("nf", nf_block), ("batchnorm", batchnorm_block), ("fixup", fixup_block)],
)
def test_a_block_equals_a_second_implementation_forward_and_backward(
    method, second, channels, stride
):
    torch.manual_seed(0)
    gain = None if method == "batchnorm" else 0.7
    block = Block(method, 8, channels, stride, variance=1.44, drop_rate=0.0, skip_gain=gain)
    block.double()
    # Biases and gains away from 0 and 1, or a misplaced one would not be seen.
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.5)
    copies = {key: p.detach().clone().requires_grad_() for key, p in block.named_parameters()}
    x = torch.randn(3, 8, 6, 6, dtype=torch.float64, requires_grad=True)
    x_copy = x.detach().clone().requires_grad_()

    out, expected = block(x), second(x_copy, copies, stride, 1.44)
    torch.testing.assert_close(out, expected, rtol=1e-11, atol=1e-11)
    cotangent = torch.randn_like(out)
    out.backward(cotangent)
    expected.backward(cotangent)
    torch.testing.assert_close(x.grad, x_copy.grad, rtol=1e-9, atol=1e-9)
    for key, parameter in block.named_parameters():
        torch.testing.assert_close(parameter.grad, copies[key].grad, rtol=1e-9, atol=1e-9)


def timm_block(channels, beta, gamma, eps):
    return NormFreeBlock(
        8,
        channels,
        alpha=0.2,
        beta=beta,
        reg=False,
        skipinit=True,
        act_layer=act_with_gamma("relu", gamma),
        conv_layer=partial(ScaledStdConv2d, eps=eps),
    ).double()


@pytest.mark.parametrize("channels", [8, 16])
def test_a_block_equals_timm_s_on_copied_weights(channels):
    torch.manual_seed(1)
    block = Block("nf", 8, channels, 1, variance=1.44, drop_rate=0.0, skip_gain=0.75).double()
    theirs = timm_block(channels, 1.44**-0.5, GAMMA, eps=1e-30)
    pairs = {"conv1": block.branch[0], "conv2": block.branch[2], "conv3": block.branch[4]}
    if block.shortcut is not None:
        pairs["downsample.conv"] = block.shortcut
    with torch.no_grad():
        for name, ours in pairs.items():
            conv = theirs.get_submodule(name)
            nn.init.normal_(ours.bias)
            nn.init.uniform_(ours.parametrizations.weight[0].gain, 0.5, 2)
            conv.weight.copy_(ours.parametrizations.weight.original)
            conv.gain.copy_(ours.parametrizations.weight[0].gain.view(-1, 1, 1, 1))
            conv.bias.copy_(ours.bias)
        theirs.skipinit_gain.fill_(0.75)
    x = torch.randn(2, 8, 6, 6, dtype=torch.float64)
    torch.testing.assert_close(block(x), theirs(x), rtol=1e-11, atol=1e-11)


def test_known_mistake_timm_s_gamma_in_the_convolutions_scales_the_stem_too():
    """The images are not activated: their stem should keep the variance of 1."""
    torch.manual_seed(2)
    images = torch.randn(2, 3, 64, 64)
    theirs, _, _ = create_stem(
        3, 64, "7x7", conv_layer=partial(ScaledStdConv2d, gamma=GAMMA), preact_feature=True
    )
    ours = ResNet("nf", [1], [256], stem="imagenet").stem[0]
    assert signal(ours(images)).variance == pytest.approx(0.9, abs=0.1)
    ratio = signal(theirs(images)).variance / signal(ours(images)).variance
    assert ratio == pytest.approx(GAMMA**2, rel=0.15)


def test_known_mistake_with_a_skip_gain_of_zero_the_signal_does_not_follow_the_plan():
    torch.manual_seed(3)
    net = ResNet("nf", [6], [16], in_channels=1)
    x = net.blocks[0](net.stem(torch.randn(4, 1, 12, 12)))
    assert torch.equal(net.blocks[1:](x), x)
    assert planned_variances([6])[-1] > planned_variances([6])[1]
    grown = ResNet("nf", [6], [16], in_channels=1, skip_gain=1.0)
    assert not torch.equal(grown.blocks[1:](x), x)


@pytest.mark.parametrize("method", SCHEMES)
def test_every_method_gives_logits_and_gradients(method):
    torch.manual_seed(4)
    net = ResNet(method, **SMALL, stochastic_depth=0.1)
    if SCHEMES[method].zero_classifier:
        assert not net(torch.randn(2, 1, 8, 8)).any()
        nn.init.normal_(net.classifier.weight)
    logits = net(torch.randn(4, 1, 8, 8))
    assert logits.shape == (4, 10)
    logits.square().sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_nf_resnet50_has_the_blocks_and_parameters_of_a_resnet50():
    net = ResNet("nf", [3, 4, 6, 3], [256, 512, 1024, 2048], num_classes=1000, stem="imagenet")
    strides = [block.branch[2].stride[0] for block in net.blocks]
    assert strides == [1] * 3 + [2] + [1] * 3 + [2] + [1] * 5 + [2] + [1] * 2
    shortcuts = [i for i, block in enumerate(net.blocks) if block.shortcut is not None]
    assert shortcuts == [0, 3, 7, 13]
    millions = sum(p.numel() for p in net.parameters()) / 1e6
    assert millions == pytest.approx(25.5, abs=0.2)
    rates = [
        block.stochastic_depth.rate
        for block in ResNet("nf", [2, 2], [8, 8], stochastic_depth=0.1).blocks
    ]
    assert rates == pytest.approx([0, 0.025, 0.05, 0.075])


def test_fixup_starts_with_zero_branches_scaled_by_depth():
    torch.manual_seed(5)
    net = ResNet("fixup", [8, 8], [64, 64])
    for block in net.blocks:
        assert not block.branch[4].weight.any()
        std = block.branch[2].weight.std().item()
        assert std == pytest.approx((2 / (9 * 16)) ** 0.5 * 16**-0.25, rel=0.1)


def test_widths_that_do_not_fit_are_errors():
    with pytest.raises(ValueError, match=r"got 2 stages of widths \[8\]"):
        ResNet("nf", [1, 1], [8])
    with pytest.raises(ValueError, match="a multiple of four"):
        ResNet("nf", [1], [10])


def test_a_stem_that_is_unknown_is_an_error():
    with pytest.raises(ValueError, match="stem: got 'large', expected 'imagenet' or 'small'"):
        ResNet("nf", [1], [8], stem="large")
