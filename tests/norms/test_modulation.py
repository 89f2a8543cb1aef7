"""Norms whose weight and bias come from elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from shared.norms import SPADE, BatchNorm2d, ConditionalNorm, InstanceNorm2d, adain


def test_adain_gives_the_content_the_style_s_statistics() -> None:
    content, style = torch.randn(2, 3, 5, 5), torch.randn(2, 3, 7, 4) * 4 + 2
    y = adain(content, style).flatten(2)
    flat = style.flatten(2)
    assert torch.allclose(y.mean(2), flat.mean(2), atol=1e-4)
    assert torch.allclose(y.std(2, unbiased=False), flat.std(2, unbiased=False), rtol=1e-3)
    with pytest.raises(ValueError, match="of equal N and C"):
        adain(content, style[:1])


def test_gradients_reach_content_and_style_twice() -> None:
    inputs = [torch.randn(2, 2, 3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(adain, inputs)
    assert torch.autograd.gradgradcheck(adain, inputs)


def test_conditional_norm_is_a_norm_for_each_class() -> None:
    layer = ConditionalNorm(BatchNorm2d(3, affine=False), 4, 3)
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    x, label = torch.randn(3, 3, 4, 4), torch.tensor([0, 3, 3])
    plain = BatchNorm2d(3, affine=False)(x)
    expected = plain * layer.weight[label][..., None, None] + layer.bias[label][..., None, None]
    assert torch.allclose(layer(x, label), expected, atol=1e-6)
    evaluated = layer.eval()(x, label)
    running = layer.base.running()
    centred = (x - running.mean.view(1, 3, 1, 1)) / (running.var + 1e-5).sqrt().view(1, 3, 1, 1)
    weight, bias = (t[label][..., None, None] for t in (layer.weight, layer.bias))
    assert torch.allclose(evaluated, centred * weight + bias, atol=1e-5)
    with pytest.raises(ValueError, match="one class for each sample"):
        layer(x, label[:2])


@pytest.mark.parametrize("base", [BatchNorm2d(4, affine=False), InstanceNorm2d(4)])
def test_spade_by_its_formula(base: nn.Module) -> None:
    layer = SPADE(base, 4, num_labels=3, hidden=5)
    x, labels = torch.randn(2, 4, 8, 8), torch.randn(2, 3, 4, 4)
    shared = layer.shared(nn.functional.interpolate(labels, size=(8, 8), mode="nearest")).relu()
    expected = base(x) * (1 + layer.gamma(shared)) + layer.beta(shared)
    assert torch.allclose(layer(x, labels), expected, atol=1e-5)


def test_a_constant_label_map_makes_spade_a_conditional_norm_away_from_the_border() -> None:
    """Park et al. (2019), section 3.1; zero padding is felt up to 2 pixels inside."""
    layer = SPADE(BatchNorm2d(2, affine=False), 2, num_labels=3, hidden=4)
    labels = torch.zeros(1, 3, 10, 10)
    labels[:, 1] = 1
    y = layer(torch.randn(1, 2, 10, 10), labels)
    shared = layer.shared(labels).relu()
    gamma = layer.gamma(shared)[0, :, 2:-2, 2:-2]
    assert torch.allclose(gamma, gamma[:, :1, :1].expand_as(gamma), atol=1e-6)
    assert bool(y.isfinite().all())


def test_a_base_with_its_own_weight_is_refused() -> None:
    with pytest.raises(ValueError, match="affine=False"):
        SPADE(BatchNorm2d(4), 4, 3)
    with pytest.raises(ValueError, match="norm of this package"):
        ConditionalNorm(nn.BatchNorm2d(4, affine=False), 2, 4)


def test_a_map_that_does_not_fit_is_refused() -> None:
    layer = SPADE(BatchNorm2d(4, affine=False), 4, 3)
    x = torch.randn(2, 4, 8, 8)
    for label_map in (torch.zeros(2, 8, 8), torch.zeros(2, 1, 8, 8), torch.zeros(1, 3, 8, 8)):
        with pytest.raises(ValueError, match=r"expected \(2, 3, H, W\).*one-hot"):
            layer(x, label_map)
    with pytest.raises(ValueError, match="got kernel_size 4, expected an odd"):
        SPADE(BatchNorm2d(4, affine=False), 4, 3, kernel_size=4)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (torch.tensor([0, -1]), "got label -1, expected 0 to 1"),
        (torch.tensor([0, 2]), "got label 2, expected 0 to 1"),
        (torch.tensor([True, False]), "expected whole numbers"),
    ],
)
def test_a_label_that_is_no_class_is_refused(label: torch.Tensor, message: str) -> None:
    layer = ConditionalNorm(BatchNorm2d(4, affine=False), 2, 4)
    with pytest.raises(ValueError, match=message):
        layer(torch.randn(2, 4, 3, 3), label)
