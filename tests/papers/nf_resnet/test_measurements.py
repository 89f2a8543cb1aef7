"""nf1 to nf3 in small, the exact identities, and that they can fail."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from papers.nf_resnet import measurements
from papers.nf_resnet.measurements import gain, identities, predict, signal_propagation
from papers.nf_resnet.model import ResNet
from papers.nf_resnet.speed import training_speed

RUN = SimpleNamespace(device=torch.device("cpu"))
SMALL = {"depths": [10, 10], "widths": [64, 128], "image_size": 32, "batch_size": 4}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(1000)


def last(rows):
    return {row.metric: row.value for row in rows}


def plot(method, stem="small"):
    rows = list(signal_propagation(RUN, method, stem=stem, **SMALL))
    curves = {}
    for row in rows:
        if row.step:
            curves.setdefault(row.metric, []).append(row.value)
    return last(rows), curves


@pytest.mark.parametrize(("method", "added"), [("batchnorm", 0.682), ("relu_bn", 1.0)])
def test_with_batchnorm_the_variance_grows_by_one_branch_a_block_and_falls_back(method, added):
    found, curves = plot(method)
    assert found["mean_residual_variance"] == pytest.approx(added, rel=0.1)
    assert found["variance_error"] < 0.2
    assert curves["variance"][9] == pytest.approx(11 * added, rel=0.1)
    assert curves["variance"][10] == pytest.approx(2 * added, rel=0.2)
    assert found["variance_left_by_reset"] == pytest.approx(2 / 11, rel=0.2)


def test_only_norm_before_relu_leaves_a_mean():
    before, curves = plot("batchnorm")
    assert curves["squared_mean"][9] == pytest.approx(11 / torch.pi, rel=0.25)
    assert plot("relu_bn")[0]["mean_to_variance"] < 0.01 < before["mean_to_variance"]


def test_nf_follows_the_plan_and_he_does_not():
    nf, curves = plot("nf")
    he, _ = plot("he")
    assert len(curves["variance"]) == 20
    assert nf["variance_error"] < 0.25
    assert nf["mean_residual_variance"] == pytest.approx(0.85, abs=0.12)
    assert nf["mean_to_variance"] < 0.02
    assert he["mean_to_variance"] > 0.25
    assert he["mean_residual_variance"] < 0.85 * nf["mean_residual_variance"]


def test_without_gamma_the_branches_fade():
    found, _ = plot("nf_no_gamma")
    assert found["mean_residual_variance"] < 0.03


def test_a_max_pool_gives_every_channel_a_mean_that_standardised_weights_remove():
    assert plot("nf", "imagenet")[0]["mean_to_variance"] < 0.05
    assert plot("he", "imagenet")[0]["mean_to_variance"] > 1


def test_the_share_of_a_window_inside_the_image_is_counted():
    size = 7
    ones = torch.ones(1, 1, size, size)
    windows = torch.nn.functional.conv2d(ones, torch.ones(1, 1, 3, 3), padding=1) / 9
    assert predict("nf", 0, size).residual_variance == pytest.approx(windows.mean().item())


@pytest.mark.parametrize("function", ["relu", "silu"])
def test_gains_keep_the_variance(function):
    rows = last(gain(RUN, function))
    assert rows["kept_variance_error"] < 1e-9
    assert ("gamma_error" in rows) == (function == "relu")
    assert rows.get("gamma_error", 0) < 1e-9


def test_the_official_gain_would_be_found_out(monkeypatch):
    monkeypatch.setattr(measurements, "activation_gain", lambda _: 1.7139588594436646)
    rows = last(gain(RUN, "relu"))
    assert rows["gamma_error"] > 1e-3
    assert rows["kept_variance_error"] > 1e-3


IDENTITIES = ("row_mean_error", "row_norm_error", "beta_error", "clipped_norm_error")


def test_identities_hold():
    rows = last(identities(RUN, [2, 1, 3], [8, 16, 32]))
    assert set(rows) == set(IDENTITIES)
    assert max(rows.values()) < 1e-12


def broken_standardisation(net):
    for module in net.modules():
        if hasattr(module, "scaled"):
            module.scaled = False


def broken_plan(net):
    for block in net.blocks:
        block.beta = 1.0


def broken_clipping(parameters, limit, eps):
    for parameter in parameters:
        parameter.grad *= 0.99


@pytest.mark.parametrize(
    ("damage", "metrics"),
    [
        (broken_standardisation, {"row_norm_error"}),
        (broken_plan, {"beta_error"}),
        (broken_clipping, {"clipped_norm_error"}),
    ],
)
def test_each_identity_is_broken_by_its_own_mistake(monkeypatch, damage, metrics):
    class Broken(ResNet):
        def __init__(self, *args, **settings):
            super().__init__(*args, **settings)
            damage(self)

    if damage is broken_clipping:
        monkeypatch.setattr(measurements, "clip_adaptively_", damage)
    else:
        monkeypatch.setattr(measurements, "ResNet", Broken)
    rows = last(identities(RUN, [2, 2], [8, 16]))
    assert {name for name, error in rows.items() if error > 1e-6} == metrics


def test_training_speed_of_a_network_of_timm():
    (row,) = training_speed(RUN, "test_nfnet", image_size=64, batch_size=2, num_steps=1)
    assert (row.metric, row.unit) == ("step_time_ms", "ms")
    assert row.value > 0
