"""How a label map enters a generator: SPADE and what it is compared with.

Legend: N samples, C channels, K labels; map_NKHW is one-hot, of any size, and is resized to the
features by nearest neighbour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, interpolate

from shared.norms import SPADE, BatchNorm2d, GroupNorm, InstanceNorm2d
from shared.norms.modulation import Normaliser

Method = Literal["spade", "spade_1x1", "clade", "concat", "input_only"]
METHODS: tuple[Method, ...] = get_args(Method)
Base = Literal["batch", "instance", "layer"]
BASES: tuple[Base, ...] = get_args(Base)


def base_norm(base: Base, channels: int, *, affine: bool = False) -> nn.Module:
    """The norm that is modulated, without parameters, or the whole norm with them."""
    if base == "batch":
        return BatchNorm2d(channels, affine=affine)
    if base == "instance":
        return InstanceNorm2d(channels, affine=affine)
    return GroupNorm(1, channels, affine=affine)


def resized(map_NKHW: Tensor, size: tuple[int, int]) -> Tensor:
    """Nearest neighbour, as torch does it: the source index is floor(index * scale) in float32."""
    return interpolate(map_NKHW, size=size, mode="nearest")


class CLADE(nn.Module):
    """Weight and bias of each position from a table, by its label alone.

    y = norm(x) * (1 + gamma[label]) + beta[label]; SPADE with 1x1 kernels is this with a table that
    it computes.

    Args:
        base: see `shared.norms.SPADE`.
        num_features: C.
        num_labels: K.

    Shape: x (N, C, H, W), map_NKHW one-hot.
    Source: Tan, Chen, Chu, Chai, Liao, He, Yuan, Hua, Yu (2021), arXiv 2012.04644.
    """

    def __init__(self, base: nn.Module, num_features: int, num_labels: int) -> None:
        super().__init__()
        self.base = base
        self.gamma = nn.Parameter(torch.zeros(num_features, num_labels))
        self.beta = nn.Parameter(torch.zeros(num_features, num_labels))

    def forward(self, x: Tensor, map_NKHW: Tensor) -> Tensor:
        small = resized(map_NKHW, (x.shape[2], x.shape[3]))
        gamma, beta = (conv2d(small, t[..., None, None]) for t in (self.gamma, self.beta))
        normaliser: Normaliser = self.base  # type: ignore[assignment]
        return normaliser.normalise(x, 1 + gamma, beta)


class Unmodulated(nn.Module):
    """A norm with its own weight and bias, which does not see the map."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, map_NKHW: Tensor) -> Tensor:
        return self.norm(x)


def modulation(
    method: Method, base: Base, num_labels: int, hidden: int
) -> Callable[[int], nn.Module]:
    """channels -> the norm of a method, a module of (x, map).

    Args:
        hidden: channels of SPADE's shared convolution, 128 in the paper.
    """

    def make(channels: int) -> nn.Module:
        if method == "clade":
            return CLADE(base_norm(base, channels), channels, num_labels)
        if method in ("spade", "spade_1x1"):
            kernel = 3 if method == "spade" else 1
            return SPADE(base_norm(base, channels), channels, num_labels, hidden, kernel)
        return Unmodulated(base_norm(base, channels, affine=True))

    return make


def table_of(spade: SPADE) -> tuple[Tensor, Tensor]:
    """gamma and beta (C, K) that SPADE gives each label far from other labels and from the border.

    There the convolutions see the same label at every tap, so their kernels sum up.
    """
    hidden = (spade.shared.weight.sum((2, 3)) + _column(spade.shared)).relu()
    gamma, beta = (c.weight.sum((2, 3)) @ hidden + _column(c) for c in (spade.gamma, spade.beta))
    return gamma, beta


def _column(conv: nn.Conv2d) -> Tensor:
    assert conv.bias is not None
    return conv.bias[:, None]
