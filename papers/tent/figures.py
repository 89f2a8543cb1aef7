"""The figures of the page, drawn from the metrics table alone."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from shared.reporting.figures import Figure, arms_present, dots_by_arm, figure, seed_band
from shared.reporting.series import layered, read_series, spread, values

NAMES = {
    "source": "source",
    "bn": "BN",
    "pseudo_label": "pseudo-label",
    "tent": "Tent",
    "affine_only": "affine, source statistics",
    "last_layer": "last layer",
    "all_parameters": "all parameters",
    "last_layer_only": "last layer, source statistics",
    "all_parameters_only": "all parameters, source statistics",
    "groupnorm_source": "source, GroupNorm",
    "groupnorm_tent": "Tent, GroupNorm",
}
METHODS = tuple(NAMES.values())
STREAMS = {
    "source": "source",
    "bn": "BN",
    "tent": "Tent",
    "bn_sorted": "BN",
    "tent_sorted": "Tent",
    "source_single": "source",
    "bn_single": "BN",
    "tent_single": "Tent",
}
UNSEEN = {"nothing": "BN", "test": "Tent", "train": "Tent"}


def figures(metrics: pl.DataFrame, scale: str) -> list[Figure]:
    """The figures for which the table has runs."""
    drawn = [
        _error_by_corruption(metrics),
        _error_by_severity(metrics),
        _entropy_and_loss(metrics),
        _modulation_over_passes(metrics),
        _streams(metrics),
        _unseen(metrics),
    ]
    return [shown for shown in drawn if shown]


def _error_by_corruption(metrics: pl.DataFrame) -> Figure | None:
    arms = arms_present(metrics, "corruptions", NAMES)
    if not arms:
        return None
    mean = read_series(metrics, "corruptions", "mean_error_percent", "none", arms, METHODS)
    rows = _by_split(metrics, "corruptions", "error_percent", arms)
    order = rows.filter(pl.col("method") == rows["method"][0]).sort("mean")["split"].to_list()
    base = alt.Chart(values(rows)).encode(
        x=alt.X("mean:Q", title="error before each step (percent)", scale=alt.Scale(zero=False)),
        y=alt.Y("split:N", title=None, sort=order, axis=alt.Axis(grid=True)),
        color=mean.color(),
    )
    dots = base.mark_point(size=60, filled=True, opacity=0.9).encode(
        shape=mean.shape(),
        tooltip=[
            "method:N",
            alt.Tooltip("split:N", title="corruption"),
            alt.Tooltip("mean:Q", title="mean (percent)", format=".4~g"),
            alt.Tooltip("low:Q", title="lowest seed", format=".4~g"),
            alt.Tooltip("high:Q", title="highest seed", format=".4~g"),
        ],
    )
    bars = base.mark_rule(opacity=0.5).encode(x="low:Q", x2="high:Q")
    return Figure(
        "Error under each corruption at severity 5",
        "Mean and range over the orders of the test stream. Statistics of the test batch (BN) make "
        "most of the difference to the source; what the steps of Tent add is small beside it.",
        layered([bars, dots], "", height=24 * len(order)),
    )


def _error_by_severity(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Error against the severity of the corruption",
        "Mean over the corruptions, from 1 (hardly visible) to 5.",
        seed_band,
        metrics,
        experiment="shifts",
        metric="mean_error_percent",
        split="none",
        arms=NAMES,
        methods=METHODS,
        x_title="severity",
    )


def _entropy_and_loss(metrics: pl.DataFrame) -> Figure | None:
    if not arms_present(metrics, "shifts", {"tent": "Tent"}):
        return None
    shown = metrics.filter(
        (pl.col("experiment") == "shifts")
        & (pl.col("arm") == "tent")
        & pl.col("metric").is_in(["entropy_change", "loss_change"])
    )
    rows = (
        shown.group_by("split", "step", "metric")
        .agg(pl.col("value").mean())
        .pivot(on="metric", index=["split", "step"], values="value")
        .sort("split", "step")
    )
    zero = alt.Chart(values(pl.DataFrame({"zero": [0.0]}))).mark_rule(strokeDash=[4, 4])
    dots = (
        alt.Chart(values(rows))
        .mark_point(filled=True, opacity=0.85)
        .encode(
            x=alt.X("entropy_change:Q", title="change of the mean entropy (nats)"),
            y=alt.Y(
                "loss_change:Q",
                title="change of the mean loss (nats)",
                axis=alt.Axis(
                    titleAngle=0, titleAlign="left", titleAnchor="end", titleX=0, titleY=-12
                ),
            ),
            size=alt.Size("step:O", title="severity", scale=alt.Scale(range=[25, 160])),
            tooltip=[
                alt.Tooltip("split:N", title="corruption"),
                alt.Tooltip("step:Q", title="severity"),
                alt.Tooltip("entropy_change:Q", format=".3~g"),
                alt.Tooltip("loss_change:Q", format=".3~g"),
            ],
        )
    )
    return Figure(
        "Change of entropy and loss in each shift",
        "One dot a corruption and severity, mean over the seeds, as in Figure 6: by one pass of "
        "Tent, against the statistics of the test batch alone. Left of and below the dashed lines "
        "both have fallen.",
        layered([zero.encode(x="zero:Q"), zero.encode(y="zero:Q"), dots], ""),
    )


def _modulation_over_passes(metrics: pl.DataFrame) -> Figure | None:
    fixed = ("bn", "source", "groupnorm_source")
    return figure(
        "What adapts, over ten passes of the same images",
        "Mean error over four corruptions, before each step. Tent adapts the affine parameters on "
        "statistics of the batch; the others change one of the two.",
        seed_band,
        metrics,
        experiment="modulation",
        metric="mean_error_percent",
        split="none",
        arms={arm: name for arm, name in NAMES.items() if arm not in fixed},
        methods=METHODS,
        x_title="pass over the images",
    )


def _streams(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Streams on which Tent should fail",
        "Batches of 200 images, such batches of a stream that is sorted by label, and single "
        "images (the first tenth of them). One dot an order of the stream.",
        dots_by_arm,
        metrics,
        experiment="streams",
        metric="mean_error_percent",
        split="none",
        arms=STREAMS,
        methods=METHODS,
    )


def _unseen(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Error on test images after adapting to others",
        "After one pass over nothing, over the test images themselves, or over as many training "
        "images with the same corruption.",
        dots_by_arm,
        metrics,
        experiment="unseen",
        metric="mean_error_percent",
        split="none",
        arms=UNSEEN,
        methods=METHODS,
    )


def _by_split(
    metrics: pl.DataFrame, experiment: str, metric: str, arms: Mapping[str, str]
) -> pl.DataFrame:
    """Mean and range over the seeds for each method and split, from the last step."""
    rows = (
        metrics.filter(
            (pl.col("experiment") == experiment)
            & (pl.col("metric") == metric)
            & pl.col("arm").is_in(list(arms))
        )
        .sort("step")
        .group_by("arm", "split", "seed")
        .last()
    )
    named = rows.with_columns(
        method=pl.col("arm").replace_strict(dict(arms), return_dtype=pl.String)
    )
    return spread(named, "method", "split")
