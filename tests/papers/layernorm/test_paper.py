"""What paper.yaml has to hold of this paper alone; see test_every_paper.py for the rest."""

from __future__ import annotations

import pytest

from papers.layernorm.method import TABLE_1
from shared.records.experiment import RunKey, resolve
from shared.records.paper import read_paper

PAPER = read_paper("layernorm")


def resolved(scale, arm, experiment="mlp"):
    key = RunKey(scale=scale, paper="layernorm", experiment=experiment, arm=arm, seed=0)
    return resolve(PAPER.experiments, key)


@pytest.mark.parametrize("scale", ["laptop", "full"])
def test_arms_of_both_batch_sizes_see_the_same_examples(scale):
    arms = PAPER.experiments["mlp"].arms_at(scale)
    assert len(arms) == 8
    for arm in arms:
        settings = resolved(scale, arm)
        size = int(arm.rpartition("-")[2])
        assert settings.data.batch_size == size
        assert settings.trainer.log_every_steps * size == 1920
        assert settings.trainer.max_steps is None
    budgets = {
        (resolved(scale, a).trainer.max_epochs, resolved(scale, a).data.train_size) for a in arms
    }
    assert budgets == {(1, 19200) if scale == "laptop" else (60, 55000)}


def test_full_scale_is_the_recipe_of_the_paper():
    settings = resolved("full", "batchnorm_all-4")
    assert settings.dataset == "mnist"
    assert settings.settings == {
        "norm": "batchnorm",
        "widths": [1000, 1000],
        "norm_logits": True,
        "lr": 0.01,
    }
    assert not resolved("full", "layernorm-4").settings.get("norm_logits")


def test_every_cell_of_table_1_is_a_claim():
    cells = {
        (claim.metric.removesuffix("_change"), arm): claim.kind
        for claim in PAPER.claims
        if claim.id.startswith("ln1_")
        for arm in claim.arms
    }
    assert len(cells) == 18
    printed = {"batchnorm": "YNYYYN", "weightnorm": "YNYNNN", "layernorm": "YYNYNY"}
    for norm, row in printed.items():
        kinds = [cells[transformation, norm] for transformation in TABLE_1]
        assert kinds == ["exact" if cell == "Y" else "value" for cell in row], norm


def test_every_claim_of_the_paper_has_an_answer_or_a_reason():
    prefixes = {claim.id.partition("_")[0] for claim in PAPER.claims}
    assert prefixes == {f"ln{number}" for number in range(1, 9)}
    not_run = {claim.id for claim in PAPER.claims if claim.not_run}
    assert not_run == {"ln4_order_embeddings", "ln5_skip_thoughts", "ln6_draw"}


def test_what_nobody_read_in_the_paper_is_not_called_verified():
    for claim in PAPER.claims:
        assert claim.source.verified == (not claim.id.startswith("ln1")), claim.id
