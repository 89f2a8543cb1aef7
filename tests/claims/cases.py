"""Small papers and tables for the tests of the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from shared.claims.judge import judge
from shared.records.base import sha256_of
from shared.records.claim import Claim, Source
from shared.records.experiment import Experiment, RunKey, ScaleSettings
from shared.records.metrics import SCHEMA, Row, table
from shared.records.paper import Paper
from shared.records.run import Energy, Machine, Outcome, Provenance
from shared.records.verdict import ClaimVerdict

T_KINDS = ("value", "gap", "ratio", "ordering", "trend")
KINDS = (*T_KINDS, "rate", "exact")

TESTS: dict[str, dict[str, Any]] = {
    "value": {"arms": ("a",), "bound": {"at_least": 10.0}},
    "gap": {"arms": ("a", "b"), "bound": {"at_least": 1.0}},
    "ratio": {"arms": ("a", "b"), "bound": {"at_least": 1.5}},
    "ordering": {"arms": ("a", "b", "c"), "bound": {"at_least": 0.0}},
    "trend": {"arms": ("a", "b", "c"), "x": (3.0, 2.0, 1.0), "bound": {"at_least": 1.0}},
    "rate": {"arms": ("a",), "success": {"at_most": 20.0}, "bound": {"at_least": 0.5}},
    "exact": {"arms": ("a", "b"), "bound": {"at_most": 100.0}},
}

# Numbers per arm and seed with which every kind is clearly reproduced, and clearly not.
WIGGLE = (0.0, 0.3, -0.2, 0.1, -0.1, 0.2, -0.3, 0.05)
GOOD = {arm: [x + base for x in WIGGLE] for arm, base in [("a", 18.0), ("b", 10.0), ("c", 5.0)]}
BAD = {
    "value": {"a": [x + 5 for x in WIGGLE]},
    "gap": {"a": GOOD["b"], "b": GOOD["a"][::-1]},
    "ratio": {"a": GOOD["b"], "b": GOOD["a"][::-1]},
    "ordering": {"a": GOOD["c"], "b": GOOD["a"][::-1], "c": GOOD["b"]},
    "trend": {"a": GOOD["c"], "b": GOOD["b"], "c": GOOD["a"][::-1]},
    "rate": {"a": [x + 80 for x in WIGGLE]},
    "exact": {"a": [100.0, *GOOD["a"][1:]], "b": GOOD["b"]},
}


def good(kind: str, seeds: int = 8) -> dict[str, list[float]]:
    """Numbers that reproduce the claim of a kind, not the same in two arms of a seed."""
    shifts = {"a": 0, "b": 3, "c": 5}
    numbers = {arm: [*GOOD[arm][shifts[arm] :], *GOOD[arm][: shifts[arm]]] for arm in GOOD}
    return {arm: numbers[arm][:seeds] for arm in TESTS[kind]["arms"]}


def bad(kind: str, seeds: int = 8) -> dict[str, list[float]]:
    """Numbers that contradict the claim of a kind."""
    return {arm: values[:seeds] for arm, values in BAD[kind].items()}


def make_claim(kind: str, **changes: Any) -> Claim:
    fields: dict[str, Any] = {
        "id": "c1",
        "statement": "It holds.",
        "source": Source(where="Table 1", verified=True),
        "kind": kind,
        "experiment": "e",
        "metric": "error",
        "split": "test",
        "unit": "percent",
        "bound_reason": "a pilot",
        **TESTS[kind],
        **changes,
    }
    return Claim(**fields)


def make_paper(
    *claims: Claim, seeds: int = 8, scales: Sequence[str] = ("smoke", "laptop")
) -> Paper:
    experiment = Experiment(
        title="e",
        kind="measurement",
        entry="m:f",
        arms={"a": None, "b": None, "c": None, "d": None},
        seeds=seeds,
        scales={scale: ScaleSettings(arms=("a", "b", "c")) for scale in scales},
    )
    return Paper(
        title="t",
        authors=("x",),
        year=2020,
        venue="v",
        arxiv="2001.00001v1",
        summary="s",
        main_claims=(),
        here="h",
        experiments={"e": experiment},
        claims=claims,
        deviations=(),
    )


def run_rows(arm: str, seed: int, values: Sequence[float], diverged: bool = False) -> pl.DataFrame:
    """One run with the metric at steps 0, 1, ..."""
    rows = [Row("error", value, "percent", "test", step) for step, value in enumerate(values)]
    flag = Row("diverged", float(diverged), "flag", "run", len(values))
    return table("e", arm, seed, [*rows, flag])


def make_table(numbers: Mapping[str, Sequence[float]]) -> pl.DataFrame:
    """One run per number; the number is the last of three steps."""
    runs = [
        run_rows(arm, seed, [value - 1, value - 2, value])
        for arm, values in numbers.items()
        for seed, value in enumerate(values)
    ]
    return pl.concat([SCHEMA.to_frame(), *runs])


def verdict_of(claim: Claim, metrics: pl.DataFrame, **changes: Any) -> ClaimVerdict:
    """The verdict on one claim, through the judge."""
    options: dict[str, Any] = {"seeds": 8, "scale": "laptop", "ledger": (), **changes}
    paper = make_paper(claim, seeds=options["seeds"])
    wanted = options.get("wanted")
    verdicts, _ = judge("p", paper, metrics, options["scale"], wanted, options["ledger"])
    return verdicts.claims[0]


def make_provenance(key: RunKey, directory: Path) -> Provenance:
    """Of a run that has left the files of a directory."""
    return Provenance(
        key=key,
        outcome=Outcome(status="finished", step=1, detail=""),
        git_commit=None,
        git_dirty_sha256=None,
        code_sha256="c" * 64,
        settings_sha256="e" * 64,
        data_sha256=None,
        needs_sha256={},
        versions={},
        machine=Machine(
            cpu="a CPU", cores=1, memory_gib=1.0, platform="Linux", gpu=None, gpu_driver=None
        ),
        device="cpu",
        threads=1,
        flags={},
        started=datetime(2025, 1, 2, tzinfo=UTC),
        wall_seconds=1.0,
        processor_seconds=1.0,
        startup_seconds=1.0,
        peak_memory_mib=1.0,
        peak_gpu_memory_mib=None,
        energy=Energy(joules=None, source="not measured: no counter"),
        files={file.name: sha256_of(file) for file in directory.glob("*") if file.is_file()},
    )
