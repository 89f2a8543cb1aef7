from __future__ import annotations

import pytest

from shared.records.paper import read_paper
from shared.reporting.scaled import Change, scale_note, scaled_down


@pytest.fixture
def experiments(tree):
    return read_paper("toy", tree / "papers").experiments


def test_every_setting_that_differs_is_listed(experiments):
    by_name = {item.name: item for item in scaled_down(experiments, "laptop")}
    assert by_name["conv"].changes == (
        Change("data.dataset", "fashion-mnist", "cifar-10"),
        Change("trainer.max_epochs", "3", "200"),
        Change("settings.width", "8", "16"),
    )


def test_an_experiment_without_full_scale_says_so(experiments):
    by_name = {item.name: item for item in scaled_down(experiments, "laptop")}
    assert by_name["init"].changes == ()
    assert "Not defined at full scale" in by_name["init"].reason


def test_fewer_arms_and_seeds_are_differences(experiments):
    depth = experiments["depth"]
    laptop = depth.scales["laptop"].model_copy(update={"seeds": 2, "arms": ("bn-10",)})
    fewer = depth.model_copy(update={"scales": {**depth.scales, "laptop": laptop}})
    names = [change.name for change in scaled_down({"depth": fewer}, "laptop")[0].changes]
    assert names[-2:] == ["arms", "seeds"]


def test_the_note_beside_a_number_names_data_and_budget(experiments):
    assert scale_note(experiments["conv"], "laptop") == (
        "dataset fashion-mnist (full: cifar-10), max epochs 3 (full: 200), and 1 more"
    )
    assert scale_note(experiments["init"], "laptop") == ""


def test_the_same_settings_are_said_to_be_the_same(experiments):
    depth = experiments["depth"]
    same = depth.model_copy(update={"scales": {"laptop": None, "full": None}})
    assert scale_note(same, "laptop") == "same settings as full scale"
