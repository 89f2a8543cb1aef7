"""paper.yaml: every run can be started with its settings, every claim can be judged."""

from __future__ import annotations

import inspect

import pytest

from shared.records.experiment import SCALES, RunKey, resolve
from shared.records.paper import read_paper
from shared.training.entry import load_entry

PAPER = read_paper("batchnorm")
RUNS = [
    RunKey(scale=scale, paper="batchnorm", experiment=name, arm=arm, seed=0)
    for name, experiment in PAPER.experiments.items()
    for scale in SCALES
    for arm in experiment.arms_at(scale)
]
JUDGED = [claim for claim in PAPER.claims if not claim.not_run]


def settings_of(scale, experiment, arm):
    key = RunKey(scale=scale, paper="batchnorm", experiment=experiment, arm=arm, seed=0)
    return resolve(PAPER.experiments, key)


@pytest.mark.parametrize("key", RUNS, ids=lambda key: f"{key.scale}-{key.experiment}-{key.arm}")
def test_the_code_takes_the_settings_of_every_run(key):
    settings = resolve(PAPER.experiments, key)
    entry = load_entry(settings)
    run = (None,) if settings.kind == "measurement" else ()
    inspect.signature(entry).bind(*run, **settings.settings)


def test_every_experiment_but_imagenet_has_a_smoke_scale_of_few_steps():
    for name, experiment in PAPER.experiments.items():
        if name == "imagenet_inception":
            assert list(experiment.scales) == ["full"]
            continue
        assert "smoke" in experiment.scales, name
        if experiment.kind == "training":
            trainer = settings_of("smoke", name, experiment.arms_at("smoke")[0]).trainer
            assert trainer is not None
            assert trainer.max_steps <= 4


@pytest.mark.parametrize("scale", ["laptop", "full"])
def test_section_4_1_is_run_as_printed(scale):
    for arm in ("batchnorm", "none"):
        settings = settings_of(scale, "mlp", arm)
        assert settings.trainer.max_steps == 50_000
        assert settings.data.batch_size == 60
        assert settings.dataset == {"laptop": "fashion_mnist", "full": "mnist"}[scale]
        net = load_entry(settings)(**settings.settings).net
        widths = [m.out_features for m in net.modules() if hasattr(m, "out_features")]
        assert widths == [100, 100, 100, 10]


def test_both_arms_of_the_network_were_tuned_on_the_grid_of_the_sweep():
    grid = PAPER.experiments["sweep"].grid
    for arm in ("batchnorm", "none"):
        settings = settings_of("laptop", "mlp", arm).settings
        assert settings["init_std"] in grid["init_std"]
        assert settings["lr"] in grid["lr"]
    assert grid["method"] == ("batchnorm", "none")


def test_arms_of_the_small_network_differ_in_batchnorm_and_learning_rate_alone():
    runs = {
        arm: settings_of("laptop", "small_inception", arm)
        for arm in PAPER.experiments["small_inception"].all_arms()
    }
    assert {arm: run.settings["lr_times"] for arm, run in runs.items()} == {
        f"{method}-{times}": times for method in ("batchnorm", "none") for times in (1, 5, 30)
    }
    for run in runs.values():
        assert run.data == runs["none-1"].data
        assert run.trainer == runs["none-1"].trainer
        rest = {k: v for k, v in run.settings.items() if k not in ("method", "lr_times")}
        assert rest.items() <= runs["none-1"].settings.items()


def test_full_scale_is_the_recipe_of_section_4_2():
    def full(arm):
        return settings_of("full", "imagenet_inception", arm)

    baseline = full("inception")
    assert baseline.trainer.max_steps == 31_000_000
    assert baseline.settings["lr"] == 0.0015
    assert full("bn_baseline").settings == {**baseline.settings, "method": "batchnorm"}
    for arm, lr in (("bn_x5", 0.0075), ("bn_x30", 0.045)):
        changed = full(arm).settings
        assert (changed["lr"], changed["dropout"], changed["lrn"]) == (lr, 0.0, False)
        assert changed["weight_decay"] == pytest.approx(baseline.settings["weight_decay"] / 5)
        assert changed["lr_decay"] == pytest.approx(baseline.settings["lr_decay"] ** 6)
    assert full("inception_x5").settings == {**baseline.settings, "lr": 0.0075}


@pytest.mark.parametrize("claim", JUDGED, ids=lambda claim: claim.id)
def test_a_claims_arms_are_run_at_the_scales_where_it_is_judged(claim):
    experiment = PAPER.experiments[claim.experiment]
    for scale in claim.scales:
        assert set(claim.arms) <= set(experiment.arms_at(scale)), scale


def test_every_claim_of_the_paper_has_an_answer_or_a_reason():
    prefixes = {claim.id.partition("_")[0] for claim in PAPER.claims}
    assert prefixes == {*(f"bn{number}" for number in range(1, 9)), "ensemble"}
    assert {claim.id for claim in PAPER.claims if claim.not_run} == {"ensemble_beats_the_best"}


def test_claims_of_faster_training_are_judged_over_equal_budgets():
    for claim in JUDGED:
        if claim.metric == "steps_to_target":
            for scale in claim.scales:
                budgets = {
                    settings_of(scale, claim.experiment, arm).trainer.max_steps
                    for arm in claim.arms
                }
                assert len(budgets) == 1, claim.id


def test_every_bound_says_where_it_comes_from_and_every_experiment_its_tuning():
    for claim in JUDGED:
        assert len(claim.bound_reason) > 40, claim.id
    for name, experiment in PAPER.experiments.items():
        assert experiment.configurations_tried, name
