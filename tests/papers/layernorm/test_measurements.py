"""ln1, ln3 and ln8 in small, and that they can fail."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from papers.layernorm import measurements
from papers.layernorm.measurements import effective_learning_rate, invariance, same_computation

RUN = SimpleNamespace(device=torch.device("cpu"))

TABLE_1 = {  # as printed: matrix re-scale, matrix re-centre, vector re-scale, data re-scale, ...
    "batchnorm": "YNYYYN",
    "weightnorm": "YNYNNN",
    "layernorm": "YYNYNY",
}


def last(rows):
    return {row.metric: row.value for row in rows}


@pytest.mark.parametrize("norm", TABLE_1)
def test_every_cell_of_table_1(norm):
    rows = last(invariance(RUN, norm, num_cases=16, num_inputs=20, num_units=12, eps=0.0))
    measured = ["Y" if change < 1e-13 else "N" if change > 0.1 else "?" for change in rows.values()]
    assert "".join(measured) == TABLE_1[norm]


def test_layer_norm_is_the_same_at_test_and_whatever_the_other_cases():
    for network in ("mlp", "row_gru"):
        rows = last(same_computation(RUN, network, "layernorm", width=8, num_cases=4))
        assert max(rows.values()) < 1e-13, network


def test_batch_norm_is_not():
    rows = last(same_computation(RUN, "mlp", "batchnorm", width=8, num_cases=4))
    assert rows["train_test_difference"] > 0.1
    assert rows["other_cases_difference"] > 0.1
    assert rows["other_cases_gradient"] > 1e-3


def test_there_is_no_gru_with_batch_norm():
    for network, norm in (("row_gru", "batchnorm"), ("gru", "layernorm")):
        with pytest.raises(ValueError, match=f"got network '{network}' with norm '{norm}'"):
            list(same_computation(RUN, network, norm, width=8, num_cases=4))


@pytest.mark.parametrize("norm", TABLE_1)
def test_doubled_weights_halve_lengths_and_gradients_and_quarter_the_curvature(norm):
    rows = last(effective_learning_rate(RUN, norm, num_cases=6, num_inputs=5, num_units=4))
    assert rows.pop("weight_block_ratio") == pytest.approx(0.25, abs=1e-12)
    assert rows.pop("weight_block_error") == pytest.approx(0.25, abs=1e-12)
    assert max(rows.values()) < 1e-12


def test_without_a_norm_nothing_of_this_holds(monkeypatch):
    monkeypatch.setattr(
        measurements,
        "normalised_layer",
        lambda kind, weight, x, gain, bias: x @ weight.T * gain + bias,
    )
    rows = last(effective_learning_rate(RUN, "layernorm", num_cases=6, num_inputs=5, num_units=4))
    for metric in ("output_change", "mixed_block_error", "length_error", "gradient_error"):
        assert rows[metric] > 0.01, metric
