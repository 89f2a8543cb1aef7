"""Pictures that runs saved during training, side by side, with a slider over the steps.

def figures(metrics: pl.DataFrame, scale: str) -> list[Figure | Pictures]:
    shown = pictures(
        "gan", scale, experiment="train", arms={"sn": "spectral norm"}, seeds=(0, 1, 2),
        title="Samples", caption="The same noise in every picture.",
    )
    return [shown] if shown else []
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from shared.records.experiment import RunKey, Scale


@dataclass(frozen=True)
class Cell:
    """The pictures of one run, one for each step of the slider; None where it saved none."""

    name: str
    sources: tuple[str | None, ...]


@dataclass(frozen=True)
class Pictures:
    """A table of pictures: one row an arm, one column a seed.

    Attributes:
        steps: what the slider moves over; the page opens at the last one.
        columns: headings, e.g. `seed 0`.
        rows: label of an arm -> its cells.
        real: a picture to compare with, the same for all.
        legend: what the real picture shows.
    """

    title: str
    caption: str
    steps: tuple[int, ...]
    columns: tuple[str, ...]
    rows: dict[str, tuple[Cell, ...]]
    real: str | None
    legend: str

    def _repr_html_(self) -> str:
        """What a notebook shows: the last step."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ("", *self.columns))
        body = ""
        for label, cells in self.rows.items():
            shown = "".join(f"<td>{_image(cell.sources[-1], cell.name)}</td>" for cell in cells)
            body += f"<tr><th>{html.escape(label)}</th>{shown}</tr>"
        if self.real:
            real = _image(self.real, self.legend)
            body += f"<tr><th>{html.escape(self.legend)}</th><td>{real}</td></tr>"
        return f"<table><tr>{head}</tr>{body}</table>"


def pictures(
    paper: str,
    scale: str,
    *,
    experiment: str,
    arms: Mapping[str, str],
    seeds: Sequence[int],
    title: str,
    caption: str,
    prefix: str = "samples",
    real: str = "real",
    legend: str = "real images",
) -> Pictures | None:
    """The pictures images/PREFIX-STEP.png of runs; None where no run saved one.

    Args:
        arms: arm -> its label on the page.
        seeds: one column each, where any of the arms has a picture.
        prefix: of the pictures' names, before the step.
        real: name of the picture that is shown beside, without `.png`.

    A run that diverged has no pictures of later steps, and the page says so in its place.
    """
    folders = {
        (arm, seed): RunKey(
            scale=cast("Scale", scale), paper=paper, experiment=experiment, arm=arm, seed=seed
        ).directory()
        / "images"
        for arm in arms
        for seed in seeds
    }
    saved = {place: _by_step(folder, prefix) for place, folder in folders.items()}
    steps = tuple(sorted({step for files in saved.values() for step in files}))
    if not steps:
        return None
    seeds = [seed for seed in seeds if any(saved[arm, seed] for arm in arms)]
    rows = {
        label: tuple(
            Cell(
                f"{label}, seed {seed}",
                tuple(_source(saved[arm, seed].get(step)) for step in steps),
            )
            for seed in seeds
        )
        for arm, label in arms.items()
        if any(saved[arm, seed] for seed in seeds)
    }
    found = (folder / f"{real}.png" for folder in folders.values())
    return Pictures(
        title=title,
        caption=caption,
        steps=steps,
        columns=tuple(f"seed {seed}" for seed in seeds),
        rows=rows,
        real=_source(next((file for file in found if file.is_file()), None)),
        legend=legend,
    )


def _by_step(folder: Path, prefix: str) -> dict[int, Path]:
    pattern = re.compile(rf"{re.escape(prefix)}-(\d+)\.png")
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    matches = [(pattern.fullmatch(file.name), file) for file in files]
    return {int(match[1]): file for match, file in matches if match}


def _source(file: Path | None) -> str | None:
    """The picture as a data URI: a page loads no file."""
    if file is None:
        return None
    return f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"


def _image(source: str | None, name: str) -> str:
    if source is None:
        return "no picture"
    return f'<img src="{source}" alt="{html.escape(name)}">'
