"""What paper.yaml has to hold of this paper alone; see test_every_paper.py for the rest."""

from __future__ import annotations

from shared.records.experiment import RunKey, resolve
from shared.records.paper import read_paper

PAPER = read_paper("fixup")


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
