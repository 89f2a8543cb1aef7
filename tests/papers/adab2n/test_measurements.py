"""The measurements: what they find, and that they would see a fault."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from papers.adab2n import measurements, method


def rows(function, seed=0, **settings):
    run = SimpleNamespace(device=torch.device("cpu"), key=SimpleNamespace(seed=seed))
    return {(row.metric, row.step): row.value for row in function(run, **settings)}


@pytest.mark.parametrize("kappa", [0, 0.1, 0.4, 0.7, 1])
def test_eta_follows_its_closed_form(kappa):
    found = rows(measurements.momentum, kappa=kappa, num_steps=4000)
    assert found["closed_form_error", 0] < 1e-12
    assert found["eta", 1] == pytest.approx(0.1**kappa)
    if kappa:
        assert found["limit_error", 0] < 1e-12


def test_falsifier_even_kappa_01_forgets_within_a_task():
    found = rows(measurements.task_shares, kappa=0.1, num_tasks=2, steps_per_task=1000)
    assert found["earlier_share", 0] == pytest.approx(2.7e-5, rel=0.05)


@pytest.mark.parametrize("kappa", [0, 0.1, 1])
def test_weights_of_tasks(kappa):
    found = rows(measurements.task_shares, kappa=kappa, num_tasks=5, steps_per_task=40)
    assert found["share_error", 0] < 1e-13
    shares = [found["share_of_task", task] for task in range(1, 6)]
    if kappa == 0:
        assert shares == pytest.approx([0.2] * 5)
        assert found["balance_error", 0] < 1e-12
    else:
        assert shares == sorted(shares)
    if kappa == 1:
        assert found["recency_error", 0] < 1e-13
        assert shares[-1] == pytest.approx(1 - 0.9**40)


@pytest.mark.parametrize("seed", range(3))
def test_task_weights(seed):
    found = rows(measurements.task_weights, seed, num_tasks=5, most_images=8)
    for name in ("plain_limit", "balanced_limit", "shrink"):
        assert found[f"{name}_error", 0] < 1e-12, name
    assert found["sum_with_a_missing_task", 0] < 1


def test_without_its_parts_the_layer_is_batch_norm():
    found = rows(measurements.batchnorm_limit, num_batches=20, channels=4)
    assert max(found.values()) < 1e-12


def test_a_fault_in_the_recursion_is_seen(monkeypatch):
    monkeypatch.setattr(method, "next_eta", lambda last, m, kappa: last * 0 + m**kappa)
    found = rows(measurements.momentum, kappa=0.4, num_steps=100)
    assert found["closed_form_error", 0] > 0.1
