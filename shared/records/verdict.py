"""Verdicts: what the judge found, and each look that it took at the data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.records.base import Record
from shared.records.claim import Bound, Kind
from shared.records.experiment import Scale

Verdict = Literal["reproduced", "not_reproduced", "inconclusive", "not_run"]


class Look(Record):
    """One look at the data of a claim. A later look (more seeds) spends a part of alpha."""

    claim: str
    seeds: int = Field(description="seeds per arm that were judged")
    alpha: float = Field(description="the error rate spent at this look")
    claim_sha256: str = Field(description="of the test: metric, arms, bound, alpha")
    metrics_sha256: str = Field(description="of the judged numbers")


class ArmCount(Record):
    """What became of the planned runs of an arm."""

    arm: str
    planned: int
    finished: int
    diverged: int
    missing: int


class ClaimVerdict(Record):
    """The judge's answer to one claim. All numbers are computed, none is typed."""

    id: str
    verdict: Verdict
    reason: str = Field(description="one sentence that a reader can check against the numbers")
    kind: Kind
    unit: str = ""
    estimate: float | None = None
    low: float | None = Field(None, description="lower end of the interval that was judged")
    high: float | None = None
    confidence: float | None = Field(None, description="of the two-sided interval low ... high")
    bound: Bound | None = None
    effect_size: float | None = Field(None, description="estimate over the spread of seeds")
    effect_size_name: str = ""
    seeds: int = 0
    seeds_to_decide: int | None = Field(None, description="for 80 % power at the observed spread")
    counts: tuple[ArmCount, ...] = ()
    per_seed: tuple[float, ...] = Field((), description="the effect of each seed, where defined")
    looks: tuple[Look, ...] = ()
    warnings: tuple[str, ...] = ()


class PaperVerdicts(Record):
    """results/<scale>/verdicts/<paper>.json"""

    paper: str
    scale: Scale
    claims: tuple[ClaimVerdict, ...]
