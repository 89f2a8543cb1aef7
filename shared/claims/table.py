"""The tidy table, reduced to what a claim needs: one number per run and metric."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from shared.records.base import RecordError

RUN = ["experiment", "arm", "seed"]
SERIES = [*RUN, "metric", "split"]

OVERRIDDEN = "overridden"  # flag of a run whose settings are not those of paper.yaml

RunId = tuple[str, str, int]


class Reduced(NamedTuple):
    """The values of one metric of one run over its steps. `finite` is false if any is not."""

    last: float
    max: float
    min: float
    mean: float
    finite: bool


@dataclass(frozen=True)
class Runs:
    """What the table holds on each run. A run without a `diverged` row is not in `diverged`."""

    diverged: Mapping[RunId, bool]
    series: Mapping[tuple[str, str, int, str, str], Reduced]
    units: Mapping[tuple[str, str, str], Set[str]]
    overridden: Set[RunId]

    def check(
        self, experiment: str, metric: str, split: str, unit: str, *, any_counts: bool = False
    ) -> None:
        """Raises `RecordError` if no run of the experiment has the metric, or in another unit.

        Args:
            any_counts: whether units that differ in their numbers alone, as those with a count of
                samples in them, are taken as one.
        """
        units = self.units.get((experiment, metric, split))
        if units is None:
            known = sorted(
                f"{name} (split {where}, unit {', '.join(sorted(found))})"
                for (of, name, where), found in self.units.items()
                if of == experiment
            )
            raise RecordError(
                f"got metric {metric!r} with split {split!r}, expected one that the runs of "
                f"{experiment!r} record: {'; '.join(known)}. Correct `metric` or `split`."
            )
        wanted, found = {unit}, units
        if any_counts:
            wanted, found = ({re.sub(r"\d+", "#", u) for u in some} for some in (wanted, units))
        if found != wanted:
            raise RecordError(
                f"got unit {unit!r} for {metric!r}, expected the unit that the runs of "
                f"{experiment!r} record: {', '.join(sorted(units))}"
            )


def index_runs(metrics: pl.DataFrame) -> Runs:
    """Checks the tidy table and reduces every series of a run over its steps.

    Raises:
        RecordError: two rows for one step of a series, or a `diverged` flag that is not 0 or 1.
    """
    _check_unique(metrics)
    value = pl.col("value")
    reduced = metrics.group_by(SERIES).agg(
        value.sort_by("step").last().alias("last"),
        value.max().alias("max"),
        value.min().alias("min"),
        value.mean().alias("mean"),
        value.is_finite().fill_null(False).all().alias("finite"),
    )
    units = metrics.group_by("experiment", "metric", "split").agg(pl.col("unit").unique())
    return Runs(
        diverged=_diverged(metrics),
        series={row[:5]: Reduced(*row[5:]) for row in reduced.iter_rows()},
        units={row[:3]: frozenset(row[3]) for row in units.iter_rows()},
        overridden=set(metrics.filter(pl.col("metric") == OVERRIDDEN).select(RUN).iter_rows()),
    )


def _check_unique(metrics: pl.DataFrame) -> None:
    keys = [*SERIES, "step"]
    twice = metrics.filter(metrics.select(keys).is_duplicated())
    if len(twice):
        first = twice.row(0, named=True)
        raise RecordError(
            f"got {len(twice)} rows that share run, metric, split and step, the first is "
            f"{ {key: first[key] for key in keys} }; expected one. Collect the runs again."
        )


def _diverged(metrics: pl.DataFrame) -> dict[RunId, bool]:
    flags = metrics.filter((pl.col("metric") == "diverged") & (pl.col("split") == "run"))
    result: dict[RunId, bool] = {}
    for *run, flag in flags.select([*RUN, "value"]).iter_rows():
        if flag not in (0.0, 1.0):
            raise RecordError(f"{run}: got diverged = {flag}, expected 0 or 1. Rerun this run.")
        if tuple(run) in result:
            raise RecordError(f"{run}: got two rows `diverged`, expected one. Rerun this run.")
        result[run[0], run[1], run[2]] = flag == 1.0
    return result
