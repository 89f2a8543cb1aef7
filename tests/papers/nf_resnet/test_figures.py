"""The figures are drawn from any metrics table: whole, in part, with diverged and missing runs."""

from __future__ import annotations

import itertools
import json

import polars as pl
import pytest

from papers.nf_resnet.figures import AGC_CELLS, METHODS, NAMES, PLOTS, SMALL_BATCH, figures
from shared.records.experiment import read_experiments
from shared.records.metrics import Row, table
from shared.records.paper import paper_file
from shared.reporting import vega

EXPERIMENTS = read_experiments(paper_file("nf_resnet"))
TRAINED = ("small_batch", "small_resnet", "agc", "imagenet_resnet50")


def run(experiment, arm, seed, *, diverged=False):
    """The rows of one run, with made-up values; a diverged run stops before its last ones."""
    rows = [Row("diverged", float(diverged), "flag", "run", 20)]
    if experiment == "signal_propagation":
        for block, metric in itertools.product(range(1, 4), PLOTS):
            rows.append(Row(metric, 0.0 if metric == "squared_mean" else block, "1", step=block))
            rows.append(Row(f"predicted_{metric}", block, "1", step=block))
    elif experiment in TRAINED:
        rows += [Row("train_loss", 2.3 - step / 20, "nats", "train", step) for step in (10, 20)]
        if not diverged:
            rows.append(Row("test_error_percent", 20.0 + seed, "percent", "test", 20))
    return table(experiment, arm, seed, rows)


def metrics(scale, diverged=()):
    return pl.concat(
        run(name, arm, seed, diverged=arm in diverged)
        for name, experiment in EXPERIMENTS.items()
        for arm, seed in itertools.product(experiment.arms_at(scale), range(2))
    )


def check(drawn):
    for figure in drawn:
        assert vega.png(vega.spec(figure.chart)).startswith(b"\x89PNG"), figure.title
        assert figure.caption.endswith(".")


@pytest.mark.parametrize(("scale", "count"), [("smoke", 7), ("laptop", 7), ("full", 6)])
def test_all_figures_of_a_scale(scale, count):
    drawn = figures(metrics(scale), scale)
    assert len({figure.title for figure in drawn}) == len(drawn) == count
    check(drawn)


def test_the_analytic_curves_and_values_at_the_floor_are_drawn():
    drawn = figures(metrics("laptop"), "laptop")
    chart = next(f for f in drawn if f.title.startswith("Squared channel mean")).chart.to_dict()
    dashed = [layer for layer in chart["layer"] if layer["mark"].get("strokeDash")]
    assert len(dashed) == 1
    assert "0.0001" in json.dumps(chart)
    assert "diverged" not in json.dumps(chart)


def test_diverged_runs_are_counted_in_the_heat_map():
    cells = ("plain-256-3.2", "plain-32-3.2")
    drawn = figures(metrics("laptop", diverged=cells), "laptop")
    check(drawn)
    heat = json.dumps(next(f for f in drawn if "clipping" in f.title).chart.to_dict())
    assert heat.count("2/2") >= 2
    assert "0/2; 20 %" in heat


def test_missing_runs_and_experiments_leave_the_other_figures():
    whole = metrics("laptop")
    partial = whole.filter((pl.col("experiment") != "agc") & (pl.col("arm") != "he"))
    drawn = figures(partial, "laptop")
    kept = [f.title for f in figures(whole, "laptop") if "clipping" not in f.title]
    assert [f.title for f in drawn] == kept
    check(drawn)
    assert figures(whole.clear(), "laptop") == []


def test_the_arms_that_figures_show_are_those_of_the_experiments():
    assert set(SMALL_BATCH) == set(EXPERIMENTS["small_batch"].all_arms())
    assert set(AGC_CELLS) == set(EXPERIMENTS["agc"].all_arms())
    assert set(EXPERIMENTS["small_resnet"].all_arms()) <= set(NAMES)
    assert len(set(METHODS)) == len(NAMES)
