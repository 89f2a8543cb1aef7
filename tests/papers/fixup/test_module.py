"""The trainings: optimiser, schedule, and the arms of a comparison treated alike."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from papers.fixup.model import ConvResNet, ResidualMLP, WideResNet
from papers.fixup.module import DepthSweep, SmallResNet

SMALL = {"depth": 8, "width": 2, "in_channels": 1}


def optimisers(module, num_steps=100):
    module._trainer = SimpleNamespace(estimated_stepping_batches=num_steps)
    configured = module.configure_optimizers()
    assert configured["lr_scheduler"]["interval"] == "step"
    return configured["optimizer"], configured["lr_scheduler"]["scheduler"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"method": "fixup"}, [0.1, 0.01]),
        ({"method": "he"}, [0.1, 0.01]),
        ({"method": "fixup", "scalar_lr_divisor": 1}, [0.1, 0.1]),
        ({"method": "batchnorm"}, [0.1, 0.1]),
    ],
)
def test_learning_rates_of_weights_and_scalars(settings, expected):
    optimiser, _ = optimisers(SmallResNet(**SMALL, **settings))
    assert [group["lr"] for group in optimiser.param_groups] == pytest.approx(expected)
    assert [group["weight_decay"] for group in optimiser.param_groups] == [1e-4, 1e-4]
    assert [group["momentum"] for group in optimiser.param_groups] == [0.9, 0.9]


def test_both_learning_rates_drop_after_half_and_three_quarters_of_the_steps():
    module = SmallResNet("fixup", **SMALL)
    optimiser, schedule = optimisers(module, num_steps=200)
    rates = []
    for _ in range(200):
        rates.append([group["lr"] for group in optimiser.param_groups])
        optimiser.step()
        schedule.step()
    assert rates[99] == pytest.approx([0.1, 0.01])
    assert rates[100] == pytest.approx([0.01, 0.001])
    assert rates[149] == pytest.approx([0.01, 0.001])
    assert rates[150] == pytest.approx([0.001, 0.0001])


def test_every_parameter_is_optimised_once():
    for method in ("batchnorm", "fixup"):
        module = SmallResNet(method, **SMALL)
        optimiser, _ = optimisers(module)
        optimised = [id(p) for group in optimiser.param_groups for p in group["params"]]
        assert sorted(optimised) == sorted(id(p) for p in module.parameters())


def test_the_depth_sweep_counts_layers():
    settings = {"width": 4, "in_channels": 1, "image_size": 8}
    net = DepthSweep("fixup", 100, network="residual_mlp", **settings).net
    assert isinstance(net, ResidualMLP)
    linear = [m for m in net.modules() if isinstance(m, torch.nn.Linear)]
    assert len(linear) == 100
    assert isinstance(DepthSweep("he", 10, network="wide_resnet", **settings).net, WideResNet)


def test_an_odd_depth_is_an_error():
    with pytest.raises(ValueError, match="depth: got 11, expected an even number"):
        DepthSweep("he", 11, "residual_mlp", width=4, in_channels=1, image_size=8)


def test_settings_reach_the_network():
    net = SmallResNet("fixup", **SMALL, stem_stride=2, per_channel=True).net
    assert isinstance(net, ConvResNet)
    assert net.stem.stride == (2, 2)
    assert net.blocks[0].bias1a.bias.numel() == 2
    assert SmallResNet("fixup", **SMALL, mixup_alpha=0.7).mixup_alpha == 0.7


def test_arms_with_one_seed_start_from_the_same_branches():
    first = []
    for method in ("he", "fixup"):
        torch.manual_seed(5)
        first.append(SmallResNet(method, **SMALL).net.blocks[0].conv1.weight)
    torch.testing.assert_close(first[1], first[0] * 3**-0.5)


def test_a_network_that_is_unknown_is_no_other_network():
    with pytest.raises(ValueError, match="network: got 'mlp', expected 'wide_resnet' or"):
        DepthSweep("he", 10, "mlp", width=4, in_channels=1, image_size=8)
