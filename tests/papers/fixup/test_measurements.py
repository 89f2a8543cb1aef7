"""fx1, fx2 and fx3 in small, and the identities before the first step."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from papers.fixup import measurements
from papers.fixup.measurements import signal_growth, step0, update_size

RUN = SimpleNamespace(device=torch.device("cpu"))


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(1000)


def last(rows):
    return {row.metric: row.value for row in rows}


def test_unnormalised_he_doubles_variance_and_gradient_in_each_block():
    growths = [last(signal_growth(RUN, "he", 20, width=256, batch_size=16)) for _ in range(5)]
    for metric in ("variance_growth", "gradient_growth"):
        assert sum(g[metric] for g in growths) / 5 == pytest.approx(1, abs=0.1)


def test_fixup_leaves_the_signal_alone():
    growth = last(signal_growth(RUN, "fixup", 20, width=32, batch_size=16))
    assert growth["variance_growth"] == 0
    assert growth["gradient_growth"] == 0


def test_with_batchnorm_the_variance_grows_by_one_in_each_block():
    rows = list(signal_growth(RUN, "batchnorm", 30, width=256, batch_size=64))
    variances = [2**row.value for row in rows if row.metric == "log2_variance"]
    assert len(variances) == 31
    assert variances[30] == pytest.approx(31, rel=0.1)


def test_gradients_are_those_of_the_blocks_outputs():
    rows = list(signal_growth(RUN, "he", 6, width=64, batch_size=8))
    gradient = {row.step: row.value for row in rows if row.metric == "log2_square_gradient"}
    assert sorted(gradient) == list(range(7))
    assert gradient[0] > gradient[3] > gradient[6]


@pytest.mark.parametrize(
    ("network", "num_blocks", "width"),
    [("residual_mlp", 10, 8), ("residual_mlp", 200, 8), ("conv_resnet", 3, 4)],
)
def test_before_the_first_step_only_the_classifier_learns(network, num_blocks, width):
    rows = last(step0(RUN, network, num_blocks, width))
    assert rows["largest_logit"] == 0
    assert rows["loss_error"] < 1e-12
    assert rows["largest_gradient_below_classifier"] == 0
    assert rows["classifier_gradient_norm"] > 0.01


@pytest.mark.parametrize(
    ("metric", "place"),
    [
        ("largest_logit", "classifier"),
        ("loss_error", "classifier"),
        ("largest_gradient_below_classifier", "classifier"),
    ],
)
def test_the_identities_are_broken_by_a_classifier_that_is_not_zero(monkeypatch, metric, place):
    class Broken(measurements.ResidualMLP):
        def __init__(self, *args):
            super().__init__(*args)
            torch.nn.init.normal_(getattr(self, place).weight)

    monkeypatch.setattr(measurements, "ResidualMLP", Broken)
    assert last(step0(RUN, "residual_mlp", 3, 8))[metric] > 1e-3


def changes(method, num_blocks, num_steps=4, lr=0.1):
    torch.manual_seed(1000)
    rows = list(update_size(RUN, method, num_blocks, 32, 64, lr, num_steps))
    return [row.value for row in rows if row.metric == "logit_change"], last(rows)


def test_fixups_update_does_not_depend_on_depth():
    shallow, deep = changes("fixup", 10)[0], changes("fixup", 500)[0]
    assert len(shallow) == len(deep) == 4
    for few, many in zip(shallow, deep, strict=True):
        assert many / few == pytest.approx(1, abs=0.4)


def test_fixups_update_is_proportional_to_the_learning_rate():
    fast, slow = changes("fixup", 100)[0], changes("fixup", 100, lr=0.01)[0]
    assert slow[0] / fast[0] == pytest.approx(0.1, rel=1e-9)
    assert slow[3] / fast[3] == pytest.approx(0.1, abs=0.05)


def test_zero_init_without_scaling_explodes_when_deep():
    fixup, zero_init = changes("fixup", 400, 2)[1], changes("zero_init", 400, 2)[1]
    assert zero_init["second_logit_change"] > 1.5 * fixup["second_logit_change"]


def test_a_step_that_overflows_has_no_row_and_is_flagged():
    found, rows = changes("he", 300)
    assert found == []
    assert rows["overflowed"] == 1
    assert "second_logit_change" not in rows
    found, rows = changes("fixup", 10)
    assert rows["overflowed"] == 0
    assert rows["second_logit_change"] == found[1]
    assert all(math.isfinite(change) for change in found)


def test_a_network_that_is_unknown_is_no_other_network():
    with pytest.raises(ValueError, match="network: got 'mlp', expected 'residual_mlp' or"):
        last(step0(RUN, "mlp", 4, 8))
