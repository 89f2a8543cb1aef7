"""The figures of the page, drawn from the metrics table alone."""

from __future__ import annotations

import altair as alt
import polars as pl

from shared.reporting.figures import Figure, dots_by_arm, figure, seed_band, sweep
from shared.reporting.series import layered, values

METHODS = (
    "BatchNorm",
    "no normalization",
    "BN-x5",
    "BN-x30",
    "none, x5",
    "none, x30",
    "BN, sigmoid",
    "none, sigmoid",
)
MLP = {"batchnorm": METHODS[0], "none": METHODS[1]}
INCEPTION = {
    "batchnorm-1": METHODS[0],
    "none-1": METHODS[1],
    "batchnorm-5": METHODS[2],
    "batchnorm-30": METHODS[3],
    "none-5": METHODS[4],
    "none-30": METHODS[5],
}
DEEP = {
    "batchnorm-3": METHODS[0],
    "none-3": METHODS[1],
    "batchnorm-10": METHODS[0],
    "none-10": METHODS[1],
    "none-10-slow": METHODS[1],
}
IMAGENET = {
    "inception": METHODS[1],
    "bn_baseline": METHODS[0],
    "bn_x5": METHODS[2],
    "bn_x30": METHODS[3],
    "inception_x5": METHODS[4],
    "bn_x5_sigmoid": METHODS[6],
    "inception_sigmoid": METHODS[7],
}
PERCENTILES = ("p15", "p50", "p85")


def figures(metrics: pl.DataFrame, scale: str) -> list[Figure]:
    """The figures for which the table has runs: not every arm is run at every scale."""
    drawn = [
        _error_of_mlp(metrics),
        _percentiles(metrics),
        _instability(metrics),
        _settings(metrics),
        _steps_by_learning_rate(metrics),
        _error_of_inception(metrics),
        _error_by_depth(metrics),
        _error_on_imagenet(metrics),
    ]
    return [shown for shown in drawn if shown]


def _error_of_mlp(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Test error of the sigmoid network over the training",
        "Figure 1a: three layers of 100 sigmoids on binary images, each arm at its own best "
        "setting of the sweep. Mean and range over the seeds.",
        seed_band,
        metrics,
        experiment="mlp",
        metric="test_error_percent",
        arms=MLP,
        methods=METHODS,
    )


def _percentiles(metrics: pl.DataFrame) -> Figure | None:
    """Bands of the 15th to the 85th percentile, one seed."""
    names = [f"preactivation_{percentile}" for percentile in PERCENTILES]
    rows = metrics.filter((pl.col("experiment") == "mlp") & pl.col("metric").is_in(names))
    if rows.is_empty():
        return None
    seed = rows["seed"].min()
    bands = (
        rows.filter(pl.col("seed") == seed)
        .with_columns(
            method=pl.col("arm").replace_strict(MLP, return_dtype=pl.String),
            metric=pl.col("metric").str.strip_prefix("preactivation_"),
        )
        .pivot("metric", index=["method", "step"], values="value")
        .sort("method", "step")
    )
    x = alt.X("step:Q", title="optimiser step", scale=alt.Scale(zero=False, nice=False))
    color = alt.Color(
        "method:N", title=None, scale=alt.Scale(domain=list(METHODS)), legend=_legend(bands)
    )
    axis = alt.Axis(titleAngle=0, titleAlign="left", titleAnchor="end", titleX=0, titleY=-12)

    def y(column: str) -> alt.Y:
        return alt.Y(f"{column}:Q", title="input of the sigmoid (1)", axis=axis)

    base = alt.Chart(values(bands)).encode(x=x, color=color)
    tooltip = ["method:N", "step:Q", *(alt.Tooltip(f"{p}:Q", format=".3~f") for p in PERCENTILES)]
    return Figure(
        "Inputs of a typical sigmoid of the last hidden layer",
        "Figure 1b,c: band from the 15th to the 85th percentile over the same test images at "
        "every evaluation, line at the 50th; one unit of the first seed. A stable input is a band "
        "that stays where it is.",
        layered(
            [
                base.mark_area(opacity=0.25).encode(y=y("p15"), y2="p85:Q"),
                base.mark_line(strokeWidth=1).encode(y=y("p15")),
                base.mark_line(strokeWidth=1).encode(y=y("p85")),
                base.mark_line(strokeWidth=2.5).encode(y=y("p50"), tooltip=tooltip),
            ],
            note="",
        ),
    )


def _legend(rows: pl.DataFrame) -> alt.Legend:
    present = set(rows["method"])
    return alt.Legend(values=[method for method in METHODS if method in present])


def _instability(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "How far the inputs of a sigmoid move between two evaluations",
        "Mean movement of the three percentiles from one evaluation to the next, in widths of the "
        "final distribution; the median unit of the last hidden layer. One dot a seed.",
        dots_by_arm,
        metrics,
        experiment="mlp",
        metric="preactivation_instability",
        arms=MLP,
        methods=METHODS,
    )


def _settings(metrics: pl.DataFrame) -> Figure | None:
    """Heat map of the sweep: mean test error of each cell."""
    finished = metrics.filter(
        (pl.col("experiment") == "sweep") & (pl.col("metric") == "test_error_percent")
    )
    if finished.is_empty():
        return None
    parts = pl.col("arm").str.split("-")
    cells = (
        finished.sort("step")
        .group_by("arm", "seed")
        .last()
        .group_by("arm")
        .agg(error=pl.col("value").mean(), seeds=pl.len())
        .with_columns(
            row=parts.list.get(0).replace_strict(MLP, return_dtype=pl.String)
            + ", std "
            + parts.list.get(1),
            lr=parts.list.get(2),
        )
        .sort("arm")
    )
    y = alt.Y("row:N", title=None, axis=alt.Axis(labelLimit=220))
    base = alt.Chart(values(cells)).encode(
        x=alt.X("lr:N", title="learning rate", axis=alt.Axis(labelAngle=0)), y=y
    )
    error = alt.Color(
        "error:Q",
        title="test error (percent)",
        scale=alt.Scale(scheme="blues", reverse=True, type="log"),
    )
    tooltip = ["row:N", "lr:N", alt.Tooltip("error:Q", format=".2f"), "seeds:Q"]
    text = alt.condition("datum.error < 35", alt.value("white"), alt.value("black"))
    return Figure(
        "What the paper leaves open: initialisation and learning rate",
        "Test error after a short training for each standard deviation of the initial weights and "
        "each learning rate, the same grid for both arms; mean over the seeds. 90 percent is "
        "chance.",
        layered(
            [
                base.mark_rect().encode(color=error, tooltip=tooltip),
                base.mark_text(fontSize=12).encode(
                    text=alt.Text("error:Q", format=".1f"), color=text
                ),
            ],
            note="",
        ),
    )


def _steps_by_learning_rate(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Steps to the baseline's accuracy against the learning rate",
        "A small Inception network; the learning rate in units of the baseline's best. A run that "
        "never gets there has the steps of its whole training.",
        sweep,
        metrics,
        experiment="small_inception",
        metric="steps_to_target",
        points={
            f"{arm}-{times}": (name, float(times))
            for arm, name in MLP.items()
            for times in (1, 5, 30)
        },
        methods=METHODS,
        x_title="learning rate (times the baseline's)",
    )


def _error_of_inception(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Test error of the small Inception network",
        "Figure 3 in small, x5 and x30 being multiples of the learning rate: mean and range over "
        "the seeds.",
        seed_band,
        metrics,
        experiment="small_inception",
        metric="test_error_percent",
        arms=INCEPTION,
        methods=METHODS,
    )


def _error_by_depth(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Sigmoid networks of three and of ten hidden layers",
        "Test error after the same short training, one dot a seed; 90 percent is chance. Arms are "
        "named by their hidden layers; the slow one has a third of the learning rate.",
        dots_by_arm,
        metrics,
        experiment="deep_sigmoid",
        metric="test_error_percent",
        arms=DEEP,
        methods=METHODS,
    )


def _error_on_imagenet(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Test error of Inception on ImageNet",
        "Figure 3: mean and range over the seeds.",
        seed_band,
        metrics,
        experiment="imagenet_inception",
        metric="test_error_percent",
        arms=IMAGENET,
        methods=METHODS,
    )
