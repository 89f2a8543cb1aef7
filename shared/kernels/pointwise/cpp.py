"""`pointwise` on a CPU by kernels of our own in C++ (source/): one pass for each phase.

Compiled on the machine at the first use (build.py), which needs a C++ compiler. These functions
take tensors as the op gets them: (N, C, ...) and (C,).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import cache, lru_cache, partial
from pathlib import Path

import torch
from torch import Tensor

from shared.kernels import build
from shared.kernels.norm.layout import dense, laid_out_as
from shared.kernels.pointwise.formula import FUNCTIONS, Gradients, Inputs

SOURCE = Path(__file__).with_name("source") / "pointwise.cpp"
SHA256 = "bf681f3a175fdedbd0935b51b51ff2de01a91b304e50f9b6dbc6068b297ab1a2"
NUMBERS = {name: i for i, name in enumerate(FUNCTIONS)}
PACK = struct.Struct("28q").pack  # as `Args` in pointwise.cpp
BLOCK = 2**15  # elements: the least work of a block, which is what threads share
MAX_BLOCKS = 16
NONE = (None,) * 6

obstacle = cache(partial(build.obstacle, SOURCE, SHA256))


@cache
def _function(phase: str) -> Callable[[bytes], None]:
    function: Callable[[bytes], None] = getattr(build.load(SOURCE, SHA256), phase)
    return function


@lru_cache(4096)
def _plan(shape: torch.Size, contiguous: bool) -> tuple[bool, int, int, int, int]:
    """What follows from shape and layout: the fields of `Args` from `each` to `blocks`."""
    n, c = shape[:2]
    s = shape[2:].numel()
    each = not contiguous or s == 1
    runs, length = (n * s, c) if each else (n * c, s)
    return each, runs, length, c, min(max(shape.numel() // BLOCK, 1), MAX_BLOCKS, runs)


def _call(phase: str, function: str, x: Tensor, tensors: Iterable[Tensor | None]) -> None:
    """Calls the C++ with the tensors of `Args` in its order."""
    head = build.DTYPES[x.dtype], NUMBERS[function], *_plan(x.shape, x.is_contiguous())
    pointers = [0 if t is None else t.data_ptr() for t in tensors]
    _function(phase)(PACK(*head, torch.get_num_threads(), *pointers))


def _read(six: Gradients, x: Tensor, dtype: torch.dtype) -> Gradients:
    """The inputs, or cotangents of their gradients, as the C++ reads them."""
    first, slope, shift, residual, weight, bias = six
    return (
        None if first is None else laid_out_as(first, x),
        _wide(slope, dtype),
        _wide(shift, dtype),
        None if residual is None else laid_out_as(residual, x),
        _wide(weight, dtype),
        _wide(bias, dtype),
    )


def _wide(value: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if value is None or (value.dtype == dtype and value.is_contiguous()):
        return value
    return value.to(dtype).contiguous()


def _written(like: Gradients) -> Gradients:
    """Memory for the gradients of what is there."""
    return tuple(None if t is None else torch.empty_like(t) for t in like)


def forward(inputs: Inputs, function: str, dtype: torch.dtype) -> Tensor:
    """As `formula.forward`."""
    x = dense(inputs.x)
    y = torch.empty_like(x)
    _call("renorm_forward", function, x, (*_read(inputs, x, dtype), *NONE, None, y, *NONE))
    return y


def backward(grad: Tensor, inputs: Inputs, function: str, dtype: torch.dtype) -> Gradients:
    """As `formula.backward`."""
    x = dense(inputs.x)
    read = _read(inputs, x, dtype)
    found = _written(read)
    _call("renorm_backward", function, x, (*read, *NONE, laid_out_as(grad, x), None, *found))
    return found


def double_backward(
    cotangents: Gradients, grad: Tensor, inputs: Inputs, function: str, dtype: torch.dtype
) -> Gradients:
    """As `formula.double_backward`."""
    x = dense(inputs.x)
    read = _read(inputs, x, dtype)
    found = _written((x, *read[:5]))
    given = *_read(cotangents, x, dtype), laid_out_as(grad, x)
    _call("renorm_double_backward", function, x, (*read, *given, *found, None))
    return found
