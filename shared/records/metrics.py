"""The tidy table of metrics: one number a row, each with its unit."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import polars as pl

from shared.records.base import RecordError

SCHEMA = pl.Schema(
    {
        "experiment": pl.String,
        "arm": pl.String,
        "seed": pl.Int64,
        "split": pl.String,
        "step": pl.Int64,
        "metric": pl.String,
        "value": pl.Float64,
        "unit": pl.String,
    }
)


class Row(NamedTuple):
    """One measured number of one run. `step` counts optimiser steps, or what the metric says."""

    metric: str
    value: float
    unit: str
    split: str = "none"
    step: int = 0


def first_48_bits(digest: str) -> float:
    """A hexadecimal digest as the value of a row: a float holds integers of 48 bits exactly.

    Example:
        >>> first_48_bits("00000000000a" + 52 * "f")
        10.0
    """
    return float(int(digest[:12], 16))


def start_of_digest(value: float) -> str:
    """The hexadecimal digits behind a value of `first_48_bits`.

    Example:
        >>> start_of_digest(10.0)
        '00000000000a'
    """
    return f"{int(value):012x}"


def table(experiment: str, arm: str, seed: int, rows: Iterable[Row]) -> pl.DataFrame:
    """The rows of one run as a tidy table.

    Example:
        >>> table("depth", "he", 0, [Row("test_error_percent", 12.5, "percent", "test", 9)]).shape
        (1, 8)
    """
    records = [
        (experiment, arm, seed, r.split, r.step, r.metric, float(r.value), r.unit) for r in rows
    ]
    return pl.DataFrame(records, schema=SCHEMA, orient="row")


def write_metrics(path: Path, metrics: pl.DataFrame) -> None:
    """Writes the table atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    metrics.select(SCHEMA.names()).cast(SCHEMA).write_parquet(temporary)
    temporary.replace(path)


def read_metrics(path: Path) -> pl.DataFrame:
    """Reads the table and checks its columns.

    Raises:
        RecordError: the file is not such a table.
    """
    try:
        metrics = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise RecordError(f"{path}: not a metrics table: {error}. Delete it and rerun.") from None
    if metrics.schema != SCHEMA:
        raise RecordError(f"{path}: got columns {metrics.schema}, expected {SCHEMA}")
    return metrics
