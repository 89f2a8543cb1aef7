"""Scaled weight standardisation, gamma, the plan of variances, clipping; and known mistakes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from timm.layers import ScaledStdConv2d
from timm.models.nfnet import _nonlin_gamma
from timm.utils.agc import adaptive_clip_grad
from torch import nn
from torch.nn.functional import silu

from papers.nf_resnet.method import (
    ALPHA,
    GAMMA,
    Activation,
    Signal,
    StochasticDepth,
    convolution,
    planned_variances,
    signal,
)
from shared.norms import activation_gain, clip_adaptively_, scaled_standardise_weight

FLOAT64 = {"dtype": torch.float64}


def official_standardisation(weight_HWIO, gain, eps=1e-4):
    """The public code's formula, in its layout: eps is a floor of var * fan-in."""
    mean = weight_HWIO.mean(axis=(0, 1, 2), keepdims=True)
    var = weight_HWIO.var(axis=(0, 1, 2), keepdims=True)
    fan_in = np.prod(weight_HWIO.shape[:-1])
    scale = gain / np.sqrt(np.maximum(var * fan_in, eps))
    return weight_HWIO * scale - mean * scale


@pytest.mark.parametrize("std", [1.0, 1e-4])
def test_scaled_weight_standardisation_equals_the_official_formula(std):
    """Also below the floor, where rows are shorter than their gain."""
    torch.manual_seed(0)
    weight_OIHW = torch.randn(5, 4, 3, 3, **FLOAT64) * std + 0.01
    gain = torch.rand(5, **FLOAT64) + 0.5
    expected = official_standardisation(weight_OIHW.permute(2, 3, 1, 0).numpy(), gain.numpy())
    got = scaled_standardise_weight(weight_OIHW, gain).permute(2, 3, 1, 0).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-15)
    norms = scaled_standardise_weight(weight_OIHW).flatten(1).norm(dim=1)
    assert torch.allclose(norms, torch.ones_like(norms)) == (std == 1.0)


def timm_convolution(weight, gain, **settings):
    conv = ScaledStdConv2d(weight.shape[1], len(weight), 3, bias=False, **settings).double()
    conv.weight.data.copy_(weight)
    conv.gain.data.copy_(gain.view(-1, 1, 1, 1))
    return conv


def test_timm_s_convolution_is_ours_without_its_eps():
    torch.manual_seed(1)
    weight, gain = torch.randn(6, 4, 3, 3, **FLOAT64), torch.rand(6, **FLOAT64)
    x = torch.randn(2, 4, 7, 7, **FLOAT64)
    ours = convolution("nf", 4, 6, 3).double()
    ours.parametrizations.weight.original.data.copy_(weight)
    ours.parametrizations.weight[0].gain.data.copy_(gain)
    torch.testing.assert_close(ours(x), timm_convolution(weight, gain, eps=1e-30)(x))
    # A known difference: with gamma it sits in timm's convolutions, in ours before them.
    scaled = timm_convolution(weight, gain, eps=1e-30, gamma=GAMMA)
    torch.testing.assert_close(ours(GAMMA * x), scaled(x))


def test_known_mistake_timm_adds_eps_to_the_variance_where_the_official_code_has_a_floor():
    """At fan-in 4608 the variance starts at 1 / 4608, to which 1e-5 is not small."""
    fan_in = 4608
    weight = torch.randn(2, 512, 3, 3, **FLOAT64) / math.sqrt(fan_in)
    weight -= weight.mean(dim=(1, 2, 3), keepdim=True)
    weight /= weight.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    conv = timm_convolution(weight, torch.ones(2, **FLOAT64), eps=1e-5)
    image = torch.zeros(1, 512, 3, 3, **FLOAT64)
    image[0] = weight[0]
    timm_norm = conv(image)[0, 0, 1, 1].item()  # the row times itself: norm of W' (norm of W is 1)
    assert timm_norm == pytest.approx(1 / math.sqrt(1 + 1e-5 * fan_in), rel=1e-9)
    assert timm_norm == pytest.approx(1 - 0.022, abs=5e-4)
    exact = scaled_standardise_weight(weight).flatten(1).norm(dim=1)
    torch.testing.assert_close(exact, torch.ones(2, **FLOAT64))


def test_known_mistake_the_official_gains_are_slightly_too_large():
    """They were found by sampling, and timm copied them."""
    assert _nonlin_gamma["relu"] == pytest.approx(1.713959, abs=1e-6)
    assert math.sqrt(2 / (1 - 1 / math.pi)) == pytest.approx(GAMMA, abs=1e-9)
    for name in ("relu", "silu", "gelu", "elu"):
        excess = _nonlin_gamma[name] / activation_gain(name) - 1
        assert 1e-4 < excess < 1.2e-3, name


def test_known_mistake_an_unbiased_deviation_makes_the_rows_longer():
    """vballoli/nfnets-pytorch divides by the unbiased standard deviation."""
    rows = torch.randn(3, 9, **FLOAT64)
    centred = rows - rows.mean(1, keepdim=True)
    unbiased = centred / (rows.std(1, keepdim=True) * 3)
    ratio = scaled_standardise_weight(rows).norm(dim=1) / unbiased.norm(dim=1)
    torch.testing.assert_close(ratio, torch.full((3,), math.sqrt(9 / 8), **FLOAT64))


def test_known_mistake_one_beta_for_all_blocks():
    """vballoli/nfnets-pytorch: beta has to follow the variance, and to start anew."""
    variances = planned_variances([3, 2])
    assert variances == pytest.approx([1, 1.04, 1.08, 1.12, 1.04, 1.08])
    for before, after in ((0, 1), (1, 2), (2, 3), (4, 5)):
        assert variances[after] == pytest.approx(variances[before] + ALPHA**2)
    assert len(set(variances)) > 1


def test_known_mistake_a_factor_behind_silu_is_not_the_factor_before_it():
    """The paper writes f(x / beta), its code beta f(x); for ReLU alone these are the same."""
    x = torch.linspace(-3, 3, 101)
    beta = 1.7
    torch.testing.assert_close(torch.relu(x / beta), torch.relu(x) / beta)
    assert (silu(x / beta) - silu(x) / beta).abs().max() > 0.1


def test_known_mistake_timm_clips_a_gain_element_by_element():
    """Its gain has the shape (C, 1, 1, 1); ours, as the official one, is a vector."""
    gradient = torch.tensor([3.0, 0.001, 0.001])
    vector, column = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3, 1, 1, 1))
    vector.grad, column.grad = gradient.clone(), gradient.view(3, 1, 1, 1).clone()
    clip_adaptively_([vector], limit=0.01)
    adaptive_clip_grad([column], clip_factor=0.01)
    assert vector.grad.norm() == pytest.approx(0.01 * math.sqrt(3))
    torch.testing.assert_close(vector.grad / vector.grad.norm(), gradient / gradient.norm())
    assert column.grad.flatten().tolist() == pytest.approx([0.01, 0.001, 0.001])


def test_clipping_equals_timm_s_on_weights():
    torch.manual_seed(2)
    ours = [nn.Parameter(torch.randn(shape)) for shape in ((4, 3, 3, 3), (5, 7))]
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    for mine, other in zip(ours, theirs, strict=True):
        mine.grad = torch.randn_like(mine)
        other.grad = mine.grad.clone()
    clip_adaptively_(ours, limit=0.1)
    adaptive_clip_grad(theirs, clip_factor=0.1)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


def test_known_mistake_clipping_a_linear_layer_by_its_inputs():
    """vballoli/nfnets-pytorch: a unit of a torch linear layer is a row, not a column."""
    weight = nn.Parameter(torch.ones(2, 4))
    weight.grad = torch.tensor([[4.0] * 4, [1e-4] * 4])
    clip_adaptively_([weight], limit=0.01)
    assert weight.grad[0].norm() == pytest.approx(0.01 * 2)
    assert weight.grad[1].tolist() == pytest.approx([1e-4] * 4)


def test_gamma_keeps_the_variance_of_a_normal_signal():
    torch.manual_seed(3)
    z = torch.randn(400, 8, 20, 20)
    assert Activation("nf", 8)(z).var().item() == pytest.approx(1, abs=0.01)
    assert Activation("he", 8)(z).var().item() == pytest.approx((1 - 1 / math.pi) / 2, abs=0.01)


def test_signal_is_that_of_numpy():
    x = torch.randn(3, 4, 5, 6, **FLOAT64)
    channels = x.numpy().transpose(1, 0, 2, 3).reshape(4, -1)
    expected = Signal((channels.mean(1) ** 2).mean(), channels.var(1).mean())
    assert signal(x) == pytest.approx(expected)


def test_stochastic_depth_drops_whole_examples_and_does_not_scale_the_others():
    torch.manual_seed(4)
    drop = StochasticDepth(0.3)
    x = torch.ones(4000, 1, 2, 2)
    out = drop(x).flatten(1)
    assert set(out.flatten().tolist()) == {0.0, 1.0}
    assert (out == out[:, :1]).all()
    assert out[:, 0].mean().item() == pytest.approx(0.7, abs=0.03)
    assert drop.eval()(x) is x
    with pytest.raises(ValueError, match="got a rate of 1"):
        StochasticDepth(1)
