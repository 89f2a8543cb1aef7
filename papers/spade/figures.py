"""The figures of the page: pictures of the runs, and charts of the metrics table."""

from __future__ import annotations

import polars as pl

from shared.reporting.figures import Figure, arms_present, dots_by_arm, figure, seed_band
from shared.reporting.generated import network_used
from shared.reporting.pictures import Pictures, pictures

NAMES = {
    "spade": "SPADE",
    "concat": "concatenated",
    "clade": "table of labels (CLADE)",
    "spade_map": "SPADE, map at the input too",
    "concat_map": "concatenated, map at the input too",
    "input_only": "map at the input only",
    "spade_1x1": "SPADE, 1x1 kernels",
    "spade_instance": "SPADE on instance norm",
    "spade_layer": "SPADE on layer norm",
}
METHODS = tuple(NAMES.values())
COMPARED = ("spade", "concat", "clade", "input_only")
SEEDS = (0, 1, 2)
PHOTOGRAPHS = {"ade20k": "ADE20K", "cityscapes": "Cityscapes"}


def figures(metrics: pl.DataFrame, scale: str) -> list[Figure | Pictures]:
    """The figures for which there are runs: not every experiment is run at every scale."""
    drawn = [
        _samples(metrics, scale, COMPARED, "Layouts and what is drawn of them, during training"),
        _last_samples(metrics, scale),
        _styles(metrics, scale),
        _edits(metrics, scale),
        _dots(
            metrics,
            "miou",
            "Layouts that are read back from the images",
            "Mean IoU of 11 labels that the segmenter finds in fakes of test collages, at the end; "
            "one dot a seed, the tick is the mean." + _limit(metrics, "miou"),
        ),
        _dots(
            metrics,
            "single_label_accuracy",
            "Layouts with a single label",
            "Pixels in which the segmenter finds the one label of the layout, at the end. A "
            "generator that draws the same for all ten labels reaches 10 percent at most."
            + _limit(metrics, "single_label_accuracy"),
        ),
        _in_training(metrics, "miou", "Mean IoU during training"),
        _in_training(metrics, "fid", "Distance of the images from test collages during training"),
        _photographs(metrics),
        *(_drawn_photographs(metrics, scale, arm) for arm in PHOTOGRAPHS),
    ]
    return [shown for shown in drawn if shown]


def _samples(
    metrics: pl.DataFrame, scale: str, shown: tuple[str, ...], title: str
) -> Pictures | None:
    return pictures(
        "spade",
        scale,
        experiment="collages",
        arms=arms_present(metrics, "collages", {arm: NAMES[arm] for arm in shown}),
        seeds=SEEDS,
        title=title,
        caption="Twelve test layouts, each with its image to the right; the same layouts in every "
        "picture and, where a generator gets one, the same noise. A layout in one colour has a "
        "single label. Step 0 is before the training; the last row has the real images.",
        legend="layouts and real images",
    )


def _last_samples(metrics: pl.DataFrame, scale: str) -> Pictures | None:
    others = tuple(arm for arm in NAMES if arm not in COMPARED)
    return _samples(metrics, scale, others, "The same layouts by the other generators")


def _styles(metrics: pl.DataFrame, scale: str) -> Pictures | None:
    return pictures(
        "spade",
        scale,
        experiment="collages",
        arms=arms_present(metrics, "collages", {arm: NAMES[arm] for arm in ("spade", "concat")}),
        seeds=SEEDS,
        title="One layout, several styles",
        caption="A row is a layout and what is drawn of it with five noises. The map sets the "
        "layout; how much the style differs is what the noise has come to mean in so few steps.",
        prefix="styles",
        real="",
    )


def _edits(metrics: pl.DataFrame, scale: str) -> Pictures | None:
    return pictures(
        "spade",
        scale,
        experiment="collages",
        arms=arms_present(metrics, "collages", {arm: NAMES[arm] for arm in COMPARED}),
        seeds=SEEDS,
        title="Editing a layout",
        caption="In a row: a layout and its image, the layout with another label for one of its "
        "items and its image with the same noise, the region that was edited, and how much each "
        "pixel changed.",
        prefix="edits",
        real="",
    )


def _dots(metrics: pl.DataFrame, metric: str, title: str, caption: str) -> Figure | None:
    return figure(
        title,
        caption + network_used(metrics, "collages", "segmenter"),
        dots_by_arm,
        metrics,
        experiment="collages",
        metric=metric,
        arms=NAMES,
        methods=METHODS,
    )


def _in_training(metrics: pl.DataFrame, metric: str, title: str) -> Figure | None:
    shown = {arm: NAMES[arm] for arm in (*COMPARED, "spade_1x1")}
    return figure(
        title,
        "Mean and range over the seeds, against generator steps.",
        seed_band,
        metrics,
        experiment="collages",
        metric=metric,
        arms=shown,
        methods=METHODS,
        x_title="generator step",
    )


def _photographs(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Distance of drawn from real photographs during training",
        "FID of Inception's features, mean and range over the seeds.",
        seed_band,
        metrics,
        experiment="photographs",
        metric="fid",
        arms=PHOTOGRAPHS,
        methods=tuple(PHOTOGRAPHS.values()),
        x_title="generator step",
    )


def _drawn_photographs(metrics: pl.DataFrame, scale: str, arm: str) -> Pictures | None:
    return pictures(
        "spade",
        scale,
        experiment="photographs",
        arms=arms_present(metrics, "photographs", {arm: PHOTOGRAPHS[arm]}),
        seeds=SEEDS,
        title=f"Layouts and what is drawn of them, {PHOTOGRAPHS[arm]}",
        caption="Validation layouts, each with its image to the right.",
        legend="layouts and real images",
    )


def _limit(metrics: pl.DataFrame, metric: str) -> str:
    """What the segmenter finds in real test images."""
    rows = metrics.filter((pl.col("experiment") == "segmenter") & (pl.col("metric") == metric))
    return f" On real images it finds {rows['value'][-1]:.1f} percent." if rows.height else ""
