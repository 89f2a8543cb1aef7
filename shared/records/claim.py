"""Claims of a paper, with the bounds that were fixed before the judged runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from shared.records.base import Record
from shared.records.experiment import Name, Scale

Finite = Annotated[float, Field(allow_inf_nan=False)]
Kind = Literal["value", "gap", "ratio", "ordering", "trend", "rate", "exact"]


class Source(Record):
    """Where the paper says it. `verified` only if someone read it there (or in the code)."""

    where: str
    verified: bool
    note: str = ""


class PaperValue(Record):
    """The number that the paper printed. Left out, never guessed, where it was not found."""

    text: str = Field(description="as printed, e.g. `7.24 (BatchNorm 6.61)`")
    unit: str
    verified: bool


class Bound(Record):
    """The accepted region of the effect: one side, or both for equivalence."""

    at_least: float | None = Field(None, allow_inf_nan=False)
    at_most: float | None = Field(None, allow_inf_nan=False)

    @model_validator(mode="after")
    def _not_empty(self) -> Bound:
        if self.at_least is None and self.at_most is None:
            raise ValueError("expected `at_least`, `at_most` or both")
        if (
            self.at_least is not None
            and self.at_most is not None
            and not self.at_least < self.at_most
        ):
            raise ValueError("expected at_least < at_most")
        return self

    def contains(self, number: float) -> bool:
        """Whether one number lies in the region, its ends included."""
        low_ok = self.at_least is None or number >= self.at_least
        return low_ok and (self.at_most is None or number <= self.at_most)

    def __str__(self) -> str:
        if self.at_least is None:
            return f"≤ {self.at_most:g}"
        if self.at_most is None:
            return f"≥ {self.at_least:g}"
        return f"{self.at_least:g} … {self.at_most:g}"


class Claim(Record):
    """One falsifiable sentence of a paper and the test that decides it.

    The effect that is compared with `bound`, per kind (one number per seed, then an interval):

    - `value`: the metric of the one arm.
    - `gap`: metric of the first arm minus metric of the second, paired by seed.
    - `ratio`: metric of the first arm over metric of the second, paired by seed, on a log scale.
    - `ordering`: each arm's metric minus that of the next arm; every such gap meets the bound.
    - `trend`: slope of the metric over `x` (one number per arm), fitted per seed.
    - `rate`: share of the runs of the one arm that meet `success`; a diverged run does not.
    - `exact`: the largest metric of all runs of all arms, an error that `bound.at_most` limits.
    """

    id: Name
    statement: str
    source: Source
    paper_value: PaperValue | None = None
    kind: Kind
    experiment: Name | None = None
    arms: tuple[Name, ...] = ()
    metric: str = ""
    split: str = "test"
    at: Literal["last", "max", "min", "mean"] = "last"
    unit: str = ""
    x: tuple[Finite, ...] = Field((), description="trend: one abscissa per arm, e.g. log10 depth")
    success: Bound | None = Field(None, description="rate: what counts as a success")
    bound: Bound | None = None
    bound_reason: str = Field(
        "", description="why this bound: the paper, and pilots on seeds >= 1000"
    )
    alpha: float = Field(0.05, gt=0, le=0.1)
    scales: tuple[Scale, ...] = ("laptop", "full")
    not_run: str = Field("", description="why the claim is not judged; replaces the test")
    would_change: str = Field("", description="what would change the verdict, if it fails here")

    @property
    def printed_unit(self) -> str:
        """The unit as text behind a number; nothing for a pure number, whose unit is `1`."""
        return "" if self.unit == "1" else self.unit

    @model_validator(mode="after")
    def _can_be_judged(self) -> Claim:
        if self.not_run:
            return self
        missing = [
            name
            for name, value in [
                ("experiment", self.experiment),
                ("arms", self.arms),
                ("metric", self.metric),
                ("unit", self.unit),
                ("bound", self.bound),
                ("bound_reason", self.bound_reason),
            ]
            if not value
        ]
        if missing:
            raise ValueError(f"{self.id}: give {', '.join(missing)}, or say in `not_run` why not")
        expected = {"value": 1, "rate": 1, "gap": 2, "ratio": 2}.get(self.kind)
        if expected and len(self.arms) != expected:
            raise ValueError(f"{self.id}: {self.kind} expects {expected} arm(s)")
        if self.kind in ("ordering", "trend") and len(self.arms) < 2:
            raise ValueError(f"{self.id}: {self.kind} expects at least two arms")
        if (self.kind == "trend") != bool(self.x) or (self.x and len(self.x) != len(self.arms)):
            raise ValueError(f"{self.id}: `x` holds one number per arm of a trend, nowhere else")
        if self.kind == "trend" and len(set(self.x)) < 2:
            raise ValueError(f"{self.id}: got x = {self.x}, expected two different numbers or more")
        if (self.kind == "rate") != (self.success is not None):
            raise ValueError(f"{self.id}: `success` belongs to a rate, and a rate needs it")
        assert self.bound is not None
        self._check_rate(self.bound)
        if self.kind == "exact" and (
            self.bound.at_least is not None or (self.bound.at_most or 0) <= 0
        ):
            raise ValueError(
                f"{self.id}: an exact claim has bound.at_most only, and above 0: the error of "
                "every run has to lie below it"
            )
        if self.kind == "ratio" and any(
            side is not None and side <= 0 for side in (self.bound.at_least, self.bound.at_most)
        ):
            raise ValueError(f"{self.id}: the bounds of a ratio are above 0")
        return self

    def _check_rate(self, bound: Bound) -> None:
        if self.success is None:
            return
        ends = [end for end in (bound.at_least, bound.at_most) if end is not None]
        if not all(0 <= end <= 1 for end in ends):
            raise ValueError(
                f"{self.id}: got bound {bound}, expected shares of runs from 0 to 1 for a rate"
            )
        if self.metric == "diverged" and not self.success.contains(0.0):
            raise ValueError(
                f"{self.id}: got success {self.success} of `diverged`, which only a diverged run "
                "could meet; a diverged run never counts as a success. Expected `at_most: 0`: "
                "state the share of runs that do not diverge, and bound it from above."
            )
