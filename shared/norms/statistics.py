"""Statistics of channels as values that can be estimated, weighted, mixed and applied.

Every function is made of torch's own operations, hence differentiable to any order, through the
statistics too. Legend: N samples, C channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from shared.kernels.norm import track_, variance


@dataclass(frozen=True)
class Moments:
    """Mean and biased variance of each channel.

    Both are (C,), or (N, C) where samples have their own; `count` is the elements of a channel.
    """

    mean: Tensor
    var: Tensor
    count: int

    def detach(self) -> Moments:
        """The same numbers without their history."""
        return Moments(self.mean.detach(), self.var.detach(), self.count)

    @torch.no_grad()
    def track_(self, mean: Tensor, var: Tensor, share: float | Tensor, factor: float) -> None:
        """(mean, var) <- (1 - share) (mean, var) + share (self.mean, factor self.var), in place."""
        mean.lerp_(self.mean.to(mean.dtype), share)
        var.lerp_((self.var * factor).to(var.dtype), share)


class Found(Moments):
    """Moments that the fused norm found, of a batch; var is worked out where it is asked for."""

    rstd: Tensor
    eps: float

    def __init__(self, mean: Tensor, rstd: Tensor, eps: float, count: int) -> None:
        for name, value in (("mean", mean), ("rstd", rstd), ("eps", eps), ("count", count)):
            object.__setattr__(self, name, value)

    @cached_property
    def var(self) -> Tensor:
        return variance(self.rstd, self.eps)

    def track_(self, mean: Tensor, var: Tensor, share: float | Tensor, factor: float) -> None:
        track_((mean, var), self.mean, self.rstd, eps=self.eps, share=share, factor=factor)


def spread(value: Tensor, x: Tensor) -> Tensor:
    """(C,) or (N, C) -> a tensor that broadcasts against x of shape (N, C, ...)."""
    return value.view(value.shape[0] if value.dim() == 2 else 1, -1, *[1] * (x.dim() - 2))


def moments(x: Tensor, sample_weight: Tensor | None = None) -> Moments:
    """Mean and biased variance of each channel, over weighted samples and all positions.

    mean = sum_n a_n mean_p(x_np), var = sum_n a_n mean_p((x_np - mean)^2).

    Args:
        x: (N, C, ...).
        sample_weight: (N,) weights a_n; None: 1/N. Used as they are: weights that do not sum to
            1 shrink or stretch the statistics. Gradients flow to them.

    Example:
        >>> moments(torch.tensor([[1.0], [3.0]])).var.tolist()
        [1.0]
        >>> moments(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 0.0])).mean.tolist()
        [1.0]
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    dims = [d for d in range(x.dim()) if d != 1]
    count = x.numel() // x.shape[1]
    if sample_weight is None:
        mean = wide.mean(dims)
        # The mean is rounded: what it lacks is the mean of the centred values.
        centred = wide - spread(mean, x)
        rest = centred.mean(dims)
        var = (centred - spread(rest, x)).square().mean(dims)
        return Moments(mean + rest, var, count)
    if sample_weight.shape != (x.shape[0],):
        raise ValueError(
            f"moments: got sample weights of shape {tuple(sample_weight.shape)}, expected "
            f"({x.shape[0]},): one for each sample"
        )
    weight = sample_weight.to(wide.dtype).view(-1, *[1] * (x.dim() - 1))
    positions = max(count // x.shape[0], 1)
    mean = (wide * weight).sum(dims) / positions
    var = ((wide - spread(mean, x)).square() * weight).sum(dims) / positions
    return Moments(mean, var, count)


def mix(first: Moments, second: Moments, share: float | Tensor) -> Moments:
    """(1 - share) first + share second, for means and variances alike.

    Args:
        share: 0 to 1. A tensor, e.g. a learnt share, is taken as it is.

    Raises:
        ValueError: a number outside 0..1, which could give a negative variance.

    Example:
        >>> source = Moments(torch.tensor([0.0]), torch.tensor([1.0]), 8)
        >>> target = Moments(torch.tensor([1.0]), torch.tensor([3.0]), 8)
        >>> mix(source, target, 0.25).mean.item()
        0.25
    """
    if not isinstance(share, Tensor) and not 0 <= share <= 1:
        raise ValueError(f"mix: got a share of {share}, expected 0 to 1")
    mean = first.mean + share * (second.mean - first.mean)
    var = first.var + share * (second.var - first.var)
    return Moments(mean, var, first.count + second.count)


def pool(parts: list[Moments]) -> Moments:
    """Moments of the union of disjoint sets of elements (Chan, Golub, LeVeque, 1979)."""
    total = sum(m.count for m in parts)
    mean = torch.stack([m.mean * (m.count / total) for m in parts]).sum(0)
    spreads = [(m.var + (m.mean - mean).square()) * (m.count / total) for m in parts]
    return Moments(mean, torch.stack(spreads).sum(0), total)


def per_task(x: Tensor, task: Tensor) -> dict[int, Moments]:
    """Moments of the samples of each task in the batch.

    Args:
        x: (N, C, ...).
        task: (N,) whole numbers.
    """
    return {t: moments(x[task == t]) for t in sorted(set(task.tolist()))}


def standardise(
    x: Tensor, statistics: Moments, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """y = (x - mean) / sqrt(var + eps) * weight + bias with the given statistics.

    Args:
        x: (N, C, ...).
        statistics: Of each channel, or of each channel and sample.
        weight: (C,), or a tensor that broadcasts against x; None: 1.
        bias: As weight; None: 0.
        eps: Added to the variance, inside the root.

    Dtype: that of x, computed in float32 at least.
    """
    var = statistics.var
    scale = spread(torch.rsqrt(var.to(torch.promote_types(var.dtype, torch.float32)) + eps), x)
    if weight is not None:
        scale = scale * (spread(weight, x) if weight.dim() == 1 else weight)
    centred = x.to(torch.promote_types(x.dtype, torch.float32)) - spread(statistics.mean, x)
    if bias is None:
        return (centred * scale).to(x.dtype)
    shift = spread(bias, x) if bias.dim() == 1 else bias
    return torch.addcmul(shift.to(centred.dtype), centred, scale.to(centred.dtype)).to(x.dtype)
