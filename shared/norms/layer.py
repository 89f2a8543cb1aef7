"""Layer norm and RMS norm over the last dimensions.

Legend: R rows (all leading dimensions), D elements of a row.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from shared.kernels import norm


def _rows(x: Tensor, shape: tuple[int, ...], layer: str) -> Tensor:
    """(..., *shape) -> (R, D)."""
    if tuple(x.shape[-len(shape) :]) != shape:
        raise ValueError(
            f"{layer}: got x of shape {tuple(x.shape)}, expected the last dimensions to be {shape}"
            ": give the layer the size of the last dimensions, or reshape x"
        )
    # A matrix as it is: a view would cost more than the arithmetic of a small one.
    return x if x.dim() == 2 and len(shape) == 1 else x.reshape(-1, math.prod(shape))


def _back(y: Tensor, x: Tensor) -> Tensor:
    """(R, D) -> x's shape."""
    return y if y.shape == x.shape else y.view(x.shape)


class LayerNorm(nn.LayerNorm):
    """Layer norm: every row is centred and scaled by its own statistics.

    y = (x - mean) / sqrt(var + eps) * weight + bias, var biased.

    Args:
        normalized_shape: Sizes of the last dimensions, which make a row.
        eps: Added to the variance, inside the root.
        elementwise_affine: Whether there are a weight and a bias.
        bias: Whether there is a bias.
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Shape: (..., *normalized_shape). Dtype: statistics in float32 at least.
    Raises: ValueError for other shapes.
    Source: Ba, Kiros, Hinton (2016), arXiv 1607.06450.

    Example:
        >>> LayerNorm(2, eps=0.0)(torch.tensor([[1.0, 3.0]])).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(self, *args: Any, impl: str = "auto", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.impl = impl

    def forward(self, x: Tensor) -> Tensor:
        rows = _rows(x, tuple(self.normalized_shape), "LayerNorm")
        weight = None if self.weight is None else self.weight.flatten()
        bias = None if self.bias is None else self.bias.flatten()
        y = norm(rows, weight, bias, groups=1, eps=self.eps, impl=self.impl)
        return _back(y, x)


class RMSNorm(nn.RMSNorm):
    """RMS norm: every row is scaled by its root mean square, which a part may stand for.

    y = x / sqrt(mean(x[:k]^2) + eps) * weight, k = ceil(fraction * D).

    Args:
        normalized_shape: Sizes of the last dimensions, which make a row.
        eps: Added to the mean square, inside the root; None: the machine epsilon of x's type.
        elementwise_affine: Whether there is a weight.
        fraction: Share of the row that the root mean square is taken from, in (0, 1].
        impl: `auto`, `reference`, `native`, `cpp` or `triton`; a fraction below 1 has one form.

    Shape: (..., *normalized_shape). Dtype: statistics in float32 at least.
    Raises: ValueError for other shapes, or a fraction outside (0, 1].
    Source: Zhang, Sennrich (2019), arXiv 1910.07467.

    Example:
        >>> RMSNorm(2, eps=0.0)(torch.tensor([[5.0, 5.0]])).tolist()
        [[1.0, 1.0]]
    """

    def __init__(
        self, *args: Any, fraction: float = 1.0, impl: str = "auto", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if not 0 < fraction <= 1:
            raise ValueError(f"RMSNorm: got fraction {fraction}, expected a number in (0, 1]")
        self.fraction = fraction
        self.impl = impl

    def forward(self, x: Tensor) -> Tensor:
        rows = _rows(x, tuple(self.normalized_shape), "RMSNorm")
        weight = None if self.weight is None else self.weight.flatten()
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        if self.fraction == 1:
            y = norm(rows, weight, groups=1, centre=False, eps=eps, impl=self.impl)
        else:
            y = _partial_rms(rows, weight, self.fraction, eps)
        return _back(y, x)

    def extra_repr(self) -> str:
        part = "" if self.fraction == 1 else f", fraction={self.fraction}"
        return super().extra_repr() + part


def _partial_rms(x: Tensor, weight: Tensor | None, fraction: float, eps: float) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    part = wide[:, : math.ceil(fraction * x.shape[1])]
    y = wide * torch.rsqrt(part.square().mean(1, keepdim=True) + eps)
    return (y if weight is None else y * weight).to(x.dtype)
