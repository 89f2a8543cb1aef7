"""`pointwise`, its backward and its double backward, in equation order; README.md derives them.

One text serves two implementations: in float64 it is the reference, in the operator's own type
(float32 at least) on torch's operations it is the native one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from shared.kernels.norm.layout import sum_to

Derivatives = tuple[Tensor, Tensor, Tensor]
Gradients = tuple[Tensor | None, ...]


def tanh(z: Tensor) -> Derivatives:
    """tanh and its first two derivatives."""
    f = torch.tanh(z)
    first = 1 - f * f
    return f, first, -2 * f * first


def erf(z: Tensor) -> Derivatives:
    """The error function and its first two derivatives."""
    first = torch.exp(-z * z) * (2 / math.sqrt(math.pi))
    return torch.erf(z), first, -2 * z * first


def relu(z: Tensor) -> Derivatives:
    """max(z, 0), its derivative (0 at 0, NaN at NaN) and 0."""
    return torch.relu(z), torch.where(z.isnan(), z, (z > 0).to(z.dtype)), torch.zeros_like(z)


FUNCTIONS: dict[str, Callable[[Tensor], Derivatives]] = {"tanh": tanh, "erf": erf, "relu": relu}
FORWARD = {"tanh": torch.tanh, "erf": torch.erf, "relu": torch.relu}


class Inputs(NamedTuple):
    """x (N, C, S); slope and shift of one element; residual as x; weight and bias (1, C, 1)."""

    x: Tensor
    slope: Tensor
    shift: Tensor | None
    residual: Tensor | None
    weight: Tensor | None
    bias: Tensor | None

    def cast(self, dtype: torch.dtype) -> Inputs:
        """All of them in one type."""
        return Inputs(*(None if t is None else t.to(dtype) for t in self))  # type: ignore[arg-type]

    def z(self) -> Tensor:
        """slope x + shift + residual."""
        z = self.x * self.slope if self.shift is None else self.x * self.slope + self.shift
        return z if self.residual is None else z + self.residual


def forward(inputs: Inputs, function: str, dtype: torch.dtype) -> Tensor:
    """y = f(slope x + shift + residual) weight + bias."""
    i = inputs.cast(dtype)
    y = FORWARD[function](i.z())
    if i.weight is not None:
        y = y * i.weight if i.bias is None else torch.addcmul(i.bias, y, i.weight)
    return y


def backward(grad: Tensor, inputs: Inputs, function: str, dtype: torch.dtype) -> Gradients:
    """Gradients of the six inputs."""
    i, g = inputs.cast(dtype), grad.to(dtype)
    f, first, _ = FUNCTIONS[function](i.z())
    a = (g if i.weight is None else g * i.weight) * first
    return (
        i.slope * a,
        (a * i.x).sum().view(i.slope.shape),
        None if i.shift is None else a.sum().view(i.shift.shape),
        None if i.residual is None else a,
        None if i.weight is None else sum_to(g * f, i.weight.shape),
        None if i.bias is None else sum_to(g, i.bias.shape),
    )


def double_backward(
    cotangents: Gradients, grad: Tensor, inputs: Inputs, function: str, dtype: torch.dtype
) -> Gradients:
    """Gradients of grad and of the first five inputs (bias has none)."""
    i, g = inputs.cast(dtype), grad.to(dtype)
    zero = torch.zeros((), dtype=dtype, device=g.device)
    vx, v_slope, v_shift, v_residual, p, q = (
        zero if t is None else t.to(dtype) for t in cotangents
    )
    w = torch.ones_like(zero) if i.weight is None else i.weight
    f, first, second = FUNCTIONS[function](i.z())
    a = g * w * first
    cotangent_a = i.slope * vx + v_slope * i.x + v_shift + v_residual
    dz = cotangent_a * g * w * second + p * g * first
    return (
        cotangent_a * w * first + p * f + q,
        i.slope * dz + v_slope * a,
        (dz * i.x + vx * a).sum().view(i.slope.shape),
        None if i.shift is None else dz.sum().view(i.shift.shape),
        None if i.residual is None else dz,
        None if i.weight is None else sum_to(cotangent_a * g * first, i.weight.shape),
    )
