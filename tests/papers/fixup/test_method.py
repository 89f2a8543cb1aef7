"""The three rules, with the mistakes that public re-implementations are known to make."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from papers.fixup.method import (
    ScalarBias,
    ScalarMultiplier,
    branch_scale,
    parameter_groups,
    scale_branches,
    zero_last_layers,
)
from papers.fixup.model import ConvResNet, ResidualMLP, branches_of


@pytest.mark.parametrize(
    ("num_branches", "layers_per_branch", "expected"),
    [(54, 2, 54**-0.5), (16, 3, 16**-0.25), (12, 4, 12 ** (-1 / 6)), (1, 2, 1.0)],
)
def test_the_factor_is_l_to_the_minus_one_over_2m_minus_2(
    num_branches, layers_per_branch, expected
):
    assert branch_scale(num_branches, layers_per_branch) == pytest.approx(expected, rel=1e-15)


def test_known_mistake_the_exponent_without_its_minus_sign():
    assert branch_scale(54, 2) == pytest.approx(0.136, abs=5e-4)


@pytest.mark.parametrize(("num_branches", "layers_per_branch"), [(0, 2), (5, 1)])
def test_a_net_without_such_branches_is_an_error(num_branches, layers_per_branch):
    with pytest.raises(ValueError, match=f"got {num_branches} branches of {layers_per_branch}"):
        branch_scale(num_branches, layers_per_branch)


def same_start(method, **settings):
    torch.manual_seed(0)
    return ConvResNet(method, **({"depth": 20, "width": 4} | settings))


@pytest.mark.parametrize(("depth", "num_blocks"), [(20, 9), (110, 54)])
def test_known_mistake_l_counts_blocks_and_not_layers(depth, num_blocks):
    he, fixup = same_start("he", depth=depth), same_start("fixup", depth=depth)
    assert len(branches_of(fixup)) == num_blocks
    first_he, first_fixup = branches_of(he)[0][0], branches_of(fixup)[0][0]
    torch.testing.assert_close(first_fixup.weight, first_he.weight * num_blocks**-0.5)


def test_known_mistake_the_index_of_the_block_in_place_of_l():
    pairs = zip(branches_of(same_start("he")), branches_of(same_start("fixup")), strict=True)
    factors = [(fixup[0].weight / he[0].weight).mean().item() for he, fixup in pairs]
    assert factors == pytest.approx([1 / 3] * 9)


def test_layers_outside_the_branches_are_not_scaled():
    torch.testing.assert_close(same_start("he").stem.weight, same_start("fixup").stem.weight)


@pytest.mark.parametrize("method", ["fixup", "zero_init"])
def test_last_layers_and_classifier_start_at_zero_and_no_other_layer(method):
    net = same_start(method)
    zero = {name for name, p in net.named_parameters() if name.endswith("weight") and not p.any()}
    expected = {f"blocks.{i}.conv2.weight" for i in range(9)} | {"classifier.weight"}
    assert zero == expected
    assert not net.classifier.bias.any()


def test_zero_init_differs_from_fixup_by_the_scaling_alone():
    net = same_start("zero_init")
    scale_branches(branches_of(net))
    for (name, got), expected in zip(
        net.named_parameters(), same_start("fixup").parameters(), strict=True
    ):
        torch.testing.assert_close(got, expected, rtol=0, atol=0, msg=name)


def test_zeroing_reaches_the_bias_of_a_layer():
    branch = (nn.Linear(3, 3), nn.Linear(3, 3))
    zero_last_layers([branch], nn.Linear(3, 2))
    assert not branch[1].bias.any()
    assert branch[0].bias.any()


@pytest.mark.parametrize("num_channels", [1, 3])
def test_scalars_do_nothing_at_the_start(num_channels):
    x_NCHW = torch.randn(2, 3, 4, 4)
    for module in (ScalarBias(num_channels), ScalarMultiplier(num_channels)):
        torch.testing.assert_close(module(x_NCHW), x_NCHW, rtol=0, atol=0)
        assert sum(p.numel() for p in module.parameters()) == num_channels


def test_a_bias_for_each_channel_is_added_to_its_channel():
    module = ScalarBias(3)
    module.bias.data[1] = 5.0
    moved = module(torch.zeros(2, 3, 4, 4)).mean(dim=(0, 2, 3))
    assert moved.tolist() == [0.0, 5.0, 0.0]


def test_known_mistake_multipliers_and_biases_for_each_channel():
    block = same_start("fixup").blocks[0]
    scalars = [p for name, p in block.named_parameters() if not name.endswith("weight")]
    assert [p.numel() for p in scalars] == [1] * 5
    per_channel = same_start("fixup", per_channel=True).blocks[3]  # from 4 to 8 channels
    sizes = {
        name: p.numel() for name, p in per_channel.named_parameters() if not name.endswith("weight")
    }
    assert sizes == {
        "bias1a.bias": 4,
        "bias1b.bias": 8,
        "bias2a.bias": 8,
        "bias2b.bias": 8,
        "multiplier.scale": 8,
    }


def names_in(group, net):
    own = {id(parameter) for parameter in group["params"]}
    return {name for name, parameter in net.named_parameters() if id(parameter) in own}


def test_known_mistake_the_learning_rate_of_the_scalars_not_divided_by_ten():
    net = ResidualMLP("fixup", num_blocks=2, width=4)
    weights, scalars = parameter_groups(net, lr=0.1)
    assert weights["lr"] == 0.1
    assert scalars["lr"] == pytest.approx(0.01)
    assert all(name.endswith("weight") for name in names_in(weights, net))
    slow = names_in(scalars, net)
    assert "classifier.bias" in slow
    assert "blocks.1.multiplier.scale" in slow
    assert len(slow) == 2 * 5 + 3
    assert len(weights["params"]) + len(slow) == len(list(net.parameters()))


def test_weight_decay_applies_to_the_scalars_too():
    net = ResidualMLP("fixup", num_blocks=2, width=4)
    optimiser = torch.optim.SGD(parameter_groups(net, lr=0.1), weight_decay=5e-4)
    assert [group["weight_decay"] for group in optimiser.param_groups] == [5e-4, 5e-4]


def test_the_divisor_of_the_ablation():
    groups = parameter_groups(ResidualMLP("fixup", 1, 4), lr=0.1, scalar_lr_divisor=1)
    assert [group["lr"] for group in groups] == [0.1, 0.1]
