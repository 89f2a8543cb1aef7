"""reports/index.html: all papers with their verdicts, and how to run those without."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shared.records.base import write_text
from shared.records.catalog import paper_names
from shared.records.experiment import Scale
from shared.records.paper import Paper, read_paper
from shared.records.verdict import Verdict
from shared.reporting.answer import VERDICTS, WORDS, Answer, answer, counts
from shared.reporting.inputs import read_judged, verdicts_file
from shared.reporting.scaled import SCALE_NAMES
from shared.reporting.templates import render

INDEX = Path("reports/index.html")


@dataclass(frozen=True)
class PaperRow:
    """One paper. `answer` and `counts` are None where there are no verdicts at this scale."""

    name: str
    paper: Paper
    answer: Answer | None
    counts: dict[Verdict, int] | None
    command: str


def write_index(scale: Scale) -> Path:
    """Renders the index of all papers and returns its path.

    Raises:
        RecordError: a paper.yaml or a file of verdicts is broken.
    """
    papers = [paper_row(name, scale) for name in paper_names()]
    tallies = [row.counts for row in papers if row.counts]
    text = render(
        "index.html",
        scale_name=SCALE_NAMES[scale],
        papers=papers,
        judged=len(tallies),
        total={verdict: sum(tally[verdict] for tally in tallies) for verdict in VERDICTS},
        words=WORDS,
    )
    write_text(INDEX, text)
    return INDEX


def paper_row(name: str, scale: Scale) -> PaperRow:
    """A paper with the verdicts that it has at a scale."""
    paper = read_paper(name)
    command = f"snakemake reports/{name}.html"
    if scale != "laptop":
        command += f" --config scale={scale}"
    if not verdicts_file(name, scale).is_file():
        return PaperRow(name, paper, None, None, command)
    judged = read_judged(name, paper, scale)
    return PaperRow(name, paper, answer(paper, judged, scale), counts(judged), command)
