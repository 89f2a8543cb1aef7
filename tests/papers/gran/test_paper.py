"""What paper.yaml has to hold of this paper alone; see test_every_paper.py for the rest."""

from __future__ import annotations

import pytest

from papers.gran.method import METHODS
from shared.records.experiment import SCALES, RunKey, resolve
from shared.records.paper import read_paper
from shared.training.entry import load_entry

PAPER = read_paper("gran")
RUNS = [
    RunKey(scale=scale, paper="gran", experiment=name, arm=arm, seed=0)
    for name, experiment in PAPER.experiments.items()
    for scale in SCALES
    for arm in experiment.arms_at(scale)
    if experiment.kind == "training"
]
JUDGED = [claim for claim in PAPER.claims if not claim.not_run]


def settings_of(scale, experiment, arm):
    key = RunKey(scale=scale, paper="gran", experiment=experiment, arm=arm, seed=0)
    return resolve(PAPER.experiments, key)


@pytest.mark.parametrize("key", RUNS, ids=lambda key: f"{key.scale}-{key.experiment}-{key.arm}")
def test_every_training_can_be_built_and_its_last_step_is_shown_and_measured(key):
    settings = resolve(PAPER.experiments, key)
    load_entry(settings)(**settings.settings | {"width": 2})
    if "eval_steps" in settings.settings:
        steps = settings.trainer.max_steps
        assert max(settings.settings["eval_steps"]) == steps
        # All arms have pictures of the same steps, so that they can be compared.
        equal = settings.settings.get("equal_steps", steps)
        assert max(settings.settings["grid_steps"]) == equal


def test_all_arms_are_measured_at_the_steps_of_gran_which_cost_reckons_with():
    arms = {arm: settings_of("laptop", "methods", arm) for arm in METHODS}
    equal = arms["gran"].trainer.max_steps
    for arm in arms.values():
        assert arm.settings["equal_steps"] == equal
        assert equal in arm.settings["eval_steps"]
        assert arm.trainer.max_steps >= equal
    budgets = settings_of("laptop", "cost", "interleaved").settings["budgets"]
    assert budgets == {name: arm.trainer.max_steps for name, arm in arms.items()}


def test_arms_differ_in_nothing_but_the_method_and_the_steps():
    free = {"method", "eps", "eval_steps", "grid_steps"}
    arms = [settings_of("laptop", "methods", arm) for arm in METHODS]
    first = {name: value for name, value in arms[0].settings.items() if name not in free}
    for arm in arms:
        assert {n: v for n, v in arm.settings.items() if n not in free} == first
        assert arm.data == arms[0].data


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_full_scale_is_the_stand_in_that_the_deviations_name(name):
    assert any("stand-in" in text for text in PAPER.deviations)
    for arm in PAPER.experiments[name].arms_at("full"):
        run = settings_of("full", name, arm)
        assert (run.dataset, run.data.batch_size, run.trainer.max_steps) == (name, 64, 100_000)
        game = {k: run.settings[k] for k in ("network", "width", "lr", "beta1", "beta2", "n_dis")}
        assert game == {
            "network": "resnet", "width": 128, "lr": 2e-4, "beta1": 0.0, "beta2": 0.9, "n_dis": 5
        }  # fmt: skip
        assert run.settings["features"] == "inception"


@pytest.mark.parametrize("claim", JUDGED, ids=lambda claim: claim.id)
def test_a_distance_names_its_network_and_its_counts(claim):
    if not claim.metric.startswith("fid"):
        return
    for scale in claim.scales:
        used = settings_of(scale, claim.experiment, claim.arms[0]).settings
        network = "Inception" if used.get("features") == "inception" else "classifier"
        counts = f"{used['num_fake']} fake : {used['num_real']} real"
        assert claim.unit == f"FID ({network}, {counts})"


def test_every_claim_of_the_paper_has_an_answer_or_a_reason():
    prefixes = {claim.id.partition("_")[0] for claim in PAPER.claims}
    assert {"g1", "g2", "g3", "g4", "g5"} <= prefixes
    not_run = {claim.id for claim in PAPER.claims if claim.not_run}
    assert not_run == {"g3_stl10", "g3_lsun_and_celeba"}


def test_no_number_is_claimed_to_be_the_papers_but_those_of_figure_1():
    (text,) = {claim.paper_value.text for claim in PAPER.claims if claim.paper_value}
    assert all(number in text for number in ("13.6", "13.2", "10.8"))
