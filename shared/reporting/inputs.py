"""Everything that a page shows, read from disk and checked against paper.yaml."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from shared.records.base import RecordError, read_record
from shared.records.catalog import paper_file
from shared.records.claim import Claim
from shared.records.experiment import RunKey, RunSettings, Scale, resolve
from shared.records.metrics import read_metrics
from shared.records.paper import Paper, read_paper
from shared.records.results import metrics_file, planned_runs, verdicts_file
from shared.records.run import Provenance
from shared.records.verdict import ClaimVerdict, PaperVerdicts

if TYPE_CHECKING:
    from shared.reporting.figures import Figure
    from shared.reporting.pictures import Pictures

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Run:
    """One planned run. `settings` and `provenance` are None where the run left no files."""

    key: RunKey
    settings: RunSettings | None
    provenance: Provenance | None
    log: tuple[str, ...]

    @property
    def outcome(self) -> str:
        """`finished`, `diverged` or `missing`."""
        return self.provenance.outcome.status if self.provenance else "missing"


@dataclass(frozen=True)
class Judged:
    """A claim and what the judge said."""

    claim: Claim
    verdict: ClaimVerdict


@dataclass(frozen=True)
class Inputs:
    """The inputs of one page."""

    name: str
    scale: Scale
    paper: Paper
    metrics: pl.DataFrame
    judged: tuple[Judged, ...]
    runs: tuple[Run, ...]

    def outcomes(self, experiment: str) -> list[str]:
        """The outcome of each planned run of an experiment."""
        return [run.outcome for run in self.runs if run.key.experiment == experiment]

    def settings(self, experiment: str, arm: str) -> RunSettings:
        """What the runs of an arm recorded; what paper.yaml says where none has finished."""
        for run in self.runs:
            if (run.key.experiment, run.key.arm) == (experiment, arm) and run.settings:
                return run.settings
        key = RunKey(scale=self.scale, paper=self.name, experiment=experiment, arm=arm, seed=0)
        return resolve(self.paper.experiments, key)


def read_inputs(name: str, scale: Scale, seeds: int | None = None) -> Inputs:
    """Reads all inputs of the page of a paper.

    Args:
        seeds: wanted number of judged seeds; it can only add to those of paper.yaml.

    Raises:
        RecordError: a file is missing, broken or older than paper.yaml.
    """
    paper = read_paper(name)
    table = metrics_file(name, scale)
    if not table.is_file():
        raise RecordError(
            f"{table}: no such file. Make it: python -m shared.claims collect {name} "
            f"--scale {scale}"
        )
    return Inputs(
        name=name,
        scale=scale,
        paper=paper,
        metrics=read_metrics(table),
        judged=read_judged(name, paper, scale),
        runs=tuple(_read_run(key) for key in planned_runs(name, paper.experiments, scale, seeds)),
    )


def read_judged(name: str, paper: Paper, scale: Scale) -> tuple[Judged, ...]:
    """The claims of a paper with their verdicts, in the order of paper.yaml.

    Raises:
        RecordError: no verdicts, or they are of other claims than those of paper.yaml.
    """
    path = verdicts_file(name, scale)
    remedy = f"Make it: python -m shared.claims judge {name} --scale {scale}"
    if not path.is_file():
        raise RecordError(f"{path}: no such file. {remedy}")
    return pair(paper, read_record(path, PaperVerdicts), path, remedy)


def pair(paper: Paper, verdicts: PaperVerdicts, path: Path, remedy: str) -> tuple[Judged, ...]:
    """Each claim with its verdict.

    Raises:
        RecordError: the two files name other claims.
    """
    by_id = {verdict.id: verdict for verdict in verdicts.claims}
    expected = [claim.id for claim in paper.claims]
    if set(by_id) != set(expected):
        raise RecordError(
            f"{path}: got verdicts of {', '.join(by_id) or '(none)'}, expected those of the claims "
            f"of paper.yaml: {', '.join(expected)}. {remedy}"
        )
    return tuple(Judged(claim, by_id[claim.id]) for claim in paper.claims)


def load_figures(name: str, metrics: pl.DataFrame, scale: Scale) -> list[Figure | Pictures]:
    """Draws the figures of a paper: calls `figures(metrics, scale)` of papers/NAME/figures.py.

    Raises:
        RecordError: there is no such module or function, or it does not return figures.
    """
    from shared.reporting.figures import Figure
    from shared.reporting.pictures import Pictures

    file = paper_file(name).with_name("figures.py")
    module_name = f"papers.{name}.figures"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        raise RecordError(
            f"{file}: no such file. Write `figures(metrics, scale) -> list[Figure]` in it."
        ) from None
    if not hasattr(module, "figures"):
        raise RecordError(f"{file}: expected a function `figures(metrics, scale) -> list[Figure]`")
    try:
        drawn = module.figures(metrics, scale)
    except ValueError as error:
        raise RecordError(f"{file}: {error}") from error
    if not isinstance(drawn, list) or not all(
        isinstance(item, (Figure, Pictures)) for item in drawn
    ):
        raise RecordError(f"{file}: figures() returned {drawn!r:.80}, expected a list of Figure")
    return drawn


def log_lines(text: str) -> tuple[str, ...]:
    """The lines of a log as a terminal would show them in the end.

    Example:
        >>> log_lines("1 of 2\\r2 of 2\\n\\x1b[1mdone\\x1b[0m\\n")
        ('2 of 2', 'done')
    """
    lines: Sequence[str] = _ANSI.sub("", text).replace("\r\n", "\n").split("\n")
    return tuple(line.rstrip("\r").rpartition("\r")[2] for line in lines if line.strip())


def _read_run(key: RunKey) -> Run:
    directory = key.directory()
    provenance = directory / "provenance.json"
    settings = directory / "settings.json"
    log = directory / "run.log"
    return Run(
        key=key,
        settings=read_record(settings, RunSettings) if settings.is_file() else None,
        provenance=read_record(provenance, Provenance) if provenance.is_file() else None,
        log=log_lines(log.read_text(encoding="utf-8", errors="replace")) if log.is_file() else (),
    )
