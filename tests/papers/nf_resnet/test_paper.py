"""What paper.yaml has to hold of this paper alone; see test_every_paper.py for the rest."""

from __future__ import annotations

import inspect

from papers.nf_resnet.module import NFClassifier
from shared.records.experiment import SCALES, RunKey, resolve
from shared.records.paper import read_paper

PAPER = read_paper("nf_resnet")
RUNS = [
    RunKey(scale=scale, paper="nf_resnet", experiment=name, arm=arm, seed=0)
    for name, experiment in PAPER.experiments.items()
    for scale in SCALES
    for arm in experiment.arms_at(scale)
]
JUDGED = [claim for claim in PAPER.claims if not claim.not_run]


def test_full_scale_is_the_recipe_of_the_paper():
    def full(arm):
        key = RunKey(
            scale="full", paper="nf_resnet", experiment="imagenet_resnet50", arm=arm, seed=0
        )
        return resolve(PAPER.experiments, key)

    large, small = full("nf-1024"), full("nf-4")
    assert large.trainer.max_epochs == 90
    assert large.settings == {
        "method": "nf",
        "depths": [3, 4, 6, 3],
        "widths": [256, 512, 1024, 2048],
        "stochastic_depth": 0.1,
        "batch_size": 1024,
        "lr": 0.1,
    }
    assert small.settings == {**large.settings, "batch_size": 4}
    recipe = inspect.signature(NFClassifier).parameters
    defaults = {name: recipe[name].default for name in ("weight_decay", "momentum", "warmup")}
    assert defaults == {"weight_decay": 1e-4, "momentum": 0.9, "warmup": 5 / 90}
    assert recipe["label_smoothing"].default == 0.1


def test_arms_of_a_training_see_the_same_examples():
    for name in ("small_batch", "small_resnet", "agc"):
        keys = [key for key in RUNS if (key.experiment, key.scale) == (name, "laptop")]
        sizes = {resolve(PAPER.experiments, key).data.train_size for key in keys}
        epochs = {resolve(PAPER.experiments, key).trainer.max_epochs for key in keys}
        assert len(sizes) == len(epochs) == 1, name
        for key in keys:  # whole batches only, so that no arm loses the last examples
            data = resolve(PAPER.experiments, key).data
            assert data.train_size % data.batch_size == 0, key


def test_every_claim_of_the_paper_has_an_answer_or_a_reason():
    prefixes = {claim.id.partition("_")[0] for claim in PAPER.claims}
    assert prefixes == {*(f"nf{number}" for number in range(1, 9)), "agc"}
    judged = {claim.id.partition("_")[0] for claim in JUDGED}
    assert prefixes - judged == {"nf7"}


def test_numbers_of_tables_that_nobody_read_again_are_not_called_verified():
    for claim in PAPER.claims:
        if claim.id.startswith(("nf4", "nf5", "nf6", "nf7")):
            assert not claim.source.verified, claim.id
            assert claim.paper_value is None or not claim.paper_value.verified, claim.id
