"""Which elements of an (N, C, S) tensor are normalised together.

`groups >= 1`: each sample's channels are cut into that many groups (1 is layer norm, C is instance
norm). `groups == 0`: one group a channel, over the batch (batch norm). Groups are numbered in
row-major order; a tensor of one number a group has shape (num_groups,).

Legend: N samples, C channels, S positions, G groups of a sample, K = C / G channels of a group.
"""

from __future__ import annotations

import torch
from torch import Tensor


def num_groups(x_NCS: Tensor, groups: int) -> int:
    """How many groups are normalised."""
    return x_NCS.shape[1] if groups == 0 else x_NCS.shape[0] * groups


def group_size(x_NCS: Tensor, groups: int) -> int:
    """Elements of one group."""
    n, c, s = x_NCS.shape
    return n * s if groups == 0 else c // groups * s


def spread(value: Tensor, x_NCS: Tensor, groups: int) -> Tensor:
    """One number a group -> a tensor that broadcasts against (N, C, S)."""
    n, c, _ = x_NCS.shape
    if groups == 0:
        return value.view(1, c, 1)
    if groups == 1:
        return value.view(n, 1, 1)
    return value.view(n, groups, 1).repeat_interleave(c // groups, 1)


def group_mean(x_NCS: Tensor, groups: int) -> Tensor:
    """Mean of each group."""
    n, c, s = x_NCS.shape
    if groups == 0:
        return x_NCS.mean((0, 2))
    if groups == 1:
        return x_NCS.mean((1, 2))
    return x_NCS.unflatten(1, (groups, c // groups)).mean((2, 3)).flatten()


def take(x_NCS: Tensor, groups: int, index: Tensor) -> Tensor:
    """The groups of the given numbers, as (num_taken, ...)."""
    if groups == 0:
        return x_NCS.transpose(0, 1)[index]
    grouped = x_NCS.unflatten(1, (groups, x_NCS.shape[1] // groups))
    return grouped[index // groups, index % groups]


def put(x_NCS: Tensor, groups: int, index: Tensor, values: Tensor) -> None:
    """Writes what `take` would read, in place."""
    values = values.to(x_NCS.dtype)
    if groups == 0:
        x_NCS.transpose(0, 1)[index] = values
    else:
        grouped = x_NCS.unflatten(1, (groups, x_NCS.shape[1] // groups))
        grouped[index // groups, index % groups] = values


def sum_to(x: Tensor, shape: torch.Size) -> Tensor:
    """Sums over the dimensions in which a tensor of `shape` was broadcast."""
    dims = [d for d, size in enumerate(shape) if size == 1 and x.shape[d] != 1]
    return x.sum(dims, keepdim=True) if dims else x


def dense(x_NCS: Tensor) -> Tensor:
    """x itself where it is contiguous or channels-last, else a contiguous copy."""
    if x_NCS.is_contiguous() or x_NCS.transpose(1, 2).is_contiguous():
        return x_NCS
    return x_NCS.contiguous()


def laid_out_as(t: Tensor, x: Tensor) -> Tensor:
    """t with the strides and type of x, copied only where these differ."""
    if t.stride() == x.stride() and t.dtype == x.dtype:
        return t
    return torch.empty_like(x).copy_(t)
