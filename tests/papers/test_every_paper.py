"""What holds of every paper.yaml: each run can be started, each claim can be judged.

A new paper is under these tests as soon as its folder is there; tests of its own say what is its
own: the paper's recipe, equal budgets of its arms, which of its claims have no experiment.
"""

from __future__ import annotations

import pytest

from shared.claims.intervals import clopper_pearson
from shared.claims.looks import alpha_of_look
from shared.records.base import RecordError
from shared.records.catalog import paper_names
from shared.records.experiment import SCALES, RunKey, resolve
from shared.records.paper import read_paper
from shared.training.arguments import check_arguments
from shared.training.entry import load_entry

PAPERS = {name: read_paper(name) for name in paper_names()}
RUNS = [
    RunKey(scale=scale, paper=paper, experiment=name, arm=arm, seed=0)
    for paper, content in PAPERS.items()
    for name, experiment in content.experiments.items()
    for scale in SCALES
    for arm in experiment.arms_at(scale)
]
EXPERIMENTS = [
    pytest.param(paper, name, id=f"{paper}-{name}")
    for paper, content in PAPERS.items()
    for name in content.experiments
]
JUDGED = [
    pytest.param(paper, claim, id=f"{paper}-{claim.id}")
    for paper, content in PAPERS.items()
    for claim in content.claims
    if not claim.not_run
]


@pytest.mark.parametrize("key", RUNS, ids=lambda key: f"{key.scale}-{key}")
def test_the_code_takes_the_settings_of_every_run(key):
    settings = resolve(PAPERS[key.paper].experiments, key)
    check_arguments(load_entry(settings), settings)


FREE_WORDS = {
    "source": "names a run under `needs`",
    "kind": "names a corruption",
    "network": "names a network of timm",
}


@pytest.mark.parametrize(("paper", "name"), EXPERIMENTS)
def test_a_word_that_the_code_does_not_know_is_refused_before_the_run(paper, name):
    for key in (key for key in RUNS if (key.paper, key.experiment) == (paper, name)):
        settings = resolve(PAPERS[paper].experiments, key)
        for word in (w for w, value in settings.settings.items() if isinstance(value, str)):
            changed = {**settings.settings, word: "no such word"}
            try:
                check_arguments(
                    load_entry(settings), settings.model_copy(update={"settings": changed})
                )
            except RecordError as error:
                assert f"{word}: got 'no such word', expected '" in str(error)
            else:
                assert word in FREE_WORDS, f"{key}: {word} takes any word"


@pytest.mark.parametrize(("paper", "name"), EXPERIMENTS)
def test_what_runs_on_a_laptop_also_runs_at_smoke_scale_in_a_few_steps(paper, name):
    experiment = PAPERS[paper].experiments[name]
    if "laptop" not in experiment.scales:
        return
    assert "smoke" in experiment.scales
    if experiment.kind == "training":
        for arm in experiment.arms_at("smoke"):
            key = RunKey(scale="smoke", paper=paper, experiment=name, arm=arm, seed=0)
            trainer = resolve(PAPERS[paper].experiments, key).trainer
            assert trainer is not None
            assert trainer.max_steps is not None
            assert trainer.max_steps <= 20


@pytest.mark.parametrize(("paper", "name"), EXPERIMENTS)
def test_every_experiment_says_how_much_it_was_tuned(paper, name):
    assert PAPERS[paper].experiments[name].configurations_tried


@pytest.mark.parametrize(("paper", "claim"), JUDGED)
def test_a_claims_arms_are_run_at_the_scales_where_it_is_judged(paper, claim):
    experiment = PAPERS[paper].experiments[claim.experiment]
    for scale in claim.scales:
        assert set(claim.arms) <= set(experiment.arms_at(scale)), scale


@pytest.mark.parametrize(("paper", "claim"), JUDGED)
def test_a_claim_has_the_two_seeds_without_which_there_is_no_verdict(paper, claim):
    experiment = PAPERS[paper].experiments[claim.experiment]
    for scale in claim.scales:
        assert len(experiment.seeds_at(scale)) >= 2, scale


@pytest.mark.parametrize(
    ("paper", "claim"), [case for case in JUDGED if case.values[1].kind == "rate"]
)
def test_a_rate_has_the_seeds_with_which_it_can_be_decided_either_way(paper, claim):
    experiment = PAPERS[paper].experiments[claim.experiment]
    level = alpha_of_look(claim.alpha, look=1)
    at_least, at_most = claim.bound.at_least, claim.bound.at_most
    for scale in claim.scales:
        seeds = len(experiment.seeds_at(scale))
        none, every = clopper_pearson(0, seeds, level), clopper_pearson(seeds, seeds, level)
        assert at_least is None or none.high < at_least <= every.low, scale
        assert at_most is None or none.high <= at_most < every.low, scale


@pytest.mark.parametrize(("paper", "claim"), JUDGED)
def test_every_bound_says_where_it_comes_from(paper, claim):
    assert len(claim.bound_reason) > 40
