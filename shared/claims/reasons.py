"""The sentence that gives each verdict's numbers in words. Reasons start small, without a stop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from shared.claims.decide import Decision
from shared.claims.effects import Effect, from_scale
from shared.claims.power import MOST_SEEDS
from shared.records.claim import Claim
from shared.records.verdict import Verdict

WHERE = {
    "reproduced": "lies inside the accepted region",
    "not_reproduced": "lies outside the accepted region",
    "inconclusive": "crosses a limit of the accepted region",
}


def unit(claim: Claim) -> str:
    """The unit of the estimate; that of the claim is the metric's."""
    if claim.kind in ("ratio", "rate"):
        return {"ratio": "times", "rate": "share of runs"}[claim.kind]
    difference = claim.kind in ("gap", "ordering", "trend")
    name = "percentage points" if difference and claim.unit == "percent" else claim.printed_unit
    return f"{name} per unit of x".lstrip() if claim.kind == "trend" else name


def effect_size_name(claim: Claim) -> str:
    """What `effect_size` is; a single arm has no effect to compare, so there it has none."""
    if claim.kind == "ratio":
        return "d_z of the log ratio (paired): mean / sd over seeds"
    if claim.kind == "trend":
        return "mean slope / sd of slopes over seeds"
    return "" if claim.kind == "value" else "d_z (paired): mean / sd of the gap over seeds"


def overridden(runs: int) -> str:
    """Why runs with other settings than planned get no verdict."""
    return (
        f"{runs} of its runs used settings other than those of paper.yaml, for which the bound was "
        "fixed: run snakemake without overrides, and delete the folders of runs made by hand"
    )


def no_runs(claim: Claim) -> str:
    """Nothing in the table."""
    return (
        f"the metrics table has no finished or diverged run of {claim.experiment} for the arms "
        f"{', '.join(claim.arms)}: run snakemake for this scale"
    )


def of_mean(
    claim: Claim, decision: Decision, effect: Effect, seeds: int, needed: int | None
) -> str:
    """A verdict from a t interval."""
    subject = {
        "value": f"the mean {claim.metric} of {effect.name}",
        "ratio": f"the geometric mean ratio of {claim.metric}, {effect.name},",
        "trend": f"the mean {effect.name} of {claim.metric}",
        "ordering": f"the gap of {claim.metric} that decides, {effect.name},",
        "gap": f"the mean gap of {claim.metric}, {effect.name},",
    }[claim.kind]
    found = f"over {seeds} seeds {subject} is {_number(claim, decision.interval.estimate)}"
    if math.isinf(decision.interval.low):
        return (
            f"{found}, the same in every seed; numbers without spread are no evidence from "
            "independent seeds: check that the runs use their seed, or state a rate or an exact "
            "claim"
        )
    return f"{found} {unit(claim)}; {_compared(claim, decision)}{_plan(decision, seeds, needed)}"


def of_rate(
    claim: Claim, decision: Decision, successes: Sequence[bool], diverged: int, needed: int | None
) -> str:
    """A verdict from an exact binomial interval."""
    lost = f" ({diverged} diverged)" if diverged else ""
    return (
        f"{sum(successes)} of {len(successes)} runs of arm {claim.arms[0]} have {claim.metric} "
        f"{f'{claim.success} {claim.printed_unit}'.rstrip()}{lost}; {_compared(claim, decision)}"
        f"{_plan(decision, len(successes), needed)}"
    )


def of_exact(
    claim: Claim,
    verdict: Verdict,
    largest: Mapping[tuple[str, int], float],
    worst: tuple[str, int] | None,
    diverged: int,
) -> str:
    """A verdict without statistics."""
    assert claim.bound is not None
    if worst is None:
        return f"all {diverged} runs diverged and left no {claim.metric}; mend the divergence"
    found = (
        f"the largest {claim.metric} of {len(largest)} runs is "
        f"{f'{largest[worst]:.4g} {claim.printed_unit}'.rstrip()} (arm {worst[0]}, seed {worst[1]})"
    )
    limit = f"the limit {claim.bound.at_most:g}"
    if verdict == "inconclusive":
        return f"{found}, below {limit}, but {diverged} runs diverged; mend the divergence"
    return f"{found}, {'strictly below' if verdict == 'reproduced' else 'not below'} {limit}"


def _compared(claim: Claim, decision: Decision) -> str:
    low = _number(claim, decision.interval.low)
    high = _number(claim, decision.interval.high)
    confidence = f"{100 * (1 - 2 * decision.level):.4g} %"
    return f"the {confidence} interval {low} to {high} {WHERE[decision.verdict]} {claim.bound}"


def _plan(decision: Decision, seeds: int, needed: int | None) -> str:
    if decision.verdict != "inconclusive":
        return ""
    if needed is None:
        return (
            f"; more than {MOST_SEEDS} seeds would be needed to decide: the effect lies at the "
            "bound or the scale is too small"
        )
    return (
        f"; {needed} seeds instead of {seeds} would decide with 80 % power if the effect and its "
        "spread are as seen here"
    )


def _number(claim: Claim, number: float) -> str:
    return f"{from_scale(claim, number):.4g}"
