"""The figures of the page: pictures of the runs, and charts of the metrics table."""

from __future__ import annotations

import polars as pl

from shared.reporting.figures import Figure, arms_present, figure, seed_band, sweep
from shared.reporting.generated import distance_in_training, distances, samples
from shared.reporting.pictures import Pictures, pictures

NAMES = {
    "gran": "GraN",
    "sn": "spectral norm",
    "gp": "gradient penalty",
    "none": "no norm",
    "gn": "GN (GN-GAN)",
    "gran_hinge": "GraN, hinge",
    "sn_hinge": "spectral norm, hinge",
    "gran_tuned": "GraN, K tuned",
}
JUMPS = {"0": "eps small", "1": "eps as large as w²"}
LOSSES = {"wasserstein": "Wasserstein", "hinge": "hinge", "non_saturating": "non-saturating"}
METHODS = tuple(NAMES.values())


def figures(metrics: pl.DataFrame, scale: str) -> list[Figure | Pictures]:
    """The figures for which there are runs: not every experiment is run at every scale."""
    main = "cifar10" if scale == "full" else "methods"
    drawn = [
        samples(
            "gran",
            metrics,
            scale,
            experiment=main,
            arms=NAMES,
            seeds=(0, 1, 2),
            note=" Shown up to the step that all arms reach.",
        ),
        *_distances(metrics, main),
        distance_in_training(metrics, experiment=main, arms=NAMES, methods=METHODS),
        _against_time(metrics, main),
        _constant(metrics, "fid", "Distance against K"),
        _constant(metrics, "tiny_gradient_share", "Where the critic has nothing left to learn"),
        _constant(metrics, "adam_room", "How far the critic's gradients are above Adam's eps"),
        _samples_of_constant(metrics, scale),
        _eps(metrics),
        _slope(metrics, main, "score_slope_max", "The steepest score during training"),
        _slope(metrics, main, "network_slope", "Slope of the network itself"),
        _jumps(metrics),
        _trajectories(metrics),
    ]
    return [shown for shown in drawn if shown]


def _distances(metrics: pl.DataFrame, experiment: str) -> list[Figure | None]:
    return [
        distances(metrics, when, experiment=experiment, metric=metric, arms=NAMES, methods=METHODS)
        for metric, when in (
            ("fid_at_equal_steps", "after equally many generator steps"),
            ("fid", "after equal time"),
        )
        if metric in set(metrics.filter(pl.col("experiment") == experiment)["metric"])
    ]


def _against_time(metrics: pl.DataFrame, experiment: str) -> Figure | None:
    """Steps become seconds with the time of an update that the experiment `cost` measured."""
    measured = metrics.filter(
        (pl.col("experiment") == "cost") & pl.col("metric").str.starts_with("update_ms_")
    )
    milliseconds = {
        metric.removeprefix("update_ms_"): value
        for metric, value in measured.group_by("metric").agg(pl.col("value").median()).iter_rows()
    }
    arms = arms_present(metrics, experiment, {arm: NAMES[arm] for arm in milliseconds})
    if not arms or experiment != "methods":
        return None
    timed = metrics.filter(pl.col("arm").is_in(list(arms))).with_columns(
        step=pl.col("step") * pl.col("arm").replace_strict(milliseconds, default=0.0) / 1000
    )
    return Figure(
        "Distance against time",
        "As above; the time is the number of steps times the median time of an update, which was "
        "measured with the methods in turn. Start and evaluations are left out.",
        seed_band(
            timed,
            experiment=experiment,
            metric="fid",
            arms=arms,
            methods=METHODS,
            x_title="seconds of updates",
            log_y=True,
        ),
    )


def _constant(metrics: pl.DataFrame, metric: str, title: str) -> Figure | None:
    experiment = "constant"
    points = {
        f"{method}-{text}": (NAMES[method], float(text))
        for method in ("gran", "sn")
        for text in ("0.01", "0.1", "1", "10", "100")
    }
    captions = {
        "fid": "Short trainings with the non-saturating loss; K multiplies the score. GraN's score "
        "has a slope of at most K in each piece.",
        "tiny_gradient_share": "Share of the scores by which the critic's loss has a derivative "
        "below 0.01, at the end of the same trainings; 1 is a plateau of the loss.",
        "adam_room": "Decades between the size of the gradient of the median weight, as Adam sees "
        "it, and its eps of 1e-8. Below 0 Adam's steps shrink with the gradient.",
    }
    return figure(
        title,
        captions[metric],
        sweep,
        metrics,
        experiment=experiment,
        metric=metric,
        split="test" if metric == "fid" else "train",
        points=points,
        methods=METHODS,
        x_title="K",
    )


def _samples_of_constant(metrics: pl.DataFrame, scale: str) -> Pictures | None:
    arms = {f"gran-{text}": f"GraN, K = {text}" for text in ("0.01", "0.1", "1", "10", "100")}
    return pictures(
        "gran",
        scale,
        experiment="constant",
        arms=arms_present(metrics, "constant", arms),
        seeds=(0, 1, 2),
        title="Samples by K",
        caption="At the end of the short trainings, with the same noise in every picture.",
    )


def _eps(metrics: pl.DataFrame) -> Figure | None:
    texts = ("0.0001", "0.001", "0.01", "0.1", "1", "10")
    points = {f"{text}": (NAMES["gran"], float(text)) for text in texts}
    return figure(
        "Distance against eps",
        "Short trainings of GraN at K = 1. The paper's eps was not found, so it was chosen from "
        "such runs on other seeds.",
        sweep,
        metrics,
        experiment="eps",
        metric="fid",
        points=points,
        methods=METHODS,
        x_title="eps",
    )


def _slope(metrics: pl.DataFrame, experiment: str, metric: str, title: str) -> Figure | None:
    captions = {
        "score_slope_max": "Largest slope of the score by the image, of 250 test images and 250 "
        "fakes, over K. GraN and GN stay at 1 or below; the others may not.",
        "network_slope": "Median of w, the slope of the network before its score is normalised. "
        "GraN's score is almost 0 where w² is far below eps.",
    }
    return figure(
        title,
        captions[metric] + " Mean and range over the seeds.",
        seed_band,
        metrics,
        experiment=experiment,
        metric=metric,
        split="train",
        arms=NAMES,
        methods=METHODS,
        x_title="generator step",
        log_y=True,
    )


def _jumps(metrics: pl.DataFrame) -> Figure | None:
    """One line for each kind of weights, at the smaller eps."""
    names = {"random": "random weights", "trained": "trained weights"}
    return figure(
        "Over the edges of the pieces the bound does not hold",
        "Largest |g(y) - g(x)| / |y - x| of pairs on lines from real images to fakes, K = 1, eps a "
        "hundredth of the median w². In a piece it is at most 1; a jump between pieces is divided "
        "by an ever smaller distance.",
        seed_band,
        metrics,
        experiment="jumps",
        metric="pair_slope_max_0",
        split="none",
        arms=names,
        methods=tuple(names.values()),
        x_title="distance of the pair, 10 to the minus",
        log_y=True,
    )


def _trajectories(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "How far K moves the end of a training, with Adam's usual eps",
        "Distance of all weights from those of K = 1, over the way from the start, after the same "
        "images and noises in float64. With the Wasserstein loss K scales the gradient and nothing "
        "else, and Adam divides it out until it comes near its eps of 1e-8.",
        seed_band,
        metrics,
        experiment="trajectories",
        metric="eps_difference",
        split="none",
        arms=LOSSES,
        methods=tuple(LOSSES.values()),
        x_title="K, 10 to the",
        log_y=True,
    )
