"""Figures of a paper: Altair charts of the tidy table, in which no run is dropped in silence.

A paper has a few *methods* (BatchNorm, Fixup, ...). Their order, given once per paper, fixes each
method's colour and mark in all figures. A figure says which arm shows which method. Runs that
diverged have no later rows; they are drawn as crosses at the edge of the plot.

    METHODS = ("BatchNorm", "Fixup", "He, no norm")

    def figures(metrics: pl.DataFrame, scale: str) -> list[Figure]:
        loss = figure(
            "Training loss",
            "Mean and range over the seeds.",
            seed_band,
            metrics,
            experiment="conv",
            metric="train_loss",
            split="train",
            arms={"bn": "BatchNorm", "fixup": "Fixup"},
            methods=METHODS,
        )
        return [loss] if loss else []  # None: no such run at this scale
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import altair as alt
import polars as pl

from shared.reporting import vega
from shared.reporting.series import CROSS, Series, layered, read_series, scale, spread, values

Shown = TypeVar("Shown")


@dataclass(frozen=True)
class Figure:
    """One figure of a page: title and caption are plain text, the chart is Altair's."""

    title: str
    caption: str
    chart: alt.TopLevelMixin

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """What a notebook shows: the live chart, or a picture where Vega-Lite is not known."""
        content = vega.spec(self.chart)
        major = alt.SCHEMA_VERSION.partition(".")[0]
        return {
            f"application/vnd.vegalite.{major}+json": vega.standalone(content),
            "image/png": base64.b64encode(vega.png(content)).decode(),
            "text/plain": f"{self.title}. {self.caption}",
        }


def arms_present(
    metrics: pl.DataFrame, experiment: str, shown: Mapping[str, Shown]
) -> dict[str, Shown]:
    """Those of the arms that the table has runs of, in the order of `shown`."""
    arms = set(metrics.filter(pl.col("experiment") == experiment)["arm"])
    return {arm: value for arm, value in shown.items() if arm in arms}


def figure(
    title: str,
    caption: str,
    chart: Callable[..., alt.LayerChart],
    metrics: pl.DataFrame,
    *,
    experiment: str,
    **options: Any,
) -> Figure | None:
    """A figure of those arms that the table has runs of; None where it has none of them.

    Args:
        chart: `seed_band`, `dots_by_arm` or `sweep`.
        options: the rest of its arguments, with `arms` or `points` as far as the paper has any.
    """
    kind = "points" if "points" in options else "arms"
    options[kind] = arms_present(metrics, experiment, options[kind])
    if not options[kind]:
        return None
    return Figure(title, caption, chart(metrics, experiment=experiment, **options))


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
        arms: arm of the experiment -> its method; one arm a method.
        methods: all methods of the paper, in the order that gives them their colours.

    Raises:
        ValueError: no such rows, or an arm or method that does not exist.
    """
    if len(set(arms.values())) < len(arms):
        raise ValueError(f"got {dict(arms)}, expected one arm a method; draw several figures")
    series = read_series(metrics, experiment, metric, split, arms, methods)
    steps, thinning = series.thinned()
    x = alt.X("step:Q", title=x_title, scale=scale(log=False, padding=0))
    base = alt.Chart(values(spread(steps, "method", "step"))).encode(x=x, color=series.color())
    mean = series.y("mean", log_y)
    nearest = alt.selection_point(
        nearest=True, on="pointerover", fields=["step"], empty=False, clear="pointerout"
    )
    points = base.mark_point(size=60, filled=True).encode(
        y=mean,
        shape=series.shape(),
        opacity=alt.condition(nearest, alt.value(1), alt.value(0)),
        tooltip=_tooltip("step:Q", x_title, series.unit, "seeds with this step"),
    )
    layers = [
        base.mark_area(opacity=0.2).encode(y=series.y("low", log_y), y2="high:Q"),
        base.mark_line(strokeWidth=2).encode(y=mean, strokeDash=series.dash()),
        points.add_params(nearest),
    ]
    counts = []
    for row, (method, diverged) in enumerate(series.diverged_by_method()):
        counts.append(f"{method} {diverged.height} of {series.runs(method)}")
        cross = _cross(diverged).encode(x=x, y=alt.value(8 + 14 * row), color=series.color())
        layers.append(
            cross.encode(tooltip=["method:N", "seed:Q", alt.Tooltip("step:Q", title="diverged at")])
        )
    note = f"× runs that diverged there: {', '.join(counts)}" if counts else ""
    return layered(layers, f"{series.note}{thinning}{note}")


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

    Args and Raises: as of `seed_band`, but a method may have several arms.
    """
    series = read_series(metrics, experiment, metric, split, arms, methods)
    labels = {arm: series.label(arm) for arm in arms}
    label = pl.col("arm").replace_strict(labels, return_dtype=pl.String)
    last = series.last().with_columns(label=label)
    diverged = series.diverged.with_columns(label=label)
    y = alt.Y("label:N", title=None, sort=list(labels.values()), axis=alt.Axis(grid=True))
    edges = series.scale(log_x)
    color = series.color(legend=False)
    dots = (
        alt.Chart(values(last))
        .mark_point(size=70, filled=True, opacity=0.85)
        .encode(
            x=alt.X("value:Q", title=series.title, scale=edges),
            y=y,
            yOffset=alt.YOffset("seed:O"),
            color=color,
            shape=series.shape(legend=False),
            tooltip=["arm:N", "seed:Q", alt.Tooltip("value:Q", title=series.title, format=".5~g")],
        )
    )
    mean = (
        alt.Chart(values(spread(last, "method", "label")))
        .mark_tick(thickness=2.5, height=26)
        .encode(
            x=alt.X("mean:Q", title=series.title, scale=edges),
            y=y,
            color=color,
            tooltip=_tooltip("label:N", "arm", series.unit, "finished seeds"),
        )
    )
    layers = [mean, dots]
    note = ""
    if diverged.height:
        note = f"× at the right edge: {diverged.height} of {series.started.height} runs diverged."
        layers.append(
            _cross(diverged).encode(
                x=alt.value("width"),
                y=y,
                yOffset=alt.YOffset("seed:O"),
                color=color,
                tooltip=["arm:N", "seed:Q", alt.Tooltip("step:Q", title="diverged at step")],
            )
        )
    return layered(layers, f"{series.note}{note}", height=max(180, 54 * len(labels)))


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

    Line: mean over the seeds that finished; bar: lowest to highest of them; small dots: seeds.
    Where runs diverged, a cross at the upper edge says how many.

    Args:
        points: arm of the experiment -> (its method, its abscissa).
        methods: all methods of the paper, in the order that gives them their colours.

    Raises:
        ValueError: no such rows, or an arm or method that does not exist.
    """
    arms = {arm: method for arm, (method, _) in points.items()}
    series = read_series(metrics, experiment, metric, split, arms, methods)
    abscissae = pl.DataFrame(
        {"arm": list(points), "x": [float(x) for _, x in points.values()]},
        schema={"arm": pl.String, "x": pl.Float64},
    )
    last = series.last().join(abscissae, on="arm")
    ticks = sorted(set(abscissae["x"]))
    x = alt.X(
        "x:Q",
        title=x_title,
        scale=scale(log_x, padding=16),
        axis=alt.Axis(values=ticks, format=",~g") if len(ticks) <= 12 else alt.Undefined,
    )
    y = series.y("mean", log_y)
    base = alt.Chart(values(spread(last, "method", "x"))).encode(x=x, color=series.color())
    layers = [
        base.mark_rule(strokeWidth=2, opacity=0.5).encode(y=series.y("low", log_y), y2="high:Q"),
        base.mark_line(strokeWidth=2).encode(y=y, strokeDash=series.dash()),
        alt.Chart(values(last))
        .mark_point(size=18, filled=True, opacity=0.6)
        .encode(
            x=x,
            y=series.y("value", log_y),
            color=series.color(),
            shape=series.shape(),
            tooltip=["arm:N", "seed:Q", alt.Tooltip("value:Q", title=series.title, format=".5~g")],
        ),
        base.mark_point(size=80, filled=True, opacity=1).encode(
            y=y,
            shape=series.shape(),
            tooltip=_tooltip("x:Q", x_title, series.unit, "finished seeds"),
        ),
    ]
    crosses = _shares_diverged(series, abscissae, x)
    note = "× at the upper edge: runs that diverged / runs started" if crosses else ""
    return layered([*layers, *crosses], f"{series.note}{note}")


def _shares_diverged(series: Series, abscissae: pl.DataFrame, x: alt.X) -> list[alt.Chart]:
    """Crosses at the upper edge with `diverged/started`, one row a method."""
    started = series.started.group_by("arm").agg(started=pl.len())
    layers = []
    for row, (_, diverged) in enumerate(series.diverged_by_method()):
        counts = (
            diverged.group_by("method", "arm")
            .agg(diverged=pl.len())
            .join(started, on="arm")
            .join(abscissae, on="arm")
            .with_columns(label=pl.format("{}/{}", "diverged", "started"))
            .sort("x")
        )
        y = alt.value(8 + 14 * row)
        cross = _cross(counts).encode(x=x, y=y, color=series.color())
        text = alt.Chart(values(counts)).mark_text(align="right", dx=-9, fontSize=11)
        layers += [
            cross.encode(tooltip=["arm:N", alt.Tooltip("label:N", title="runs diverged")]),
            text.encode(x=x, y=y, color=series.color(), text="label:N"),
        ]
    return layers


def _cross(diverged: pl.DataFrame) -> alt.Chart:
    mark: alt.Chart = alt.Chart(values(diverged)).mark_point(
        shape=CROSS, size=70, strokeWidth=2.5, opacity=1
    )
    return mark


def _tooltip(place: str, title: str, unit: str, seeds: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("method:N"),
        alt.Tooltip(place, title=title),
        alt.Tooltip("mean:Q", title=f"mean ({unit})", format=".4~g"),
        alt.Tooltip("low:Q", title="lowest seed", format=".4~g"),
        alt.Tooltip("high:Q", title="highest seed", format=".4~g"),
        alt.Tooltip("seeds:Q", title=seeds),
    ]
