"""The figures are drawn from any metrics table: whole, in part, with diverged and missing runs."""

from __future__ import annotations

import itertools
import json

import polars as pl
import pytest

from papers.batchnorm.figures import DEEP, IMAGENET, INCEPTION, METHODS, MLP, figures
from shared.records.experiment import read_experiments
from shared.records.metrics import Row, table
from shared.records.paper import paper_file
from shared.reporting import vega

EXPERIMENTS = read_experiments(paper_file("batchnorm"))
MEASUREMENTS = ("invariance", "inference")


def run(experiment, arm, seed, *, diverged=False):
    """The rows of one run, with made-up values; a diverged run stops before its last ones."""
    rows = [Row("diverged", float(diverged), "flag", "run", 20)]
    if experiment in MEASUREMENTS:
        return table(experiment, arm, seed, [*rows, Row("output_error", 1e-15, "1")])
    for step in (10, 20):
        rows.append(Row("train_loss", 2.3 - step / 20, "nats", "train", step))
        if not (diverged and step == 20):
            rows.append(Row("test_error_percent", 30.0 - step / 2 + seed, "percent", "test", step))
            if experiment in ("mlp", "sweep", "deep_sigmoid"):
                rows += [
                    Row(f"preactivation_p{p}", p / 50 - 1 + seed, "1", "test", step)
                    for p in (15, 50, 85)
                ]
    if not diverged:
        rows.append(Row("steps_to_target", 10.0 + seed, "step", "test", 20))
        rows.append(Row("preactivation_instability", 0.1 + seed, "1", "test", 20))
    return table(experiment, arm, seed, rows)


def metrics(scale, diverged=()):
    return pl.concat(
        run(name, arm, seed, diverged=(name, arm) in diverged)
        for name, experiment in EXPERIMENTS.items()
        for arm, seed in itertools.product(experiment.arms_at(scale), range(2))
    )


def titles(drawn):
    return [figure.title for figure in drawn]


def check(drawn):
    for figure in drawn:
        assert vega.png(vega.spec(figure.chart)).startswith(b"\x89PNG"), figure.title
        assert figure.caption.endswith(".")


@pytest.mark.parametrize(("scale", "count"), [("smoke", 7), ("laptop", 7), ("full", 5)])
def test_all_figures_of_a_scale(scale, count):
    drawn = figures(metrics(scale), scale)
    assert len(drawn) == count
    assert len(set(titles(drawn))) == count
    check(drawn)


def test_diverged_runs_are_counted_in_the_figure():
    drawn = figures(metrics("laptop", diverged=[("small_inception", "none-30")]), "laptop")
    steps = next(figure for figure in drawn if "against the learning rate" in figure.title)
    assert "2/2" in json.dumps(steps.chart.to_dict())


def test_missing_experiments_leave_the_other_figures():
    whole = metrics("laptop")
    drawn = figures(whole.filter(pl.col("experiment") != "mlp"), "laptop")
    assert len(drawn) == 4
    assert figures(whole.clear(), "laptop") == []


def test_the_heat_map_shows_the_last_error_of_every_cell():
    drawn = figures(metrics("laptop").filter(pl.col("experiment") == "sweep"), "laptop")
    (figure,) = drawn
    chart = figure.chart.to_dict()
    cells = chart["datasets"][chart["data"]["name"]]
    assert len(cells) == len(EXPERIMENTS["sweep"].arms_at("laptop"))
    assert {cell["error"] for cell in cells} == {20.5}
    assert {cell["row"].partition(",")[0] for cell in cells} == set(MLP.values())


def test_every_arm_has_a_name():
    assert set(EXPERIMENTS["small_inception"].all_arms()) == set(INCEPTION)
    assert set(EXPERIMENTS["deep_sigmoid"].all_arms()) == set(DEEP)
    assert set(EXPERIMENTS["imagenet_inception"].all_arms()) == set(IMAGENET)
    assert {*INCEPTION.values(), *IMAGENET.values()} == set(METHODS)
