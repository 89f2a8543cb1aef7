"""Settings are checked against the code that gets them, before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import pytest

from shared.records.base import RecordError
from shared.records.experiment import RunKey, RunSettings
from shared.training.arguments import check_arguments

if TYPE_CHECKING:
    from nowhere import Run


class Base:
    def __init__(self, *, n_dis: int = 1, loss: Literal["hinge", "wasserstein"] = "hinge"): ...


class Paper(Base):
    def __init__(
        self, norm: Literal["batch", "none"], lr: float = 0.1, wide: bool = False, **game: Any
    ): ...


def measure(run: Run, depths: Sequence[int], eps: float | None = None): ...


def check(entry, kind="training", **given):
    check_arguments(
        entry,
        RunSettings(
            key=RunKey(scale="smoke", paper="tent", experiment="sorted", arm="bn", seed=0),
            kind=kind,
            entry="module:Paper",
            data=None,
            dataset=None,
            trainer=None,
            settings=given,
            needs={},
            threads=1,
        ),
    )


def test_what_the_code_takes_passes():
    check(Paper, norm="batch", lr=1, wide=True, n_dis=5, loss="wasserstein")
    check(measure, "measurement", depths=[1, 2], eps=1)
    check(measure, "measurement", depths=[])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"norm": "btach"}, r"settings.norm: got 'btach', expected 'batch' or 'none'"),
        (
            {"norm": "batch", "loss": "hnige"},
            "loss: got 'hnige', expected 'hinge' or 'wasserstein'",
        ),
        ({"norm": "batch", "lr": "1e-3"}, "lr: got '1e-3', expected float"),
        ({"norm": "batch", "wide": 1}, "wide: got 1, expected bool"),
        ({"norm": "batch", "n_dis": 2.5}, "n_dis: got 2.5, expected int"),
        ({"norm": "batch", "n_dis": True}, "n_dis: got True, expected int"),
        ({"norm": "batch", "nrom": 1}, "nrom: got a setting that module:Paper does not take.*norm"),
        ({}, "got no norm, expected one"),
    ],
)
def test_what_it_does_not_take_is_refused(given, said):
    with pytest.raises(RecordError, match=said) as error:
        check(Paper, **given)
    assert "papers/tent/paper.yaml or an override: tent.sorted.settings" in str(error.value)


@pytest.mark.parametrize("given", [{"depths": 3}, {"depths": ["1"]}, {"depths": [1], "run": 1}])
def test_a_measurement_gets_the_run_before_its_settings(given):
    with pytest.raises(RecordError):
        check(measure, "measurement", **given)
