"""The layer against the second implementation, and the known mistakes by name."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from papers.adab2n.method import (
    AdaB2N,
    ContinualNorm,
    next_eta,
    penalty,
    sample_weights,
    set_tasks,
)
from shared.norms import moments
from tests.papers.adab2n.reference import ReferenceLayer

C, T, NEW, OLD, STEPS = 3, 5, 6, 6, 12
LR, PENALTY = 0.05, 0.3


def batches():
    """A stream of 5 tasks with replay, some of whose batches lack a task that was seen."""
    generator = np.random.default_rng(0)
    for task in range(T):
        for _ in range(STEPS):
            old = generator.integers(0, task + 1, OLD if task else 0)
            tasks = [task] * NEW + old.tolist()
            x = generator.normal(size=(len(tasks), C, 4, 3)) + np.array(tasks)[:, None, None, None]
            yield tasks, task + 1, x, generator.normal(size=x.shape)


@pytest.mark.parametrize("kappa", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("task_weights", ["bayes", "renormalised"])
def test_a_whole_stream_equals_the_second_implementation(kappa, task_weights):
    """Outputs, losses, gradients, running statistics and learnt weights, all to 1e-10."""
    layer = AdaB2N(C, T, kappa, task_weights).double()
    net = nn.Sequential(layer)
    reference = ReferenceLayer(C, T, kappa, renormalise=task_weights == "renormalised")
    missing, worst = 0, 0.0
    for tasks, seen, x, dy in batches():
        missing += len(set(tasks)) < seen
        given = torch.from_numpy(x).requires_grad_()
        set_tasks(net, torch.tensor(tasks), seen)
        y = net(given)
        loss = (y * torch.from_numpy(dy)).sum() + PENALTY * penalty(net)
        net.zero_grad()
        loss.backward()
        y_reference = reference.forward(x, tasks, seen)
        loss_reference = (y_reference * dy).sum() + PENALTY * reference.penalty()
        dx, dgamma, dbeta, dpsi = reference.backward(dy, PENALTY)
        psi_gradient = torch.zeros(T) if layer.psi.grad is None else layer.psi.grad
        pairs = [
            (y.detach(), y_reference),
            (loss.detach(), loss_reference),
            (layer.running_mean, reference.running_mean),
            (layer.running_var, reference.running_var),
            (given.grad, dx),
            (layer.weight.grad, dgamma),
            (layer.bias.grad, dbeta),
            (psi_gradient, dpsi),
        ]
        worst = max(worst, *(np.abs(np.asarray(a) - np.asarray(b)).max() for a, b in pairs))
        with torch.no_grad():
            for parameter in layer.parameters():
                if parameter.grad is not None:
                    parameter -= LR * parameter.grad
        reference.gamma -= LR * dgamma
        reference.beta -= LR * dbeta
        reference.psi -= LR * dpsi
    assert missing > 10
    assert np.abs(reference.psi).max() > 0.01
    assert np.abs(layer.psi.detach().numpy() - reference.psi).max() < 1e-10
    assert worst < 1e-10


def closed_form(kappa, n, momentum=0.1):
    if kappa == 0:
        return 1 / n
    q = (1 - momentum) ** kappa
    return 1 / ((1 - q ** (n - 1)) / (1 - q) + q ** (n - 1) * momentum**-kappa)


@pytest.mark.parametrize("kappa", [0.0, 0.1, 0.4, 0.7, 1.0])
def test_eta_has_a_closed_form_and_a_limit(kappa):
    eta = torch.zeros((), dtype=torch.float64)
    for n in range(1, 4001):
        eta = next_eta(eta, 0.1, kappa)
        assert eta.item() == pytest.approx(closed_form(kappa, n), rel=1e-12)
    if kappa:
        assert eta.item() == pytest.approx(1 - 0.9**kappa, rel=1e-12)


def test_the_known_limits_of_eta():
    limits = {0.1: 0.0105, 0.4: 0.0413, 0.7: 0.0711, 1.0: 0.1}
    for kappa, limit in limits.items():
        assert round(closed_form(kappa, 100_000), 4) == limit


def test_known_mistake_the_last_eta_is_not_in_the_state():
    """In the public code a resumed training starts eta again at m^kappa."""
    straight, resumed = (AdaB2N(C, T, 0.4, "plain") for _ in range(2))
    x = torch.randn(20, 4, C, 2, 2)
    for batch in x[:10]:
        straight(batch)
    assert "last_eta" in straight.state_dict()
    resumed.load_state_dict(straight.state_dict())
    for batch in x[10:]:
        straight(batch), resumed(batch)
    assert torch.equal(straight.running_mean, resumed.running_mean)
    assert torch.equal(straight.last_eta, resumed.last_eta)
    assert straight.last_eta.item() == pytest.approx(closed_form(0.4, 20), rel=1e-12)


def test_known_mistake_weights_of_a_batch_without_a_task_sum_to_less_than_1():
    psi = torch.zeros(3, dtype=torch.float64)
    whole = torch.tensor([0, 1, 2, 2])
    lacking = torch.tensor([1, 2, 2, 2])
    assert sample_weights(psi, whole).sum() == pytest.approx(1)
    weight = sample_weights(psi, lacking)
    assert weight.sum() == pytest.approx(6 / 7)  # (1 + 1 + 1 + 3) of (1 + 0 + 1 + 1 + 1 + 3)
    x = torch.full((4, 1, 2, 2), 7.0, dtype=torch.float64)
    assert moments(x, weight).mean.item() == pytest.approx(6)  # of a constant 7
    repaired = sample_weights(psi, lacking, renormalise=True)
    assert moments(x, repaired).mean.item() == pytest.approx(7)


def test_the_psi_of_a_missing_task_still_gets_a_gradient():
    psi = torch.zeros(3, requires_grad=True)
    sample_weights(psi, torch.tensor([1, 2])).sum().backward()
    assert psi.grad[0] < 0
    psi.grad = None
    sample_weights(psi, torch.tensor([1, 2]), renormalise=True).pow(2).sum().backward()
    assert psi.grad[0] == 0


def test_limits_of_psi():
    task = torch.tensor([0, 1, 1, 1])
    plain = sample_weights(torch.full((2,), -math.inf, dtype=torch.float64), task)
    assert plain.tolist() == pytest.approx([0.25] * 4)
    balanced = sample_weights(torch.full((2,), 60.0, dtype=torch.float64), task)
    assert balanced.tolist() == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6])


def test_kappa_1_and_plain_weights_are_batch_norm_but_for_the_running_variance():
    layer, torchs = AdaB2N(C, T, 1.0, "plain").double(), nn.BatchNorm2d(C).double()
    x = torch.randn(4, C, 3, 3, dtype=torch.float64)
    assert torch.allclose(layer(x), torchs(x), rtol=0, atol=1e-12)
    assert torch.allclose(layer.running_mean, torchs.running_mean, rtol=0, atol=1e-15)
    own, theirs = layer.running_var - 0.9, torchs.running_var - 0.9
    assert torch.allclose(theirs, own * 36 / 35, rtol=0, atol=1e-13)


def test_the_first_task_has_plain_statistics_whatever_psi_is():
    layer = AdaB2N(C, T, 1.0, "bayes")
    with torch.no_grad():
        layer.psi.normal_()
    x = torch.randn(4, C, 3, 3)
    set_tasks(nn.Sequential(layer), torch.zeros(4, dtype=torch.long), 1)
    assert torch.equal(layer.estimate(x).mean, moments(x).mean)


def test_evaluation_is_batch_norm_with_the_running_statistics():
    layer = AdaB2N(C, T, 0.4, "bayes")
    layer(torch.randn(4, C, 3, 3) * 2 + 1)
    before = layer.running_mean.clone()
    x = torch.randn(2, C, 3, 3)
    y = layer.eval()(x)
    expected = nn.functional.batch_norm(x, layer.running_mean, layer.running_var)
    assert torch.allclose(y, expected, atol=1e-6)
    assert torch.equal(layer.running_mean, before)


def test_the_penalty_uses_the_running_statistics_after_their_update():
    layer = AdaB2N(1, T, 1.0, "plain").double()
    x = torch.tensor([1.0, 3.0], dtype=torch.float64).view(2, 1, 1, 1)
    layer(x)  # mean 2, variance 1; running mean 0.2, running variance 1
    assert layer.penalty.item() == pytest.approx((2 - 0.2) ** 2)


def test_continual_norm_is_group_norm_and_then_batch_norm():
    layer = ContinualNorm(8, 4)
    x = torch.randn(5, 8, 3, 3)
    expected = nn.BatchNorm2d(8)(nn.functional.group_norm(x, 4))
    assert torch.allclose(layer(x), expected, atol=1e-6)
    assert [p.shape for p in layer.parameters()] == [(8,), (8,)]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: AdaB2N(2, 2, 1.5, "plain"), "kappa: got 1.5"),
        (lambda: AdaB2N(2, 2, 1.0, "bayesian"), "task_weights: got 'bayesian'"),
        (lambda: _with_tasks(torch.tensor([0, 1]), 3), "got 2 tasks for 4 samples"),
        (lambda: _with_tasks(None, 3), "got no tasks for 4 samples"),
        (lambda: set_tasks(nn.Sequential(), torch.tensor([2]), 2), "a sample of task 2"),
    ],
)
def test_bad_input_is_one_clear_error(call, said):
    with pytest.raises(ValueError) as error:
        call()
    assert said in str(error.value)


def _with_tasks(task, seen):
    layer = AdaB2N(2, T, 1.0, "bayes")
    layer.task_N, layer.num_seen = task, seen
    layer(torch.randn(4, 2, 3, 3))
