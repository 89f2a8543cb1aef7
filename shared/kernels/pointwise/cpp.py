"""`pointwise` on a CPU by kernels of our own in C++ (source/): one pass for each phase.

Compiled on the machine at the first use (build.py), which needs a C++ compiler. These functions
take tensors as the op gets them: (N, C, ...) and (C,).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from shared.kernels import build
from shared.kernels.norm.layout import dense, laid_out_as
from shared.kernels.pointwise.formula import FUNCTIONS, Gradients, Inputs

SOURCE = Path(__file__).with_name("source") / "pointwise.cpp"
SHA256 = "2ea977b14af2463f173f7ad0946f79f86930831bcc7f0f34d0fb72258568092c"
NUMBERS = {name: i for i, name in enumerate(FUNCTIONS)}
PACK = struct.Struct("28q").pack  # as `Args` in pointwise.cpp
BLOCK = 2**15  # elements: the least work of a block, which is what threads share
MAX_BLOCKS = 16

obstacle = partial(build.obstacle, SOURCE, SHA256)


@cache
def _function(phase: str) -> Callable[[bytes], None]:
    function: Callable[[bytes], None] = getattr(build.load(SOURCE, SHA256), phase)
    return function


class Tensors(NamedTuple):
    """As in `Args`: what is read, and what is written."""

    x: Tensor
    residual: Tensor | None
    slope: Tensor | None
    shift: Tensor | None
    weight: Tensor | None
    bias: Tensor | None
    grad: Tensor | None = None
    vx: Tensor | None = None
    v_residual: Tensor | None = None
    v_slope: Tensor | None = None
    v_shift: Tensor | None = None
    p: Tensor | None = None
    q: Tensor | None = None
    out: Tensor | None = None
    of_grad: Tensor | None = None
    of_residual: Tensor | None = None
    of_slope: Tensor | None = None
    of_shift: Tensor | None = None
    of_weight: Tensor | None = None
    of_bias: Tensor | None = None


@lru_cache(4096)
def _plan(shape: torch.Size, contiguous: bool) -> tuple[bool, int, int, int, int]:
    """What follows from shape and layout: the fields of `Args` from `each` to `blocks`."""
    n, c = shape[:2]
    s = shape[2:].numel()
    each = not contiguous or s == 1
    runs, length = (n * s, c) if each else (n * c, s)
    return each, runs, length, c, min(max(shape.numel() // BLOCK, 1), MAX_BLOCKS, runs)


def _call(phase: str, function: str, tensors: Tensors) -> None:
    x = tensors.x
    plan = _plan(x.shape, x.is_contiguous())
    pointers = [0 if t is None else t.data_ptr() for t in tensors]
    head = build.DTYPES[x.dtype], NUMBERS[function], *plan, torch.get_num_threads()
    _function(phase)(PACK(*head, *pointers))


def _wide(value: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A parameter as the C++ reads it."""
    if value is None or (value.dtype == dtype and value.is_contiguous()):
        return value
    return value.to(dtype).contiguous()


def _like(value: Tensor | None, x: Tensor) -> Tensor | None:
    return None if value is None else laid_out_as(value, x)


def _read(inputs: Inputs, dtype: torch.dtype) -> Tensors:
    x, *parameters = inputs.x, inputs.slope, inputs.shift, inputs.weight, inputs.bias
    x = dense(x)
    return Tensors(x, _like(inputs.residual, x), *(_wide(t, dtype) for t in parameters))


def _results(read: Tensors, second: bool) -> dict[str, Tensor | None]:
    """Memory for what a backward writes: all but what would be the gradient of None."""
    like_x = {"out": read.x, "of_residual": read.residual, "of_grad": read.x if second else None}
    parameters = {"of_slope": read.slope, "of_shift": read.shift, "of_weight": read.weight}
    parameters["of_bias"] = None if second else read.bias
    return {
        name: None if t is None else torch.empty_like(t)
        for name, t in (like_x | parameters).items()
    }


def forward(inputs: Inputs, function: str, dtype: torch.dtype) -> Tensor:
    """As `formula.forward`."""
    read = _read(inputs, dtype)
    y = torch.empty_like(read.x)
    _call("renorm_forward", function, read._replace(out=y))
    return y


def backward(grad: Tensor, inputs: Inputs, function: str, dtype: torch.dtype) -> Gradients:
    """As `formula.backward`."""
    read = _read(inputs, dtype)
    done = read._replace(grad=laid_out_as(grad, read.x), **_results(read, second=False))
    _call("renorm_backward", function, done)
    first = done.out, done.of_slope, done.of_shift, done.of_residual
    return (*first, done.of_weight, done.of_bias)


def double_backward(
    cotangents: Gradients, grad: Tensor, inputs: Inputs, function: str, dtype: torch.dtype
) -> Gradients:
    """As `formula.double_backward`."""
    read = _read(inputs, dtype)
    vx, v_slope, v_shift, v_residual, p, q = cotangents
    done = read._replace(
        grad=laid_out_as(grad, read.x),
        vx=_like(vx, read.x),
        v_residual=_like(v_residual, read.x),
        v_slope=_wide(v_slope, dtype),
        v_shift=_wide(v_shift, dtype),
        p=_wide(p, dtype),
        q=_wide(q, dtype),
        **_results(read, second=True),
    )
    _call("renorm_double_backward", function, done)
    first = done.of_grad, done.out, done.of_slope, done.of_shift, done.of_residual
    return (*first, done.of_weight)
