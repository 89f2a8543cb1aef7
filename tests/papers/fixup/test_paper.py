"""paper.yaml: every run can be started with its settings, every claim can be judged."""

from __future__ import annotations

import inspect

import pytest

from shared.records.experiment import SCALES, RunKey, resolve
from shared.records.paper import read_paper
from shared.training.entry import load_entry

PAPER = read_paper("fixup")
RUNS = [
    RunKey(scale=scale, paper="fixup", experiment=name, arm=arm, seed=0)
    for name, experiment in PAPER.experiments.items()
    for scale in SCALES
    for arm in experiment.arms_at(scale)
]
JUDGED = [claim for claim in PAPER.claims if not claim.not_run]


@pytest.mark.parametrize("key", RUNS, ids=lambda key: f"{key.scale}-{key.experiment}-{key.arm}")
def test_the_code_takes_the_settings_of_every_run(key):
    settings = resolve(PAPER.experiments, key)
    entry = load_entry(settings)
    run = (None,) if settings.kind == "measurement" else ()
    inspect.signature(entry).bind(*run, **settings.settings)


def test_every_experiment_but_imagenet_has_a_smoke_scale_of_two_steps():
    for name, experiment in PAPER.experiments.items():
        if name == "imagenet_resnet50":
            assert list(experiment.scales) == ["full"]
            continue
        assert "smoke" in experiment.scales, name
        if experiment.kind == "training":
            key = next(k for k in RUNS if (k.experiment, k.scale) == (name, "smoke"))
            trainer = resolve(PAPER.experiments, key).trainer
            assert trainer is not None
            assert trainer.max_steps == 2


def test_full_scale_is_the_recipe_of_the_paper():
    def full(experiment, arm):
        key = RunKey(scale="full", paper="fixup", experiment=experiment, arm=arm, seed=0)
        return resolve(PAPER.experiments, key)

    cifar = full("small_resnet", "fixup")
    assert cifar.dataset == "cifar10"
    assert (cifar.trainer.max_epochs, cifar.trainer.max_steps) == (200, None)
    assert (cifar.data.batch_size, cifar.data.augment) == (128, ("crop", "flip"))
    assert cifar.settings == {
        "method": "fixup",
        "depth": 110,
        "width": 16,
        "in_channels": 3,
        "stem_stride": 1,
        "lr": 0.1,
        "lr_drops": [0.5, 0.75],
        "weight_decay": 1e-4,
        "mixup_alpha": 1.0,
    }
    imagenet = full("imagenet_resnet50", "fixup_mixup")
    assert imagenet.trainer.max_epochs == 90
    assert imagenet.settings["mixup_alpha"] == 0.7
    assert imagenet.settings["batch_size"] == 256
    assert full("depth_sweep", "fixup-1000").trainer.max_epochs == 1


@pytest.mark.parametrize("claim", JUDGED, ids=lambda claim: claim.id)
def test_a_claims_arms_are_run_at_the_scales_where_it_is_judged(claim):
    experiment = PAPER.experiments[claim.experiment]
    for scale in claim.scales:
        assert set(claim.arms) <= set(experiment.arms_at(scale)), scale


def test_every_claim_of_the_paper_has_an_answer_or_a_reason():
    prefixes = {claim.id.partition("_")[0] for claim in PAPER.claims}
    assert prefixes == {"fx1", "fx2", "fx3", "fx4", "fx5", "fx6", "fx6b", "fx7"}
    not_run = {claim.id.partition("_")[0] for claim in PAPER.claims if claim.not_run}
    assert not_run == {"fx6b", "fx7"}


def test_numbers_of_tables_that_nobody_read_again_are_not_called_verified():
    for claim in PAPER.claims:
        if claim.id.startswith(("fx5_close", "fx5_fixup_beats", "fx6", "fx7")):
            assert claim.paper_value is not None, claim.id
            assert not claim.paper_value.verified, claim.id
            assert not claim.source.verified, claim.id


def test_every_bound_says_where_it_comes_from_and_every_experiment_its_tuning():
    for claim in JUDGED:
        assert len(claim.bound_reason) > 40, claim.id
    for name, experiment in PAPER.experiments.items():
        assert experiment.configurations_tried, name
