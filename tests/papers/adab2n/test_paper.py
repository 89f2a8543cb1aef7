"""What paper.yaml has to hold of this paper alone; see test_every_paper.py for the rest."""

from __future__ import annotations

import pytest

from shared.records.experiment import RunKey, resolve
from shared.records.paper import read_paper

PAPER = read_paper("adab2n")
JUDGED = [claim for claim in PAPER.claims if not claim.not_run]


def settings_at(scale, experiment, arm):
    key = RunKey(scale=scale, paper="adab2n", experiment=experiment, arm=arm, seed=0)
    return resolve(PAPER.experiments, key)


@pytest.mark.parametrize("experiment", ["er_ace", "derpp", "er_ace_2000", "derpp_2000"])
def test_full_scale_is_the_recipe_of_the_paper(experiment):
    large = experiment.endswith("2000")
    found = settings_at("full", experiment, "full-2000" if large else "full")
    settings = found.settings
    assert found.dataset == "cifar10"
    assert (found.data.batch_size, settings["replay_size"]) == (10, 10)
    assert found.data.augment == ("crop", "flip")
    assert (found.trainer.max_epochs, found.trainer.max_steps) == (1, None)
    assert (settings["network"], settings["width"], settings["lr"]) == ("resnet18", 64, 0.03)
    assert settings["buffer_size"] == (2000 if large else 500)
    assert settings.get("images_per_class") is None
    if experiment.startswith("derpp"):
        assert (settings["alpha"], settings["beta"]) == ((0.1, 1.0) if large else (0.2, 0.5))


def test_split_cifar100_has_ten_tasks_of_ten_classes_and_both_buffers():
    for experiment in ("er_ace_cifar100", "derpp_cifar100"):
        for size in (2000, 5000):
            found = settings_at("full", experiment, f"full-{size}")
            assert found.dataset == "cifar100"
            assert (found.settings["num_classes"], found.settings["classes_per_task"]) == (100, 10)
            assert found.settings["buffer_size"] == size


def test_arms_of_an_experiment_differ_in_the_norm_alone():
    own = {"norm", "joint", "kappa", "task_weights", "penalty_weight"}
    for name, experiment in PAPER.experiments.items():
        if experiment.kind == "measurement":
            continue
        for scale in experiment.scales:
            common = {
                str({k: v for k, v in found.settings.items() if k not in own | {"buffer_size"}})
                for arm in experiment.arms_at(scale)
                if (found := settings_at(scale, name, arm))
            }
            assert len(common) == 1, (name, scale)


def test_every_claim_of_the_paper_has_an_answer_or_a_reason():
    prefixes = {claim.id.partition("_")[0] for claim in JUDGED}
    assert prefixes == {"a1", "a2", "a3", "a4", "a5"}
    not_run = {claim.id for claim in PAPER.claims if claim.not_run}
    assert not_run == {"a1_mini_imagenet"}


def test_the_decisive_contrast_is_judged_beside_the_one_of_the_paper():
    contrasts = {claim.id: claim.arms for claim in JUDGED}
    for learner in ("er_ace", "derpp"):
        assert contrasts[f"a1_{learner}_beats_bn_separate"] == ("full", "bn_separate")
        assert contrasts[f"a1_{learner}_beats_bn_joint"] == ("full", "bn_joint")
    assert {"a1_er_ace_beats_bn_separate", "a1_er_ace_beats_bn_joint"} <= set(PAPER.main_claims)
