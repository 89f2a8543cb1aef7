from __future__ import annotations

import dataclasses

import pytest

from shared.records.experiment import ScaleSettings
from shared.reporting.inputs import read_inputs
from shared.reporting.scaled import Change, scale_note, scaled_down


@pytest.fixture
def inputs(tree, monkeypatch):
    monkeypatch.chdir(tree)
    return read_inputs("toy", "laptop")


def planned(inputs, **laptop):
    """The same paper before any run, with other settings of the experiment `depth`."""
    depth = inputs.paper.experiments["depth"]
    scales = {"laptop": ScaleSettings(**laptop), "full": None}
    paper = inputs.paper.model_copy(
        update={"experiments": {"depth": depth.model_copy(update={"scales": scales})}}
    )
    runs = [run for run in inputs.runs if run.key.experiment == "depth"]
    runs = [dataclasses.replace(run, settings=None) for run in runs]
    return dataclasses.replace(inputs, paper=paper, runs=tuple(runs))


def claim(inputs, name):
    return next(item.claim for item in inputs.judged if item.claim.id == name)


def test_every_setting_that_differs_is_listed(inputs):
    by_name = {item.name: item for item in scaled_down(inputs)}
    assert by_name["conv"].changes == (
        Change("data.dataset", "fashion-mnist", "cifar-10"),
        Change("trainer.max_epochs", "3", "200"),
        Change("settings.width", "8", "16"),
    )


def test_what_the_runs_recorded_counts_not_the_plan(inputs):
    runs = [
        dataclasses.replace(
            run, settings=run.settings.model_copy(update={"settings": {"lr": 0.1, "width": 5}})
        )
        if run.settings
        else run
        for run in inputs.runs
    ]
    overridden = dataclasses.replace(inputs, runs=tuple(runs))
    by_name = {item.name: item for item in scaled_down(overridden)}
    assert Change("settings.width", "5", "16") in by_name["conv"].changes


def test_an_experiment_without_full_scale_says_so(inputs):
    by_name = {item.name: item for item in scaled_down(inputs)}
    assert by_name["init"].changes == ()
    assert "Not defined at full scale" in by_name["init"].reason


def test_fewer_arms_and_seeds_are_differences(inputs):
    fewer = planned(inputs, arms=("bn-10",))
    fewer = dataclasses.replace(fewer, runs=fewer.runs[:2])
    changes = scaled_down(fewer)[0].changes
    assert changes[-1] == Change("seeds", "2", "5")
    assert (changes[-2].name, changes[-2].here) == ("arms", "bn-10")


def test_the_note_beside_a_number_names_data_and_budget(inputs):
    assert scale_note(inputs, claim(inputs, "toy2_gap")) == (
        "dataset fashion-mnist (full: cifar-10), max epochs 3 (full: 200), and 1 more"
    )
    assert scale_note(inputs, claim(inputs, "toy5_exact")) == ""
    assert scale_note(inputs, claim(inputs, "toy7_imagenet")) == ""


def test_the_same_settings_are_said_to_be_the_same(inputs):
    note = scale_note(planned(inputs), claim(inputs, "toy1_depth"))
    assert note == "same settings as full scale"
