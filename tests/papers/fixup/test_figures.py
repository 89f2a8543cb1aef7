"""The figures are drawn from any metrics table: whole, in part, with diverged and missing runs."""

from __future__ import annotations

import itertools
import json

import polars as pl
import pytest

from papers.fixup.figures import METHODS, NAMES, figures
from shared.records.experiment import read_experiments
from shared.records.metrics import Row, table
from shared.records.paper import paper_file
from shared.reporting import vega

EXPERIMENTS = read_experiments(paper_file("fixup"))


def run(experiment, arm, seed, *, diverged=False):
    """The rows of one run, with made-up values; a diverged run stops before its last ones."""
    rows = [Row("diverged", float(diverged), "flag", "run", 20)]
    if experiment == "signal_growth":
        rows += [Row("log2_variance", float(block), "bit", step=block) for block in range(4)]
    elif experiment == "update_size":
        rows.append(Row("overflowed", float(diverged), "flag"))
        if not diverged:
            rows.append(Row("second_logit_change", 0.1 + seed, "logit", step=2))
    elif experiment != "step0":
        rows += [Row("train_loss", 2.3 - step / 20, "nats", "train", step) for step in (10, 20)]
        if not diverged:
            rows.append(Row("test_error_percent", 20.0 + seed, "percent", "test", 20))
    return table(experiment, arm, seed, rows)


def metrics(scale, diverged=()):
    return pl.concat(
        run(name, arm, seed, diverged=arm.partition("-")[0] in diverged)
        for name, experiment in EXPERIMENTS.items()
        for arm, seed in itertools.product(experiment.arms_at(scale), range(2))
    )


def titles(drawn):
    return [figure.title for figure in drawn]


def check(drawn):
    for figure in drawn:
        assert vega.png(vega.spec(figure.chart)).startswith(b"\x89PNG"), figure.title
        assert figure.caption.endswith(".")


@pytest.mark.parametrize(("scale", "count"), [("smoke", 5), ("laptop", 5), ("full", 6)])
def test_all_figures_of_a_scale(scale, count):
    drawn = figures(metrics(scale), scale)
    assert len(drawn) == count
    assert len(set(titles(drawn))) == count
    check(drawn)


def test_diverged_runs_are_counted_in_the_figure():
    drawn = figures(metrics("laptop", diverged=("he", "zero_init")), "laptop")
    check(drawn)
    sweep = json.dumps(next(f for f in drawn if "depth" in f.title).chart.to_dict())
    assert "2/2" in sweep


def test_missing_runs_and_experiments_leave_the_other_figures():
    whole = metrics("laptop")
    partial = whole.filter(
        (pl.col("experiment") != "signal_growth") & ~pl.col("arm").is_in(["fixup-1000", "xavier"])
    )
    drawn = figures(partial, "laptop")
    assert titles(drawn) == [t for t in titles(figures(whole, "laptop")) if "Variance" not in t]
    check(drawn)
    assert figures(whole.clear(), "laptop") == []


def test_every_arm_of_the_resnet_has_a_name_and_a_colour():
    assert set(EXPERIMENTS["small_resnet"].all_arms()) == set(NAMES)
    assert len(set(METHODS)) == len(NAMES)
