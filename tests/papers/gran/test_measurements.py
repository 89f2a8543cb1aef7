"""The measurements on made-up images: what holds exactly, and what breaks it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from papers.gran.measurements import cost, identities, jumps, play, trajectories
from papers.gran.method import METHODS
from papers.gran.module import GranGAN


class FakeRun:
    device = torch.device("cpu")
    key = SimpleNamespace(seed=0)

    def dataset(self):
        pixels = np.random.default_rng(0).integers(0, 256, (64, 1, 28, 28), dtype=np.uint8)
        return SimpleNamespace(array=lambda name: pixels)


def values(rows):
    return {(row.metric, row.step) if row.step else row.metric: row.value for row in rows}


@pytest.mark.parametrize("weights", ["random", "trained"])
def test_the_identities_hold_for_piecewise_linear_critics_only(weights):
    rows = values(identities(FakeRun(), weights, width=2, steps=2, num_images=12))
    assert len(rows) == 12
    for name, error in rows.items():
        if name.endswith("relu"):
            assert error < 1e-12, name
        else:
            assert error > 1e-4, name


def test_jumps_are_steeper_than_k():
    rows = values(jumps(FakeRun(), "random", width=4, steps=0, num_images=20, eps=(0.01, 1.0)))
    assert len(rows) == 21
    steepest = max(value for name, value in rows.items() if "pair_slope_max" in str(name))
    assert steepest > 1
    assert rows["inverse_slope"] == pytest.approx(1 / steepest)


@pytest.mark.parametrize(
    ("loss", "matters"), [("wasserstein", False), ("hinge", True), ("non_saturating", True)]
)
def test_k_only_matters_where_the_loss_is_not_linear(loss, matters):
    rows = values(trajectories(FakeRun(), loss, width=2, steps=3, batch_size=4))
    assert (rows["difference"] > 1e-3) if matters else (rows["difference"] < 1e-12)
    # With the usual eps of Adam it matters for every loss, if only K is small enough.
    assert rows["eps_difference", -6] > 0.05


def test_playing_repeats_itself():
    def end():
        torch.manual_seed(1)
        module = GranGAN("gran", 2, 1)
        play(module, torch.linspace(-1, 1, 8 * 1024).view(8, 1, 32, 32), steps=2, batch_size=4)
        return torch.cat([p.flatten() for p in module.parameters()])

    assert torch.equal(end(), end())


def test_cost_is_a_ratio_of_updates_that_took_turns():
    budgets = dict.fromkeys(METHODS, 10) | {"sn": 20}
    rows = values(cost(FakeRun(), width=2, batch_size=2, rounds=1, budgets=budgets))
    assert rows["gran_budget"] == 1
    assert rows["sn_over_sn"] == 1
    assert rows["sn_budget"] == pytest.approx(2 / rows["gran_over_sn"])
    assert {"linear_over_full", "gran_over_gp", "update_ms_gn"} <= set(rows)
    assert all(value > 0 for value in rows.values())
