"""Generator and critic: shapes, which layers have spectral norm, budgets, the receptive field."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot
from torch.nn.utils import parametrize

from papers.spade.model import Generator, PatchCritic
from shared.records.experiment import RunKey, resolve
from shared.records.paper import read_paper

PAPER = read_paper("spade")
ARMS = PAPER.experiments["collages"].arms_at("laptop")


def generator(method="spade", base="batch", source="noise", **changes):
    settings = {
        "channels": [8, 8, 6, 6, 4],
        "sizes": [4, 8, 16, 32],
        "num_labels": 5,
        "out_channels": 1,
        "noise_size": 7,
        "hidden": 4,
    }
    return Generator(method, base, source, **settings | changes)


def maps(num=2, side=32, labels=5):
    return one_hot(torch.randint(labels, (num, side, side)), labels).movedim(3, 1).float()


@pytest.mark.parametrize("source", ["noise", "map"])
@pytest.mark.parametrize("method", ["spade", "spade_1x1", "clade", "concat", "input_only"])
def test_every_method_draws_images(method, source):
    drawn = generator(method, source=source)(torch.randn(2, 7), maps())
    assert drawn.shape == (2, 1, 32, 32)
    assert drawn.abs().max() <= 1


def test_wide_images():
    wide = generator(aspect=2)
    assert wide(torch.randn(2, 7), maps().repeat(1, 1, 1, 2)).shape == (2, 1, 32, 64)


def normalised(net):
    return {name for name, layer in net.named_modules() if parametrize.is_parametrized(layer)}


def test_spectral_norm_is_on_the_blocks_convolutions_and_no_others():
    """Not on all layers, as the paper says: see issue 129 of the public code."""
    net = generator()
    names = {n.rpartition(".")[2] for n in normalised(net)}
    assert names == {"conv_0", "conv_1", "conv_s"}
    plain = {n for n, m in net.named_modules() if isinstance(m, nn.Conv2d)} - normalised(net)
    assert {n.rpartition(".")[2] for n in plain} == {"last", "shared", "gamma", "beta"}
    critic = PatchCritic(6, 4, num_layers=3, num_scales=2)
    assert normalised(critic) == {f"scales.{s}.{layer}.0" for s in (0, 1) for layer in (1, 2)}


def test_the_critic_is_that_of_the_public_code():
    critic = PatchCritic(3 + 35, 64, num_layers=4, num_scales=2)
    convs = [m for m in critic.scales[0].modules() if isinstance(m, nn.Conv2d)]
    assert [c.out_channels for c in convs] == [64, 128, 256, 512, 1]
    assert [c.stride[0] for c in convs] == [2, 2, 2, 1, 1]
    assert {(c.kernel_size[0], c.padding[0]) for c in convs} == {(4, 2)}
    small = PatchCritic(3, 4, num_layers=2, num_scales=2)
    first, second = small(torch.randn(2, 3, 32, 32))
    assert [x.shape[1] for x in first] == [4, 8, 1]
    assert second[0].shape[2] == (16 // 2) + 1 < first[0].shape[2]


@pytest.mark.parametrize("arm", ARMS)
def test_the_arms_have_as_many_parameters_as_spade(arm):
    def count(name):
        key = RunKey(scale="laptop", paper="spade", experiment="collages", arm=name, seed=0)
        s = resolve(PAPER.experiments, key).settings
        net = Generator(
            s["method"], s.get("base", "batch"), s.get("source", "noise"), s["channels"],
            s["sizes"], 11, 1, s["noise_size"], s["hidden"],
        )  # fmt: skip
        return sum(p.numel() for p in net.parameters())

    assert count(arm) == pytest.approx(count("spade"), rel=0.025)


@pytest.mark.parametrize("source", ["noise", "map"])
@pytest.mark.parametrize("method", ["spade", "spade_1x1", "clade", "concat", "input_only"])
def test_the_reach_of_an_edit_is_its_receptive_field(method, source):
    """Every pixel in it can change, none outside does: by perturbing the map at many places."""
    torch.manual_seed(0)
    net = generator(method, source=source, hidden=16).double()
    for parameter in net.parameters():
        if parameter.dim() == 2:  # CLADE's tables start at zero
            nn.init.normal_(parameter, std=0.2)
    noise = torch.randn(1, 7, dtype=torch.float64)
    before = maps(1).double()
    for _ in range(5):  # until the spectral norms are found
        net(noise, before)
    net.eval()
    for row, column in [(13, 17), (14, 18), (12, 20), (0, 31), (16, 16)]:
        changed = torch.zeros(1, 32, 32, dtype=torch.bool)
        changed[:, row, column] = True
        moved = torch.zeros_like(changed)
        for _ in range(4):  # a change may be hidden where all activations are off
            after = torch.where(changed[:, None], torch.randn_like(before), before)
            moved |= (net(noise, after) != net(noise, before)).any(1)
        assert torch.equal(moved, net.reach(changed))


def test_a_map_at_the_input_alone_washes_out_on_instance_norm():
    """s2 in the whole network: the drawings of all labels are one.

    The first norm comes before any padded convolution, so padding does not help; batch norm of a
    batch with different labels does, and so does SPADE.
    """
    labels = torch.eye(5)[:, :, None, None].expand(-1, -1, 32, 32).double()
    noise = torch.zeros(5, 7).double()
    drawn = generator("input_only", "instance", "map").double()(noise, labels)
    assert (drawn - drawn[:1]).abs().max() < 1e-9
    for kept in (
        generator("input_only", "batch", "map"),
        generator("spade", "instance", "noise"),
    ):
        drawn = kept.double()(noise, labels)
        assert (drawn - drawn[:1]).abs().max() > 1e-3


def test_lists_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="one more number"):
        generator(channels=[8, 8])
