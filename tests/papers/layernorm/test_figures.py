"""The figures are drawn from any metrics table: whole, in part, with diverged runs."""

from __future__ import annotations

import itertools
import json

import polars as pl
import pytest

from papers.layernorm.figures import TABLE_CHANGES, figures
from shared.records.experiment import read_experiments
from shared.records.metrics import Row, table
from shared.records.paper import paper_file
from shared.reporting import vega

EXPERIMENTS = read_experiments(paper_file("layernorm"))


def run(experiment, arm, seed, *, diverged=False):
    """The rows of one run, with made-up values; a diverged run stops before its last ones."""
    rows = [Row("diverged", float(diverged), "flag", "run", 20)]
    if experiment == "invariance":
        rows += [Row(name, 10.0 ** -(16 - seed), "1") for name in TABLE_CHANGES]
    elif experiment == "time_to_target":
        rows.append(Row("time_ratio", 0.8 + seed, "1"))
    elif experiment in ("mlp", "row_gru", "conv_net"):
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


def check(drawn):
    for figure in drawn:
        assert vega.png(vega.spec(figure.chart)).startswith(b"\x89PNG"), figure.title
        assert figure.caption.endswith(".")


@pytest.mark.parametrize(("scale", "count"), [("smoke", 7), ("laptop", 7), ("full", 4)])
def test_all_figures_of_a_scale(scale, count):
    drawn = figures(metrics(scale), scale)
    assert len({figure.title for figure in drawn}) == len(drawn) == count
    if scale == "laptop":
        check(drawn)


def test_diverged_runs_are_drawn():
    drawn = figures(metrics("laptop", diverged=("none", "batchnorm_all")), "laptop")
    assert len(drawn) == 7
    check(drawn[1:4])


def test_the_table_shows_the_largest_change_of_all_seeds():
    drawn = figures(metrics("laptop"), "laptop")[0]
    cells = json.dumps(vega.spec(drawn.chart))
    assert cells.count("1e-15") >= 24
    assert "1e-16" not in cells


def test_without_runs_there_is_no_figure():
    assert figures(metrics("laptop").clear(), "laptop") == []
