"""The figures are drawn from any metrics table: whole, in part, with diverged and missing runs."""

from __future__ import annotations

import itertools

import polars as pl
import pytest

from papers.sngan.figures import METHODS, NAMES, figures
from shared.records.experiment import read_experiments
from shared.records.metrics import Row, table
from shared.records.paper import paper_file
from shared.reporting import vega
from shared.reporting.figures import Figure

EXPERIMENTS = read_experiments(paper_file("sngan"))


@pytest.fixture(autouse=True)
def _no_runs_on_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(experiment, arm, seed, *, diverged=False):
    """The rows of one run, with made-up values; a diverged run stops before its first measures."""
    rows = [Row("diverged", float(diverged), "flag", "run", 20)]
    if experiment == "measures":
        rows += [Row("fid_count", 100 / count, "FID", step=count) for count in (100, 500)]
    elif experiment in ("methods", "cifar10", "settings_mild", "settings_harsh") and not diverged:
        for step in (10, 20):
            rows.append(Row("fid", 300.0 - step - seed, "FID", "test", step))
            rows.append(Row("classifier_score", 1.0 + seed, "score", "test", step))
            rows.append(Row("feature_network_sha256_start", 0xABC, "bits", "test", step))
            rows += [Row(f"spectral_norm_{k}", 1.01, "1", "train", step) for k in range(1, 9)]
        for place in (1, 2, 3):
            rows.append(Row("relative_singular_value_5", 1 / place, "1", "spectrum", place))
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


@pytest.mark.parametrize(("scale", "count"), [("smoke", 6), ("laptop", 6), ("full", 4)])
def test_all_figures_of_a_scale(scale, count):
    drawn = figures(metrics(scale), scale)
    assert len({figure.title for figure in drawn}) == count
    check(drawn)


def test_a_distance_names_the_weights_of_its_network():
    shown = figures(metrics("laptop"), "laptop")[0].caption
    assert "sha256 000000000abc" in shown


def test_diverged_and_missing_runs_leave_the_other_figures():
    check(figures(metrics("laptop", diverged=("wgan_gp-e", "clip")), "laptop"))
    whole = metrics("laptop")
    partial = whole.filter((pl.col("experiment") != "measures") & (pl.col("arm") != "wn"))
    drawn = figures(partial, "laptop")
    assert len(drawn) == 4  # without the spectra of all three, and without the measures
    assert figures(whole.clear(), "laptop") == []


def test_every_arm_has_a_name_and_a_colour():
    for experiment in ("methods", "cifar10"):
        assert set(EXPERIMENTS[experiment].all_arms()) <= set(NAMES)
    assert len(set(METHODS)) == len(NAMES)
