"""Figures of a paper: Altair charts of the tidy table, in which no run is dropped in silence.

A paper has a few *methods* (BatchNorm, Fixup, ...). Their order, given once per paper, fixes each
method's colour and mark in all figures. A figure says which arm shows which method. Runs that
diverged have no later rows; they are drawn as crosses at the edge of the plot.

    METHODS = ("BatchNorm", "Fixup", "He, no norm")

    def figures(metrics: pl.DataFrame, scale: str) -> list[Figure]:
        chart = seed_band(
            metrics,
            experiment="conv",
            metric="train_loss",
            split="train",
            arms={"bn": "BatchNorm", "fixup": "Fixup"},
            methods=METHODS,
        )
        return [Figure("Training loss", "Mean and range over the seeds.", chart)]
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

Chart = alt.Chart | alt.LayerChart | alt.FacetChart | alt.HConcatChart | alt.VConcatChart

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


@dataclass(frozen=True)
class Figure:
    """One figure of a page: title and caption are plain text, the chart is Altair's."""

    title: str
    caption: str
    chart: Chart

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """What a notebook shows: the live chart, or a picture where Vega-Lite is not known."""
        from shared.reporting.vega import PICTURE_WIDTH, png

        spec = self.chart.to_dict()
        live = {**spec, "width": PICTURE_WIDTH} if spec.get("width") == "container" else spec
        return {
            f"application/vnd.vegalite.{alt.SCHEMA_VERSION.split('.')[0]}+json": live,
            "image/png": png(spec),
            "text/plain": f"{self.title}. {self.caption}",
        }


def seed_band(
    metrics: pl.DataFrame,
    *,
    experiment: str,
    metric: str,
    arms: Mapping[str, str],
    methods: Sequence[str],
    split: str = "test",
    x_title: str = "optimiser step",
    log_y: bool = False,
) -> alt.LayerChart:
    """Mean line and min-max band over the seeds of each arm, against the step.

    Args:
        arms: arm of the experiment -> its method.
        methods: all methods of the paper, in the order that gives them their colours.

    Raises:
        ValueError: no such rows, or an arm or method that does not exist.
    """
    data = _Data.of(metrics, experiment, metric, split, arms, methods)
    steps, note = _thinned(data.rows)
    lines = (
        steps.group_by("method", "step")
        .agg(
            mean=pl.col("value").mean(),
            low=pl.col("value").min(),
            high=pl.col("value").max(),
            seeds=pl.len(),
        )
        .sort("method", "step")
    )
    x = alt.X("step:Q", title=x_title, scale=alt.Scale(nice=False))
    y = functools.partial(data.y, log_y)
    base = alt.Chart(_values(lines))
    nearest = alt.selection_point(
        nearest=True, on="pointerover", fields=["step"], empty=False, clear="pointerout"
    )
    band = base.mark_area(opacity=0.2).encode(
        x=x, y=y("low"), y2="high:Q", color=data.color()
    )
    mean = base.mark_line(strokeWidth=2).encode(
        x=x,
        y=y("mean"),
        color=data.color(),
        strokeDash=data.dash(),
    )
    points = (
        base.mark_point(size=60, filled=True)
        .encode(
            x=x,
            y=y("mean"),
            color=data.color(),
            shape=data.shape(),
            opacity=alt.condition(nearest, alt.value(1), alt.value(0)),
            tooltip=[
                alt.Tooltip("method:N"),
                alt.Tooltip("step:Q", title=x_title),
                alt.Tooltip("mean:Q", title=f"mean ({data.unit})", format=".4~g"),
                alt.Tooltip("low:Q", title="lowest seed", format=".4~g"),
                alt.Tooltip("high:Q", title="highest seed", format=".4~g"),
                alt.Tooltip("seeds:Q", title="seeds with this step"),
            ],
        )
        .add_params(nearest)
    )
    layers = [band, mean, points]
    for row, (method, diverged) in enumerate(data.diverged_by_method()):
        layers.append(
            alt.Chart(_values(diverged))
            .mark_point(shape=CROSS, size=90, strokeWidth=2.5, opacity=1)
            .encode(
                x=x,
                y=alt.value(8 + 12 * row),
                color=data.color(),
                tooltip=[
                    alt.Tooltip("method:N"),
                    alt.Tooltip("seed:Q"),
                    alt.Tooltip("step:Q", title="diverged at step"),
                ],
            )
        )
        note = f"{note} × {method}: {len(diverged)} of {data.runs(method)} seeds diverged."
    return _finish(layers, f"{data.note}{note}")


def dots_by_arm(
    metrics: pl.DataFrame,
    *,
    experiment: str,
    metric: str,
    arms: Mapping[str, str],
    methods: Sequence[str],
    split: str = "test",
    log_x: bool = False,
) -> alt.LayerChart:
    """Each seed's last value as a dot, one line an arm; a diverged run is a cross at the edge.

    Args and Raises: as of `seed_band`.
    """
    data = _Data.of(metrics, experiment, metric, split, arms, methods)
    last = _last(data.rows)
    means = last.group_by("method", "arm").agg(mean=pl.col("value").mean(), seeds=pl.len())
    present = set(last["arm"]) | set(data.diverged["arm"])
    order = list(dict.fromkeys(data.label(arm, arms) for arm in arms if arm in present))
    scale = data.scale(log_x)
    line = alt.Y("arm:N", title=None, sort=order, axis=alt.Axis(grid=True, labelLimit=150))
    x = alt.X("value:Q", title=data.title, scale=scale)
    dots = (
        alt.Chart(_values(last))
        .mark_point(size=70, filled=True, opacity=0.85)
        .encode(
            x=x,
            y=line,
            yOffset=alt.YOffset("seed:O"),
            color=data.color(),
            shape=data.shape(),
            tooltip=["arm:N", "seed:Q", alt.Tooltip("value:Q", title=data.title, format=".5~g")],
        )
    )
    mean = (
        alt.Chart(_values(means))
        .mark_tick(thickness=2.5, height=24)
        .encode(
            x=alt.X("mean:Q", title=data.title, scale=scale),
            y=line,
            color=data.color(),
            tooltip=[
                "arm:N",
                alt.Tooltip("mean:Q", title=f"mean ({data.unit})", format=".5~g"),
                alt.Tooltip("seeds:Q", title="finished seeds"),
            ],
        )
    )
    layers = [mean, dots]
    note = ""
    if data.diverged.height:
        note = f"× at the right edge: {data.diverged.height} diverged runs."
        layers.append(
            alt.Chart(_values(data.diverged))
            .mark_point(shape=CROSS, size=90, strokeWidth=2.5, opacity=1)
            .encode(
                x=alt.XValue("width"),
                y=line,
                yOffset=alt.YOffset("seed:O"),
                color=data.color(),
                tooltip=["arm:N", "seed:Q", alt.Tooltip("step:Q", title="diverged at step")],
            )
        )
    return _finish(layers, f"{data.note}{note}", height=max(120, 44 * len(order)))


def sweep(
    metrics: pl.DataFrame,
    *,
    experiment: str,
    metric: str,
    points: Mapping[str, tuple[str, float]],
    methods: Sequence[str],
    x_title: str,
    split: str = "test",
    log_x: bool = True,
    log_y: bool = False,
) -> alt.LayerChart:
    """The last value against a number that the arms vary, e.g. depth or learning rate.

    Line: mean over the seeds; bar: lowest to highest seed; dots: seeds. Where runs diverged, a
    cross at the upper edge says how many.

    Args:
        points: arm of the experiment -> (its method, its abscissa).
        methods: all methods of the paper, in the order that gives them their colours.

    Raises:
        ValueError: no such rows, or an arm or method that does not exist.
    """
    arms = {arm: method for arm, (method, _) in points.items()}
    data = _Data.of(metrics, experiment, metric, split, arms, methods)
    abscissae = pl.DataFrame(
        {"arm": list(points), "x": [float(x) for _, x in points.values()]},
        schema={"arm": pl.String, "x": pl.Float64},
    )
    last = _last(data.rows).join(abscissae, on="arm")
    means = (
        last.group_by("method", "x")
        .agg(
            mean=pl.col("value").mean(),
            low=pl.col("value").min(),
            high=pl.col("value").max(),
            seeds=pl.len(),
        )
        .sort("method", "x")
    )
    x = alt.X("x:Q", title=x_title, scale=_scale(log_x, padding=12))
    y = functools.partial(data.y, log_y)
    base = alt.Chart(_values(means))
    tooltip = [
        alt.Tooltip("method:N"),
        alt.Tooltip("x:Q", title=x_title),
        alt.Tooltip("mean:Q", title=f"mean ({data.unit})", format=".4~g"),
        alt.Tooltip("low:Q", title="lowest seed", format=".4~g"),
        alt.Tooltip("high:Q", title="highest seed", format=".4~g"),
        alt.Tooltip("seeds:Q", title="finished seeds"),
    ]
    layers: list[alt.Chart] = [
        base.mark_rule(strokeWidth=2, opacity=0.5).encode(
            x=x,
            y=y("low"),
            y2="high:Q",
            color=data.color(),
        ),
        base.mark_line(strokeWidth=2).encode(
            x=x, y=y("mean"), color=data.color(), strokeDash=data.dash()
        ),
        alt.Chart(_values(last))
        .mark_point(size=18, filled=True, opacity=0.6)
        .encode(x=x, y=y("value"), color=data.color(), shape=data.shape()),
        base.mark_point(size=80, filled=True, opacity=1).encode(
            x=x, y=y("mean"), color=data.color(), shape=data.shape(), tooltip=tooltip
        ),
    ]
    note = ""
    for row, (method, diverged) in enumerate(data.diverged_by_method()):
        counts = (
            diverged.join(abscissae, on="arm")
            .group_by("method", "arm", "x")
            .agg(diverged=pl.len())
            .with_columns(
                label=pl.struct("arm", "diverged").map_elements(
                    lambda cell: f"{cell['diverged']}/{data.runs_of_arm(cell['arm'])}",
                    return_dtype=pl.String,
                )
            )
            .sort("x")
        )
        edge = alt.Chart(_values(counts)).encode(x=x, y=alt.value(8 + 14 * row), color=data.color())
        layers += [
            edge.mark_point(shape=CROSS, size=90, strokeWidth=2.5, opacity=1).encode(
                tooltip=["method:N", alt.Tooltip("label:N", title="runs diverged"), "arm:N"]
            ),
            edge.mark_text(align="left", dx=9, fontSize=11).encode(text="label:N"),
        ]
        note = "× at the upper edge: runs diverged / runs started."
    return _finish(layers, f"{data.note}{note}")


@dataclass(frozen=True)
class _Data:
    """The rows of one metric, with the method of each arm, and the runs that diverged."""

    rows: pl.DataFrame
    diverged: pl.DataFrame
    started: pl.DataFrame
    methods: tuple[str, ...]
    unit: str
    title: str
    note: str

    @classmethod
    def of(
        cls,
        metrics: pl.DataFrame,
        experiment: str,
        metric: str,
        split: str,
        arms: Mapping[str, str],
        methods: Sequence[str],
    ) -> _Data:
        if unknown := set(arms.values()) - set(methods):
            raise ValueError(
                f"got methods {sorted(unknown)}, expected of {list(methods)}. Add them to `methods`."
            )
        if len(methods) > 2 * len(SHAPES):
            raise ValueError(f"got {len(methods)} methods, expected at most {2 * len(SHAPES)}")
        of_experiment = metrics.filter(pl.col("experiment") == experiment)
        if unknown := set(arms) - set(of_experiment["arm"]):
            raise ValueError(
                f"experiment {experiment!r}: got arms {sorted(unknown)}, expected of "
                f"{sorted(set(of_experiment['arm']))}"
            )
        shown = of_experiment.filter(pl.col("arm").is_in(list(arms))).with_columns(
            method=pl.col("arm").replace_strict(arms, return_dtype=pl.String)
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
        return cls(
            rows=rows,
            diverged=diverged.select("method", "arm", "seed", "step"),
            started=started,
            methods=tuple(methods),
            unit=unit,
            title=_title(metric, unit),
            note=f"{lost} values are not finite and not drawn. " if lost else "",
        )

    def runs(self, method: str) -> int:
        return self.started.filter(pl.col("method") == method).height

    def runs_of_arm(self, arm: str) -> int:
        return self.started.filter(pl.col("arm") == arm).height

    def diverged_by_method(self) -> list[tuple[str, pl.DataFrame]]:
        """In the order of the methods; only those of which a run diverged."""
        parts = ((m, self.diverged.filter(pl.col("method") == m)) for m in self.methods)
        return [(method, part) for method, part in parts if part.height]

    def shown(self) -> list[str]:
        present = set(self.rows["method"]) | set(self.diverged["method"])
        return [method for method in self.methods if method in present]

    def color(self) -> alt.Color:
        # No range: the page gives the palette of its theme as `config.range.category`.
        return alt.Color(
            "method:N",
            title=None,
            scale=alt.Scale(domain=list(self.methods)),
            legend=alt.Legend(values=self.shown()),
        )

    def shape(self) -> alt.Shape:
        count = len(SHAPES)
        marks = [SHAPES[(i + i // count) % count] for i in range(len(self.methods))]
        return alt.Shape(
            "method:N",
            title=None,
            scale=alt.Scale(domain=list(self.methods), range=marks),
            legend=alt.Legend(values=self.shown()),
        )

    def dash(self) -> alt.StrokeDash:
        # Colours repeat after eight methods; the dashes keep the repeated ones apart.
        dashes = [[1, 0] if i < len(SHAPES) else [6, 4] for i in range(len(self.methods))]
        return alt.StrokeDash(
            "method:N",
            title=None,
            scale=alt.Scale(domain=list(self.methods), range=dashes),
            legend=alt.Legend(values=self.shown()),
        )

    def scale(self, log: bool) -> alt.Scale:
        if log and self.rows.height and self.rows["value"].min() <= 0:  # type: ignore[operator]
            raise ValueError(f"{self.title}: a logarithmic axis needs values above 0")
        edge = 12 + 14 * len(self.diverged_by_method()) if self.diverged.height else 8
        return _scale(log, padding=edge)

    def y(self, log: bool, column: str) -> alt.Y:
        axis = alt.Axis(titleAngle=0, titleAlign="left", titleAnchor="end", titleX=0, titleY=-14)
        return alt.Y(f"{column}:Q", title=self.title, scale=self.scale(log), axis=axis)


def _scale(log: bool, padding: int) -> alt.Scale:
    if log:
        return alt.Scale(type="log", padding=padding, nice=False)
    return alt.Scale(type="linear", zero=False, padding=padding, nice=False)


def _title(metric: str, unit: str) -> str:
    """Words and unit.

    Example:
        >>> _title("test_error_percent", "percent"), _title("train_loss", "nats")
        ('test error (percent)', 'train loss (nats)')
    """
    words = metric.removesuffix(f"_{unit}").replace("_", " ")
    return f"{words} ({unit})" if unit else words


def _last(rows: pl.DataFrame) -> pl.DataFrame:
    """The row of the last step of every run."""
    by = ["method", "arm", "seed"]
    return rows.sort("step").group_by(by, maintain_order=True).last().select(*by, "step", "value")


def _thinned(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """At most `MAX_STEPS` steps per arm, evenly, always with the last one."""
    most = rows.group_by("arm").agg(count=pl.col("step").n_unique())["count"].max()
    every = math.ceil(int(most) / MAX_STEPS) if isinstance(most, int) else 1
    if every <= 1:
        return rows, ""
    rank = pl.col("step").rank("dense", descending=True).over("arm") - 1
    return rows.filter(rank % every == 0), f"Every {every}th logged step is drawn."


def _values(frame: pl.DataFrame) -> alt.Data:
    """Inline data; six significant digits keep the page small and are finer than any screen."""
    floats = [name for name, dtype in frame.schema.items() if dtype == pl.Float64]
    rounded = frame.with_columns(pl.col(floats).round_sig_figs(6))
    return alt.InlineData(values=rounded.to_dicts())


def _finish(layers: Sequence[alt.Chart], note: str, height: int = HEIGHT) -> alt.LayerChart:
    chart = alt.layer(*layers).properties(
        width="container",
        height=height,
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
    )
    if not note:
        return chart
    return chart.properties(
        title=alt.TitleParams(
            text=note.strip(), anchor="start", fontSize=12, fontWeight="normal", offset=18
        )
    )
