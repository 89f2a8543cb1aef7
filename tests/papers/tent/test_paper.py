"""What paper.yaml has to hold of this paper alone; see test_every_paper.py for the rest."""

from __future__ import annotations

import pytest

from papers.tent.measurements import METHODS
from shared.data.corruptions import CORRUPTIONS
from shared.data.derived.fashion_mnist_c import NUM_MILD, TRAIN_KINDS
from shared.data.formats import CIFAR_C_KINDS
from shared.records.experiment import SCALES, RunKey, resolve
from shared.records.paper import read_paper

PAPER = read_paper("tent")
RUNS = [
    RunKey(scale=scale, paper="tent", experiment=name, arm=arm, seed=0)
    for name, experiment in PAPER.experiments.items()
    for scale in SCALES
    for arm in experiment.arms_at(scale)
]


@pytest.mark.parametrize("key", RUNS, ids=lambda key: f"{key.scale}-{key.experiment}-{key.arm}")
def test_the_data_have_the_corruptions_of_every_run(key):
    settings = resolve(PAPER.experiments, key)
    if settings.kind == "training":
        return
    assert settings.settings.get("method", "tent") in METHODS
    assert settings.dataset == ("cifar10_c" if key.scale == "full" else "fashion_mnist_c")
    kinds = settings.settings.get("kinds") or [settings.settings["kind"]]
    known = CIFAR_C_KINDS if key.scale == "full" else CORRUPTIONS
    assert set(kinds) <= set(known)
    if key.experiment == "unseen":
        assert set(kinds) <= set(TRAIN_KINDS)
    if key.experiment == "shifts" and key.scale != "full":
        assert settings.settings["num_images"] <= NUM_MILD


def test_all_methods_of_an_experiment_have_the_same_budget():
    """Only the network, the method, the order and the size of a batch differ between arms."""
    allowed = {"method", "source", "adapt_on", "order", "batch_size", "norm"}
    for name, experiment in PAPER.experiments.items():
        for arm, change in experiment.all_arms().items():
            single = {"num_images"} if arm.endswith("_single") else set()
            assert set(change.settings) <= allowed | single, name
    single = [
        change.settings["num_images"]
        for arm, change in PAPER.experiments["streams"].all_arms().items()
        if arm.endswith("_single")
    ]
    assert len(single) == 3
    assert len(set(single)) == 1


def test_every_run_starts_from_the_same_network():
    for name, experiment in PAPER.experiments.items():
        if name != "source":
            assert {ref.seed for ref in experiment.needs.values()} == {0}
    assert PAPER.experiments["source"].seeds == 1


def test_full_scale_is_the_recipe_of_the_paper():
    def full(experiment, arm):
        key = RunKey(scale="full", paper="tent", experiment=experiment, arm=arm, seed=0)
        return resolve(PAPER.experiments, key)

    assert full("source", "batchnorm").settings["depth"] == 26
    settings = full("corruptions", "tent").settings
    assert (settings["lr"], settings["batch_size"]) == (1e-3, 200)
    assert tuple(settings["kinds"]) == CIFAR_C_KINDS
    assert len(settings["kinds"]) * len(full("shifts", "tent").settings["severities"]) == 75


def test_every_claim_of_the_paper_has_an_answer_or_a_reason():
    prefixes = {claim.id.partition("_")[0] for claim in PAPER.claims}
    assert prefixes == {"t1", "t1b", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "exact"}
    not_run = {claim.id.partition("_")[0] for claim in PAPER.claims if claim.not_run}
    assert not_run == {"t1", "t1b", "t2", "t3", "t4", "t8"}
