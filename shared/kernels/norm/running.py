"""Running statistics of batch norm, from what the norm's forward returns."""

from __future__ import annotations

import torch
from torch import Tensor

from shared.kernels import library
from shared.kernels.norm import cpp


def variance(rstd: Tensor, eps: float) -> Tensor:
    """The biased variance behind rstd = 1 / sqrt(var + eps)."""
    return (rstd.pow(-2) - eps).clamp_min(0)


def track_(
    running: tuple[Tensor, Tensor],
    mean: Tensor,
    rstd: Tensor,
    *,
    eps: float,
    share: float | Tensor,
    factor: float = 1.0,
) -> None:
    """running <- (1 - share) running + share (mean, factor var), in place.

    On a CPU one call of C++ does what takes torch six, to the same bits.

    Args:
        running: Mean and variance, (C,).
        mean: (C,).
        rstd: (C,), 1 / sqrt(var + eps).
        eps: That of rstd.
        share: Of the new statistics.
        factor: Of the variance; n / (n - 1) makes the unbiased one of n elements.
    """
    if type(share) is float and library.are_plain(*running, mean) and _suit_cpp(*running, mean):
        return cpp.track_(running, mean, rstd, eps, share, factor)
    var = variance(rstd, eps) * factor
    with torch.no_grad():
        for old, new in zip(running, (mean, var), strict=True):
            old.lerp_(new.to(old.dtype), share)


def _suit_cpp(*tensors: Tensor) -> bool:
    dtype = tensors[0].dtype
    for t in tensors:
        if t.dtype != dtype or not t.is_cpu or not t.is_contiguous():
            return False
    return cpp.obstacle("cpu") is None
