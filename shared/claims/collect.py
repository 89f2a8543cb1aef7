"""Puts the tables of all planned runs of a paper into one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from shared.claims.table import OVERRIDDEN
from shared.records.base import RecordError, read_record, sha256_of
from shared.records.experiment import Experiment, RunKey, RunSettings, Scale, resolve
from shared.records.metrics import SCHEMA, Row, read_metrics, table
from shared.records.results import RESULTS, planned_runs
from shared.records.run import Provenance


def collect(
    name: str,
    experiments: Mapping[str, Experiment],
    scale: Scale,
    wanted_seeds: int | None = None,
    results: Path = RESULTS,
) -> pl.DataFrame:
    """The tidy table of all planned runs, in the order of paper.yaml and of each run's rows.

    A run whose settings are not those of paper.yaml gets one more row, the flag `overridden`.

    Args:
        wanted_seeds: see `Experiment.seeds_at`.
        results: the folder that holds SCALE/runs.

    Raises:
        RecordError: a run has no metrics.parquet, one that belongs to another run, or one that was
            changed after the run had ended.
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
    for key in keys:
        _check_files(key, results)
    tables = [_read_run(key, file) for key, file in zip(keys, files, strict=True)]
    overridden = [
        table(key.experiment, key.arm, key.seed, [Row(OVERRIDDEN, 1.0, "flag", "run")])
        for key in keys
        if _settings(key, results) != resolve(experiments, key)
    ]
    return pl.concat([SCHEMA.to_frame(), *tables, *overridden])


def _check_files(key: RunKey, results: Path) -> None:
    """Numbers count only as the run has left them."""
    directory = key.directory(results)
    made = read_record(directory / "provenance.json", Provenance)
    for name in ("metrics.parquet", "settings.json"):
        if sha256_of(directory / name) != made.files[name]:
            raise RecordError(
                f"{directory / name}: was changed after the run had ended: its sha256 is not the "
                "one in provenance.json. Delete the run's folder and run it again."
            )


def _settings(key: RunKey, results: Path) -> RunSettings:
    return read_record(key.directory(results) / "settings.json", RunSettings)


def _read_run(key: RunKey, file: Path) -> pl.DataFrame:
    rows = read_metrics(file)
    owners = set(rows.select("experiment", "arm", "seed").unique().iter_rows())
    if owners != {(key.experiment, key.arm, key.seed)}:
        raise RecordError(
            f"{file}: got rows of {sorted(owners)}, expected those of {key} only. Delete the "
            "run's folder and run it again."
        )
    return rows
