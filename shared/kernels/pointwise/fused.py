"""`pointwise` in Triton: one pass over the elements forward, one pass for each backward.

Sums over elements (gradients of slope, shift, weight, bias) are torch's reductions of what the
pass writes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from shared.kernels.norm.layout import laid_out_as, sum_to
from shared.kernels.pointwise.formula import Gradients, Inputs

BLOCK = 4096


def _launch(kernel: str, x: Tensor, *args: Any, **flags: Any) -> None:
    from shared.kernels.pointwise import kernels  # Triton is imported only where it is used

    _, c, s = x.shape
    # Elements are numbered in memory order: which channel one belongs to depends on the layout.
    inner = s if x.is_contiguous() else 1
    grid = ((x.numel() + BLOCK - 1) // BLOCK,)
    getattr(kernels, kernel)[grid](
        *args, x.numel(), c, inner, **flags, WIDE=x.dtype == torch.float64, BLOCK=BLOCK
    )


def forward(inputs: Inputs, function: str, dtype: torch.dtype) -> Tensor:
    """As `formula.forward`."""
    i = inputs
    y = torch.empty_like(i.x)
    residual = None if i.residual is None else laid_out_as(i.residual, i.x)
    _launch(
        "forward_kernel",
        i.x,
        *(i.x, i.slope, i.shift, residual, i.weight, i.bias, y),
        FUNCTION=function,
        **_present(i),
    )
    return y


def _present(i: Inputs) -> dict[str, bool]:
    return {
        "HAS_SHIFT": i.shift is not None,
        "HAS_RESIDUAL": i.residual is not None,
        "HAS_WEIGHT": i.weight is not None,
        "HAS_BIAS": i.bias is not None,
    }


def backward(grad: Tensor, inputs: Inputs, function: str, dtype: torch.dtype) -> Gradients:
    """As `formula.backward`."""
    i = inputs
    grad = laid_out_as(grad, i.x)
    residual = None if i.residual is None else laid_out_as(i.residual, i.x)
    dx, a, gf = (torch.empty_like(i.x, dtype=d) for d in (i.x.dtype, dtype, dtype))
    _launch(
        "backward_kernel",
        i.x,
        *(grad, i.x, i.slope, i.shift, residual, i.weight, i.bias, dx, a, gf),
        FUNCTION=function,
        **_present(i),
    )
    return (
        dx,
        (a * i.x).sum().view(i.slope.shape),
        None if i.shift is None else a.sum().view(i.shift.shape),
        None if i.residual is None else a,
        None if i.weight is None else sum_to(gf, i.weight.shape),
        None if i.bias is None else sum_to(grad.to(dtype), i.bias.shape),
    )
