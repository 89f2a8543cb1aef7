"""The figures are drawn from any metrics table: whole, in part, and with diverged runs."""

from __future__ import annotations

import itertools

import polars as pl

from papers.adab2n.figures import TASKS, figures
from shared.records.experiment import read_experiments
from shared.records.metrics import Row, table
from shared.records.paper import paper_file
from shared.reporting import vega

EXPERIMENTS = read_experiments(paper_file("adab2n"))


def run(name, arm, seed, *, diverged=False, steps=5):
    """The rows of one run, with made-up values; a diverged run has tested nothing."""
    rows = [Row("diverged", float(diverged), "flag", "run", 500)]
    if EXPERIMENTS[name].kind == "measurement":
        rows += [Row("eta", 1 / step, "1", step=step) for step in range(1, steps)]
    elif not diverged:
        percent = [20.0 + seed, "percent", "test"]
        rows += [Row("final_average_accuracy_percent", *percent, 500)]
        rows += [Row("forgetting_percent", *percent, 500)]
        for step in range(100, 100 * steps + 1, 100):
            rows += [Row(m, *percent, step) for m in ("average_accuracy_percent", *TASKS)]
            distance = Row("running_mean_distance_to_seen_tasks", 0.1, "sd", "test", step)
            rows += [distance, Row("sum_of_weights", 0.9, "1", "train", step)]
    return table(name, arm, seed, rows)


def metrics(scale, diverged=()):
    return pl.concat(
        run(name, arm, seed, diverged=arm in diverged)
        for name, experiment in EXPERIMENTS.items()
        for arm, seed in itertools.product(experiment.arms_at(scale), range(2))
    )


def test_all_figures_of_a_scale():
    for scale in ("smoke", "laptop", "full"):
        drawn = figures(metrics(scale), scale)
        assert len({figure.title for figure in drawn}) == len(drawn) == 9
    for figure in drawn:
        assert vega.png(vega.spec(figure.chart)).startswith(b"\x89PNG"), figure.title
        assert figure.caption.endswith(".")


def test_diverged_and_missing_runs_do_not_stop_a_figure():
    assert len(figures(metrics("laptop", diverged=("full", "psi")), "laptop")) == 8
    only = metrics("laptop").filter(pl.col("experiment") == "momentum")
    assert [figure.title for figure in figures(only, "laptop")] == [
        "Share of a batch in the running statistics"
    ]
    assert figures(only.clear(), "laptop") == []
