"""The race between a plain and a normalised GRU: turns, targets, and what is counted."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from papers.layernorm import timing
from papers.layernorm.model import RowGRU
from papers.layernorm.timing import Contestant, time_to_target
from shared.norms import LayerNorm
from shared.records.base import RecordError


class Data:
    manifest = SimpleNamespace(mean=(0.5,), std=(0.25,))

    def array(self, name):
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 10, 40)
        if name.endswith("labels"):
            return labels
        return np.repeat(labels * 25, 28 * 28).astype(np.uint8).reshape(40, 1, 28, 28)


RUN = SimpleNamespace(
    device=torch.device("cpu"), key=SimpleNamespace(seed=1000), dataset=lambda: Data()
)
SETTINGS = {"width": 4, "lr": 0.01, "eval_every_steps": 2, "batch_size": 10, "test_size": 20}


def last(rows):
    return {row.metric: row.value for row in rows}


@pytest.mark.parametrize("layer", ["renorm", "torch"])
def test_without_an_end_both_take_all_steps_and_nobody_has_arrived(layer):
    rows = last(time_to_target(RUN, layer, target_error_percent=0, max_steps=5, **SETTINGS))
    assert rows["plain_steps_to_target"] == rows["layernorm_steps_to_target"] == 5
    assert rows["reached"] == 0
    assert rows["time_ratio"] == pytest.approx(
        rows["layernorm_seconds_to_target"] / rows["plain_seconds_to_target"]
    )


def test_who_arrives_stops_and_the_other_goes_on(monkeypatch):
    def error(self, batches):
        norms = any(isinstance(m, nn.LayerNorm) for m in self.net.modules())
        return 10.0 if norms or len(self.step_seconds) >= 6 else 90.0

    monkeypatch.setattr(Contestant, "test_error_percent", error)
    rows = last(time_to_target(RUN, "renorm", target_error_percent=20, max_steps=50, **SETTINGS))
    assert rows["layernorm_steps_to_target"] == 2
    assert rows["plain_steps_to_target"] == 6
    assert rows["reached"] == 1


def test_a_pause_of_the_machine_does_not_count():
    contestant = Contestant(nn.Linear(1, 1), lr=0.1, step_seconds=[1.0, 1.0, 100.0])
    assert contestant.seconds == 3.0


def test_the_error_is_the_share_of_wrong_answers():
    contestant = Contestant(nn.Linear(2, 2), lr=0.1)
    contestant.net = nn.Identity()
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    batches = [(x[:3], torch.tensor([0, 1, 1])), (x[3:], torch.tensor([0]))]
    assert contestant.test_error_percent(batches) == 25


def test_torchs_layers_take_the_place_of_ours():
    net = RowGRU("layernorm", 4)
    timing._use_torchs_layer_norm(net)
    norms = [m for m in net.modules() if isinstance(m, nn.LayerNorm)]
    assert len(norms) == 4
    assert not any(isinstance(m, LayerNorm) for m in norms)
    assert net(torch.randn(2, 1, 28, 28)).shape == (2, 10)


@pytest.mark.parametrize("changed", [{"max_steps": 0}, {"eval_every_steps": 0}])
def test_without_a_step_there_is_nothing_to_time(changed):
    settings = {"max_steps": 5, **SETTINGS, **changed}
    (name,) = changed
    with pytest.raises(RecordError, match=f"{name} 0"):
        list(time_to_target(RUN, "torch", target_error_percent=0, **settings))


def test_a_layer_that_is_unknown_is_not_ours():
    with pytest.raises(KeyError, match="Torch"):
        list(time_to_target(RUN, "Torch", target_error_percent=0, max_steps=5, **SETTINGS))
