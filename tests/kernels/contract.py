"""What every implementation of every operator must do, told once.

A case is an operator on given shapes. Its truth is the operator's formula in plain torch
operations in float64, differentiated by torch itself, not the package's own reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from shared.kernels import OPERATORS, norm, pointwise

IMPLEMENTATIONS = {name: tuple(o.implementations) for name, o in OPERATORS.items()}
Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Case:
    """An operator with its inputs' shapes; `truth` and `op` take the inputs in that order."""

    operator: str
    name: str
    shapes: tuple[tuple[int, ...], ...]
    truth: Function
    op: Callable[[str], Function]

    def inputs(self, dtype: torch.dtype, device: str) -> list[Tensor]:
        """Normal numbers; the affine parameters are random too, not ones and zeros."""
        return [torch.randn(s, dtype=torch.float64).to(device, dtype) for s in self.shapes]


def plain_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    groups: int,
    centre: bool = True,
    eps: float = 1e-5,
) -> Tensor:
    """The definition of `norm`, for torch to differentiate."""
    n, c = x.shape[:2]
    x_grouped = x.reshape(n, groups, -1) if groups else x.transpose(0, 1).reshape(1, c, -1)
    mean = x_grouped.mean(2, keepdim=True) if centre else 0.0
    centred = x_grouped - mean
    y = centred / (centred.square().mean(2, keepdim=True) + eps).sqrt()
    y = y.reshape(x.shape) if groups else y.reshape(c, n, *x.shape[2:]).transpose(0, 1)
    view = (1, c, *[1] * (x.dim() - 2))
    if weight is not None:
        y = y * (weight.view(view) if weight.dim() == 1 else weight)
    if bias is not None:
        y = y + (bias.view(view) if bias.dim() == 1 else bias)
    return y


def plain_pointwise(function: str) -> Function:
    """The definition of `pointwise`, for torch to differentiate."""
    f = {"tanh": torch.tanh, "erf": torch.erf, "relu": torch.relu}[function]

    def truth(
        x: Tensor,
        slope: Tensor,
        shift: Tensor | None = None,
        residual: Tensor | None = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        z = x * slope
        z = z if shift is None else z + shift
        z = z if residual is None else z + residual
        view = (1, -1, *[1] * (x.dim() - 2))
        y = f(z) if weight is None else f(z) * weight.view(view)
        return y if bias is None else y + bias.view(view)

    return truth


def _norm_case(name: str, shape: tuple[int, ...], affine: str, **settings: int | bool) -> Case:
    c = shape[1]
    ones = [1] * (len(shape) - 2)
    weight = {
        "none": None,
        "channel": (c,),
        "sample": (shape[0], c, *ones),
        "row": (shape[0], 1, *ones),
        "element": shape,
    }[affine]
    shapes = (shape,) if weight is None else (shape, weight, weight)
    if not settings.get("centre", True):
        shapes = shapes[:2]
    return Case(
        "norm",
        name,
        shapes,
        lambda *a: plain_norm(*a, **settings),  # type: ignore[arg-type]
        lambda impl: lambda *a: norm(*a, **settings, impl=impl),  # type: ignore[arg-type]
    )


def _pointwise_case(name: str, function: str, shape: tuple[int, ...], full: bool) -> Case:
    c = shape[1]
    shapes = (shape, (1,), (1,), shape, (c,), (c,))

    def order(*a: Tensor) -> tuple[Tensor | None, ...]:
        return a if full else (a[0], a[1], None, None, a[2], a[3])

    return Case(
        "pointwise",
        name,
        shapes if full else (shape, (1,), (c,), (c,)),
        lambda *a: plain_pointwise(function)(*order(*a)),
        lambda impl: lambda *a: pointwise(*order(*a), function=function, impl=impl),  # type: ignore[arg-type]
    )


CASES = [
    _norm_case("layer", (5, 63), "channel", groups=1),
    _norm_case("layer-plain", (3, 7), "none", groups=1),
    _norm_case("layer-wide", (2, 1000), "channel", groups=1),
    _norm_case("rms", (5, 63), "channel", groups=1, centre=False),
    _norm_case("rms-plain", (3, 7), "none", groups=1, centre=False),
    _norm_case("rms-rows", (4, 9), "row", groups=1, centre=False),
    _norm_case("rms-maps", (2, 6, 5), "channel", groups=2, centre=False),
    _norm_case("rows", (4, 9), "row", groups=1),
    _norm_case("batch-1d", (7, 3), "channel", groups=0),
    _norm_case("batch-2d", (4, 3, 5, 3), "channel", groups=0),
    _norm_case("batch-sample", (4, 3, 5), "sample", groups=0),
    _norm_case("batch-element", (3, 2, 3, 3), "element", groups=0),
    _norm_case("group", (3, 6, 5, 3), "channel", groups=2),
    _norm_case("group-plain", (2, 4, 7), "none", groups=2),
    _norm_case("instance", (2, 3, 4, 5), "channel", groups=3),
    _norm_case("instance-sample", (2, 3, 7), "sample", groups=3),
    _norm_case("instance-element", (2, 3, 5), "element", groups=3),
    _pointwise_case("dyt", "tanh", (5, 7), full=False),
    _pointwise_case("derf-maps", "erf", (2, 3, 4, 3), full=True),
    _pointwise_case("tail", "relu", (3, 4, 5), full=True),
]
NORM_CASES = [c for c in CASES if c.operator == "norm"]


def cotangents(like: list[Tensor], rounded: torch.dtype) -> list[Tensor]:
    """Random ones: the gradient of a plain sum of a norm is zero, whatever its backward does."""
    found = (torch.randn(t.shape, dtype=torch.float64).to(rounded) for t in like)
    return [c.to(t.device, t.dtype) for c, t in zip(found, like, strict=True)]


def to_second_order(
    function: Function, inputs: list[Tensor], rounded: torch.dtype | None = None
) -> list[list[Tensor]]:
    """Output; gradients of the inputs; gradients of those, with random cotangents.

    The cotangents are `rounded` to that type, the inputs' own if None, whatever type they have.
    """
    torch.manual_seed(1)
    rounded = rounded or inputs[0].dtype
    inputs = [t.detach().requires_grad_() for t in inputs]
    y = function(*inputs)
    (grad,) = cotangents([y], rounded)
    grad.requires_grad_()
    first = list(torch.autograd.grad(y, inputs, grad, create_graph=True))
    pairs = [grad, *inputs]
    # The gradient of a bias does not depend on the bias: its second derivative is None.
    found = torch.autograd.grad(first, pairs, cotangents(first, rounded), allow_unused=True)
    second = [torch.zeros_like(p) if t is None else t for t, p in zip(found, pairs, strict=True)]
    return [[y], first, second]


def error(got: Tensor, truth: Tensor, floor: float = 0.0) -> float:
    """Largest error as a share of the largest entry of the truth, or of `floor` if that is more."""
    got, truth = got.detach().double(), truth.detach()
    scale = max(float(truth.abs().max()), floor, 1e-300)
    return float((got - truth).abs().max()) / scale


def tolerance(dtype: torch.dtype, terms: int, order: int) -> float:
    """Bound of `error`.

    A sum of n random roundings grows by sqrt(n); every order of differentiation adds sums over
    the terms, and a half-precision result is rounded once more per order.
    """
    compute = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    return 2 * compute * (4 + math.sqrt(terms)) * 4**order + 2 * torch.finfo(dtype).eps * (
        dtype in (torch.float16, torch.bfloat16)
    ) * (1 + order)
