"""What the judge must never do: decide without whole evidence from independent seeds."""

from __future__ import annotations

import math
import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.records.experiment import Scale
from tests.claims.cases import KINDS, T_KINDS, bad, good, make_claim, make_table, verdict_of

DECIDED = ("reproduced", "not_reproduced")
ERROR = pl.col("metric") == "error"


def is_run(arm: str, seed: int) -> pl.Expr:
    return (pl.col("arm") == arm) & (pl.col("seed") == seed)


def without_run(metrics: pl.DataFrame, arm: str, seed: int) -> pl.DataFrame:
    return metrics.filter(~is_run(arm, seed))


def without_flag(metrics: pl.DataFrame, arm: str, seed: int) -> pl.DataFrame:
    return metrics.filter(~(is_run(arm, seed) & ~ERROR))


def without_metric(metrics: pl.DataFrame, arm: str, seed: int) -> pl.DataFrame:
    return metrics.filter(~(is_run(arm, seed) & ERROR))


def with_value(metrics: pl.DataFrame, arm: str, seed: int, value: float | None) -> pl.DataFrame:
    here = is_run(arm, seed) & ERROR & (pl.col("step") == 1)
    return metrics.with_columns(value=pl.when(here).then(pl.lit(value)).otherwise("value"))


def diverged(metrics: pl.DataFrame, arm: str, seed: int) -> pl.DataFrame:
    flagged = metrics.with_columns(
        value=pl.when(is_run(arm, seed) & ~ERROR).then(1.0).otherwise("value")
    )
    return without_metric(flagged, arm, seed)


DAMAGES = {
    "missing run": (without_run, r"1 of 8 runs of arm \w are missing"),
    "missing flag": (without_flag, r"1 of 8 runs of arm \w are missing"),
    "no row of the metric": (without_metric, "1 finished runs have no row of error"),
    "NaN": (lambda *run: with_value(*run, math.nan), "not a finite number in 1 of"),
    "inf": (lambda *run: with_value(*run, math.inf), "not a finite number in 1 of"),
    "-inf": (lambda *run: with_value(*run, -math.inf), "not a finite number in 1 of"),
    "null": (lambda *run: with_value(*run, None), "not a finite number in 1 of"),
}


@pytest.mark.parametrize("numbers", [good, bad])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_one_damaged_run_leaves_it_open(kind, damage, numbers):
    claim, metrics = make_claim(kind), make_table(numbers(kind))
    assert verdict_of(claim, metrics).verdict in DECIDED
    change, reason = DAMAGES[damage]
    verdict = verdict_of(claim, change(metrics, claim.arms[-1], 3))
    assert verdict.verdict == "inconclusive"
    assert all(look.alpha == 0 for look in verdict.looks)
    assert re.search(reason, verdict.reason)


@pytest.mark.parametrize("numbers", [good, bad])
@pytest.mark.parametrize("kind", T_KINDS)
def test_a_mean_over_the_survivors_is_no_evidence(kind, numbers):
    claim, metrics = make_claim(kind), make_table(numbers(kind))
    for seed in (2, 5):
        metrics = diverged(metrics, claim.arms[0], seed)
    verdict = verdict_of(claim, metrics)
    assert verdict.verdict == "inconclusive"
    assert verdict.reason == (
        "2 of 8 runs of arm a diverged; a mean over the survivors would be biased; ask for a rate"
    )
    assert (verdict.counts[0].finished, verdict.counts[0].diverged) == (6, 2)


@pytest.mark.parametrize("numbers", [good, bad])
@pytest.mark.parametrize("kind", KINDS)
def test_one_seed_is_no_evidence(kind, numbers):
    verdict = verdict_of(make_claim(kind), make_table(numbers(kind, seeds=1)), seeds=1)
    assert verdict.verdict == "inconclusive"
    assert "a verdict needs at least 2" in verdict.reason


@pytest.mark.parametrize("numbers", [good, bad])
@pytest.mark.parametrize("kind", KINDS)
def test_smoke_is_no_evidence(kind, numbers):
    claim = make_claim(kind, scales=("smoke", "laptop"))
    verdict = verdict_of(claim, make_table(numbers(kind, seeds=1)), scale="smoke")
    assert (verdict.verdict, verdict.looks) == ("not_run", ())
    assert verdict.reason == "smoke runs prove the wiring only"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_never_decided_without_whole_evidence(data):
    """Any numbers, any kind, any damage to any run, any number of seeds."""
    kind = data.draw(st.sampled_from(KINDS))
    claim = make_claim(kind)
    seeds = data.draw(st.integers(1, 6))
    number = st.floats(-1e6, 1e6)
    numbers = {arm: data.draw(st.lists(number, min_size=seeds, max_size=seeds)) for arm in "abc"}
    metrics = make_table({arm: numbers[arm] for arm in claim.arms})
    scale: Scale = data.draw(st.sampled_from(["smoke", "laptop"]))
    damage = data.draw(st.sampled_from([None, *DAMAGES]))
    diverges = data.draw(st.booleans()) and kind in T_KINDS and seeds > 1
    arm, seed = data.draw(st.sampled_from(claim.arms)), data.draw(st.integers(0, seeds - 1))
    if scale == "smoke":
        metrics, seed = metrics.filter(pl.col("seed") == 0), 0
    whole = damage is None and not diverges
    if diverges:
        metrics = diverged(metrics, arm, (seed + 1) % seeds)
    if damage:
        metrics = DAMAGES[damage][0](metrics, arm, seed)
    if len(metrics.filter(ERROR)) == 0:
        return  # an unknown metric is an error, tested elsewhere
    verdict = verdict_of(claim, metrics, seeds=seeds, scale=scale)
    if scale == "smoke" or seeds < 2 or not whole:
        assert verdict.verdict not in DECIDED
    if verdict.verdict in DECIDED and kind != "exact":
        crosses = [
            verdict.low <= end <= verdict.high
            for end in (claim.bound.at_least, claim.bound.at_most)
            if end is not None
        ]
        assert not any(crosses)
        assert (verdict.verdict == "reproduced") == (verdict.low > claim.bound.at_least)
