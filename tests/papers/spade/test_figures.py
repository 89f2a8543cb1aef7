"""The figures are drawn from any metrics table: whole, in part, with diverged and missing runs."""

from __future__ import annotations

import itertools

import polars as pl
import pytest

from papers.spade.figures import METHODS, NAMES, figures
from shared.records.experiment import read_experiments
from shared.records.metrics import Row, table
from shared.records.paper import paper_file
from shared.reporting import vega
from shared.reporting.figures import Figure

EXPERIMENTS = read_experiments(paper_file("spade"))


@pytest.fixture(autouse=True)
def _no_runs_on_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(experiment, arm, seed, *, diverged=False):
    """The rows of one run, with made-up values; a diverged run stops before its first measures."""
    rows = [Row("diverged", float(diverged), "flag", "run", 20)]
    if experiment == "segmenter":
        rows += [
            Row(name, 61.0, "percent", "test", 9) for name in ("miou", "single_label_accuracy")
        ]
    elif experiment in ("collages", "photographs") and not diverged:
        for step in (10, 20):
            for name in ("miou", "single_label_accuracy", "fid"):
                rows.append(Row(name, 30.0 + step + seed, "percent", "test", step))
            rows.append(Row("segmenter_sha256_start", 0xABC, "bits", "test", step))
    return table(experiment, arm, seed, rows)


def metrics(scale, diverged=()):
    return pl.concat(
        run(name, arm, seed, diverged=arm in diverged)
        for name, experiment in EXPERIMENTS.items()
        for arm, seed in itertools.product(experiment.arms_at(scale), range(2))
    )


def check(drawn):
    for figure in drawn:
        assert isinstance(figure, Figure)
        assert vega.png(vega.spec(figure.chart)).startswith(b"\x89PNG"), figure.title
        assert figure.caption.rstrip("…").endswith((".", "000000000abc")), figure.title


@pytest.mark.parametrize(("scale", "count"), [("smoke", 4), ("laptop", 4), ("full", 1)])
def test_all_figures_of_a_scale(scale, count):
    drawn = figures(metrics(scale), scale)
    assert len({figure.title for figure in drawn}) == count
    check(drawn)


def test_a_number_names_the_weights_of_its_segmenter_and_what_it_finds_in_real_images():
    shown = figures(metrics("laptop"), "laptop")[0].caption
    assert "sha256 000000000abc" in shown
    assert "On real images it finds 61.0 percent" in shown


def test_diverged_and_missing_runs_leave_the_other_figures():
    check(figures(metrics("laptop", diverged=("concat", "clade")), "laptop"))
    whole = metrics("laptop")
    check(figures(whole.filter(pl.col("arm") != "spade"), "laptop"))
    assert figures(whole.clear(), "laptop") == []


def test_every_arm_has_a_name_and_a_colour():
    assert set(EXPERIMENTS["collages"].all_arms()) == set(NAMES)
    assert len(set(METHODS)) == len(NAMES)
