"""Running statistics of batch norm, from what the norm's forward returns."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from shared.kernels import library, registry
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
    tensors = *running, mean
    by_cpp = type(share) is float and library.are_plain(*tensors) and _suit_cpp(*tensors)
    if not torch.compiler.is_compiling():  # what a compiler makes of it is not known here
        registry.record(_key("cpp" if by_cpp else "native", mean.dtype, mean.device.type))
    if by_cpp:
        return cpp.track_(running, mean, rstd, eps, float(share), factor)
    var = variance(rstd, eps) * factor
    with torch.no_grad():
        for old, new in zip(running, (mean, var), strict=True):
            old.lerp_(new.to(old.dtype), share)


@cache
def _key(implementation: str, dtype: torch.dtype, device: str) -> registry.Ran:
    return registry.Ran("norm", "track", implementation, str(dtype).removeprefix("torch."), device)


def _suit_cpp(*tensors: Tensor) -> bool:
    dtype = tensors[0].dtype
    for t in tensors:
        if t.dtype != dtype or not t.is_cpu or not t.is_contiguous():
            return False
    return cpp.obstacle("cpu") is None
