"""Which elements of an (N, C, S) tensor are normalised together.

`groups >= 1`: each sample's channels are cut into that many groups (1 is layer norm, C is instance
norm). `groups == 0`: one group a channel, over the batch (batch norm). Groups are numbered in
row-major order; a tensor of one number a group has shape (num_groups,).

Legend: N samples, C channels, S positions, G groups of a sample, K = C / G channels of a group.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

# Of dx, dweight and dbias; and the results for x, weight, bias or for grad, x, weight.
Cotangents = tuple[Tensor | None, Tensor | None, Tensor | None]
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


class Given(NamedTuple):
    """What every backward gets beside gradients: the forward's inputs and its statistics."""

    x: Tensor
    weight: Tensor | None
    mean: Tensor
    rstd: Tensor
    groups: int
    centre: bool


def num_groups(x: Tensor, groups: int) -> int:
    """How many groups are normalised."""
    return x.shape[1] if groups == 0 else x.shape[0] * groups


def group_size(shape: torch.Size, groups: int) -> int:
    """Elements of one group of x of that shape, whose positions may have any dimensions."""
    positions = math.prod(shape[2:])
    return shape[0] * positions if groups == 0 else shape[1] // groups * positions


def spread(value: Tensor, x: Tensor, groups: int) -> Tensor:
    """One number a group -> a tensor that broadcasts against (N, C, S)."""
    n, c, _ = x.shape
    if groups == 0:
        return value.view(1, c, 1)
    if groups == 1:
        return value.view(n, 1, 1)
    return value.view(n, groups, 1).repeat_interleave(c // groups, 1)


def group_mean(x: Tensor, groups: int) -> Tensor:
    """Mean of each group."""
    if groups == 0:
        return x.mean((0, 2))
    if groups == 1:
        return x.mean((1, 2))
    return _grouped(x, groups).mean((2, 3)).flatten()


def _grouped(x: Tensor, groups: int) -> Tensor:
    """(N, C, S) -> (N, G, K, S), a view."""
    n, c, s = x.shape
    return x.view(n, groups, c // groups, s)


def take(x: Tensor, groups: int, index: Tensor) -> Tensor:
    """The groups of the given numbers, as (num_taken, ...)."""
    if groups == 0:
        return x.transpose(0, 1)[index]
    return _grouped(x, groups)[index // groups, index % groups]


def put(x: Tensor, groups: int, index: Tensor, values: Tensor) -> None:
    """Writes what `take` would read, in place."""
    values = values.to(x.dtype)
    if groups == 0:
        x.transpose(0, 1)[index] = values
    else:
        _grouped(x, groups)[index // groups, index % groups] = values


def sum_to(x: Tensor, shape: torch.Size) -> Tensor:
    """Sums over the dimensions in which a tensor of `shape` was broadcast; never x itself."""
    dims = [d for d, size in enumerate(shape) if size == 1 and x.shape[d] != 1]
    return x.sum(dims, keepdim=True) if dims else x.clone()


def dense(x: Tensor) -> Tensor:
    """x itself where it is contiguous or channels-last, else a contiguous copy."""
    if x.is_contiguous() or x.movedim(1, -1).is_contiguous():
        return x
    return x.contiguous()


def flat(x: Tensor) -> Tensor:
    """(N, C, ...) -> (N, C, S), contiguous or channels-last."""
    return dense(x.flatten(2) if x.dim() > 2 else x.unsqueeze(2))


def shaped(value: Tensor, x: Tensor) -> Tensor:
    """A result in x's shape. Not a view: autograd refuses to change one made in an op in place."""
    result: Tensor = torch.ops.aten._unsafe_view(value, x.shape)
    return result


def laid_out_as(t: Tensor, x: Tensor) -> Tensor:
    """t with the strides and type of x, copied only where these differ."""
    if t.stride() == x.stride() and t.dtype == x.dtype:
        return t
    return torch.empty_like(x).copy_(t)
