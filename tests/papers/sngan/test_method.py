"""The methods against second implementations, written from the equations in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from papers.sngan.method import (
    METHODS,
    clip_weights,
    layers,
    normalise_weights,
    orthonormal_penalty,
    singular_values,
)
from papers.sngan.model import CNNCritic
from shared.norms import SpectralNorm


def algorithm_1(w, u, steps):
    """The power iteration of the paper, on a matrix (outputs, inputs)."""
    for _ in range(steps):
        v = w.T @ u
        v /= np.linalg.norm(v)
        u = w @ v
        u /= np.linalg.norm(u)
    return u, v, u @ w @ v


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(
    ("make", "shape", "matrix"),
    [
        (lambda: nn.Linear(5, 3), (2, 5), lambda w: w),
        (lambda: nn.Conv2d(3, 4, 3), (2, 3, 6, 6), lambda w: w.reshape(4, -1)),
        (
            lambda: nn.ConvTranspose2d(3, 4, 3),
            (2, 3, 6, 6),
            lambda w: w.transpose(1, 0, 2, 3).reshape(4, -1),
        ),
    ],
    ids=["linear", "conv", "deconv"],
)
def test_the_weight_is_that_of_algorithm_1(make, shape, matrix, steps):
    layer = make().double()
    w = layer.weight.detach().numpy().copy()
    SpectralNorm(layer, iterations=steps)
    divided = layer.parametrizations["weight"][0]
    u, v, sigma = algorithm_1(matrix(w), divided.u.numpy().copy(), steps)
    layer(torch.randn(shape, dtype=torch.float64))
    np.testing.assert_allclose(divided.u, u, rtol=1e-12)
    np.testing.assert_allclose(divided.v, v, rtol=1e-12)
    np.testing.assert_allclose(layer.weight.detach(), w / sigma, rtol=1e-12)


def test_the_gradient_is_that_of_the_paper_with_sigma_not_detached():
    layer = nn.Linear(6, 4).double()
    w = layer.weight.detach().numpy().copy()
    SpectralNorm(layer)
    x, cotangent = np.random.default_rng(0).normal(size=(2, 3, 6))[0], np.ones((3, 4))
    cotangent[1] = -2
    layer(torch.from_numpy(x)).backward(torch.from_numpy(cotangent))
    divided = layer.parametrizations["weight"]
    u, v = divided[0].u.numpy(), divided[0].v.numpy()
    sigma = u @ w @ v
    g = cotangent.T @ x  # dL / d(W / sigma)
    closed = (g - (g * w).sum() / sigma * np.outer(u, v)) / sigma
    np.testing.assert_allclose(divided.original.grad, closed, rtol=1e-10)
    # The mistake: with sigma detached the second term is missing.
    assert abs(divided.original.grad.numpy() - g / sigma).max() > 1e-3


def test_u_does_not_move_in_eval_and_once_a_forward_in_training():
    critic = CNNCritic("sn", 2, 1)
    x = torch.randn(2, 1, 32, 32)

    def state():
        return torch.cat([p for name, p in critic.named_buffers() if name.endswith((".u", ".v"))])

    critic.eval()
    before = state()
    for _ in range(3):
        critic(x)
    assert torch.equal(state(), before)
    critic.train()
    critic(x)
    after = state()
    assert not torch.equal(after, before)
    for layer in layers(critic):  # torch's own moves on at each of these.
        _ = layer.weight
    assert torch.equal(state(), after)
    theirs = parametrizations.spectral_norm(nn.Linear(6, 4))
    u = theirs.parametrizations.weight[0]._u.clone()
    _ = theirs.weight
    assert not torch.equal(theirs.parametrizations.weight[0]._u, u)


def test_a_deconvolution_is_normalised_over_its_outputs():
    right, wrong = nn.ConvTranspose2d(2, 5, 3), nn.ConvTranspose2d(2, 5, 3)
    SpectralNorm(right, iterations=200)
    right(torch.randn(1, 2, 4, 4))
    assert torch.linalg.matrix_norm(right.weight.transpose(0, 1).flatten(1), 2).item() == (
        pytest.approx(1, rel=1e-5)
    )
    parametrizations.spectral_norm(wrong, n_power_iterations=200, dim=0)
    norm = torch.linalg.matrix_norm(wrong.weight.transpose(0, 1).flatten(1), 2).item()
    assert norm != pytest.approx(1, rel=1e-2)


def test_ours_is_torchs_once_both_have_converged():
    ours, theirs = nn.Conv2d(3, 6, 3).double(), nn.Conv2d(3, 6, 3).double()
    theirs.load_state_dict(ours.state_dict())
    SpectralNorm(ours, iterations=500)
    parametrizations.spectral_norm(theirs, n_power_iterations=500)
    x = torch.randn(2, 3, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-9, atol=1e-12)


def test_weight_norm_has_rows_of_length_one_and_no_gamma():
    critic = CNNCritic("wn", 2, 1)
    for layer in layers(critic):
        lengths = layer.weight.flatten(1).norm(dim=1)
        torch.testing.assert_close(lengths, torch.ones_like(lengths))
    names = {name.split(".")[-1] for name, _ in critic.named_parameters()}
    assert names == {"original", "bias"}


@pytest.mark.parametrize("method", METHODS)
def test_no_method_has_a_learnt_scale(method):
    critic = CNNCritic(method, 2, 1)
    assert {p.dim() for name, p in critic.named_parameters() if "bias" not in name} <= {2, 4}
    assert len([name for name, _ in critic.named_parameters() if "bias" in name]) == 8


def test_layer_norm_is_over_each_sample_and_batch_norm_is_not():
    x = torch.randn(4, 1, 32, 32)
    for method, alone in [("ln", True), ("bn", False), ("sn", True)]:
        critic = CNNCritic(method, 2, 1)
        critic(x)  # the power iteration moves on
        critic.eval() if method == "sn" else critic.train()
        same = torch.allclose(critic(x)[:2], critic(x[:2]), atol=1e-5)
        assert same == alone, method


def test_clipping_clips_every_parameter():
    critic = CNNCritic("clip", 2, 1)
    clip_weights(critic, 0.01)
    assert max(p.abs().max().item() for p in critic.parameters()) == pytest.approx(0.01)


def test_the_orthonormal_penalty_is_zero_for_orthonormal_rows_or_columns():
    net = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 5))
    expected = 0
    for layer in net:
        w = layer.weight.detach().numpy()
        w = w if w.shape[0] <= w.shape[1] else w.T
        expected += ((w @ w.T - np.eye(3)) ** 2).sum()
    assert orthonormal_penalty(net).item() == pytest.approx(expected, rel=1e-5)
    for layer in net:
        nn.init.orthogonal_(layer.weight)
    assert orthonormal_penalty(net).item() == pytest.approx(0, abs=1e-10)


def test_singular_values_are_of_the_weight_that_is_used():
    layer = nn.Linear(6, 4)
    normalise_weights(layer, "sn")
    expected = np.linalg.svd(layer.weight.detach().numpy().astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(singular_values(layer), expected, rtol=1e-5)
