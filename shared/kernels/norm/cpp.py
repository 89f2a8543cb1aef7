"""`norm` on a CPU by kernels of our own in C++ (source/): one pass for the sums, one to write.

Compiled on the machine at the first use (build.py), which needs a C++ compiler. These functions
take tensors as the op gets them: on small ones every view would cost more than the arithmetic.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shared.kernels import build
from shared.kernels.norm.layout import Cotangents, Given, Gradients, dense, laid_out_as, sum_to

SOURCE = Path(__file__).with_name("source") / "norm.cpp"
SHA256 = "84e6acf002eddf9cd1b0d9cd4cb28a1017e9abe3d6ecb1ef99e701ccfebe7102"
# As `Args` in norm.h: what follows from shapes and strides, and what each call has of its own.
PACK_PLAN = struct.Struct("18q").pack
PACK_CALL = struct.Struct("q13Pd").pack
PACK_TRACK = struct.Struct("2q4P3d").pack  # as `Track` in norm.cpp
BLOCK = 2**15  # elements: the least work of a block, which is what threads share
MAX_BLOCKS = 16


obstacle = cache(partial(build.obstacle, SOURCE, SHA256))


@cache
def _function(phase: str) -> Callable[[bytes], None]:
    function: Callable[[bytes], None] = getattr(build.load(SOURCE, SHA256), phase)
    return function


class Plan(NamedTuple):
    """What follows from shapes and strides alone."""

    head: bytes  # of `Args`
    num_groups: int
    wide: torch.dtype
    columns: bool
    weight_shape: tuple[int, int, int]  # (1 or N, 1 or C, 1 or S)
    blocks: int
    shared: bool  # whether several blocks add to the gradient of one weight
    whole: bool  # the weight is read, and its gradient written, in the layout and type of x
    serial: bool  # too small for threads


@lru_cache(4096)
def _plan(
    shape: torch.Size,
    contiguous: bool,
    weight_shape: torch.Size | None,
    of_one_type: bool,
    dtype: torch.dtype,
    groups: int,
    centre: bool,
) -> Plan:
    n, c = shape[:2]
    s = shape[2:].numel()
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    columns = not contiguous or (groups == 0 and s == 1)
    w = (1, 1, 1)
    if weight_shape is not None:
        w = (1, c, 1) if len(weight_shape) == 1 else (*weight_shape[:2], weight_shape[2:].numel())
    if columns and weight_shape is not None:
        w = w[0], c, w[2]
    # Strides of the weight; a dimension of one element has stride 0, as if it were broadcast.
    strides = (w[1] * w[2], 1, w[1]) if columns else (w[1] * w[2], w[2], 1)
    wn, wc, ws = (stride if size > 1 else 0 for size, stride in zip(w, strides, strict=True))
    k = c // max(groups, 1)
    if columns:
        each = ws > 0 or (groups == 0 and wn > 0)
        grid, head = (n, groups), (n, groups, s, c, 0, 0, 0, wn, 0, ws, each)
    elif groups == 0:
        grid, head = (1, c), (1, c, n, s, 0, s, c * s, 0, wc, wn, ws > 0)
    elif s == 1:
        grid, head = (n, groups), (n, groups, 1, k, c, k, k, wn, wc * k, 0, wc > 0)
    else:
        grid, head = (
            (n, groups),
            (n, groups, k, s, c * s, k * s, s, wn, wc * k, wc, ws > 0),
        )
    blocks = min(max(shape.numel() // BLOCK, 1), MAX_BLOCKS)
    if columns and groups == 0:
        blocks, shared = (1 if head[-1] else blocks), False
    else:
        blocks = min(blocks, n if columns else grid[0] * grid[1])
        shared = (grid[0] > 1 and head[7] == 0) or (not columns and grid[1] > 1 and head[8] == 0)
    shared = shared and blocks > 1
    count = c if groups == 0 else n * groups
    whole = of_one_type and head[-1] and weight_shape == shape
    serial = shape.numel() < BLOCK
    blocks = max(blocks, 1)
    packed = PACK_PLAN(
        build.DTYPES[dtype], columns, centre, *head, whole, math.prod(w), blocks, shared
    )
    return Plan(packed, count, wide, columns, w, blocks, shared, whole, serial)


def _planned(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, centre: bool
) -> Plan:
    shape = None if weight is None else weight.shape
    of_one_type = (weight is None or weight.dtype == x.dtype) and (
        bias is None or bias.dtype == x.dtype
    )
    return _plan(x.shape, x.is_contiguous(), shape, of_one_type, x.dtype, groups, centre)


def _weight(value: Tensor | None, x: Tensor, plan: Plan) -> Tensor | None:
    """A weight as norm.cpp reads it: as x, or in the wide type with its slots' order as x's."""
    if value is None:
        return None
    if plan.whole:
        return laid_out_as(value, x)
    if value.dtype != plan.wide:
        value = value.to(plan.wide)
    if value.dim() > 1:
        value = value.flatten(2) if value.dim() > 2 else value.unsqueeze(2)
        if plan.columns:
            return value.expand(plan.weight_shape).transpose(1, 2).contiguous()
    return value.contiguous()


def _call(phase: str, plan: Plan, tensors: tuple[Tensor | None, ...], eps: float) -> None:
    threads = 1 if plan.serial else torch.get_num_threads()
    pointers = [0 if t is None else t.data_ptr() for t in tensors]
    _function(phase)(plan.head + PACK_CALL(threads, *pointers, eps))


def forward(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    groups: int,
    centre: bool,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `reference.forward`."""
    x = dense(x)
    plan = _planned(x, weight, bias, groups, centre)
    y = torch.empty_like(x)
    mean = x.new_empty(plan.num_groups, dtype=plan.wide)
    rstd = torch.empty_like(mean)
    weight, bias = _weight(weight, x, plan), _weight(bias, x, plan)
    tensors = x, None, None, weight, bias, None, None, mean, rstd, y, None, None, None
    _call("renorm_forward", plan, tensors, eps)
    return y, mean, rstd


def backward(grad: Tensor, given: Given, need: list[bool]) -> Gradients:
    """As `reference.backward`."""
    dx, _, dw, db = _backward((None, None, None), grad, given, (need[1] or need[2], need[2]))
    return dx, dw, db


def double_backward(
    cotangents: Cotangents, grad: Tensor, given: Given, need: list[bool]
) -> Gradients:
    """As `reference.double_backward`."""
    v, p, q = cotangents
    v = torch.zeros_like(given.x) if v is None else v
    gg, gx, gw, _ = _backward((v, p, q), grad, given, (need[2], False))
    return gg, gx, gw


def _backward(
    cotangents: Cotangents, grad: Tensor, given: Given, wants: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """First or (with v) second order; `wants` the gradients of the weight and of the bias."""
    v, p, q = cotangents
    x, weight = dense(given.x), given.weight
    plan = _planned(x, weight, None, given.groups, given.centre)
    v = None if v is None else laid_out_as(v, x)
    out = torch.empty_like(x)
    out2 = None if v is None else torch.empty_like(x)
    dw = db = None
    w = _weight(weight, x, plan)
    if w is not None and wants[0]:
        dw, db = (torch.empty_like(w) if wanted else None for wanted in wants)
    p, q = _weight(p, x, plan), _weight(q, x, plan)
    statistics = given.mean, given.rstd
    tensors = x, laid_out_as(grad, x), v, w, None, p, q, *statistics, out, out2, dw, db
    _call("renorm_backward", plan, tensors, 0.0)
    return out, out2, _gradient(dw, weight, plan), _gradient(db, weight, plan)


def track_(
    running: tuple[Tensor, Tensor],
    mean: Tensor,
    rstd: Tensor,
    eps: float,
    share: float,
    factor: float,
) -> None:
    """As `running.track_`, for contiguous tensors of one type, float32 or float64."""
    pointers = [t.data_ptr() for t in (mean, rstd, *running)]
    head = build.DTYPES[mean.dtype], mean.numel()
    _function("renorm_track")(PACK_TRACK(*head, *pointers, eps, share, factor))
    for t in running:
        torch.autograd.graph.increment_version(t)


def _gradient(total: Tensor | None, weight: Tensor | None, plan: Plan) -> Any:
    """In the shape and type of the weight as it was given."""
    if total is None or weight is None:
        return None
    if plan.whole:
        return laid_out_as(total, weight)
    if weight.dim() == 1:
        return total if total.dtype == weight.dtype else total.to(weight.dtype)
    n, c, s = plan.weight_shape
    total = total.view(n, s, c).transpose(1, 2) if plan.columns else total.view(n, c, s)
    given = weight.shape
    flat = torch.Size((*given[:2], given[2:].numel()))
    return laid_out_as(sum_to(total, flat).reshape(given), weight)
