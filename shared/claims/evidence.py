"""What the table holds on one claim, and what stands in the way of a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shared.claims.effects import Array
from shared.claims.table import Reduced, Runs
from shared.records.claim import Claim
from shared.records.experiment import Experiment, Scale
from shared.records.verdict import ArmCount

SMOKE = "smoke runs prove the wiring only"


@dataclass(frozen=True)
class Evidence:
    """The planned runs of a claim. `series` is None for a run without a row of the metric."""

    claim: Claim
    seeds: range
    diverged: dict[tuple[str, int], bool]
    series: dict[tuple[str, int], Reduced | None]
    counts: tuple[ArmCount, ...]

    def number(self, run: tuple[str, int]) -> float | None:
        """The judged number of a run: its metric at `claim.at`, or its largest size if exact."""
        series = self.series[run]
        if series is None:
            return None
        if self.claim.kind == "exact":
            return max(abs(series.min), abs(series.max))
        return float(getattr(series, self.claim.at))

    def numbers(self) -> Array:
        """The judged numbers, shape (arms, seeds); every run must have one."""
        rows = [[self.number((arm, seed)) for seed in self.seeds] for arm in self.claim.arms]
        return np.array(rows, dtype=np.float64)

    def successes(self) -> list[bool]:
        """For a rate: whether each run met `success`; a diverged one did not."""
        assert self.claim.success is not None
        found = []
        for run in self.series:
            number = self.number(run)
            met = number is not None and self.claim.success.contains(number)
            found.append(met and not self.diverged[run])
        return found

    def judged(self) -> list[object]:
        """What the verdict comes from, for a digest of it."""
        return [[*run, self.diverged.get(run), self.number(run)] for run in self.series]


def gather(claim: Claim, runs: Runs, seeds: range) -> Evidence:
    """Collects the planned runs of a claim from the table.

    Raises:
        RecordError: runs finished, but the experiment has no such metric, or in another unit.
    """
    assert claim.experiment is not None
    planned = [(arm, seed) for arm in dict.fromkeys(claim.arms) for seed in seeds]
    diverged = {
        run: flag
        for run in planned
        if (flag := runs.diverged.get((claim.experiment, *run))) is not None
    }
    if not all(diverged.values()):
        runs.check(claim.experiment, claim.metric, claim.split, claim.unit)
    return Evidence(
        claim=claim,
        seeds=seeds,
        diverged=diverged,
        series={
            (arm, seed): runs.series.get((claim.experiment, arm, seed, claim.metric, claim.split))
            for arm, seed in planned
        },
        counts=tuple(_count(arm, seeds, diverged) for arm in dict.fromkeys(claim.arms)),
    )


def why_not_run(claim: Claim, experiment: Experiment | None, scale: Scale) -> str:
    """Why the claim is not judged at this scale, before any run is looked at; "" if it is."""
    if claim.not_run or experiment is None:
        return claim.not_run
    if scale == "smoke":
        return SMOKE
    if scale not in claim.scales:
        return (
            f"the claim is not judged at {scale} scale, only at {_names(claim.scales)}: "
            f"run `snakemake --config scale={claim.scales[0]}`"
        )
    if scale not in experiment.scales:
        return (
            f"the experiment {claim.experiment} is not defined at {scale} scale, only at "
            f"{_names(list(experiment.scales))}: add the scale to it in paper.yaml"
        )
    if absent := [arm for arm in claim.arms if arm not in experiment.arms_at(scale)]:
        return (
            f"the experiment {claim.experiment} does not run {_names(absent)} at {scale} scale: "
            "add the arms to that scale in paper.yaml"
        )
    return ""


def why_inconclusive(evidence: Evidence) -> str:
    """Why the runs cannot give a verdict, whatever their numbers are; "" if they can."""
    claim, counts = evidence.claim, evidence.counts
    if missing := [count for count in counts if count.missing]:
        found = _names([f"{c.missing} of {c.planned} runs of arm {c.arm}" for c in missing])
        return f"{found} are missing; a verdict needs all planned runs: run snakemake again"
    if len(evidence.seeds) < 2:
        return (
            "there is 1 seed, and a verdict needs at least 2: one run says nothing of the spread "
            "between seeds; run `snakemake --config seeds=5`"
        )
    if bad := [run for run, series in evidence.series.items() if series and not series.finite]:
        return (
            f"{claim.metric} is not a finite number in {len(bad)} of {len(evidence.series)} runs, "
            f"the first is arm {bad[0][0]}, seed {bad[0][1]}"
        )
    if empty := [
        run for run, series in evidence.series.items() if not series and not evidence.diverged[run]
    ]:
        return (
            f"{len(empty)} finished runs have no row of {claim.metric}, the first is arm "
            f"{empty[0][0]}, seed {empty[0][1]}"
        )
    if claim.kind in ("rate", "exact"):
        return ""
    if lost := [count for count in counts if count.diverged]:
        found = _names([f"{c.diverged} of {c.planned} runs of arm {c.arm}" for c in lost])
        return f"{found} diverged; a mean over the survivors would be biased; ask for a rate"
    if claim.kind == "ratio" and not (evidence.numbers() > 0).all():
        return f"{claim.metric} is not above 0 in every run, and a ratio needs that; ask for a gap"
    return ""


def _count(arm: str, seeds: range, diverged: dict[tuple[str, int], bool]) -> ArmCount:
    flags = [diverged.get((arm, seed)) for seed in seeds]
    return ArmCount(
        arm=arm,
        planned=len(flags),
        finished=flags.count(False),
        diverged=flags.count(True),
        missing=flags.count(None),
    )


def _names(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
