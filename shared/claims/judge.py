"""The judge: claims and the tidy table in, verdicts out. Nothing else decides a verdict."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from shared.claims import looks, reasons
from shared.claims.decide import Decision, Region, decide, level_against
from shared.claims.effects import Effect, effects, from_scale, to_scale
from shared.claims.evidence import (
    SMOKE,
    Evidence,
    gather,
    why_inconclusive,
    why_not_run,
)
from shared.claims.intervals import clopper_pearson, t_interval
from shared.claims.power import SeedsFor, seeds_for_mean, seeds_for_rate, seeds_to_decide
from shared.claims.table import RunId, Runs, index_runs
from shared.records.base import RecordError
from shared.records.claim import Claim
from shared.records.experiment import Experiment, Scale
from shared.records.paper import Paper
from shared.records.results import planned_runs
from shared.records.verdict import ClaimVerdict, Look, PaperVerdicts, Verdict


def judge(
    name: str,
    paper: Paper,
    metrics: pl.DataFrame,
    scale: Scale,
    wanted_seeds: int | None = None,
    ledger: Sequence[Look] = (),
) -> tuple[PaperVerdicts, tuple[Look, ...]]:
    """Judges every claim of a paper.

    Args:
        name: of the paper's folder.
        metrics: the tidy table of all planned runs at `scale`, and of no others.
        wanted_seeds: see `Experiment.seeds_at`.
        ledger: all earlier looks, see `shared.claims.looks`.

    Returns:
        The verdicts, and the looks that were taken now and have to be added to the ledger.

    Raises:
        RecordError: the table and the claims do not fit together; the message says where.
    """
    runs = index_runs(metrics)
    _check_planned(name, paper.experiments, metrics, scale, wanted_seeds)
    verdicts: list[ClaimVerdict] = []
    new: list[Look] = []
    earlier: dict[str, list[Look]] = {}
    for look in ledger:
        earlier.setdefault(look.claim, []).append(look)
    for claim in paper.claims:
        experiment = paper.experiments[claim.experiment] if claim.experiment else None
        before = tuple(earlier.get(claim.id, ()))
        verdict = _judge_claim(claim, experiment, runs, scale, wanted_seeds, before)
        verdicts.append(verdict)
        new.extend(verdict.looks[len(before) :])
    return PaperVerdicts(paper=name, scale=scale, claims=tuple(verdicts)), tuple(new)


def _judge_claim(
    claim: Claim,
    experiment: Experiment | None,
    runs: Runs,
    scale: Scale,
    wanted_seeds: int | None,
    before: tuple[Look, ...],
) -> ClaimVerdict:
    known: dict[str, Any] = {
        "id": claim.id,
        "kind": claim.kind,
        "unit": reasons.unit(claim),
        "bound": claim.bound,
        "looks": before,
    }
    if reason := why_not_run(claim, experiment, scale):
        warnings = ("the data were looked at before the claim was taken out",) if before else ()
        wiring = _wiring(claim, runs) if reason == SMOKE else ()
        return ClaimVerdict(
            verdict="not_run", reason=reason, warnings=(*warnings, *wiring), **known
        )
    assert experiment is not None
    seeds = experiment.seeds_at(scale, wanted_seeds)
    evidence = gather(claim, runs, seeds)
    known |= {"counts": evidence.counts, "seeds": len(seeds)}
    if not evidence.diverged:
        return ClaimVerdict(verdict="not_run", reason=reasons.no_runs(claim), **known)
    if overridden := sum((claim.experiment, *run) in runs.overridden for run in evidence.series):
        return ClaimVerdict(verdict="not_run", reason=reasons.overridden(overridden), **known)

    reason = why_inconclusive(evidence) or looks.why_too_few(before, len(seeds))
    number = looks.look_number(before, len(seeds))
    spends = not reason and claim.kind != "exact"
    look = Look(
        claim=claim.id,
        seeds=len(seeds),
        alpha=looks.alpha_of_look(claim.alpha, number) if spends else 0.0,
        claim_sha256=looks.claim_sha256(claim),
        metrics_sha256=looks.metrics_sha256(evidence.judged()),
    )
    incomplete = any(count.missing for count in evidence.counts)
    known["looks"] = before if look in before or incomplete else (*before, look)
    known["warnings"] = looks.warnings(known["looks"], look.claim_sha256)
    if reason:
        return ClaimVerdict(verdict="inconclusive", reason=reason, **known)
    next_alpha = looks.alpha_of_look(claim.alpha, looks.next_look_number(known["looks"]))
    if claim.kind == "exact":
        return ClaimVerdict(**_exact(evidence), **known)
    if claim.kind == "rate":
        return ClaimVerdict(**_rate(evidence, look.alpha, next_alpha), **known)
    return ClaimVerdict(**_means(evidence, look.alpha, next_alpha), **known)


def _means(evidence: Evidence, alpha: float, next_alpha: float) -> dict[str, Any]:
    """value, gap, ratio, ordering and trend: t intervals of the effects per seed."""
    claim, n = evidence.claim, len(evidence.seeds)
    found = effects(claim, evidence.numbers())
    region = _region(claim)
    decision = decide([functools.partial(_t, effect) for effect in found], region, alpha)
    effect = found[decision.effect]
    undecided = decision.verdict == "inconclusive"
    needed = _seeds_for_means(found, region, next_alpha, n) if undecided else None
    return {
        **_interval(claim, decision),
        "effect_size": effect.size,
        "effect_size_name": reasons.effect_size_name(claim),
        "per_seed": tuple(from_scale(claim, float(x)) for x in effect.per_seed),
        "seeds_to_decide": needed,
        "reason": reasons.of_mean(claim, decision, effect, n, needed),
    }


def _rate(evidence: Evidence, alpha: float, next_alpha: float) -> dict[str, Any]:
    claim, n = evidence.claim, len(evidence.seeds)
    successes = evidence.successes()
    region = _region(claim)
    decision = decide([functools.partial(clopper_pearson, sum(successes), n)], region, alpha)
    undecided = decision.verdict == "inconclusive"
    needed = _seeds_for_rate(sum(successes) / n, region, next_alpha, n) if undecided else None
    return {
        **_interval(claim, decision),
        "per_seed": tuple(float(success) for success in successes),
        "seeds_to_decide": needed,
        "reason": reasons.of_rate(claim, decision, successes, evidence.counts[0].diverged, needed),
    }


def _exact(evidence: Evidence) -> dict[str, Any]:
    """No statistics: one number at or above the bound is a counterexample."""
    claim = evidence.claim
    assert claim.bound is not None and claim.bound.at_most is not None
    largest = {run: x for run in evidence.series if (x := evidence.number(run)) is not None}
    diverged = sum(count.diverged for count in evidence.counts)
    worst = max(largest, key=largest.__getitem__, default=None)
    verdict: Verdict
    if worst is not None and largest[worst] >= claim.bound.at_most:
        verdict = "not_reproduced"
    else:
        verdict = "inconclusive" if diverged else "reproduced"
    per_seed = [
        max(largest[arm, seed] for arm in claim.arms)
        for seed in evidence.seeds
        if all((arm, seed) in largest for arm in claim.arms)
    ]
    return {
        "verdict": verdict,
        "estimate": None if worst is None else largest[worst],
        "per_seed": tuple(per_seed),
        "reason": reasons.of_exact(claim, verdict, largest, worst, diverged),
    }


def _t(effect: Effect, level: float) -> Any:
    return t_interval(effect.per_seed, level, effect.rounding)


def _region(claim: Claim) -> Region:
    assert claim.bound is not None
    return Region(to_scale(claim, claim.bound.at_least), to_scale(claim, claim.bound.at_most))


def _interval(claim: Claim, decision: Decision) -> dict[str, Any]:
    return {
        "verdict": decision.verdict,
        "estimate": from_scale(claim, decision.interval.estimate),
        "low": from_scale(claim, decision.interval.low),
        "high": from_scale(claim, decision.interval.high),
        "confidence": 1 - 2 * decision.level,
    }


def _seeds_for_means(
    found: Sequence[Effect], region: Region, alpha: float, more_than: int
) -> int | None:
    """Seeds that decide at the next look, if every effect and spread is as observed."""

    def test(effect: Effect, inside: float) -> tuple[float, SeedsFor]:
        return inside, lambda level, miss: seeds_for_mean(
            abs(inside), effect.spread, level, more_than, miss
        )

    tests = [
        test(effect, inside)
        for effect in found
        for inside, _ in region.distances(float(effect.per_seed.mean()))
    ]
    return seeds_to_decide(tests, alpha, level_against(alpha, len(found), region.sides))


def _seeds_for_rate(rate: float, region: Region, alpha: float, more_than: int) -> int | None:
    """As `_seeds_for_means`, for a rate."""

    def test(inside: float, bound: float) -> tuple[float, SeedsFor]:
        return inside, lambda level, miss: seeds_for_rate(rate, bound, level, more_than, miss)

    tests = [test(inside, bound) for inside, bound in region.distances(rate)]
    return seeds_to_decide(tests, alpha, level_against(alpha, 1, region.sides))


def _wiring(claim: Claim, runs: Runs) -> tuple[str, ...]:
    """At smoke scale: whether the smoke runs record what the claim will need."""
    if all(flag for run, flag in runs.diverged.items() if run[0] == claim.experiment):
        return ()
    assert claim.experiment is not None
    try:
        runs.check(claim.experiment, claim.metric, claim.split, claim.unit, any_counts=True)
    except RecordError as error:
        return (f"at another scale this will be an error: {error}",)
    return ()


def _check_planned(
    name: str,
    experiments: Mapping[str, Experiment],
    metrics: pl.DataFrame,
    scale: Scale,
    wanted: int | None,
) -> None:
    planned: set[RunId] = {
        (key.experiment, key.arm, key.seed)
        for key in planned_runs(name, experiments, scale, wanted)
    }
    there = set(metrics.select("experiment", "arm", "seed").unique().iter_rows())
    if extra := sorted(there - planned):
        raise RecordError(
            f"got rows of {len(extra)} runs that are not planned at {scale} scale, the first is "
            f"{'/'.join(map(str, extra[0]))}; expected planned runs only. Collect the runs again "
            "with the same --seeds as the judge."
        )
