"""The verdict rule on single claims."""

from __future__ import annotations

import json

import polars as pl
import pytest
from scipy import stats

from shared.claims.judge import judge
from shared.claims.looks import alpha_of_look
from shared.records.base import RecordError
from tests.claims.cases import (
    KINDS,
    T_KINDS,
    WIGGLE,
    bad,
    good,
    make_claim,
    make_paper,
    make_table,
    run_rows,
    verdict_of,
)

FIRST_LOOK = alpha_of_look(0.05, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_clear_numbers_get_a_verdict_on_either_side(kind):
    yes = verdict_of(make_claim(kind), make_table(good(kind)))
    no = verdict_of(make_claim(kind), make_table(bad(kind)))
    assert (yes.verdict, no.verdict) == ("reproduced", "not_reproduced")
    for verdict in (yes, no):
        assert verdict.seeds == 8
        assert verdict.seeds_to_decide is None
        assert verdict.warnings == ()
        assert verdict.reason and not verdict.reason.endswith(".")
        assert [c.planned for c in verdict.counts] == [8] * len(make_claim(kind).arms)
        assert [c.finished for c in verdict.counts] == [8] * len(make_claim(kind).arms)


def test_gap_is_the_paired_t_test():
    a, b = [20.0, 22.0, 21.0, 25.0, 24.0], [18.0, 19.5, 20.0, 21.0, 21.5]
    verdict = verdict_of(make_claim("gap"), make_table({"a": a, "b": b}), seeds=5)
    expected = stats.ttest_rel(a, b).confidence_interval(1 - 2 * FIRST_LOOK)
    assert (verdict.low, verdict.high) == pytest.approx((expected.low, expected.high))
    assert verdict.estimate == pytest.approx(2.4)
    assert verdict.per_seed == pytest.approx((2.0, 2.5, 1.0, 4.0, 2.5))
    assert verdict.confidence == pytest.approx(0.92)
    assert verdict.effect_size == pytest.approx(2.4 / stats.tstd(verdict.per_seed))
    assert verdict.effect_size_name == "d_z (paired): mean / sd of the gap over seeds"
    assert verdict.unit == "percentage points"
    assert verdict.reason == (
        "over 5 seeds the mean gap of error, a minus b, is 2.4 percentage points; the 92 % "
        "interval 1.269 to 3.531 lies inside the accepted region ≥ 1"
    )


def test_ratio_is_judged_on_the_log_scale():
    a, b = [20.0, 22.0, 21.0], [10.0, 10.0, 7.0]
    verdict = verdict_of(make_claim("ratio"), make_table({"a": a, "b": b}), seeds=3)
    assert verdict.estimate == pytest.approx((2.0 * 2.2 * 3.0) ** (1 / 3))
    assert verdict.per_seed == pytest.approx((2.0, 2.2, 3.0))
    assert verdict.low * verdict.high == pytest.approx(verdict.estimate**2)
    assert verdict.unit == "times"


def test_trend_is_the_least_squares_slope_of_each_seed():
    numbers = {"a": [9.0, 8.0, 7.0], "b": [4.0, 6.0, 4.5], "c": [1.0, 2.0, 2.5]}
    verdict = verdict_of(make_claim("trend"), make_table(numbers), seeds=3)
    slopes = [stats.linregress((3, 2, 1), y).slope for y in zip(*numbers.values(), strict=True)]
    assert verdict.per_seed == pytest.approx(slopes)
    assert verdict.unit == "percentage points per unit of x"


def test_rate_counts_a_diverged_run_as_a_failure():
    runs = [run_rows("a", seed, [15.0]) for seed in range(6)]
    lost = [run_rows("a", 6, [12.0], diverged=True), run_rows("a", 7, [], diverged=True)]
    verdict = verdict_of(make_claim("rate"), pl.concat([*runs, *lost]))
    assert verdict.per_seed == (1, 1, 1, 1, 1, 1, 0, 0)
    assert verdict.estimate == 0.75
    interval = stats.binomtest(6, 8).proportion_ci(0.92, method="exact")
    assert (verdict.low, verdict.high) == pytest.approx((interval.low, interval.high))
    assert verdict.verdict == "inconclusive"
    assert verdict.reason.startswith("6 of 8 runs of arm a have error ≤ 20 percent (2 diverged); ")
    assert (verdict.counts[0].finished, verdict.counts[0].diverged) == (6, 2)


def test_rate_of_runs_that_all_diverged():
    lost = pl.concat([run_rows("a", seed, [], diverged=True) for seed in range(8)])
    assert verdict_of(make_claim("rate"), lost).verdict == "not_reproduced"


def test_ordering_is_decided_by_its_worst_gap():
    numbers = good("ordering") | {"b": [x + 0.01 for x in good("ordering")["c"]][::-1]}
    verdict = verdict_of(make_claim("ordering"), make_table(numbers))
    assert verdict.verdict == "inconclusive"
    assert "b minus c" in verdict.reason
    assert verdict.estimate == pytest.approx(0.01)
    assert verdict.confidence == pytest.approx(1 - FIRST_LOOK)  # half of alpha for each gap


def test_exact_needs_every_step_of_every_run_strictly_below():
    claim = make_claim("exact", bound={"at_most": 1e-6})
    rows = [run_rows(arm, seed, [1e-8, 2e-7, 1e-9]) for arm in "ab" for seed in range(3)]
    verdict = verdict_of(claim, pl.concat(rows), seeds=3)
    assert (verdict.verdict, verdict.estimate) == ("reproduced", 2e-7)
    assert verdict.per_seed == (2e-7, 2e-7, 2e-7)
    assert [look.alpha for look in verdict.looks] == [0.0]
    rows[4] = run_rows("b", 1, [1e-8, 1e-6, 1e-9])
    verdict = verdict_of(claim, pl.concat(rows), seeds=3)
    assert verdict.verdict == "not_reproduced"
    assert verdict.reason == (
        "the largest error of 6 runs is 1e-06 percent (arm b, seed 1), not below the limit 1e-06"
    )


def test_exact_with_a_diverged_run():
    claim = make_claim("exact")
    rows = [run_rows(arm, seed, [1.0]) for arm in "ab" for seed in range(2)]
    rows[3] = run_rows("b", 1, [], diverged=True)
    assert verdict_of(claim, pl.concat(rows), seeds=2).verdict == "inconclusive"
    rows[0] = run_rows("a", 0, [101.0])
    assert verdict_of(claim, pl.concat(rows), seeds=2).verdict == "not_reproduced"
    lost = [run_rows(arm, seed, [], diverged=True) for arm in "ab" for seed in range(2)]
    assert verdict_of(claim, pl.concat(lost), seeds=2).verdict == "inconclusive"


@pytest.mark.parametrize(("at", "expected"), [("last", 3.0), ("max", 9.0), ("min", 1.0)])
def test_at_reduces_the_steps_of_a_run(at, expected):
    rows = pl.concat([run_rows("a", seed, [1.0, 9.0, 3.0 + seed * 1e-9]) for seed in range(3)])
    verdict = verdict_of(make_claim("value", at=at), rows.reverse(), seeds=3)
    assert verdict.estimate == pytest.approx(expected, abs=1e-6)


def test_at_mean():
    rows = pl.concat([run_rows("a", seed, [1.0, 9.0, 2.0]) for seed in range(3)])
    assert verdict_of(make_claim("value", at="mean"), rows, seeds=3).estimate == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("middle", "expected"),
    [(0.0, "reproduced"), (1.0, "inconclusive"), (-1.0, "inconclusive"), (2.5, "not_reproduced")],
)
def test_two_sides_are_an_equivalence(middle, expected):
    claim = make_claim("gap", bound={"at_least": -1.0, "at_most": 1.0})
    b = good("gap")["b"]
    numbers = {"a": [x + middle + w for x, w in zip(b, WIGGLE, strict=True)], "b": b}
    assert verdict_of(claim, make_table(numbers)).verdict == expected


def test_inconclusive_says_how_many_seeds_would_decide():
    claim = make_claim("value", bound={"at_least": 17.9})
    verdict = verdict_of(claim, make_table(good("value")))
    assert verdict.verdict == "inconclusive"
    assert verdict.seeds_to_decide is not None and verdict.seeds_to_decide > 8
    assert f"{verdict.seeds_to_decide} seeds instead of 8 would decide" in verdict.reason


def test_inconclusive_at_the_bound_says_that_no_number_of_seeds_decides():
    claim = make_claim("value", bound={"at_least": 18.0})
    verdict = verdict_of(claim, make_table(good("value")))
    assert (verdict.verdict, verdict.seeds_to_decide) == ("inconclusive", None)
    assert "more than 1000 seeds would be needed" in verdict.reason
    assert "the effect lies at the bound or the scale is too small" in verdict.reason


@pytest.mark.parametrize("kind", T_KINDS)
def test_the_same_effect_in_all_seeds_is_no_evidence(kind):
    numbers = {arm: [values[0]] * 5 for arm, values in good(kind).items()}
    verdict = verdict_of(make_claim(kind), make_table(numbers), seeds=5)
    assert verdict.verdict == "inconclusive"
    assert "numbers without spread are no evidence" in verdict.reason
    assert (verdict.low, verdict.high, verdict.effect_size) == (None, None, None)
    json.loads(verdict.model_dump_json())


@pytest.mark.parametrize("kind", ["gap", "ordering"])
def test_effects_that_differ_by_rounding_only_are_the_same(kind):
    arms = {arm: [0.1, 0.2, 0.3, 0.4, 0.7] for arm in make_claim(kind).arms}
    numbers = {arm: [x + 2 * i for x in xs] for i, (arm, xs) in enumerate(reversed(arms.items()))}
    verdict = verdict_of(make_claim(kind), make_table(numbers), seeds=5)
    assert len(set(verdict.per_seed)) > 1, "the case is to test rounding"
    assert verdict.verdict == "inconclusive"


@pytest.mark.parametrize("numbers", [good, bad])
@pytest.mark.parametrize("kind", ["gap", "ratio"])
def test_swapped_arms_and_a_mirrored_bound_give_the_same_verdict(kind, numbers):
    claim = make_claim(kind)
    number = claim.bound.at_least
    mirrored = make_claim(
        kind,
        arms=claim.arms[::-1],
        bound={"at_most": 1 / number if kind == "ratio" else -number},
    )
    metrics = make_table(numbers(kind))
    here, there = verdict_of(claim, metrics), verdict_of(mirrored, metrics)
    assert here.verdict == there.verdict != "inconclusive"
    if kind == "gap":
        assert (here.low, here.high) == pytest.approx((-there.high, -there.low))
    else:
        assert (here.low, here.high) == pytest.approx((1 / there.high, 1 / there.low))


def test_rate_is_mirrored_by_its_failures():
    numbers = {"a": [10.0] * 7 + [30.0]}
    successes = make_claim("rate", bound={"at_least": 0.5})
    failures = make_claim("rate", success={"at_least": 20.001}, bound={"at_most": 0.5})
    here, there = (verdict_of(c, make_table(numbers)) for c in (successes, failures))
    assert here.verdict == there.verdict == "reproduced"
    assert (here.low, here.high) == pytest.approx((1 - there.high, 1 - there.low))


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_rows_does_not_matter(kind):
    metrics = make_table(good(kind))
    shuffled = metrics.sample(fraction=1.0, shuffle=True, seed=3)
    assert verdict_of(make_claim(kind), shuffled) == verdict_of(make_claim(kind), metrics)


def test_other_runs_and_metrics_do_not_matter():
    metrics = make_table(good("gap"))
    other = run_rows("c", 0, [5.0]).with_columns(metric=pl.lit("other"), split=pl.lit("none"))
    there = verdict_of(make_claim("gap"), pl.concat([metrics, other]))
    assert there == verdict_of(make_claim("gap"), metrics)


def test_a_row_that_stands_twice_is_an_error():
    metrics = make_table(good("gap"))
    with pytest.raises(RecordError, match="got 2 rows that share run, metric, split and step"):
        verdict_of(make_claim("gap"), pl.concat([metrics, metrics[:1]]))


def test_two_flags_of_one_run_are_an_error():
    flag = run_rows("a", 0, []).with_columns(step=pl.lit(77, pl.Int64))
    with pytest.raises(RecordError, match="two rows `diverged`"):
        verdict_of(make_claim("gap"), pl.concat([make_table(good("gap")), flag]))


def test_a_flag_that_is_not_0_or_1_is_an_error():
    metrics = make_table(good("gap")).with_columns(
        value=pl.when(pl.col("metric") == "diverged").then(0.5).otherwise("value")
    )
    with pytest.raises(RecordError, match=r"diverged = 0\.5, expected 0 or 1"):
        verdict_of(make_claim("gap"), metrics)


@pytest.mark.parametrize("change", [{"metric": "eror"}, {"split": "train"}])
def test_an_unknown_metric_is_an_error_that_lists_those_that_there_are(change):
    known = r"diverged \(split run, unit flag\); error \(split test, unit percent\)"
    with pytest.raises(RecordError, match=known):
        verdict_of(make_claim("gap", **change), make_table(good("gap")))


def test_another_unit_is_an_error():
    with pytest.raises(RecordError, match=r"got unit 'nats' for 'error', expected .*: percent"):
        verdict_of(make_claim("gap", unit="nats"), make_table(good("gap")))


def test_a_run_that_is_not_planned_is_an_error():
    with pytest.raises(RecordError, match=r"2 runs that are not planned .* e/a/7"):
        verdict_of(make_claim("gap"), make_table(good("gap")), seeds=7)


@pytest.mark.parametrize("value", [0.0, -3.0])
def test_a_ratio_needs_numbers_above_0(value):
    numbers = good("ratio") | {"b": [value, *good("ratio")["b"][1:]]}
    verdict = verdict_of(make_claim("ratio"), make_table(numbers))
    assert verdict.verdict == "inconclusive"
    assert "not above 0 in every run" in verdict.reason


@pytest.mark.parametrize(
    ("change", "scale", "reason"),
    [
        ({"not_run": "needs ImageNet"}, "laptop", "needs ImageNet"),
        ({}, "smoke", "smoke runs prove the wiring only"),
        ({"scales": ("full",)}, "laptop", "not judged at laptop scale, only at full"),
        ({}, "full", "not defined at full scale, only at smoke and laptop"),
        ({"arms": ("a", "d")}, "laptop", "does not run d at laptop scale"),
    ],
)
def test_not_run_says_why(change, scale, reason):
    numbers = {} if scale == "full" else {"a": [1.0], "b": [2.0]}
    verdict = verdict_of(make_claim("gap", **change), make_table(numbers), scale=scale, seeds=1)
    assert verdict.verdict == "not_run"
    assert reason in verdict.reason
    assert verdict.looks == ()


def test_an_empty_table_is_not_run():
    verdict = verdict_of(make_claim("gap"), make_table({}))
    assert verdict.verdict == "not_run"
    assert "no finished or diverged run of e for the arms a, b" in verdict.reason
    assert [count.missing for count in verdict.counts] == [8, 8]


def test_smoke_warns_of_a_metric_that_no_run_records():
    metrics = make_table({"a": [1.0], "b": [2.0]})
    verdict = verdict_of(make_claim("gap", metric="eror"), metrics, scale="smoke")
    assert verdict.verdict == "not_run"
    assert "got metric 'eror'" in verdict.warnings[0]
    assert verdict_of(make_claim("gap"), metrics, scale="smoke").warnings == ()


def test_smoke_runs_may_count_fewer_samples_in_a_unit():
    metrics = make_table({"a": [1.0], "b": [2.0]})
    metrics = metrics.with_columns(unit=pl.lit("percent (64 fakes)"))
    for unit, warned in (("percent (500 fakes)", False), ("percent (500 images)", True)):
        verdict = verdict_of(make_claim("gap", unit=unit), metrics, scale="smoke")
        assert bool(verdict.warnings) == warned


def test_claims_of_a_paper_keep_their_order_and_do_not_touch_each_other():
    claims = [make_claim(kind, id=f"c-{kind}") for kind in KINDS]
    numbers = good("ordering")
    verdicts, looks = judge("p", make_paper(*claims), make_table(numbers), "laptop")
    assert [v.id for v in verdicts.claims] == [c.id for c in claims]
    assert [look.claim for look in looks] == [c.id for c in claims]
    for claim, verdict in zip(claims, verdicts.claims, strict=True):
        assert verdict == verdict_of(claim, make_table(numbers))


def test_an_error_below_zero_is_an_error_too():
    numbers = {arm: [-1e6] * 8 for arm in make_claim("exact").arms}
    assert verdict_of(make_claim("exact"), make_table(numbers)).verdict == "not_reproduced"
