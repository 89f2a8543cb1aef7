"""paper.yaml: every run can be started with its settings, every claim can be judged."""

from __future__ import annotations

import inspect

import pytest

from papers.layernorm.method import TABLE_1
from shared.records.experiment import SCALES, RunKey, resolve
from shared.records.paper import read_paper
from shared.training.entry import load_entry

PAPER = read_paper("layernorm")
RUNS = [
    RunKey(scale=scale, paper="layernorm", experiment=name, arm=arm, seed=0)
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


@pytest.mark.parametrize("claim", JUDGED, ids=lambda claim: claim.id)
def test_a_claims_arms_are_run_at_the_scales_where_it_is_judged(claim):
    experiment = PAPER.experiments[claim.experiment]
    for scale in claim.scales:
        assert set(claim.arms) <= set(experiment.arms_at(scale)), scale


def test_every_claim_of_the_paper_has_an_answer_or_a_reason():
    prefixes = {claim.id.partition("_")[0] for claim in PAPER.claims}
    assert prefixes == {f"ln{number}" for number in range(1, 9)}
    not_run = {claim.id for claim in PAPER.claims if claim.not_run}
    assert not_run == {"ln4_order_embeddings", "ln5_skip_thoughts", "ln6_draw"}


def test_what_nobody_read_in_the_paper_is_not_called_verified():
    for claim in PAPER.claims:
        assert claim.source.verified == (not claim.id.startswith("ln1")), claim.id


def test_every_bound_says_where_it_comes_from_and_every_experiment_its_tuning():
    for claim in JUDGED:
        assert len(claim.bound_reason) > 40, claim.id
    for name, experiment in PAPER.experiments.items():
        assert experiment.configurations_tried, name
