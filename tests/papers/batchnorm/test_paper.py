"""What paper.yaml has to hold of this paper alone; see test_every_paper.py for the rest."""

from __future__ import annotations

import pytest

from shared.records.experiment import RunKey, resolve
from shared.records.paper import read_paper
from shared.training.entry import load_entry

PAPER = read_paper("batchnorm")
JUDGED = [claim for claim in PAPER.claims if not claim.not_run]


def settings_of(scale, experiment, arm):
    key = RunKey(scale=scale, paper="batchnorm", experiment=experiment, arm=arm, seed=0)
    return resolve(PAPER.experiments, key)


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
