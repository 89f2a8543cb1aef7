"""The trainings: optimiser, schedule, percentiles, and the arms of a comparison treated alike."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from papers.batchnorm.module import BinaryMLP, SmallInception, drift
from shared.training.recorder import Recorder


def test_without_a_decay_the_learning_rate_is_constant():
    optimiser = BinaryMLP("batchnorm", lr=0.1, init_std=0.1).configure_optimizers()
    assert isinstance(optimiser, torch.optim.SGD)
    (group,) = optimiser.param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.1, 0.9, 0.0)


def test_the_learning_rate_falls_exponentially_over_the_training():
    module = SmallInception("none", lr=0.1, lr_times=5, width=2, lr_decay=0.01)
    module._trainer = SimpleNamespace(estimated_stepping_batches=100)
    configured = module.configure_optimizers()
    assert configured["lr_scheduler"]["interval"] == "step"
    optimiser, schedule = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    rates = []
    for _ in range(101):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    assert rates[0] == 0.5
    assert rates[50] == pytest.approx(0.05)
    assert rates[100] == pytest.approx(0.005)


@pytest.mark.parametrize("decay", [0.0, -1.0, 1.5])
def test_a_decay_that_is_none_is_an_error(decay):
    with pytest.raises(ValueError, match=r"lr_decay: got .*, expected a factor in \(0, 1\]"):
        SmallInception("none", lr=0.1, lr_decay=decay)


@pytest.mark.parametrize("method", ["batchnorm", "none"])
def test_every_parameter_is_optimised_once(method):
    module = BinaryMLP(method, lr=0.1, init_std=0.1)
    (group,) = module.configure_optimizers().param_groups
    assert sorted(map(id, group["params"])) == sorted(map(id, module.parameters()))


def test_drift_is_the_mean_way_of_the_percentiles_in_final_widths():
    way = torch.tensor([[4.0], [2.0], [6.0]])
    final = torch.tensor([[-1.0], [0.0], [1.0]])
    assert drift(way, final, num_intervals=2).item() == pytest.approx(4 / 2 / 2)


def evaluated(module, batches):
    """The module after evaluations of (step, images), and its recorder."""
    recorder = Recorder()
    module.run = SimpleNamespace(
        recorder=recorder,
        dataset=lambda: SimpleNamespace(manifest=SimpleNamespace(mean=(0.3,), std=(0.35,))),
    )
    module.setup("fit")
    module.eval()
    for step, images in batches:
        module._trainer = SimpleNamespace(global_step=step)
        labels = torch.zeros(len(images), dtype=torch.int64)
        with torch.no_grad():
            module.validation_step((images, labels), 0)
            module.validation_step((images.flip(0)[:1], labels[:1]), 1)
    return recorder


def small_mlp():
    torch.manual_seed(0)
    module = BinaryMLP("none", lr=0.1, init_std=1.0, width=4, in_features=9)
    return module


@pytest.fixture
def steps(monkeypatch):
    monkeypatch.setattr(BinaryMLP, "global_step", property(lambda m: m._trainer.global_step))


def test_percentiles_are_those_of_the_first_test_batch_in_eval_mode(steps):
    module = small_mlp()
    images = torch.randn(50, 1, 3, 3)
    recorder = evaluated(module, [(10, images)])
    z = module.net.last_inputs(images).detach().numpy()
    got = {row.metric: row.value for row in recorder.rows()}
    for percentile in (15, 50, 85):
        expected = np.percentile(z[:, 0], percentile)
        assert got[f"preactivation_p{percentile}"] == pytest.approx(expected, rel=1e-5)


def test_the_way_is_summed_over_evaluations_and_the_last_step_counts_once(steps):
    module = small_mlp()
    first, second, third = (torch.randn(50, 1, 3, 3) + shift for shift in (0.0, 0.5, 1.0))
    evaluated(module, [(10, first), (20, second), (30, third), (30, third)])
    percentiles = [
        np.percentile(module.net.last_inputs(images).detach().numpy(), (15, 50, 85), axis=0)
        for images in (first, second, third)
    ]
    expected = np.abs(np.diff(percentiles, axis=0)).sum(axis=0)
    np.testing.assert_allclose(module.travelled.numpy(), expected, rtol=1e-4, atol=1e-6)
    assert module.num_intervals == 2
    np.testing.assert_allclose(module.percentiles.numpy(), percentiles[-1], rtol=1e-4, atol=1e-6)


def test_what_was_observed_is_part_of_a_checkpoint():
    names = set(small_mlp().state_dict())
    assert {"percentiles", "travelled", "num_intervals", "net.binarise.threshold"} <= names
