"""The figures of the page, drawn from the metrics table alone."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from shared.reporting.figures import Figure, dots_by_arm, seed_band

NAMES = {
    "bn_separate": "BN, separate batches",
    "bn_joint": "BN, joint batch",
    "kappa": "+ kappa",
    "cumulative": "kappa = 0, cumulative",
    "psi": "+ psi",
    "lambda": "+ lambda",
    "full": "AdaB2N",
    "full_renormalised": "AdaB2N, renormalised",
    "cn_separate": "Continual Norm, separate",
    "cn_joint": "Continual Norm, joint",
    "group": "GroupNorm",
    "layer": "LayerNorm",
    "instance": "InstanceNorm",
}
METHODS = tuple(NAMES.values())
KAPPAS = {f"kappa-{kappa}": f"kappa = {kappa}" for kappa in ("0", "0.1", "0.4", "0.7", "1")}
TASKS = {f"task_{number}_accuracy_percent": f"task {number}" for number in range(1, 6)}
LEARNERS = {"er_ace": "ER-ACE", "derpp": "DER++"}


def figures(metrics: pl.DataFrame, scale: str) -> list[Figure]:
    """The figures for which the table has runs: not every arm is run at every scale."""
    drawn = [
        *(_final_accuracy(metrics, experiment) for experiment in LEARNERS),
        _average_accuracy(metrics),
        *(_accuracy_of_tasks(metrics, arm) for arm in ("bn_joint", "full")),
        _forgetting(metrics),
        _distance(metrics),
        _sum_of_weights(metrics),
        _eta(metrics),
    ]
    return [shown for shown in drawn if shown]


def _final_accuracy(metrics: pl.DataFrame, experiment: str) -> Figure | None:
    arms = _present(metrics, experiment, NAMES, "final_average_accuracy_percent")
    if not arms:
        return None
    return Figure(
        f"Final average accuracy with {LEARNERS[experiment]}",
        "Mean accuracy of all tasks at the end of the stream; one dot a seed, and each seed has an "
        "order of classes of its own. The paper compares AdaB2N with BN on separate batches; with "
        "the joint batch BN differs from it by the method alone.",
        dots_by_arm(
            metrics,
            experiment=experiment,
            metric="final_average_accuracy_percent",
            arms=arms,
            methods=METHODS,
        ),
    )


def _average_accuracy(metrics: pl.DataFrame) -> Figure | None:
    chosen = ("bn_separate", "bn_joint", "full", "cn_separate", "group")
    arms = _present(metrics, "er_ace", chosen, "average_accuracy_percent")
    if not arms:
        return None
    return Figure(
        "Accuracy over the stream (ER-ACE)",
        "Mean accuracy of the tasks seen so far, after each task: mean and range over the seeds. "
        "It falls because there are more classes to tell apart, and because of forgetting.",
        seed_band(
            metrics,
            experiment="er_ace",
            metric="average_accuracy_percent",
            arms=arms,
            methods=METHODS,
        ),
    )


def _accuracy_of_tasks(metrics: pl.DataFrame, arm: str) -> Figure | None:
    """Each task as a line of its own: its metric takes the place of an arm."""
    of_arm = metrics.filter((pl.col("experiment") == "er_ace") & (pl.col("arm") == arm))
    rows = of_arm.filter(pl.col("metric").is_in(list(TASKS))).with_columns(
        arm=pl.col("metric"), metric=pl.lit("accuracy_percent")
    )
    if rows.is_empty():
        return None
    tasks = {name: TASKS[name] for name in TASKS if name in set(rows["arm"])}
    status = of_arm.filter(pl.col("metric") == "diverged")
    started = [status.with_columns(arm=pl.lit(name)) for name in tasks]
    return Figure(
        f"Accuracy of each task over the stream: {NAMES[arm]} (ER-ACE)",
        "From the end of the task to the end of the stream: mean and range over the seeds. What "
        "a line loses is forgotten.",
        seed_band(
            pl.concat([rows, *started]),
            experiment="er_ace",
            metric="accuracy_percent",
            arms=tasks,
            methods=tuple(TASKS.values()),
        ),
    )


def _forgetting(metrics: pl.DataFrame) -> Figure | None:
    arms = _present(metrics, "er_ace", NAMES, "forgetting_percent")
    if not arms:
        return None
    return Figure(
        "Forgetting (ER-ACE)",
        "Best accuracy of a task before the end minus its accuracy at the end, mean over all tasks "
        "but the last. A method that never learns a task has nothing to forget, so this belongs "
        "beside the accuracy.",
        dots_by_arm(
            metrics,
            experiment="er_ace",
            metric="forgetting_percent",
            arms=arms,
            methods=METHODS,
        ),
    )


def _distance(metrics: pl.DataFrame) -> Figure | None:
    chosen = ("bn_separate", "bn_joint", "kappa", "cumulative", "full")
    arms = _present(metrics, "er_ace", chosen, "running_mean_distance_to_seen_tasks")
    if not arms:
        return None
    return Figure(
        "Running mean against the mean over all tasks seen so far (ER-ACE)",
        "Distance in standard deviations of a channel, mean over channels and layers, on test "
        "images with the same number of each class. Each task has an equal part of the steps.",
        seed_band(
            metrics,
            experiment="er_ace",
            metric="running_mean_distance_to_seen_tasks",
            arms=arms,
            methods=METHODS,
        ),
    )


def _sum_of_weights(metrics: pl.DataFrame) -> Figure | None:
    arms = _present(metrics, "er_ace", ("full", "full_renormalised"), "sum_of_weights")
    if not arms:
        return None
    return Figure(
        "Sum of the sample weights (ER-ACE)",
        "Mean over the last steps. Below 1 the batch's mean and variance are too small: tasks that "
        "were seen are missing from the batch, and the more so the more tasks there are.",
        seed_band(
            metrics,
            experiment="er_ace",
            metric="sum_of_weights",
            split="train",
            arms=arms,
            methods=METHODS,
        ),
    )


def _eta(metrics: pl.DataFrame) -> Figure | None:
    arms = _present(metrics, "momentum", KAPPAS, "eta")
    if not arms:
        return None
    return Figure(
        "Share of a batch in the running statistics",
        "Only kappa = 0 goes on falling, as 1/n. Every other kappa ends at 1 - 0.9^kappa, which "
        "forgets exponentially: with a horizon of 95 steps for kappa = 0.1, of 10 for kappa = 1.",
        seed_band(
            metrics,
            experiment="momentum",
            metric="eta",
            split="none",
            arms={arm: KAPPAS[arm] for arm in arms},
            methods=tuple(KAPPAS.values()),
            x_title="step",
            log_y=True,
        ),
    )


def _present(
    metrics: pl.DataFrame, experiment: str, shown: Iterable[str], metric: str
) -> dict[str, str]:
    """Those of the arms that the table has this metric of, in their order, with their names."""
    rows = metrics.filter((pl.col("experiment") == experiment) & (pl.col("metric") == metric))
    arms = set(rows["arm"])
    return {arm: NAMES.get(arm, arm) for arm in shown if arm in arms}
