"""What the charts share: the rows of one metric, each method's colour and mark, and the scales."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

MAX_STEPS = 200
"""Points of one line. A longer log is thinned evenly, and the figure says so."""

SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "triangle-right",
    "triangle-left",
)
CROSS = "M-1,-1L1,1M-1,1L1,-1"
HEIGHT = 300
NOTE_WIDTH = 42
"""Characters of a line of a note: what fits on a narrow screen."""


@dataclass(frozen=True)
class Series:
    """The rows of one metric with a column `method`, and the runs that diverged.

    Attributes:
        rows: finite values, those of a diverged run before it diverged included.
        diverged: one row a diverged run: method, arm, seed, step.
        started: one row a run, diverged or not.
        note: what the figure must say of values that it does not draw.
    """

    rows: pl.DataFrame
    diverged: pl.DataFrame
    started: pl.DataFrame
    arms: Mapping[str, str]
    methods: tuple[str, ...]
    unit: str
    title: str
    note: str

    def last(self) -> pl.DataFrame:
        """The last value of every run that did not diverge: method, arm, seed, step, value."""
        finished = self.rows.join(self.diverged, on=["arm", "seed"], how="anti").sort("step")
        by = ["method", "arm", "seed"]
        return finished.group_by(by).last().select(*by, "step", "value").sort(by)

    def thinned(self) -> tuple[pl.DataFrame, str]:
        """At most `MAX_STEPS` steps per arm, evenly, always with the last one; and a note."""
        most = self.rows.group_by("arm").agg(count=pl.col("step").n_unique())["count"].max()
        every = math.ceil(int(most) / MAX_STEPS) if isinstance(most, int) else 1
        if every <= 1:
            return self.rows, ""
        rank = pl.col("step").rank("dense", descending=True).over("arm") - 1
        return self.rows.filter(rank % every == 0), f"Every {every}th logged step is drawn. "

    def diverged_by_method(self) -> list[tuple[str, pl.DataFrame]]:
        """In the order of the methods; only those of which a run diverged."""
        parts = ((m, self.diverged.filter(pl.col("method") == m)) for m in self.methods)
        return [(method, part) for method, part in parts if part.height]

    def runs(self, method: str) -> int:
        """The runs of a method that were started."""
        return self.started.filter(pl.col("method") == method).height

    def label(self, arm: str) -> str:
        """The method of an arm, or the arm itself where a method has several arms."""
        method = self.arms[arm]
        return method if list(self.arms.values()).count(method) == 1 else arm

    def color(self, legend: bool = True) -> alt.Color:
        """Each method's colour: the scale has no range, the page gives the palette of its theme."""
        return alt.Color(
            "method:N",
            title=None,
            scale=alt.Scale(domain=list(self.methods)),
            legend=self._legend() if legend else None,
        )

    def shape(self, legend: bool = True) -> alt.Shape:
        """Each method's mark, so that a figure can be read without colours."""
        count = len(SHAPES)
        marks = [SHAPES[(i + i // count) % count] for i in range(len(self.methods))]
        return alt.Shape(
            "method:N",
            title=None,
            scale=alt.Scale(domain=list(self.methods), range=marks),
            legend=self._legend() if legend else None,
        )

    def dash(self) -> alt.StrokeDash:
        """Colours repeat after eight methods; dashes keep the repeated ones apart."""
        dashes = [[1, 0] if i < len(SHAPES) else [6, 4] for i in range(len(self.methods))]
        return alt.StrokeDash(
            "method:N",
            title=None,
            scale=alt.Scale(domain=list(self.methods), range=dashes),
            legend=self._legend(),
        )

    def scale(self, log: bool) -> alt.Scale:
        """The scale of the metric, with room at the edge for the crosses of diverged runs.

        Raises:
            ValueError: a logarithmic axis for values that are not above 0.
        """
        if log and (self.rows["value"] <= 0).any():
            raise ValueError(f"{self.title}: a logarithmic axis needs values above 0")
        return scale(log, padding=12 + 14 * len(self.diverged_by_method()))

    def y(self, column: str, log: bool) -> alt.Y:
        """A vertical axis of the metric, its title written level above it."""
        axis = alt.Axis(titleAngle=0, titleAlign="left", titleAnchor="end", titleX=0, titleY=-12)
        return alt.Y(f"{column}:Q", title=self.title, scale=self.scale(log), axis=axis)

    def _legend(self) -> alt.Legend:
        present = set(self.rows["method"]) | set(self.diverged["method"])
        return alt.Legend(values=[method for method in self.methods if method in present])


def read_series(
    metrics: pl.DataFrame,
    experiment: str,
    metric: str,
    split: str,
    arms: Mapping[str, str],
    methods: Sequence[str],
) -> Series:
    """Selects the rows of one metric.

    Raises:
        ValueError: no such rows, or an arm or method that does not exist.
    """
    if unknown := set(arms.values()) - set(methods):
        raise ValueError(
            f"got methods {sorted(unknown)}, expected of {list(methods)}. Add them to `methods`."
        )
    if len(methods) > 2 * len(SHAPES):
        raise ValueError(f"got {len(methods)} methods, expected at most {2 * len(SHAPES)}")
    of_experiment = metrics.filter(pl.col("experiment") == experiment)
    present = set(of_experiment["arm"])
    if unknown := set(arms) - present:
        raise ValueError(
            f"experiment {experiment!r}: got arms {sorted(unknown)}, expected of {sorted(present)}"
        )
    shown = of_experiment.filter(pl.col("arm").is_in(list(arms))).with_columns(
        method=pl.col("arm").replace_strict(dict(arms), return_dtype=pl.String)
    )
    started = shown.filter(pl.col("metric") == "diverged")
    diverged = started.filter(pl.col("value") > 0)
    found = shown.filter((pl.col("metric") == metric) & (pl.col("split") == split))
    if found.is_empty() and diverged.is_empty():
        known = of_experiment.select("metric", "split").unique().sort("metric", "split").rows()
        raise ValueError(
            f"experiment {experiment!r}: no rows of metric {metric!r} with split {split!r}; "
            f"there are {known}"
        )
    rows = found.filter(pl.col("value").is_finite())
    lost = found.height - rows.height
    unit = rows["unit"][0] if rows.height else ""
    return Series(
        rows=rows,
        diverged=diverged.select("method", "arm", "seed", "step"),
        started=started,
        arms=arms,
        methods=tuple(methods),
        unit=unit,
        title=axis_title(metric, unit),
        note=f"{lost} values are not finite and not drawn. " if lost else "",
    )


def axis_title(metric: str, unit: str) -> str:
    """Words and unit.

    Example:
        >>> axis_title("test_error_percent", "percent"), axis_title("train_loss", "nats")
        ('test error (percent)', 'train loss (nats)')
    """
    words = metric.removesuffix(f"_{unit}").replace("_", " ")
    return f"{words} ({unit})" if unit not in ("", "1") else words


def spread(rows: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Mean, lowest and highest value, and the number of seeds, in each group."""
    value = pl.col("value")
    return (
        rows.group_by(*by)
        .agg(mean=value.mean(), low=value.min(), high=value.max(), seeds=pl.len())
        .sort(*by)
    )


def scale(log: bool, padding: int) -> alt.Scale:
    """A scale that keeps `padding` pixels free at both ends."""
    if log:
        return alt.Scale(type="log", padding=padding, nice=False)
    return alt.Scale(type="linear", zero=False, padding=padding, nice=False)


def values(frame: pl.DataFrame) -> alt.Data:
    """Inline data; six significant digits keep the page small and are finer than any screen."""
    floats = [name for name, dtype in frame.schema.items() if dtype == pl.Float64]
    rounded = frame.with_columns(pl.col(floats).round_sig_figs(6))
    return alt.InlineData(values=rounded.to_dicts())


def layered(layers: Sequence[alt.Chart], note: str, height: int = HEIGHT) -> alt.LayerChart:
    """The layers as one chart as wide as its place; the note stands above it."""
    title = alt.TitleParams(
        text=textwrap.wrap(note, NOTE_WIDTH),
        anchor="start",
        frame="group",
        fontSize=12,
        fontWeight="normal",
    )
    return alt.LayerChart(
        layer=list(layers),
        width="container",
        height=height,
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
        title=title if note else alt.Undefined,
    )
