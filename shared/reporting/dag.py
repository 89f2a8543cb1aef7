"""The steps from the raw data to this page, drawn from the records."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup, escape

from shared.records.derived import DERIVED
from shared.reporting.inputs import Inputs
from shared.reporting.numbers import count

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 160, 64, 36, 12, 4
MOST_CHARACTERS = 20


@dataclass(frozen=True)
class Node:
    """A box: its column, its lines, and the names of the boxes that it reads."""

    name: str
    column: int
    title: str
    detail: str
    reads: tuple[str, ...] = ()
    warning: str = ""


_ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="d-arrow" d="M0 .5L8 4L0 7.5z"/></marker></defs>'
)
COLUMNS = ("data set", "prepare", "runs", "collect", "judge", "page")


def nodes(inputs: Inputs) -> list[Node]:
    """All boxes, column by column."""
    read_by = _datasets(inputs)
    datasets = list(dict.fromkeys(name for name in read_by.values() if name))
    sources = list(dict.fromkeys(DERIVED.get(name, name) for name in datasets))
    experiments = [
        Node(
            f"runs:{name}",
            2,
            name,
            count(len(inputs.outcomes(name)), "run"),
            (
                *([f"prepared:{read_by[name]}"] if read_by[name] else []),
                *(f"runs:{ref.experiment}" for ref in experiment.needs.values()),
            ),
            _bad(inputs.outcomes(name)),
        )
        for name, experiment in inputs.paper.experiments.items()
        if experiment.arms_at(inputs.scale)
    ]
    judged = sum(item.verdict.verdict != "not_run" for item in inputs.judged)
    return [
        *(Node(f"raw:{name}", 0, name, "raw bytes, verified") for name in sources),
        *(
            Node(f"prepared:{name}", 1, name, _made(name), (f"raw:{DERIVED.get(name, name)}",))
            for name in datasets
        ),
        *experiments,
        Node(
            "collect",
            3,
            "metrics table",
            count(inputs.metrics.height, "row"),
            tuple(node.name for node in experiments),
        ),
        Node("judge", 4, "verdicts", f"{judged} of {len(inputs.judged)} judged", ("collect",)),
        Node("page", 5, "this page", f"{inputs.name}.html", ("collect", "judge")),
    ]


def drawing(boxes: list[Node]) -> Markup:
    """The boxes as inline SVG, left to right; the template gives the same as a list."""
    columns = [[box for box in boxes if box.column == index] for index in range(len(COLUMNS))]
    used = [(COLUMNS[i], column) for i, column in enumerate(columns) if column]
    tallest = max(len(column) for _, column in used)
    height = 24 + tallest * (BOX_HEIGHT + GAP_Y) + MARGIN
    width = len(used) * (BOX_WIDTH + GAP_X) - GAP_X + 2 * MARGIN
    places: dict[str, tuple[float, float]] = {}
    labels = []
    for index, (label, column) in enumerate(used):
        x = MARGIN + index * (BOX_WIDTH + GAP_X)
        labels.append(f'<text class="d-column" x="{x}" y="12">{escape(label)}</text>')
        top = 24 + (tallest - len(column)) * (BOX_HEIGHT + GAP_Y) / 2
        for row, box in enumerate(column):
            places[box.name] = (x, top + row * (BOX_HEIGHT + GAP_Y))
    edges = [
        _edge(places[source], places[box.name])
        for box in boxes
        for source in box.reads
        if source in places
    ]
    drawn = [_box(box, *places[box.name]) for box in boxes]
    return Markup(
        f'<svg class="dag" viewBox="0 0 {width:g} {height:g}" aria-hidden="true">'
        f"{_ARROW}{''.join(edges)}{''.join(labels)}{''.join(drawn)}</svg>"
    )


def _datasets(inputs: Inputs) -> dict[str, str | None]:
    """The data set that each experiment of this scale reads."""
    arms = {run.key.experiment: run.key.arm for run in reversed(inputs.runs)}
    return {name: inputs.settings(name, arm).dataset for name, arm in arms.items()}


def _made(dataset: str) -> str:
    return f"made of {DERIVED[dataset]}" if dataset in DERIVED else "arrays and manifest"


def _bad(outcomes: list[str]) -> str:
    found = [(outcomes.count(name), name) for name in ("diverged", "missing")]
    return ", ".join(f"{number} {name}" for number, name in found if number)


def _box(box: Node, x: float, y: float) -> str:
    first = 22 if box.warning else 29
    return (
        f'<g transform="translate({x:g} {y:g})"><title>{escape(box.title)}: {escape(box.detail)}'
        f'</title><rect width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8"/>'
        f'<text class="d-title" x="12" y="{first}">{escape(_short(box.title))}</text>'
        f'<text class="d-detail" x="12" y="{first + 17}">{escape(_short(box.detail))}</text>'
        f'<text class="d-warning" x="12" y="55">{escape(box.warning)}</text></g>'
    )


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


def _edge(source: tuple[float, float], target: tuple[float, float]) -> str:
    x0, y0 = source[0] + BOX_WIDTH, source[1] + BOX_HEIGHT / 2
    x1, y1 = target[0], target[1] + BOX_HEIGHT / 2
    bend = (x0 + x1) / 2
    if source[0] == target[0]:
        # An artefact: the arrow leaves and enters the column on its left side.
        x0 = source[0]
        bend = x0 - GAP_X * 0.7
    path = f"M{x0:g} {y0:g}C{bend:g} {y0:g} {bend:g} {y1:g} {x1:g} {y1:g}"
    return f'<path class="d-edge" marker-end="url(#arrow)" d="{path}"/>'
