"""`norm` in Triton: one program a group for the forward, a persistent grid for the backwards.

A group is a (P, Q) grid of elements, numbered by an outer and an inner index:
    batch statistics: outer 1,       inner channel, P = samples,          Q = positions
    otherwise:        outer sample,  inner group,   P = group's channels, Q = positions
Four strides therefore address every layout (rows, NCHW, NHWC), and with stride 0 every weight that
broadcasts. A tile that holds a whole group is read from device memory once: the later passes find
it in the cache. The number of samples is a run-time argument, so that another batch size does not
compile anew. Weight gradients are summed by program in float32 and then over programs, without
atomics, hence always in the same order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from shared.kernels.norm import native
from shared.kernels.norm.layout import (
    Cotangents,
    Given,
    Gradients,
    laid_out_as,
    num_groups,
    sum_to,
)

TILE = 8192  # elements of a tile: 32 KiB in float32
PROGRAMS = 1056  # of the persistent grid: 8 for each of the 132 multiprocessors of an H100 or H200


class Geometry(NamedTuple):
    """Sizes of the grid of groups and of a group's grid of elements."""

    outer: int
    inner: int
    p: int
    q: int

    def tile(self) -> tuple[int, int]:
        """Powers of two that cover the group, or TILE elements of it."""
        block_q = min(_power_of_two(self.q), TILE)
        return min(_power_of_two(self.p), TILE // block_q), block_q


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _geometry(x: Tensor, groups: int) -> Geometry:
    n, c, s = x.shape
    return Geometry(1, c, n, s) if groups == 0 else Geometry(n, groups, c // groups, s)


def _strides(t: Tensor | None, x: Tensor, groups: int) -> tuple[int, int, int, int]:
    """Strides by outer, inner, p and q of a tensor that broadcasts against x."""
    if t is None:
        return 0, 0, 0, 0
    n, c, s = t.expand(x.shape).stride()
    return (0, c, n, s) if groups == 0 else (n, c * (x.shape[1] // groups), c, s)


def _launch(
    kernel: str, grid: tuple[int, ...], tile: tuple[int, int], *args: Any, **flags: Any
) -> None:
    from shared.kernels.norm import kernels  # Triton is imported only where it is used

    warps = min(max(tile[0] * tile[1] // 512, 1), 16)
    getattr(kernels, kernel)[grid](
        *args, **flags, BLOCK_P=tile[0], BLOCK_Q=tile[1], num_warps=warps
    )


def forward(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    groups: int,
    centre: bool,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `reference.forward`."""
    geometry = _geometry(x, groups)
    y = torch.empty_like(x)
    wide = torch.promote_types(x.dtype, torch.float32)
    mean = torch.empty(num_groups(x, groups), dtype=wide, device=x.device)
    rstd = torch.empty_like(mean)
    _launch(
        "forward_kernel",
        (geometry.outer * geometry.inner,),
        geometry.tile(),
        *(x, weight, bias, y, mean, rstd, eps),
        *geometry,
        *_strides(x, x, groups),
        *_strides(weight, x, groups),
        CENTRE=centre,
        HAS_WEIGHT=weight is not None,
        HAS_BIAS=bias is not None,
        WIDE=wide == torch.float64,
    )
    return y, mean, rstd


def _workers(geometry: Geometry, weight: Tensor | None) -> int:
    """Programs that share the outer index; one each where the weight differs by sample."""
    if weight is not None and weight.shape[0] > 1:
        return geometry.outer
    return min(geometry.outer, max(1, PROGRAMS // geometry.inner))


def _partial(geometry: Geometry, workers: int, x: Tensor) -> Tensor:
    """Sums by program, inner index and p."""
    wide = torch.promote_types(x.dtype, torch.float32)
    shape = workers, geometry.inner, geometry.p
    return torch.zeros(shape, dtype=wide, device=x.device)


def _collect(partial: Tensor, weight: Tensor, groups: int) -> Tensor:
    """Sums by program -> the gradient of the weight."""
    by_channel = (partial[0].t() if groups == 0 else partial.flatten(1)).unsqueeze(2)
    if weight.shape[0] == 1 and weight.shape[1] == 1:
        return by_channel.sum().view(1, 1, 1)
    total = by_channel.sum(1, keepdim=True) if weight.shape[1] == 1 else by_channel
    return total.sum(0, keepdim=True) if weight.shape[0] == 1 else total


def backward(grad: Tensor, given: Given, need: list[bool]) -> Gradients:
    """As `reference.backward`."""
    x, weight, mean, rstd, groups, centre = given
    geometry = _geometry(x, groups)
    grad = laid_out_as(grad, x)
    workers = _workers(geometry, weight)
    by_position = weight is not None and weight.shape[2] > 1
    wants_weight = weight is not None and not by_position and (need[1] or need[2])
    dx = torch.empty_like(x)
    dw, db = (_partial(geometry, workers, x) if wants_weight else None for _ in range(2))
    _launch(
        "backward_kernel",
        (geometry.inner, workers),
        geometry.tile(),
        *(grad, x, weight, mean, rstd, dx, dw, db, workers),
        *geometry,
        *_strides(x, x, groups),
        *_strides(weight, x, groups),
        CENTRE=centre,
        HAS_WEIGHT=weight is not None,
        WANTS_WEIGHT=wants_weight,
        WIDE=x.dtype == torch.float64,
    )
    if weight is not None and by_position:
        xhat = native.Conditioned(x, mean, rstd, groups, centre).xhat()
        wide = grad.to(mean.dtype)
        return dx, sum_to(wide * xhat, weight.shape), sum_to(wide, weight.shape)
    if weight is None or dw is None or db is None:
        return dx, None, None
    return dx, _collect(dw, weight, groups), _collect(db, weight, groups)


def double_backward(
    cotangents: Cotangents, grad: Tensor, given: Given, need: list[bool]
) -> Gradients:
    """As `reference.double_backward`."""
    v, p, q = cotangents
    x, weight, mean, rstd, groups, centre = given
    geometry = _geometry(x, groups)
    grad = laid_out_as(grad, x)
    v = torch.zeros_like(x) if v is None else laid_out_as(v, x)
    workers = _workers(geometry, weight)
    by_position = weight is not None and weight.shape[2] > 1
    gg, gx = torch.empty_like(x), torch.empty_like(x)
    wants_weight = weight is not None and need[2]
    sums = _partial(geometry, workers, x) if wants_weight and not by_position else None
    # Where the weight varies by position its gradient is as large as x: written element by element.
    each = torch.empty_like(x, dtype=mean.dtype) if wants_weight and by_position else None
    _launch(
        "double_backward_kernel",
        (geometry.inner, workers),
        geometry.tile(),
        *(v, p, q, grad, x, weight, mean, rstd, gg, gx, sums, each, workers),
        *geometry,
        *_strides(x, x, groups),
        *_strides(weight, x, groups),
        *_strides(p, x, groups),
        *_strides(q, x, groups),
        CENTRE=centre,
        HAS_WEIGHT=weight is not None,
        HAS_P=p is not None,
        HAS_Q=q is not None,
        WANTS_SUMS=sums is not None,
        WANTS_EACH=each is not None,
        WIDE=x.dtype == torch.float64,
    )
    if weight is not None and sums is not None:
        return gg, gx, _collect(sums, weight, groups)
    if weight is not None and each is not None:
        return gg, gx, sum_to(each, weight.shape)
    return gg, gx, None
