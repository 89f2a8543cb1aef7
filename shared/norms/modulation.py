"""Norms whose weight and bias come from elsewhere: a class, a style image, a label map.

Legend: N samples, C channels, K classes or label channels.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from shared.kernels import norm, norm_with_statistics


class Normaliser(Protocol):
    """A norm layer that takes its weight and bias from outside."""

    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """x normalised, times weight, plus bias."""


def adain(content: Tensor, style: Tensor, eps: float = 1e-5, impl: str = "auto") -> Tensor:
    """Adaptive instance norm: the content with the style's mean and deviation in each channel.

    y = std(style) (content - mean(content)) / sqrt(var(content) + eps) + mean(style), where
    std(style) = sqrt(var(style) + eps), variances biased, over positions.

    Args:
        content: (N, C, ...).
        style: (N, C, ...), whose positions may differ in number.
        eps: Added to both variances.
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Raises: ValueError where N or C differ.
    Source: Huang, Belongie (2017), arXiv 1703.06868, equation 8.

    Example:
        >>> x = torch.randn(2, 3, 4, 4)
        >>> bool(torch.allclose(adain(x, x), x, atol=1e-5))
        True
    """
    if content.shape[:2] != style.shape[:2] or content.dim() < 3 or style.dim() < 3:
        raise ValueError(
            f"adain: got content {tuple(content.shape)} and style {tuple(style.shape)}, expected "
            "(N, C, ...) of equal N and C: match batch and channels"
        )
    std, mean = _DeviationAndMean.apply(style, eps, impl)
    groups = content.shape[1]
    return norm(
        content, _each(std, content), _each(mean, content), groups=groups, eps=eps, impl=impl
    )


def _each(value: Tensor, x: Tensor) -> Tensor:
    """One number for each sample and channel -> a tensor that broadcasts against x."""
    return value.view(*x.shape[:2], *[1] * (x.dim() - 2))


class _DeviationAndMean(torch.autograd.Function):
    """std = sqrt(var + eps) and mean of each sample and channel, in float32 at least.

    Over n positions d std / dx = xhat / n and d mean / dx = 1 / n, so that the backward,
    (g_std xhat + g_mean) / n, is an instance norm itself: one fused pass, with its derivatives.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, eps: float, impl: str) -> tuple[Tensor, Tensor]:
        _, mean, rstd = norm_with_statistics(x, groups=x.shape[1], eps=eps, impl=impl)
        return rstd.reciprocal(), mean

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, ctx.eps, ctx.impl = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        n = x.shape[2:].numel()
        weight, bias = (_each(g / n, x) for g in grads)
        dx = norm(x, weight, bias, groups=x.shape[1], eps=ctx.eps, impl=ctx.impl)
        return dx, None, None


class ConditionalNorm(nn.Module):
    """A norm with one weight and one bias for each class (conditional batch norm).

    y = norm(x) * weight[class] + bias[class].

    Args:
        base: A norm of this package without affine parameters.
        num_classes: K.
        num_features: Channels C.

    Shape: x (N, C, ...), label (N,) whole numbers.
    Raises: ValueError where the label's shape, type or (on a CPU) range does not fit.
    Source: Dumoulin, Shlens, Kudlur (2017), arXiv 1610.07629; de Vries et al. (2017),
        arXiv 1707.00683.
    """

    def __init__(self, base: nn.Module, num_classes: int, num_features: int) -> None:
        super().__init__()
        self.base = _without_affine(base)
        self.weight = nn.Parameter(torch.ones(num_classes, num_features))
        self.bias = nn.Parameter(torch.zeros(num_classes, num_features))

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        if label.shape != x.shape[:1]:
            raise ValueError(
                f"ConditionalNorm: got labels of shape {tuple(label.shape)} for x of "
                f"{tuple(x.shape)}, expected ({x.shape[0]},): one class for each sample"
            )
        if label.dtype == torch.bool or label.is_floating_point():
            raise ValueError(
                f"ConditionalNorm: got labels of {label.dtype}, expected whole numbers"
            )
        outside = (label < 0) | (label >= len(self.weight))
        # A GPU refuses what lies above by itself; to look would wait for it at every call.
        if not label.is_cuda and not torch.compiler.is_compiling() and bool(outside.any()):
            raise ValueError(
                f"ConditionalNorm: got label {int(label[outside][0])}, expected 0 to "
                f"{len(self.weight) - 1}: give a class of its own to what has none"
            )
        view = (*x.shape[:2], *[1] * (x.dim() - 2))
        return _normalise(self.base, x, self.weight[label].view(view), self.bias[label].view(view))


class SPADE(nn.Module):
    """Spatially adaptive denormalisation: weight and bias of every position from a label map.

    y = norm(x) * (1 + gamma(m)) + beta(m); gamma and beta are 3x3 convolutions of a shared
    3x3 convolution with ReLU, of the label map m resized to x by nearest neighbour.

    Args:
        base: A norm of this package without affine parameters.
        num_features: Channels C.
        num_labels: Channels of the label map, K.
        hidden: Channels of the shared convolution.
        kernel_size: Of the three convolutions; odd.

    Shape: x (N, C, H, W), label_map (N, K, H', W'), one channel for each label.
    Raises: ValueError for an even kernel size, or a map of another shape.
    Source: Park, Liu, Wang, Zhu (2019), arXiv 1903.07291, section 3.
    """

    def __init__(
        self,
        base: nn.Module,
        num_features: int,
        num_labels: int,
        hidden: int = 128,
        kernel_size: int = 3,
    ) -> None:
        super().__init__()
        if kernel_size % 2 == 0:
            raise ValueError(
                f"SPADE: got kernel_size {kernel_size}, expected an odd number, which keeps the "
                "size of the map"
            )
        self.num_labels = num_labels
        self.base = _without_affine(base)
        pad = kernel_size // 2
        self.shared = nn.Conv2d(num_labels, hidden, kernel_size, padding=pad)
        self.gamma = nn.Conv2d(hidden, num_features, kernel_size, padding=pad)
        self.beta = nn.Conv2d(hidden, num_features, kernel_size, padding=pad)

    def forward(self, x: Tensor, label_map: Tensor) -> Tensor:
        if label_map.shape[:2] != (x.shape[0], self.num_labels) or label_map.dim() != 4:
            raise ValueError(
                f"SPADE: got a label map of shape {tuple(label_map.shape)} for x of "
                f"{tuple(x.shape)}, expected ({x.shape[0]}, {self.num_labels}, H, W) with one "
                "channel for each label: make an index map one-hot"
            )
        resized = nn.functional.interpolate(label_map, size=x.shape[2:], mode="nearest")
        features = self.shared(resized).relu()
        return _normalise(self.base, x, 1 + self.gamma(features), self.beta(features))


def _without_affine(base: nn.Module) -> nn.Module:
    if not hasattr(base, "normalise") or getattr(base, "weight", None) is not None:
        raise ValueError(
            f"got base {base!r}, expected a batch, group or instance norm of this package without "
            "a weight of its own: build it with affine=False"
        )
    return base


def _normalise(base: nn.Module, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    normaliser: Normaliser = base  # type: ignore[assignment]  # checked by _without_affine
    return normaliser.normalise(x, weight, bias)
