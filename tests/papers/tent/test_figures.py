"""The figures are drawn from any metrics table: whole, in part, with diverged and missing runs."""

from __future__ import annotations

import itertools

import polars as pl
import pytest

from papers.tent.figures import figures
from shared.records.experiment import read_experiments
from shared.records.metrics import Row, table
from shared.records.paper import paper_file
from shared.reporting import vega

EXPERIMENTS = read_experiments(paper_file("tent"))


def run(experiment, arm, seed, diverged):
    """The rows of one run, with made-up values; a diverged run has none."""
    rows = [Row("diverged", float(diverged), "flag", "run")]
    if diverged or experiment in ("source", "identities"):
        return table(experiment, arm, seed, rows)
    for step, kind in itertools.product((1, 2), ("fog", "snow")):
        rows.append(Row("error_percent", 20.0 + seed + step, "percent", kind, step))
        if experiment == "shifts" and arm == "tent":
            rows.append(Row("entropy_change", -0.1 * step, "nats", kind, step))
            rows.append(Row("loss_change", 0.1 - 0.1 * step, "nats", kind, step))
    rows += [Row("mean_error_percent", 20.0 + seed + step, "percent", step=step) for step in (1, 2)]
    return table(experiment, arm, seed, rows)


def metrics(scale, diverged=()):
    return pl.concat(
        run(name, arm, seed, arm in diverged)
        for name, experiment in EXPERIMENTS.items()
        for arm, seed in itertools.product(experiment.arms_at(scale), range(2))
    )


def check(drawn):
    assert len({figure.title for figure in drawn}) == len(drawn)
    for figure in drawn:
        assert vega.png(vega.spec(figure.chart)).startswith(b"\x89PNG"), figure.title
        assert figure.caption.endswith(".")


@pytest.mark.parametrize(("scale", "count"), [("smoke", 6), ("laptop", 6), ("full", 5)])
def test_all_figures_of_a_scale(scale, count):
    drawn = figures(metrics(scale), scale)
    assert len(drawn) == count
    check(drawn)


def test_runs_that_diverged_do_not_break_a_figure():
    check(figures(metrics("laptop", diverged=("all_parameters", "tent_single")), "laptop"))


def test_a_table_of_one_experiment_gives_its_figures_alone():
    whole = metrics("laptop")
    for name, count in (("corruptions", 1), ("shifts", 2), ("source", 0)):
        assert len(figures(whole.filter(pl.col("experiment") == name), "laptop")) == count
