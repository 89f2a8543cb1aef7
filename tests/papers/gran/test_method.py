"""The method against a second implementation, and each known mistake by its name."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from papers.gran.method import score, score_for_generator, slope_in_piece, slopes
from papers.gran.model import CNNCritic
from papers.gran.module import GranGAN

GRADIENT_METHODS = ("gn", "gran")


def dense_critic(*activations):
    """f(x) = v . a(W x + b) + c of 6 inputs in float64."""
    (activation,) = activations or (nn.LeakyReLU(0.1),)
    return nn.Sequential(nn.Linear(6, 16), activation, nn.Linear(16, 1)).double()


def by_hand(critic, x, method, eps, lipschitz):
    """Score and slope of one sample of a dense critic in NumPy: the piece is an affine function."""
    (w1, b1), (w2, b2) = [
        (layer.weight.detach().numpy(), layer.bias.detach().numpy())
        for layer in (critic[0], critic[2])
    ]
    hidden = w1 @ x + b1
    gate = np.where(hidden > 0, 1.0, 0.1)
    f, w = float((w2 @ (gate * hidden) + b2).item()), (w2 * gate) @ w1
    size = np.sqrt((w**2).sum())
    if method == "gran":
        return lipschitz * f * size / (size**2 + eps), lipschitz * size / (size**2 + eps) * w[0]
    total = size + abs(f)
    return lipschitz * f / total, lipschitz * size / total**2 * w[0]


@pytest.mark.parametrize("method", GRADIENT_METHODS)
@pytest.mark.parametrize(("eps", "lipschitz"), [(0.0, 1.0), (0.3, 2.5)])
def test_score_and_gradient_are_those_by_hand(method, eps, lipschitz):
    critic, x_ND = dense_critic(), torch.randn(8, 6, dtype=torch.float64, requires_grad=True)
    expected = [by_hand(critic, x, method, eps, lipschitz) for x in x_ND.detach().numpy()]
    for score_of in (score, score_for_generator):
        score_N = score_of(method, critic, x_ND, eps=eps, lipschitz=lipschitz)
        (grad,) = torch.autograd.grad(score_N.sum(), x_ND)
        np.testing.assert_allclose(score_N.detach(), [g for g, _ in expected], rtol=1e-12)
        np.testing.assert_allclose(grad, [d for _, d in expected], rtol=1e-10)


@pytest.mark.parametrize("method", GRADIENT_METHODS)
def test_the_slope_is_that_of_the_piece_and_below_k(method):
    critic, x_ND = dense_critic(), torch.randn(50, 6, dtype=torch.float64)
    f_N, w_N = critic(x_ND).detach().flatten(), slopes(critic, x_ND)
    got_N = slopes(partial(score, method, critic, eps=0.1, lipschitz=3.0), x_ND)
    closed_N = slope_in_piece(method, f_N, w_N, eps=0.1, lipschitz=3.0)
    torch.testing.assert_close(got_N, closed_N, rtol=1e-12, atol=0)
    assert closed_N.max() <= 3
    # Finite differences inside the piece agree as well: the score is linear there.
    step = 1e-6 * nn.functional.normalize(torch.randn(50, 6, dtype=torch.float64))
    same = slopes(critic, x_ND + step) == w_N
    assert same.double().mean() > 0.9
    scored = partial(score, method, critic, eps=0.1, lipschitz=3.0)
    difference_N = (scored(x_ND + step) - scored(x_ND)).detach()
    assert (difference_N.abs() <= 1.0001e-6 * closed_N)[same].all()


@pytest.mark.parametrize("activation", [nn.Softplus(), nn.Tanh()])
def test_mistake_smooth_activations_break_the_identity(activation):
    critic, x_ND = dense_critic(activation), torch.randn(50, 6, dtype=torch.float64)
    w_N = slopes(critic, x_ND)
    got_N = slopes(partial(score, "gran", critic, eps=0.01), x_ND)
    closed_N = slope_in_piece("gran", w_N, w_N, eps=0.01)
    assert ((got_N - closed_N).abs() / closed_N).max() > 1e-3


def test_gran_jumps_from_piece_to_piece():
    """f = 0.1 relu(x) + 1: w is 0.1 on the right, 0 on the left."""

    def f(x):
        return 0.1 * x.clamp_min(0) + 1

    x = torch.tensor([[-1e-9], [1e-9]], dtype=torch.float64)
    left, right = score("gran", f, x, eps=0.001).tolist()
    assert left == 0
    assert right > 9
    assert (right - left) / 2e-9 > 1e9  # K is 1


def test_the_shortcut_of_the_generator_is_exact_for_any_weights_of_the_samples():
    critic = CNNCritic(2, 1).double()
    x = torch.randn(4, 1, 32, 32, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([0.0, -1.0, 3.0, 10.0])
    for method in GRADIENT_METHODS:
        grads = []
        for score_of in (score, score_for_generator):
            score_N = score_of(method, critic, x, eps=1e-4)
            loss = (weights * score_N.exp()).sum() + score_N.square().sum()
            grads.append(torch.autograd.grad(loss, x)[0])
        torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-14)


def test_the_shortcut_is_not_exact_for_a_smooth_critic():
    critic = dense_critic(nn.Tanh())
    x = torch.randn(9, 6, dtype=torch.float64, requires_grad=True)
    full, short = (
        torch.autograd.grad(score_of("gran", critic, x, eps=0.1).sum(), x)[0]
        for score_of in (score, score_for_generator)
    )
    assert (full - short).abs().max() > 1e-3


def test_the_shortcut_calls_the_critic_once_and_makes_no_second_derivative():
    critic = dense_critic()
    calls = []
    critic.register_forward_hook(lambda *_: calls.append(1))
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    score_for_generator("gran", critic, x, eps=0.1).sum().backward()
    assert len(calls) == 1
    assert all(p.grad is None for p in critic.parameters())


def gan(method="gran", **settings):
    return GranGAN(**{"method": method, "width": 2, "channels": 1, "eps": 1e-3, **settings})


def test_mistake_batch_norm_couples_samples():
    """The gradient of the sum of all scores is each sample's own only where none sees another."""

    def own_slope(critic, x, index):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(critic(x)[index].sum(), x)[0][index].norm()

    def coupled(critic):
        x = torch.randn(4, 1, 32, 32, dtype=torch.float64)
        of_sum, own = slopes(critic, x)[1], own_slope(critic, x, 1)
        return abs(of_sum / own - 1) > 1e-6

    critic = gan().critic.double()
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in critic.modules())
    assert not coupled(critic)
    with_norm = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(),
                              nn.Linear(1800, 1)).double()  # fmt: skip
    assert coupled(with_norm)


def test_mistake_the_norm_is_per_sample_over_all_dimensions():
    critic = gan().critic.double()
    x = torch.randn(3, 1, 32, 32, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(critic(x).sum(), x)
    g = grad.numpy()
    right = np.array([np.sqrt((sample**2).sum()) for sample in g])
    f = critic(x).detach().numpy().ravel()
    got = score("gran", critic, x, eps=1e-3).detach().numpy()
    np.testing.assert_allclose(got, f * right / (right**2 + 1e-3), rtol=1e-10)
    per_row = np.sqrt((g**2).sum(axis=(1, 3))).mean(axis=1)
    whole_batch = np.sqrt((g**2).sum())
    for wrong in (per_row, whole_batch):
        assert abs(got / (f * wrong / (wrong**2 + 1e-3)) - 1).max() > 0.1


@pytest.mark.parametrize("method", GRADIENT_METHODS)
@pytest.mark.parametrize("dead_output", [0.0, 1.0])
def test_mistake_the_root_of_zero_is_not_a_number_in_dead_pieces(method, dead_output):
    module = gan(method, activation="relu")
    with torch.no_grad():
        module.critic[0].bias.fill_(-1e3)  # no image passes the first layer
        for name, parameter in module.critic.named_parameters():
            if "bias" in name and not name.startswith("0."):
                parameter.zero_()
        module.critic[-1].bias.fill_(dead_output)
    images = torch.rand(2, 1, 32, 32) * 2 - 1
    module.critic_loss(images, images.flip(0), None).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in module.critic.parameters())
    fake = images.clone().requires_grad_()
    loss = module.generator_loss(fake, None)
    loss.backward()
    assert loss.isfinite()
    assert torch.equal(fake.grad, torch.zeros_like(fake))


def test_mistake_a_slope_far_below_eps_leaves_no_score_and_is_logged():
    x = torch.randn(5, 6, dtype=torch.float64)
    critic = dense_critic()
    with torch.no_grad():
        critic[2].weight.mul_(1e-4)
    scores = score("gran", critic, x, eps=0.1)
    assert scores.abs().max() < 1e-2
    assert score("gran", critic, x, eps=1e-12).abs().max() > 0.1
    # That the trainings record it: test_module.py, network_slope and below_eps_share.


def test_mistake_the_critics_step_needs_the_graph_of_the_slope():
    module = gan(loss="non_saturating").double()
    real, fake = torch.rand(2, 3, 1, 32, 32, dtype=torch.float64) * 2 - 1
    weight = module.critic[0].weight

    def by_differences(index, step=1e-6):
        losses = []
        for sign in (1, -1):
            with torch.no_grad():
                weight.view(-1)[index] += sign * step
            losses.append(module.critic_loss(real, fake, None).item())
            with torch.no_grad():
                weight.view(-1)[index] -= sign * step
        return (losses[0] - losses[1]) / (2 * step)

    (grad,) = torch.autograd.grad(module.critic_loss(real, fake, None), weight)
    numeric = [by_differences(index) for index in range(6)]
    np.testing.assert_allclose(grad.flatten()[:6], numeric, rtol=1e-4, atol=1e-9)
    # With the slope as a constant the gradient is another one.
    both = torch.cat([real, fake])
    f_N, w_N = module.critic(both).flatten(), slopes(module.critic, both)
    g_N = f_N * w_N / (w_N.square() + module.eps)
    (wrong,) = torch.autograd.grad(module.loss.critic(*g_N.chunk(2)), weight)
    assert (wrong - grad).norm() > 0.05 * grad.norm()


def test_mistake_images_on_another_range_change_k_by_2():
    """Pixels p on [0, 1] are x = 2 p - 1: their critic is twice as steep, K twice as strict."""
    critic = dense_critic()
    x = torch.rand(9, 6, dtype=torch.float64) * 2 - 1
    pixels = (x + 1) / 2

    def critic_of_pixels(p):
        return critic(2 * p - 1)

    same = score("gran", critic, x, eps=0.1)
    naive = score("gran", critic_of_pixels, pixels, eps=4 * 0.1)
    torch.testing.assert_close(naive, same / 2)
    torch.testing.assert_close(
        score("gran", critic_of_pixels, pixels, eps=4 * 0.1, lipschitz=2.0), same
    )
