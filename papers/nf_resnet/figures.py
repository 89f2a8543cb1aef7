"""The figures of the page, drawn from the metrics table alone."""

from __future__ import annotations

import altair as alt
import polars as pl

from shared.reporting import series
from shared.reporting.figures import Figure, arms_present, dots_by_arm, figure, seed_band, sweep

NAMES = {
    "batchnorm": "BatchNorm, then ReLU",
    "relu_bn": "ReLU, then BatchNorm",
    "he": "He, no norm",
    "nf": "NF",
    "nf_no_gamma": "NF without gamma",
    "skipinit": "SkipInit",
    "fixup": "Fixup",
    "agc": "NF with clipping",
}
METHODS = tuple(NAMES.values())
FLOOR = 1e-4
"""Lower end of the plots' axes: a squared mean of a normalised signal is a rounding error."""
SMALL_BATCH = {
    f"{method}-{batch}": (NAMES[method], float(batch))
    for method in ("batchnorm", "nf")
    for batch in (4, 128)
}
AGC_CELLS = {
    f"{clipping}-{batch}-{lr}": (clipping, batch, lr)
    for clipping in ("plain", "agc")
    for batch in (32, 256)
    for lr in (0.8, 3.2)
}
PLOTS = {
    "squared_mean": (
        "Squared channel mean at initialisation",
        "Where a ReLU comes last, its mean is left over and adds up from block to block. Norm "
        "after ReLU removes it, and so do weights of mean 0 (scaled weight standardisation).",
    ),
    "variance": (
        "Channel variance at initialisation",
        "Each branch adds its variance, and a stage begins anew. BatchNorm's branches add 1, or "
        "0.68 where the ReLU comes last; those of an unnormalised net are made to add 0.04.",
    ),
    "residual_variance": (
        "Variance of the residual branches at initialisation",
        "Before skip gain and alpha. NF holds it at 1 but for the zeros around the image; with "
        "He's initialisation, or without the activation's gain gamma, it fades.",
    ),
}


def figures(metrics: pl.DataFrame, scale: str) -> list[Figure]:
    """The figures for which the table has runs: not every arm is run at every scale."""
    drawn = [
        *(_propagation(metrics, metric) for metric in PLOTS),
        _small_batch(metrics),
        _clipping(metrics),
        _error_of_resnets(metrics),
        _loss_of_resnets(metrics),
        _error_on_imagenet(metrics),
    ]
    return [shown for shown in drawn if shown]


def _propagation(metrics: pl.DataFrame, metric: str) -> Figure | None:
    """One number of the signal against the block, with the analytic curves."""
    names = ("batchnorm", "relu_bn", "he", "nf", "nf_no_gamma")
    arms = arms_present(metrics, "signal_propagation", {name: NAMES[name] for name in names})
    if not arms:
        return None
    title, caption = PLOTS[metric]
    lines = pl.col("metric").is_in([metric, f"predicted_{metric}"])  # not `diverged`, which is 0
    drawn = metrics.with_columns(
        pl.when(lines).then(pl.col("value").clip(FLOOR)).otherwise(pl.col("value")).alias("value")
    )
    chart = seed_band(
        drawn,
        experiment="signal_propagation",
        metric=metric,
        split="none",
        arms=arms,
        methods=METHODS,
        x_title="residual block",
        log_y=True,
    )
    curves = (
        drawn.filter((pl.col("metric") == f"predicted_{metric}") & pl.col("arm").is_in(list(arms)))
        .group_by("step", "value")
        .agg(pl.col("arm").min())
        .sort("arm", "step")
    )
    analytic = (
        alt.Chart(series.values(curves))
        .mark_line(strokeWidth=1.5, strokeDash=[2, 3], color="gray")
        .encode(
            x="step:Q", y=alt.Y("value:Q", scale=series.scale(log=True, padding=12)), detail="arm:N"
        )
    )
    chart.layer.append(analytic)
    return Figure(
        title,
        f"{caption} Lines: mean over the seeds, with their range; dots: the analytic curves. "
        f"Values below {FLOOR:g} are drawn there.",
        chart,
    )


def _small_batch(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Error at batches of 4 and of 128",
        "The same examples in the same order, once, and a learning rate in proportion to the "
        "batch: a batch of 4 takes 32 times as many steps, each 32 times as small.",
        sweep,
        metrics,
        experiment="small_batch",
        metric="test_error_percent",
        points=SMALL_BATCH,
        methods=METHODS,
        x_title="batch (examples)",
    )


def _clipping(metrics: pl.DataFrame) -> Figure | None:
    cells = arms_present(metrics, "agc", AGC_CELLS)
    if not cells:
        return None
    of_agc = metrics.filter((pl.col("experiment") == "agc") & pl.col("arm").is_in(list(cells)))
    diverged = of_agc.filter(pl.col("metric") == "diverged")
    error = of_agc.filter(pl.col("metric") == "test_error_percent")
    last = error.sort("step").group_by("arm", "seed").agg(pl.col("value").last())
    finished = last.join(diverged.filter(pl.col("value") > 0), on=["arm", "seed"], how="anti")
    counts = diverged.group_by("arm").agg(
        runs=pl.len(), diverged=(pl.col("value") > 0).sum(), share=(pl.col("value") > 0).mean()
    )
    words = {"plain": "no clipping", "agc": "clipping"}
    table = pl.DataFrame(
        [(arm, f"{words[name]}, {batch}", lr) for arm, (name, batch, lr) in cells.items()],
        schema=["arm", "row", "lr"],
        orient="row",
    ).join(counts, on="arm")
    errors = finished.group_by("arm").agg(error=pl.col("value").mean().round(0).cast(pl.Int64))
    table = table.join(errors, on="arm", how="left").with_columns(
        label=pl.format("{}/{}", "diverged", "runs")
        + pl.when(pl.col("error").is_null())
        .then(pl.lit(""))
        .otherwise(pl.format("; {} %", "error"))
    )
    base = alt.Chart(series.values(table.sort("arm"))).encode(
        x=alt.X("lr:O", title="learning rate for a batch of 256", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("row:N", title=None, sort=list(dict.fromkeys(table["row"]))),
    )
    share = alt.Color(
        "share:Q",
        title="share diverged",
        scale=alt.Scale(domain=[0, 1], scheme="oranges"),
        legend=alt.Legend(format=".0%"),
    )
    heat = series.layered(
        [
            base.mark_rect().encode(color=share, tooltip=["arm:N", "label:N"]),
            base.mark_text(fontSize=13, color="black").encode(text="label:N"),
        ],
        "",
        height=200,
    )
    return Figure(
        "Learning rate and batch with and without adaptive gradient clipping",
        "An NF-ResNet. Each cell: runs that diverged / runs started, and the mean test error of "
        "those that did not (chance is 90 percent). The rate of a run is the one shown times its "
        "batch over 256.",
        heat,
    )


def _error_of_resnets(metrics: pl.DataFrame) -> Figure | None:
    names = ("batchnorm", "nf", "skipinit", "fixup")
    return figure(
        "Test error of BatchNorm, NF, SkipInit and Fixup",
        "One dot a seed; the same network, steps, rate and regularisation for all.",
        dots_by_arm,
        metrics,
        experiment="small_resnet",
        metric="test_error_percent",
        arms={name: NAMES[name] for name in names},
        methods=METHODS,
    )


def _loss_of_resnets(metrics: pl.DataFrame) -> Figure | None:
    names = ("batchnorm", "nf", "skipinit", "fixup")
    return figure(
        "Training loss of the four",
        "Mean and range over the seeds, with label smoothing and stochastic depth.",
        seed_band,
        metrics,
        experiment="small_resnet",
        metric="train_loss",
        split="train",
        arms={name: NAMES[name] for name in names},
        methods=METHODS,
    )


def _error_on_imagenet(metrics: pl.DataFrame) -> Figure | None:
    names = {f"{arm}-1024": NAMES[arm] for arm in ("batchnorm", "nf", "skipinit", "fixup")}
    names |= {"batchnorm-4": NAMES["batchnorm"], "nf-4": NAMES["nf"]}
    return figure(
        "Test error of ResNet-50 on ImageNet",
        "One dot a seed, at batches of 1024 (90 epochs) and 4 (15 epochs); Tables 1 and 2.",
        dots_by_arm,
        metrics,
        experiment="imagenet_resnet50",
        metric="test_error_percent",
        arms=names,
        methods=METHODS,
    )
