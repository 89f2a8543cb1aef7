"""The measurements yield what they name, and tell a broken layer from a sound one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from papers.batchnorm import measurements
from papers.batchnorm.measurements import inference, invariance

RUN = SimpleNamespace(device=torch.device("cpu"))


def errors(rows):
    torch.manual_seed(0)
    return {row.metric: row.value for row in rows}


@pytest.mark.parametrize("kind", ["dense", "conv"])
def test_the_identities_hold_with_batchnorm_and_not_without(kind):
    held = errors(invariance(RUN, kind, "batchnorm"))
    broken = errors(invariance(RUN, kind, "none"))
    assert held.keys() == broken.keys()
    assert max(held.values()) < 1e-13
    assert min(broken.values()) > 0.5


@pytest.mark.parametrize("kind", ["dense", "conv"])
def test_inference_is_exact(kind):
    assert max(errors(inference(RUN, kind, 3)).values()) < 1e-13


def test_an_eps_above_0_breaks_the_invariance(monkeypatch):
    plain = measurements._norm
    monkeypatch.setattr(measurements, "_norm", lambda kind, method, eps: plain(kind, method, 1e-5))
    assert errors(invariance(RUN, "dense", "batchnorm"))["output_error"] > 1e-6


def test_a_biased_running_variance_is_noticed(monkeypatch):
    plain = measurements._norm

    def biased(kind, method, eps):
        norm = plain(kind, method, eps)
        norm.running_variance = "biased"
        return norm

    monkeypatch.setattr(measurements, "_norm", biased)
    found = errors(inference(RUN, "dense", 3))
    assert found["population_error"] > 1e-3
    assert found["fused_affine_error"] < 1e-13
