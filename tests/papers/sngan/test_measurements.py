"""The measurements, and the bound on the norm of a convolution by building its matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d

from papers.sngan.measurements import LAYERS, cost, identities, operator_norm, operator_norms


class FakeRun:
    device = torch.device("cpu")


def values(rows):
    return {row.metric: row.value for row in rows}


@pytest.mark.parametrize("layer", LAYERS)
def test_the_identities_hold(layer):
    torch.manual_seed(0)
    rows = values(identities(FakeRun(), layer, 2000))
    assert rows.pop("eval_change") == 0
    assert set(rows) == {"sigma_error", "gradient_error", "torch_error", "scale_error"}
    assert max(rows.values()) < 1e-10


def matrix_of(weight, stride, size):
    """The convolution as a matrix: one column an input pixel."""
    basis = torch.eye(weight.shape[1] * size**2, dtype=weight.dtype)
    maps = conv2d(basis.view(-1, weight.shape[1], size, size), weight, stride=stride, padding=1)
    return maps.flatten(1).mT.numpy()


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (4, 2)])
def test_the_operator_norm_is_that_of_the_matrix(kernel, stride):
    weight = torch.randn(3, 2, kernel, kernel, dtype=torch.float64)
    exact = np.linalg.norm(matrix_of(weight, stride, 6), 2)
    assert operator_norm(weight, stride, 6, iterations=2000) == pytest.approx(exact, rel=1e-6)


def test_spectral_norm_of_the_matrix_is_not_the_norm_of_the_convolution():
    constant = values(operator_norms(FakeRun(), "constant", 16))
    random = values(operator_norms(FakeRun(), "random", 16))
    assert constant["bound_violation"] == random["bound_violation"] == 0
    assert 2.5 < constant["operator_over_sigma_3x3"] <= 3
    assert 1.7 < constant["operator_over_sigma_4x4"] <= 2
    assert 1 < random["operator_over_sigma_3x3"] < 2


def test_cost_is_a_ratio_of_updates_that_took_turns():
    rows = values(cost(FakeRun(), width=2, batch_size=2, rounds=2))
    ratios = {name for name in rows if "_over_" in name}
    assert ratios == {
        "sn_over_wn", "none_over_wn", "penalty_over_wn", "penalty_over_sn", "sn_over_torch"
    }  # fmt: skip
    assert all(value > 0 for value in rows.values())


def test_filters_that_are_unknown_are_no_random_ones():
    with pytest.raises(KeyError, match="Constant"):
        list(operator_norms(FakeRun(), "Constant", 16))
