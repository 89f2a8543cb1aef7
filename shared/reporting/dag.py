"""The steps from the raw data to this page, drawn from the records."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup, escape

from shared.records.experiment import resolve
from shared.reporting.inputs import Inputs
from shared.reporting.numbers import count

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 158, 54, 34, 14, 4
CHARACTERS = 25


@dataclass(frozen=True)
class Node:
    """A box: its column, its two lines, and the names of the boxes that it reads."""

    name: str
    column: int
    title: str
    detail: str
    reads: tuple[str, ...] = ()


COLUMNS = ("data set", "prepare", "runs", "collect", "judge", "page")


def nodes(inputs: Inputs) -> list[Node]:
    """All boxes, column by column."""
    read_by = _datasets(inputs)
    datasets = list(dict.fromkeys(name for name in read_by.values() if name))
    experiments = [
        Node(
            f"runs:{name}",
            2,
            name,
            _outcomes(inputs, name),
            (
                *([f"prepared:{read_by[name]}"] if read_by[name] else []),
                *(f"runs:{ref.experiment}" for ref in experiment.needs.values()),
            ),
        )
        for name, experiment in inputs.paper.experiments.items()
        if experiment.arms_at(inputs.scale)
    ]
    judged = sum(item.verdict.verdict != "not_run" for item in inputs.judged)
    return [
        *(Node(f"raw:{name}", 0, name, "raw bytes, sha256 checked") for name in datasets),
        *(
            Node(f"prepared:{name}", 1, name, "arrays and manifest", (f"raw:{name}",))
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
        f"{''.join(edges)}{''.join(labels)}{''.join(drawn)}</svg>"
    )


def _datasets(inputs: Inputs) -> dict[str, str | None]:
    """The data set that each experiment of this scale reads."""
    keys = {run.key.experiment: run.key for run in reversed(inputs.runs)}
    return {name: resolve(inputs.paper.experiments, key).dataset for name, key in keys.items()}


def _outcomes(inputs: Inputs, experiment: str) -> str:
    outcomes = [run.outcome for run in inputs.runs if run.key.experiment == experiment]
    bad = [
        f"{outcomes.count(name)} {name}"
        for name in ("diverged", "missing")
        if outcomes.count(name)
    ]
    return ", ".join([count(len(outcomes), "run"), *bad])


def _box(box: Node, x: float, y: float) -> str:
    return (
        f'<g transform="translate({x:g} {y:g})"><title>{escape(box.title)}: {escape(box.detail)}'
        f'</title><rect width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8"/>'
        f'<text class="d-title" x="12" y="23">{escape(_short(box.title))}</text>'
        f'<text class="d-detail" x="12" y="41">{escape(_short(box.detail, 27))}</text></g>'
    )


def _short(text: str, most: int = CHARACTERS - 5) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _edge(source: tuple[float, float], target: tuple[float, float]) -> str:
    x0, y0 = source[0] + BOX_WIDTH, source[1] + BOX_HEIGHT / 2
    x1, y1 = target[0], target[1] + BOX_HEIGHT / 2
    if source[0] == target[0]:
        # An artefact: the arrow leaves and enters the column on its left side.
        x0 = source[0]
        bend = x0 - GAP_X * 0.7
        return f'<path d="M{x0:g} {y0:g}C{bend:g} {y0:g} {bend:g} {y1:g} {x1:g} {y1:g}"/>'
    half = (x1 - x0) / 2
    return f'<path d="M{x0:g} {y0:g}C{x0 + half:g} {y0:g} {x1 - half:g} {y1:g} {x1:g} {y1:g}"/>'
