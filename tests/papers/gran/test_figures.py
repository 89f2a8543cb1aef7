"""The figures are drawn from any metrics table: whole, in part, with diverged and missing runs."""

from __future__ import annotations

import itertools

import polars as pl
import pytest

from papers.gran.figures import METHODS, NAMES, figures
from shared.records.experiment import read_experiments
from shared.records.metrics import Row, table
from shared.records.paper import paper_file
from shared.reporting import vega
from shared.reporting.figures import Figure

EXPERIMENTS = read_experiments(paper_file("gran"))
SLOPES = ("score_slope_max", "network_slope", "tiny_gradient_share", "adam_room")


@pytest.fixture(autouse=True)
def _no_runs_on_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(experiment, arm, seed, *, diverged=False):
    """The rows of one run, with made-up values; a diverged run stops before its first measures."""
    rows = [Row("diverged", float(diverged), "flag", "run", 20)]
    if experiment == "jumps":
        rows += [Row("pair_slope_max_0", 2.0**step, "K", step=step) for step in range(3)]
    elif experiment == "trajectories":
        rows += [Row("eps_difference", 10.0**-power, "of the way", step=power) for power in (0, 2)]
    elif experiment == "cost":
        rows += [Row(f"update_ms_{method}", 10.0, "ms") for method in list(NAMES)[:5]]
    elif EXPERIMENTS[experiment].kind == "training" and not diverged:
        for step in (10, 20):
            rows.append(Row("fid", 300.0 - step - seed, "FID", "test", step))
            rows.append(Row("feature_network_sha256_start", 0xABC, "bits", "test", step))
            rows += [Row(name, 0.5, "1", "train", step) for name in SLOPES]
        rows.append(Row("fid_at_equal_steps", 290.0 - seed, "FID", "test", 10))
    return table(experiment, arm, seed, rows)


def metrics(scale, diverged=()):
    return pl.concat(
        run(name, arm, seed, diverged=arm in diverged)
        for name, experiment in EXPERIMENTS.items()
        for arm, seed in itertools.product(experiment.arms_at(scale), range(2))
    )


def drawn_rows(figure):
    return [row for rows in vega.spec(figure.chart)["datasets"].values() for row in rows]


def check(drawn):
    for figure in drawn:
        assert isinstance(figure, Figure)
        assert vega.png(vega.spec(figure.chart)).startswith(b"\x89PNG"), figure.title
        assert figure.caption.rstrip("…").endswith((".", "000000000abc")), figure.title


@pytest.mark.parametrize(("scale", "count"), [("smoke", 12), ("laptop", 12), ("full", 7)])
def test_all_figures_of_a_scale(scale, count):
    drawn = figures(metrics(scale), scale)
    assert len({figure.title for figure in drawn}) == count
    check(drawn)


def test_a_distance_names_the_weights_of_its_network():
    assert "sha256 000000000abc" in figures(metrics("laptop"), "laptop")[0].caption


def test_the_time_of_an_arm_is_its_steps_times_its_update():
    (timed,) = [f for f in figures(metrics("laptop"), "laptop") if "against time" in f.title]
    assert {row["step"] for row in drawn_rows(timed) if "step" in row} == {0.1, 0.2}


def test_diverged_and_missing_runs_leave_the_other_figures():
    check(figures(metrics("laptop", diverged=("gran-1", "none")), "laptop"))
    whole = metrics("laptop")
    partial = whole.filter(~pl.col("experiment").is_in(["cost", "eps"]) & (pl.col("arm") != "sn"))
    assert len(figures(partial, "laptop")) == 10  # without those against eps and against time
    assert figures(whole.clear(), "laptop") == []


def test_every_arm_has_a_name_and_a_colour():
    for experiment in ("methods", "cifar10", "cifar100"):
        assert set(EXPERIMENTS[experiment].all_arms()) <= set(NAMES)
    assert len(set(METHODS)) == len(NAMES)


def test_the_sweeps_show_every_arm():
    drawn = {figure.title: figure for figure in figures(metrics("laptop"), "laptop")}
    for title, name in [("Distance against K", "constant"), ("Distance against eps", "eps")]:
        shown = {row["arm"] for row in drawn_rows(drawn[title]) if "arm" in row}
        assert shown == set(EXPERIMENTS[name].all_arms())
