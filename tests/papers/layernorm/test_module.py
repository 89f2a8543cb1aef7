"""The trainings: optimiser, and settings that reach the networks."""

from __future__ import annotations

import torch
from torch import nn

from papers.layernorm.module import MNISTMLP, RowReader, SmallConvNet


def kinds(module):
    return [type(m).__name__ for m in module.net.modules()]


def test_adam_trains_every_parameter_at_the_arms_rate():
    modules = (
        MNISTMLP("batchnorm", [8], lr=0.02, norm_logits=True),
        RowReader("layernorm", width=4, lr=0.02, target_error_percent=20),
        SmallConvNet("none", [4], lr=0.02),
    )
    for module in modules:
        optimiser = module.configure_optimizers()
        assert isinstance(optimiser, torch.optim.Adam)
        assert [group["lr"] for group in optimiser.param_groups] == [0.02]
        optimised = [id(p) for group in optimiser.param_groups for p in group["params"]]
        assert sorted(optimised) == sorted(id(p) for p in module.parameters())


def test_settings_reach_the_network():
    mlp = MNISTMLP("layernorm", [1000, 1000], lr=0.001)
    shapes = [tuple(m.weight.shape) for m in mlp.net if isinstance(m, nn.Linear)]
    assert shapes == [(1000, 784), (1000, 1000), (10, 1000)]
    assert kinds(mlp).count("LayerNorm") == 2
    assert (
        kinds(MNISTMLP("batchnorm", [8, 8], lr=0.001, norm_logits=True)).count("BatchNorm1d") == 3
    )
    reader = RowReader("layernorm", width=4, lr=0.001, target_error_percent=22)
    assert reader.target_error_percent == 22
    assert kinds(reader).count("LayerNorm") == 4
    assert kinds(SmallConvNet("batchnorm", [4, 4, 4], lr=0.001)).count("BatchNorm2d") == 3
