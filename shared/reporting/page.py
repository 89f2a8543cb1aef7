"""The page of a paper: reports/PAPER.html, one file that opens without a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from shared.records.base import RecordError, write_text
from shared.records.experiment import Scale
from shared.records.paper import Paper
from shared.reporting import vega
from shared.reporting.answer import VERDICTS, WORDS, answer, counts, evidence
from shared.reporting.claims import claim_views
from shared.reporting.cost import cost_rows, energy_notes
from shared.reporting.dag import COLUMNS, drawing, nodes
from shared.reporting.figures import Figure
from shared.reporting.inputs import Inputs, load_figures, read_inputs
from shared.reporting.numbers import count
from shared.reporting.overridden import config_argument, overrides
from shared.reporting.pictures import Pictures
from shared.reporting.runs import run_groups
from shared.reporting.scaled import SCALE_NAMES, scaled_down, stamp
from shared.reporting.templates import Script, render

REPORTS = Path("reports")
MAX_BYTES = 6_000_000


@dataclass(frozen=True)
class FigureView:
    """A figure as the template shows it: `spec` becomes the live chart, `still` the picture.

    Of pictures that runs saved, there is only `pictures`.
    """

    figure: Figure | None = None
    spec: dict[str, Any] | None = None
    still: Markup | None = None
    pictures: Pictures | None = None


@dataclass(frozen=True)
class Commit:
    """A commit, and how many of its runs had uncommitted changes."""

    name: str
    sha: str | None
    runs: str
    dirty: int


def write_page(name: str, scale: Scale, seeds: int | None = None) -> Path:
    """Renders the page of a paper and returns its path.

    Raises:
        RecordError: an input is missing or broken, or the page is too large.
    """
    inputs = read_inputs(name, scale, seeds)
    figures = load_figures(name, inputs.metrics, scale)
    text = render_page(inputs, figures)
    path = REPORTS / f"{name}.html"
    size = len(text.encode())
    if size > MAX_BYTES:
        raise RecordError(
            f"{path}: got {size:,} bytes, expected at most {MAX_BYTES:,}. Give the figures fewer "
            f"points or pictures in papers/{name}/figures.py."
        )
    write_text(path, text)
    return path


def render_page(inputs: Inputs, figures: Sequence[Figure | Pictures]) -> str:
    """The HTML of a page."""
    paper, judged = inputs.paper, inputs.judged
    groups, shared_provenance = run_groups(inputs)
    boxes = nodes(inputs)
    commits = _commits(inputs)
    changed = overrides(inputs)
    return render(
        "page.html",
        scripts=[Script.of(vega.bundle()), Script.read("page.js")],
        name=inputs.name,
        scale=inputs.scale,
        scale_name=SCALE_NAMES[inputs.scale],
        stamp=stamp(paper, inputs.scale),
        paper=paper,
        answer=answer(paper, judged, inputs.scale),
        evidence={item.claim.id: evidence(item.verdict) for item in judged},
        verdicts=VERDICTS,
        words=WORDS,
        counts=counts(judged),
        claims=claim_views(inputs),
        figures=[_figure_view(figure, index) for index, figure in enumerate(figures, 1)],
        scaled=scaled_down(inputs) if inputs.scale != "full" else [],
        groups=groups,
        shared_provenance=shared_provenance,
        outcomes=Counter(run.outcome for run in inputs.runs),
        boxes=boxes,
        columns=COLUMNS,
        drawing=drawing(boxes),
        costs=cost_rows(inputs),
        energy_notes=energy_notes(inputs),
        overrides=changed,
        config=_config(inputs.scale, config_argument(changed)),
        commits=commits,
        checkout=next((commit.sha for commit in commits if commit.sha), None),
        more_seeds=_more_seeds(inputs),
        bibtex=bibtex(inputs.name, paper),
    )


def bibtex(name: str, paper: Paper) -> str:
    """The entry of the paper, from paper.yaml."""
    return (
        f"@misc{{{name}{paper.year},\n"
        f"  title = {{{paper.title}}},\n"
        f"  author = {{{' and '.join(paper.authors)}}},\n"
        f"  year = {{{paper.year}}},\n"
        f"  note = {{{paper.venue}}},\n"
        f"  eprint = {{{paper.arxiv}}},\n"
        f"  archivePrefix = {{arXiv}}\n}}"
    )


def _figure_view(figure: Figure | Pictures, index: int) -> FigureView:
    if isinstance(figure, Pictures):
        return FigureView(pictures=figure)
    try:
        content = vega.spec(figure.chart)
        still = vega.svg(content, f"figure-{index}")
    except ValueError as error:
        raise RecordError(f"figure {figure.title!r}: {error}") from error
    return FigureView(figure, content, Markup(still))


def _config(scale: Scale, overrides: str) -> list[str]:
    """The words after `--config` that make this page again."""
    return [*([] if scale == "laptop" else [f"scale={scale}"]), *([overrides] if overrides else [])]


def _commits(inputs: Inputs) -> list[Commit]:
    """The commits at which runs were computed, the one with most runs first."""
    made = [run.provenance for run in inputs.runs if run.provenance]
    found = Counter(item.git_commit for item in made)
    dirty = Counter(item.git_commit for item in made if item.git_dirty_sha256)
    return [
        Commit(f"commit {sha[:12]}" if sha else "no git checkout", sha, count(n, "run"), dirty[sha])
        for sha, n in found.most_common()
    ]


def _more_seeds(inputs: Inputs) -> int:
    """The seeds that would decide every undecided claim; twice the present ones if none is open."""
    wanted = [item.verdict.seeds_to_decide or 0 for item in inputs.judged]
    present = [1 + run.key.seed for run in inputs.runs]
    return max(wanted, default=0) or 2 * max(present, default=1)
