"""Calls take turns, warm-up rounds do not count, and ratios are of one round."""

from __future__ import annotations

import pytest
import torch

from shared.training import timing
from shared.training.timing import in_turns, median_ratio

CPU = torch.device("cpu")


@pytest.fixture
def ticking(monkeypatch):
    """A clock that only calls move on."""
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def takes(seconds):
        now[0] += seconds

    return takes


@pytest.mark.parametrize("warm_up", [0, 1, 3])
def test_calls_take_turns_and_the_first_rounds_do_not_count(ticking, warm_up):
    called = []

    def call(name):
        called.append(name)
        ticking(10.0 * (name == "slow") + len(called))

    calls = {name: lambda name=name: call(name) for name in ("fast", "slow")}
    seconds = in_turns(calls, 2, CPU, warm_up=warm_up)
    assert called == ["fast", "slow"] * (2 + warm_up)
    first = 2 * warm_up + 1
    assert seconds == {"fast": [first, first + 2], "slow": [first + 11, first + 13]}


def test_a_ratio_is_of_calls_of_one_round():
    # A machine that was ten times slower in the second round changes no ratio.
    assert median_ratio([2.0, 20.0], [1.0, 10.0]) == 2
    assert median_ratio([3.0, 5.0, 700.0], [1.0, 1.0]) == 4
