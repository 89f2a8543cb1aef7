"""What paper.yaml has to hold of this paper alone; see test_every_paper.py for the rest."""

from __future__ import annotations

import inspect

import pytest

from shared.records.experiment import SCALES, RunKey, resolve
from shared.records.paper import read_paper
from shared.training.entry import load_entry

PAPER = read_paper("sngan")
RUNS = [
    RunKey(scale=scale, paper="sngan", experiment=name, arm=arm, seed=0)
    for name, experiment in PAPER.experiments.items()
    for scale in SCALES
    for arm in experiment.arms_at(scale)
]
JUDGED = [claim for claim in PAPER.claims if not claim.not_run]


@pytest.mark.parametrize("key", RUNS, ids=lambda key: f"{key.scale}-{key.experiment}-{key.arm}")
def test_the_code_takes_the_settings_of_every_run(key):
    settings = resolve(PAPER.experiments, key)
    entry = load_entry(settings)
    if settings.kind == "measurement":
        inspect.signature(entry).bind(None, **settings.settings)
    elif key.scale == "full":
        # Built narrower: what is asked is whether the settings fit.
        entry(**settings.settings | {"width": 2})
    else:
        entry(**settings.settings)


@pytest.mark.parametrize("key", RUNS, ids=lambda key: f"{key.scale}-{key.experiment}-{key.arm}")
def test_the_last_step_is_shown_and_measured(key):
    settings = resolve(PAPER.experiments, key)
    if "eval_steps" not in settings.settings:
        return
    steps = settings.trainer.max_steps
    assert max(settings.settings["eval_steps"]) == steps
    assert max(settings.settings["grid_steps"]) == steps


def test_full_scale_is_the_recipe_of_the_paper():
    def full(arm):
        key = RunKey(scale="full", paper="sngan", experiment="cifar10", arm=arm, seed=0)
        return resolve(PAPER.experiments, key)

    for arm in PAPER.experiments["cifar10"].arms_at("full"):
        run = full(arm)
        assert run.dataset == "cifar10"
        assert (run.data.batch_size, run.trainer.max_steps) == (64, 100_000)
        assert run.settings["features"] == "inception"
        assert (run.settings["num_fake"], run.settings["num_real"]) == (5_000, 10_000)
    assert full("sn").settings["width"] == 64
    resnet = full("resnet_sn").settings
    assert (resnet["setting"], resnet["width"], resnet["loss"]) == ("resnet", 128, "hinge")


@pytest.mark.parametrize("claim", JUDGED, ids=lambda claim: claim.id)
def test_a_distance_names_its_network_and_its_counts(claim):
    if claim.metric not in ("fid", "classifier_score"):
        return
    for scale in claim.scales:
        key = RunKey(
            scale=scale, paper="sngan", experiment=claim.experiment, arm=claim.arms[0], seed=0
        )
        used = resolve(PAPER.experiments, key).settings
        network = "Inception" if used.get("features") == "inception" else "classifier"
        counts = f"{used['num_fake']} fake"
        if claim.metric == "fid":
            assert claim.unit == f"FID ({network}, {counts} : {used['num_real']} real)"
        else:
            assert claim.unit == f"score ({network}, {counts})"


def test_every_claim_of_the_paper_has_an_answer_or_a_reason():
    prefixes = {claim.id.partition("_")[0] for claim in PAPER.claims}
    assert {f"n{i}" for i in range(1, 9)} <= prefixes
    assert {claim.id.partition("_")[0] for claim in PAPER.claims if claim.not_run} == {"n5"}
