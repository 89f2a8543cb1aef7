"""Swapping norms inside torch and timm models."""

from __future__ import annotations

from typing import get_args

import pytest
import timm
import torch
from timm import layers
from torch import Tensor, nn
from torchvision.models import resnet18

from shared import norms
from shared.norms import replace_norms
from shared.norms.replace import KINDS
from shared.records.experiment import Norm


def test_paper_files_know_every_kind():
    assert get_args(Norm) == KINDS


MODELS = ("resnet18", "vit_tiny_patch16_224", "convnext_atto", "efficientnet_b0")


def small(name: str) -> tuple[nn.Module, Tensor]:
    if name == "resnet18":
        return resnet18(num_classes=5), torch.randn(2, 3, 32, 32)
    settings: dict[str, object] = {"num_classes": 5}
    if name.startswith("vit"):
        settings |= {"img_size": 32, "depth": 2, "patch_size": 8}
    return timm.create_model(name, **settings), torch.randn(
        2, 3, 64 if "vit" not in name else 32, 64 if "vit" not in name else 32
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["rms", "group", "batch"])
def test_models_run_and_learn_after_the_swap(name: str, kind: str) -> None:
    model, x = small(name)
    report = replace_norms(model, kind, groups=8)
    assert report.replaced and not report.left
    model(x).sum().backward()
    layers = [m for m in model.modules() if type(m).__module__.startswith("shared.norms")]
    assert layers
    old = nn.LayerNorm | nn.GroupNorm | nn.modules.batchnorm._BatchNorm
    foreign = [m for m in model.modules() if isinstance(m, old) and m not in layers]
    assert not foreign


def test_a_norm_at_two_places_is_swapped_at_both() -> None:
    norm = nn.BatchNorm2d(4)
    model = nn.Sequential(nn.Conv2d(3, 4, 1), norm, nn.ReLU(), norm)
    report = replace_norms(model, "group", groups=2)
    assert len(report.replaced) == 1
    assert model[1] is model[3]
    assert isinstance(model[1], norms.GroupNorm)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_on_channels_first_and_last(kind: str) -> None:
    maps = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8))
    tokens = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8))
    replace_norms(maps, kind, groups=4)
    replace_norms(tokens, kind, groups=4)
    assert maps(torch.randn(2, 3, 5, 5)).shape == (2, 8, 5, 5)
    assert tokens(torch.randn(2, 7, 4)).shape == (2, 7, 8)


def test_the_same_kind_changes_nothing_and_keeps_everything() -> None:
    model, x = small("resnet18")
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.normal_(m.weight)
            nn.init.normal_(m.bias)
    model(x)
    before = model.eval()(x)
    report = replace_norms(model, "batch")
    assert not any(m.training for m in model.modules())
    assert torch.allclose(model(x), before, atol=1e-4, rtol=1e-4)
    assert {(r.weight, r.bias) for r in report.replaced} == {("kept", "kept")}
    assert len(report.replaced) == 20


def test_the_report_says_what_became_of_each_parameter() -> None:
    net = nn.Sequential(nn.LayerNorm(4), nn.BatchNorm1d(4, affine=False), nn.LocalResponseNorm(2))
    nn.init.constant_(net[0].weight, 3.0)
    net[0].weight.requires_grad_(False)
    report = replace_norms(net, "rms")
    first, second = report.replaced
    assert (first.weight, first.bias, second.weight, second.bias) == (
        "kept",
        "dropped",
        "new",
        "absent",
    )
    assert torch.equal(net[0].weight, torch.full((4,), 3.0)) and not net[0].weight.requires_grad
    assert report.left == (("2", "LocalResponseNorm is none of the norms known here"),)
    assert "0: LayerNorm(4) -> RMSNorm(4) (weight kept, bias dropped)" in str(report)


def test_reset_starts_anew() -> None:
    net = nn.Sequential(nn.LayerNorm(4))
    nn.init.constant_(net[0].weight, 3.0)
    replace_norms(net, "layer", affine="reset")
    assert isinstance(net[0], norms.LayerNorm) and torch.equal(net[0].weight, torch.ones(4))


def test_type_and_eps_follow() -> None:
    net = nn.Sequential(nn.LayerNorm(4, eps=1e-3)).double()
    replace_norms(net, "layer")
    assert net[0].weight.dtype == torch.float64 and net[0].eps == 1e-3


def test_wrong_arguments_raise() -> None:
    with pytest.raises(ValueError, match="expected one of layer, rms"):
        replace_norms(nn.Sequential(nn.LayerNorm(2)), "rmsnorm")
    with pytest.raises(ValueError, match="expected 'keep' or 'reset'"):
        replace_norms(nn.Sequential(nn.LayerNorm(2)), "rms", affine="drop")
    with pytest.raises(ValueError, match="without a norm inside"):
        replace_norms(nn.Sequential(nn.ReLU()), "rms")


@pytest.mark.parametrize(
    "norm",
    [
        *(layers.RmsNorm2d, layers.RmsNorm2dFp32, layers.RmsNormAct2dFp32),
        *(layers.SimpleNorm2d, layers.SimpleNorm2dFp32),
        *(layers.LayerNorm2d, layers.LayerNorm2dFp32, layers.LayerNormAct2dFp32),
    ],
)
def test_norms_of_timm_over_the_channels_of_maps(norm: type[nn.Module]) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), norm(4))
    eps = model[1].eps
    assert len(replace_norms(model, "rms").replaced) == 1
    x = model[0](torch.randn(2, 3, 5, 6))
    y = model[1](x)
    expected = x / (x.square().mean(1, keepdim=True) + eps).sqrt()
    assert torch.allclose(y, expected.relu() if "Act" in norm.__name__ else expected, atol=1e-5)
