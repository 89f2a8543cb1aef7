"""The table of verdicts in README.md and a list of claims for each paper.

Both are made from the snapshots of verdicts that are kept in git.
"""

from __future__ import annotations

from pathlib import Path

from shared.records.base import RecordError, read_record, write_json, write_text
from shared.records.catalog import paper_names
from shared.records.experiment import Scale
from shared.records.paper import Paper, read_paper
from shared.records.results import verdicts_file
from shared.records.verdict import PaperVerdicts
from shared.reporting.answer import WORDS, answer, counts, evidence
from shared.reporting.inputs import Judged, pair
from shared.reporting.scaled import SCALE_NAMES, stamp

README = Path("README.md")
SNAPSHOTS = Path("docs/verdicts")
BEGIN, END = "<!-- verdicts:begin -->", "<!-- verdicts:end -->"
ICONS = {"reproduced": "✅", "not_reproduced": "❌", "inconclusive": "🔶", "not_run": "⬜"}


def write_readme(scale: Scale, snapshot: bool = False) -> Path:
    """Rewrites the table between the markers of README.md, and the lists of claims.

    Args:
        snapshot: first copy the verdicts of results/ to docs/verdicts/.

    Raises:
        RecordError: no markers, no snapshot, or a snapshot of other claims than paper.yaml has.
    """
    if snapshot:
        take_snapshot(scale)
    text = README.read_text(encoding="utf-8") if README.is_file() else ""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise RecordError(
            f"{README}: expected one line `{BEGIN}` and after it one line `{END}`. Add them where "
            "the table belongs."
        )
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    write_text(README, f"{before}{BEGIN}\n{table(scale)}{END}{after}")
    for path, content in claim_lists(scale).items():
        write_text(path, content)
    return README


def take_snapshot(scale: Scale) -> None:
    """Copies every file of verdicts of a scale to docs/verdicts/.

    Raises:
        RecordError: there are none.
    """
    names = [name for name in paper_names() if verdicts_file(name, scale).is_file()]
    if not names:
        raise RecordError(
            f"{verdicts_file('PAPER', scale)}: got no verdicts of any paper at {scale} scale. "
            "Run snakemake first."
        )
    for name in names:
        write_json(_snapshot(name, scale), read_record(verdicts_file(name, scale), PaperVerdicts))


def table(scale: Scale) -> str:
    """The Markdown between the markers: one row a paper."""
    if not any(_snapshot(name, scale).is_file() for name in paper_names()):
        raise RecordError(
            f"{SNAPSHOTS / scale}: no snapshot of verdicts. Make it: "
            f"python -m shared.reporting readme --scale {scale} --snapshot"
        )
    rows = [
        f"Verdicts at {SCALE_NAMES[scale]}, computed by `snakemake` and copied here by "
        f"`python -m shared.reporting readme --scale {scale} --snapshot`.",
        "",
        "`snakemake reports/NAME.html` makes the page of a paper. Exact claims (identities and "
        "strict bounds, to rounding) are counted apart.",
        "",
        f"| paper | does the main claim hold? | {' | '.join(WORDS.values())} | exact claims |",
        "|---|---|" + "---:|" * (len(WORDS) + 1),
    ]
    for name in paper_names():
        paper = read_paper(name)
        if not _snapshot(name, scale).is_file():
            title = f"`{name}`: {_cell(paper.title)} ({_arxiv(paper)})"
            rows.append(f"| {title} | not run yet |" + " |" * (len(WORDS) + 1))
            continue
        judged = _judged(name, paper, scale)
        said = answer(paper, judged, scale)
        exact = [i for i in judged if i.claim.kind == "exact" and i.verdict.verdict != "not_run"]
        hold = f"{counts(exact)['reproduced']} of {len(exact)} hold" if exact else ""
        rest = counts([item for item in judged if item not in exact])
        tally = " | ".join(map(str, rest.values()))
        title = f"[`{name}`]({_claim_list(name, scale)}): {_cell(paper.title)} ({_arxiv(paper)})"
        rows.append(f"| {title} | **{said.headline}** {_cell(said.sentence)} | {tally} | {hold} |")
    return "\n".join(rows) + "\n\n"


def claim_lists(scale: Scale) -> dict[Path, str]:
    """A Markdown file for each paper with a snapshot: its claims and their verdicts."""
    return {
        _claim_list(name, scale): _claims(name, read_paper(name), scale)
        for name in paper_names()
        if _snapshot(name, scale).is_file()
    }


def _claims(name: str, paper: Paper, scale: Scale) -> str:
    judged = _judged(name, paper, scale)
    said = answer(paper, judged, scale)
    rows = []
    for item in judged:
        verdict = item.verdict
        word = f"{ICONS[verdict.verdict]} {WORDS[verdict.verdict]}"
        here = ". ".join([evidence(verdict) or verdict.reason, *verdict.warnings])
        rows.append(f"| {item.claim.id} | {_cell(item.claim.statement)} | {word} | {_cell(here)} |")
    head = [
        f"# {_cell(paper.title)}",
        "",
        f"{_cell(', '.join(paper.authors))}, {_arxiv(paper)}. Written by "
        f"`python -m shared.reporting readme`; `snakemake reports/{name}.html` makes the page.",
        "",
        f"**{said.headline}** {_cell(said.sentence)}",
        "",
        _cell(stamp(paper, scale)),
        "",
        "| id | claim | verdict | here |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def _judged(name: str, paper: Paper, scale: Scale) -> tuple[Judged, ...]:
    path = _snapshot(name, scale)
    remedy = f"Make it anew: python -m shared.reporting readme --scale {scale} --snapshot"
    return pair(paper, read_record(path, PaperVerdicts), path, remedy)


def _snapshot(name: str, scale: Scale) -> Path:
    return SNAPSHOTS / scale / f"{name}.json"


def _claim_list(name: str, scale: Scale) -> Path:
    return SNAPSHOTS / scale / f"{name}.md"


def _arxiv(paper: Paper) -> str:
    return f"[arXiv {paper.arxiv}](https://arxiv.org/abs/{paper.arxiv})"


def _cell(text: str) -> str:
    """Text that neither ends a cell nor becomes HTML."""
    words = " ".join(text.split())
    return words.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
