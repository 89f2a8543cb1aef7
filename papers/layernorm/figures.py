"""The figures of the page, drawn from the metrics table alone."""

from __future__ import annotations

import altair as alt
import polars as pl

from shared.reporting.figures import Figure, arms_present, dots_by_arm, figure, seed_band
from shared.reporting.series import values

NAMES = {
    "none": "no norm",
    "layernorm": "LayerNorm",
    "batchnorm": "BatchNorm",
    "batchnorm_hidden": "BatchNorm, hidden layers",
    "batchnorm_all": "BatchNorm, all layers",
}
METHODS = tuple(NAMES.values())

TABLE_NORMS = {
    "batchnorm": "BN",
    "weightnorm": "WN",
    "layernorm": "LN",
    "layernorm_eps": "LN + eps",
}
TABLE_CHANGES = {
    "matrix_rescale_change": "matrix × 10",
    "matrix_recentre_change": "matrix + v",
    "vector_rescale_change": "one unit × 10",
    "data_rescale_change": "data × 10",
    "data_recentre_change": "data + v",
    "case_rescale_change": "one case × 10",
}
# Rounding is about 1e-15, what an eps leaves 1e-7, a change that is meant 0.1 or more.
SMALL = 1e-3


def figures(metrics: pl.DataFrame, scale: str) -> list[Figure]:
    """The figures for which the table has runs: not every experiment is run at every scale."""
    drawn = [
        _invariance_table(metrics),
        _mlp_curves(metrics, 128),
        _mlp_curves(metrics, 4),
        _mlp_errors(metrics),
        _gru_curves(metrics),
        _time_ratios(metrics),
        _cnn_curves(metrics),
    ]
    return [shown for shown in drawn if shown]


def _invariance_table(metrics: pl.DataFrame) -> Figure | None:
    arms = arms_present(metrics, "invariance", TABLE_NORMS)
    if not arms:
        return None
    cells = (
        metrics.filter(
            (pl.col("experiment") == "invariance")
            & pl.col("metric").is_in(list(TABLE_CHANGES))
            & pl.col("arm").is_in(list(arms))
        )
        .group_by("arm", "metric")
        .agg(change=pl.col("value").max())
        .with_columns(
            norm=pl.col("arm").replace_strict(arms, return_dtype=pl.String),
            transformation=pl.col("metric").replace_strict(TABLE_CHANGES, return_dtype=pl.String),
            decades=pl.col("change").clip(1e-17).log10(),
            label=pl.col("change").map_elements(_short, return_dtype=pl.String),
        )
    )
    # Norms across: four columns leave room for the numbers on a narrow screen.
    base = alt.Chart(values(cells)).encode(
        x=alt.X(
            "norm:N",
            title=None,
            sort=list(arms.values()),
            axis=alt.Axis(
                orient="top",
                labelAngle=0,
                domain=False,
                ticks=False,
            ),
        ),
        y=alt.Y(
            "transformation:N",
            title=None,
            sort=list(TABLE_CHANGES.values()),
            axis=alt.Axis(domain=False, ticks=False),
        ),
        tooltip=["norm:N", "transformation:N", alt.Tooltip("label:N", title="largest change")],
    )
    squares = base.mark_rect(stroke="white", strokeWidth=2).encode(
        color=alt.Color(
            "decades:Q",
            scale=alt.Scale(scheme="blues", domain=[-16, 1], reverse=True),
            legend=None,
        )
    )
    dark = alt.datum.decades < -9
    text = base.mark_text(fontSize=13).encode(
        text="label:N", color=alt.condition(dark, alt.value("white"), alt.value("black"))
    )
    return Figure(
        "Table 1, measured",
        "The largest relative change of a layer's outputs, of all cases and seeds, when its "
        "weights or its data are changed, with batch norm (BN), weight norm (WN) and layer norm "
        "(LN). Dark: no more than rounding, the norm is invariant. v is a random vector, the same "
        "for each row. An eps in the root, as every library has it (here 1e-5), leaves a small "
        "error where the table promises none.",
        alt.LayerChart(
            layer=[squares, text],
            width="container",
            height=40 * len(TABLE_CHANGES),
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
        ),
    )


def _mlp_curves(metrics: pl.DataFrame, batch_size: int) -> Figure | None:
    kinds = ("none", "layernorm", "batchnorm_hidden", "batchnorm_all")
    return figure(
        f"Training loss of the MLP, batches of {batch_size}",
        "Mean and range over the seeds; every arm at the best learning rate of the same grid. As "
        "Figure 6, with a second placement of BatchNorm beside the paper's, which also normalises "
        "what goes into the softmax.",
        seed_band,
        metrics,
        experiment="mlp",
        metric="train_loss",
        split="train",
        arms={f"{kind}-{batch_size}": NAMES[kind] for kind in kinds},
        methods=METHODS,
    )


def _mlp_errors(metrics: pl.DataFrame) -> Figure | None:
    kinds = ("none", "layernorm", "batchnorm_hidden", "batchnorm_all")
    shown = {f"{kind}-{size}": NAMES[kind] for kind in kinds for size in (128, 4)}
    return figure(
        "Test error of the MLP with batches of 128 and of 4",
        "One dot a seed, after the same number of examples. The number in the name of an arm is "
        "the size of its batches.",
        dots_by_arm,
        metrics,
        experiment="mlp",
        metric="test_error_percent",
        arms=shown,
        methods=METHODS,
    )


def _gru_curves(metrics: pl.DataFrame) -> Figure | None:
    names = {
        f"{kind}-{lr}": f"{NAMES[kind]}, rate {lr}"
        for lr in ("0.001", "0.01")
        for kind in ("none", "layernorm")
    }
    return figure(
        "Test error of a GRU that reads images row by row",
        "Mean and range over the seeds, at Adam's default learning rate and at the one that is "
        "best for both. Layer norm is inside the cell, at each of 28 time steps.",
        seed_band,
        metrics,
        experiment="row_gru",
        metric="test_error_percent",
        arms=names,
        methods=tuple(names.values()),
    )


def _time_ratios(metrics: pl.DataFrame) -> Figure | None:
    names = {"torch": "torch's layer norm", "renorm": "this repository's layer norm"}
    shown = {f"{layer}-{lr}": names[layer] for layer in names for lr in ("0.001", "0.01")}
    return figure(
        "Time of the GRU with layer norm to the target error, over that of the plain GRU",
        "One dot a seed; the number in the name of an arm is the learning rate. Both networks take "
        "their steps in turns in one process. Below 1 layer norm is faster; 0.6 is what the paper "
        "reports of its own, much larger, networks.",
        dots_by_arm,
        metrics,
        experiment="time_to_target",
        metric="time_ratio",
        split="none",
        arms=shown,
        methods=tuple(names.values()),
    )


def _cnn_curves(metrics: pl.DataFrame) -> Figure | None:
    kinds = ("none", "layernorm", "batchnorm")
    return figure(
        "Test error of a small convolutional network",
        "Mean and range over the seeds.",
        seed_band,
        metrics,
        experiment="conv_net",
        metric="test_error_percent",
        arms={arm: NAMES[arm] for arm in kinds},
        methods=METHODS,
    )


def _short(change: float) -> str:
    return f"{change:.0e}" if change < SMALL else f"{change:.1f}"
