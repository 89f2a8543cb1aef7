"""SPADE and its variants against second implementations, written from the equations in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate, one_hot

from papers.spade.measurements import class_table, constant_map, single_labels
from papers.spade.method import CLADE, base_norm, modulation, resized, table_of
from papers.spade.model import Block
from shared.norms import SPADE


def values(rows):
    return {row.metric: row.value for row in rows}


def conv_by_hand(x_CHW, weight, bias):
    """A convolution of odd kernel with zeros around, tap by tap."""
    side = weight.shape[2] // 2
    padded = np.pad(x_CHW, ((0, 0), (side, side), (side, side)))
    height, width = x_CHW.shape[1:]
    out = np.zeros((len(weight), height, width)) + bias[:, None, None]
    for row in range(weight.shape[2]):
        for column in range(weight.shape[3]):
            part = padded[:, row : row + height, column : column + width]
            out += np.einsum("oc,chw->ohw", weight[:, :, row, column], part)
    return out


KERNELS = {"spade": 3, "spade_1x1": 1}


@pytest.mark.parametrize("method", KERNELS)
def test_spade_is_the_equation_of_the_paper(method):
    layer = modulation(method, "instance", num_labels=3, hidden=5)(4).double()
    assert layer.gamma.kernel_size[0] == layer.shared.kernel_size[0] == KERNELS[method]
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    labels = torch.randint(3, (2, 12, 12))
    got = layer(x, one_hot(labels, 3).movedim(3, 1).double()).detach().numpy()
    arrays = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    for n in range(2):
        small = labels[n].numpy()[::2, ::2]  # nearest: the upper left of each square of four
        one_hot_KHW = np.eye(3)[small].transpose(2, 0, 1)
        hidden = conv_by_hand(one_hot_KHW, arrays["shared.weight"], arrays["shared.bias"])
        gamma, beta = (
            conv_by_hand(hidden.clip(0), arrays[f"{name}.weight"], arrays[f"{name}.bias"])
            for name in ("gamma", "beta")
        )
        a = x[n].numpy()
        mean, var = a.mean((1, 2), keepdims=True), a.var((1, 2), keepdims=True)
        expected = (a - mean) / np.sqrt(var + 1e-5) * (1 + gamma) + beta
        np.testing.assert_allclose(got[n], expected, rtol=1e-9, atol=1e-12)


def test_clade_looks_each_label_up():
    layer = CLADE(base_norm("instance", 4), 4, 3).double()
    for table in (layer.gamma, layer.beta):
        torch.nn.init.normal_(table)
    x, labels = torch.randn(2, 4, 6, 6, dtype=torch.float64), torch.randint(3, (2, 6, 6))
    normed = base_norm("instance", 4)(x)
    gamma, beta = (table[:, labels].transpose(0, 1) for table in (layer.gamma, layer.beta))
    got = layer(x, one_hot(labels, 3).movedim(3, 1).double())
    torch.testing.assert_close(got, normed * (1 + gamma) + beta)


def test_the_label_of_a_uniform_map_washes_out_and_each_control_keeps_it():
    washed = values(single_labels(None, "instance", "reflect"))
    assert max(washed.values()) < 1e-4
    batch = values(single_labels(None, "batch", "reflect"))
    assert batch["output_rms"] == pytest.approx(1, abs=0.01)
    # Of 11 labels that are centred and scaled together: sqrt(2 * 11 / 10).
    assert batch["label_difference"] == pytest.approx(2.2**0.5, rel=0.01)
    assert values(single_labels(None, "instance", "zeros"))["output_rms"] > 0.9
    assert values(single_labels(None, "instance", "reflect", spade=True))["label_difference"] > 0.01


def test_a_constant_map_makes_spade_conditional_norm_and_zeros_at_the_border_do_not():
    zeros, replicate = (values(constant_map(None, mode)) for mode in ("zeros", "replicate"))
    assert zeros["inside_error"] < 1e-12
    assert zeros["border_error"] > 0.01
    assert max(replicate.values()) < 1e-12


def test_a_smaller_border_would_feel_the_padding():
    spade = SPADE(base_norm("batch", 4), 4, 3, 5).double()
    labels = torch.zeros(1, 3, 9, 9, dtype=torch.float64)
    labels[:, 1] = 1
    gamma = spade.gamma(spade.shared(labels).relu())[0]
    table, _ = table_of(spade)
    error = (gamma - table[:, 1, None, None]).abs().amax(0)
    assert error[2:-2, 2:-2].max() < 1e-12
    assert error[1, 4] > 1e-6


def test_1x1_kernels_and_a_one_hot_map_are_a_table_and_3x3_kernels_are_not():
    assert values(class_table(None, 1))["table_error"] < 1e-12
    assert values(class_table(None, 3))["table_error"] > 0.01


def test_batch_norm_of_a_batch_of_one_is_instance_norm():
    """The default batch size of the public code; evaluation then uses other statistics."""
    x = 3 * torch.randn(2, 4, 6, 6) + 1
    batch, instance = base_norm("batch", 4), base_norm("instance", 4)
    torch.testing.assert_close(batch(x[:1]), instance(x[:1]))
    assert not torch.allclose(batch(x), instance(x), atol=1e-2)
    assert not torch.allclose(batch.eval()(x[:1]), instance(x[:1]), atol=1e-2)


def test_nearest_takes_the_floor_of_a_float32_scale_not_of_integers():
    """26 -> 22: at index 11 torch reads 12, where exact arithmetic gives 13."""
    positions = torch.arange(26.0).expand(1, 1, 26, 26)
    found = resized(positions, (22, 22))[0, 0, 0]
    assert found[11] == 12
    assert 11 * 26 // 22 == 13
    torch.testing.assert_close(found, interpolate(positions, size=22)[0, 0, 0])


def test_the_learned_shortcut_has_no_activation():
    block = Block(4, 6, "spade", "instance", 3, 5).double().eval()
    x = torch.randn(2, 4, 8, 8, dtype=torch.float64)
    map_NKHW = one_hot(torch.randint(3, (2, 8, 8)), 3).movedim(3, 1).double()
    # Without its other branch the block is the shortcut: linear in the normalised features.
    block.conv_1 = torch.nn.Conv2d(4, 6, 3, padding=1).double()
    for parameter in block.conv_1.parameters():
        torch.nn.init.zeros_(parameter)
    linear = block.conv_s(block.norm_s(x, map_NKHW))
    activated = block.conv_s(torch.nn.functional.leaky_relu(block.norm_s(x, map_NKHW), 0.2))
    torch.testing.assert_close(block(x, map_NKHW), linear)
    assert not torch.allclose(linear, activated, atol=1e-2)
    assert block.conv_s.bias is None
