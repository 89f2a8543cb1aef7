"""Puts the tables of all planned runs of a paper into one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from shared.records.base import RecordError
from shared.records.experiment import Experiment, RunKey, Scale
from shared.records.metrics import SCHEMA, read_metrics


def planned_runs(
    name: str, experiments: Mapping[str, Experiment], scale: Scale, wanted_seeds: int | None = None
) -> Iterator[RunKey]:
    """Every run of a paper at a scale, in the order of paper.yaml."""
    for experiment_name, experiment in experiments.items():
        for arm in experiment.arms_at(scale):
            for seed in experiment.seeds_at(scale, wanted_seeds):
                yield RunKey(
                    scale=scale, paper=name, experiment=experiment_name, arm=arm, seed=seed
                )


def collect(
    name: str,
    experiments: Mapping[str, Experiment],
    scale: Scale,
    wanted_seeds: int | None = None,
    results: Path = Path("results"),
) -> pl.DataFrame:
    """The tidy table of all planned runs, in the order of paper.yaml and of each run's rows.

    Args:
        wanted_seeds: see `Experiment.seeds_at`.
        results: the folder that holds SCALE/runs.

    Raises:
        RecordError: a run has no metrics.parquet, or one that belongs to another run.
    """
    keys = list(planned_runs(name, experiments, scale, wanted_seeds))
    files = [key.directory(results) / "metrics.parquet" for key in keys]
    missing = [key for key, file in zip(keys, files, strict=True) if not file.exists()]
    if missing:
        first = missing[0]
        raise RecordError(
            f"{first.directory(results)}: no metrics.parquet of run {first} ({len(missing)} of "
            f"{len(keys)} planned runs have none). Train it: python -m shared.training.run "
            f"{name} {first.experiment} {first.arm} --seed {first.seed} --scale {scale}"
        )
    tables = [_read_run(key, file) for key, file in zip(keys, files, strict=True)]
    return pl.concat([SCHEMA.to_frame(), *tables])


def _read_run(key: RunKey, file: Path) -> pl.DataFrame:
    rows = read_metrics(file)
    owners = set(rows.select("experiment", "arm", "seed").unique().iter_rows())
    if owners != {(key.experiment, key.arm, key.seed)}:
        raise RecordError(
            f"{file}: got rows of {sorted(owners)}, expected those of {key} only. Delete the "
            "run's folder and run it again."
        )
    return rows
