"""Norms of weights, adaptive clipping, spectral norm."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from shared.norms import (
    SpectralNorm,
    activation_gain,
    clip_adaptively_,
    normalise_weight,
    scaled_standardise_weight,
    standardise_weight,
    standardised,
)
from shared.norms.clip import unit_norm
from shared.norms.spectral import as_matrix


def test_rows_of_a_standardised_weight_have_mean_0_and_variance_1() -> None:
    rows = standardise_weight(torch.randn(5, 3, 3, 3) * 4 + 1).flatten(1)
    assert torch.allclose(rows.mean(1), torch.zeros(5), atol=1e-6)
    assert torch.allclose(rows.var(1, unbiased=False), torch.ones(5), atol=1e-5)


def test_rows_of_a_scaled_standardised_weight_have_sum_0_and_norm_gamma() -> None:
    gain = torch.rand(5) + 0.5
    rows = scaled_standardise_weight(torch.randn(5, 3, 3, 3), gain, gamma=1.7).flatten(1)
    assert torch.allclose(rows.sum(1), torch.zeros(5), atol=1e-5)
    assert torch.allclose(rows.norm(dim=1), 1.7 * gain, atol=1e-5)
    # Below the floor nothing is blown up: var * F = 2e-8 against 1e-4.
    tiny = torch.tensor([[1e-4, -1e-4]])
    assert torch.allclose(scaled_standardise_weight(tiny), tiny * 100)


@pytest.mark.parametrize(
    ("function", "expected"), [("relu", math.sqrt(2 / (1 - 1 / math.pi))), ("silu", 1.787187)]
)
def test_gains_of_activations(function: str, expected: float) -> None:
    assert activation_gain(function) == pytest.approx(expected, abs=1e-6)


def test_weight_norm_equals_torch_to_the_second_derivative() -> None:
    v = torch.randn(4, 3, 2, dtype=torch.float64, requires_grad=True)
    g = torch.rand(4, dtype=torch.float64, requires_grad=True)
    expected = torch._weight_norm(v, g.view(4, 1, 1), 0)
    assert torch.allclose(normalise_weight(v, g), expected)
    assert torch.autograd.gradcheck(normalise_weight, (v, g))
    assert torch.autograd.gradgradcheck(normalise_weight, (v, g))
    with pytest.raises(ValueError, match="one for each output"):
        normalise_weight(v, g[:3])


@pytest.mark.parametrize("scaled", [False, True])
def test_a_standardised_layer_learns_its_gain(scaled: bool) -> None:
    layer = standardised(nn.Conv2d(3, 4, 3), scaled=scaled, gamma=2.0)
    layer(torch.randn(2, 3, 5, 5)).pow(2).sum().backward()
    names = dict(layer.named_parameters())
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in names.values())
    with pytest.raises(ValueError, match="expected a layer with a weight"):
        standardised(nn.ReLU(), scaled=scaled)


def test_adaptive_clipping_by_hand() -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Linear(4, 2))
    before = []
    for p in net.parameters():
        p.grad = torch.randn_like(p)
        p.grad[0] *= 1e-4  # below the limit: stays as it is
        before.append(p.grad.clone())
    net[1].bias.data.zero_()
    clip_adaptively_(net.parameters(), limit=0.05)
    for p, g in zip(net.parameters(), before, strict=True):
        most = 0.05 * unit_norm(p.detach()).clamp_min(1e-3)
        norm = unit_norm(g)
        expected = torch.where(norm > most, g * most / norm, g)
        assert p.grad is not None and torch.allclose(p.grad, expected, atol=1e-7)
    untouched = nn.Parameter(torch.ones(2, 2))
    clip_adaptively_([untouched])
    zero = nn.Parameter(torch.ones(2, 2))
    zero.grad = torch.zeros(2, 2)
    clip_adaptively_([zero])
    assert torch.equal(zero.grad, torch.zeros(2, 2))


def critic() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.ConvTranspose2d(4, 6, 2),
        nn.Conv2d(6, 6, 3),
        nn.Conv2d(6, 6, 3),
        nn.Flatten(),
        nn.Linear(24, 1),
    )


def test_power_iteration_converges_to_the_largest_singular_value() -> None:
    net = critic()
    raw = copy.deepcopy(net)
    SpectralNorm(net, iterations=300)
    net(torch.randn(1, 2, 7, 7))
    for layer, plain in zip(net, raw, strict=True):
        if not isinstance(layer, nn.Flatten):
            transposed = isinstance(layer, nn.ConvTranspose2d)
            sigma = torch.linalg.matrix_norm(as_matrix(plain.weight, transposed), 2)
            assert torch.allclose(layer.weight, plain.weight / sigma, atol=1e-4)


def test_one_step_equals_torch_from_the_same_start() -> None:
    """The step of algorithm 1: v, then u. torch's parametrisation does u, then v."""
    net = nn.Linear(5, 4)
    raw = net.weight.detach().clone()
    SpectralNorm(net)
    start = net.parametrizations.weight[0].u.clone()
    net(torch.ones(1, 5))
    v = nn.functional.normalize(raw.t() @ start, dim=0)
    u = nn.functional.normalize(raw @ v, dim=0)
    assert torch.allclose(net.weight, raw / (u @ raw @ v), atol=1e-6)


def test_gradient_equals_torch_s_with_equal_vectors() -> None:
    ours = nn.Linear(5, 4).double()
    theirs = parametrizations.spectral_norm(copy.deepcopy(ours)).eval()
    SpectralNorm(ours)
    ours.eval()
    mine, other = ours.parametrizations.weight[0], theirs.parametrizations.weight[0]
    mine.u.copy_(other._u)
    mine.v.copy_(other._v)
    x = torch.randn(3, 5, dtype=torch.float64)
    ours(x).pow(2).sum().backward()
    theirs(x).pow(2).sum().backward()
    got, expected = (m.parametrizations.weight.original.grad for m in (ours, theirs))
    assert torch.allclose(got, expected)


def test_evaluation_does_not_iterate_and_the_state_is_kept() -> None:
    net = critic()
    SpectralNorm(net)
    x = torch.randn(1, 2, 7, 7)
    net(x)
    state = copy.deepcopy(net.state_dict())
    net.eval()(x)
    assert all(
        torch.equal(a, b) for a, b in zip(state.values(), net.state_dict().values(), strict=True)
    )
    with pytest.raises(ValueError, match="without a weight"):
        SpectralNorm(nn.ReLU())


def test_an_evaluation_before_any_training_divides_by_the_largest_singular_value() -> None:
    net = nn.Linear(30, 20)
    raw = net.weight.detach().clone()
    SpectralNorm(net)
    found = torch.linalg.matrix_norm(raw, 2) / torch.linalg.matrix_norm(net.eval().weight, 2)
    assert torch.allclose(found, torch.linalg.matrix_norm(raw, 2), rtol=0.05)


def test_two_forwards_before_a_backward() -> None:
    """The second forward iterates: the first's vectors must not be overwritten under it."""
    net = nn.Linear(5, 1)
    SpectralNorm(net)
    x = torch.randn(2, 5)
    (net(x).sum() - net(-x).sum()).backward()
    assert net.parametrizations.weight.original.grad is not None


def test_a_stack_of_layers_takes_the_steps_of_each() -> None:
    """The batched form, which a GPU takes."""
    norms = SpectralNorm(critic(), iterations=3)
    w, u = torch.randn(4, 6, 9), torch.randn(4, 6)
    stacked = norms._steps(w, u, 3)
    each = [norms._steps(*pair, 3) for pair in zip(w, u, strict=True)]
    for together, apart in zip(stacked, zip(*each, strict=True), strict=True):
        assert torch.allclose(together, torch.stack(apart), atol=1e-5)
