"""What every paper on generated images shows: its samples, their distance, and by which network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from shared.records.metrics import start_of_digest
from shared.reporting.figures import Figure, arms_present, dots_by_arm, figure, seed_band
from shared.reporting.pictures import Pictures, pictures


def network_used(metrics: pl.DataFrame, experiment: str, network: str = "feature_network") -> str:
    """A sentence that names the weights behind a number, from the runs' rows NETWORK_sha256_start.

    It begins with a space, so that it can follow a caption, and is empty where no run says it.
    """
    rows = metrics.filter(
        (pl.col("experiment") == experiment) & (pl.col("metric") == f"{network}_sha256_start")
    )
    digests = sorted({start_of_digest(value) for value in rows["value"]})
    name = network.replace("_", " ").capitalize()
    return f" {name}: sha256 {', '.join(digests)}…." if digests else ""


def samples(
    paper: str,
    metrics: pl.DataFrame,
    scale: str,
    *,
    experiment: str,
    arms: Mapping[str, str],
    seeds: Sequence[int],
    note: str = "",
) -> Pictures | None:
    """The grids of `shared.training.adversarial`, in which all runs draw the same noise."""
    return pictures(
        paper,
        scale,
        experiment=experiment,
        arms=arms_present(metrics, experiment, arms),
        seeds=seeds,
        title="Samples during training",
        caption="The same 24 noise vectors in every picture, so one place in the sheet is one "
        f"noise. Step 0 is before the training; the last row is from the test set.{note}"
        + network_used(metrics, experiment),
    )


def distances(
    metrics: pl.DataFrame,
    when: str,
    *,
    experiment: str,
    arms: Mapping[str, str],
    methods: Sequence[str],
    metric: str = "fid",
) -> Figure | None:
    """FID of each seed; `when` ends the title."""
    return figure(
        f"Distance of the samples from the test images, {when}",
        "FID, less is better; one dot a seed, the tick is the mean. The unit names the network and "
        "how many images were compared." + network_used(metrics, experiment),
        dots_by_arm,
        metrics,
        experiment=experiment,
        metric=metric,
        arms=arms,
        methods=methods,
    )


def distance_in_training(
    metrics: pl.DataFrame, *, experiment: str, arms: Mapping[str, str], methods: Sequence[str]
) -> Figure | None:
    """FID against generator steps."""
    return figure(
        "Distance during training",
        "Mean and range over the seeds, against generator steps.",
        seed_band,
        metrics,
        experiment=experiment,
        metric="fid",
        arms=arms,
        methods=methods,
        x_title="generator step",
        log_y=True,
    )
