"""Batch norm whose statistics are open: which are used, how estimated, whether tracked.

Legend: N samples, C channels.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shared.kernels import norm_with_statistics
from shared.norms.statistics import Found, Moments, standardise

SOURCES = ("auto", "batch", "running")
ACTIVATIONS = {"relu": nn.functional.relu, "silu": nn.functional.silu}


def _one_of(name: str, known: tuple[str | None, ...]) -> Any:
    """An attribute that refuses all other values, also when it is assigned later."""
    hidden = f"_{name}"

    def read(layer: nn.Module) -> Any:
        return layer.__dict__[hidden]

    def assign(layer: nn.Module, got: Any) -> None:
        if got not in known:
            raise ValueError(f"BatchNorm: got {name} {got!r}, expected one of {known}")
        layer.__dict__[hidden] = got

    return property(read, assign)


class _OpenBatchNorm(nn.modules.batchnorm._BatchNorm):
    """What the three batch norms share; see `BatchNorm2d`."""

    source = _one_of("source", SOURCES)
    running_variance = _one_of("running_variance", ("unbiased", "biased"))
    activation = _one_of("activation", (None, *ACTIVATIONS))

    def __init__(
        self,
        *args: Any,
        source: str = "auto",
        running_variance: str = "unbiased",
        activation: str | None = None,
        impl: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if self.eps < 0 or not (self.momentum is None or 0 <= self.momentum <= 1):
            raise ValueError(
                f"BatchNorm: got eps {self.eps} and momentum {self.momentum}, expected an eps of 0 "
                "or more, and as momentum the share of the new batch, 0 to 1, or None"
            )
        self.source = source
        self.running_variance = running_variance
        self.activation = activation
        self.impl = impl

    def uses_batch(self) -> bool:
        """Whether the next forward normalises by the batch's own statistics."""
        if self.source == "auto":
            return self.training or self.running_mean is None
        return self.source == "batch"

    def estimate(self, x: Tensor) -> Moments | None:
        """Statistics to use instead of the batch's plain ones; None: the fused plain ones.

        A method overrides this to weight samples, to mix with other statistics, or to estimate
        them in its own way. Gradients flow through what it returns.
        """
        return None

    def running(self) -> Moments:
        """The running statistics."""
        if self.running_mean is None or self.running_var is None:
            raise ValueError(
                "BatchNorm: got a layer without running statistics, expected some: build it with "
                "track_running_stats=True, or use source='batch'"
            )
        return Moments(self.running_mean, self.running_var, 0)

    def tracked_share(self) -> float | Tensor:
        """Share of the next batch in the running statistics: momentum, or 1 / batches if None.

        `track` asks once for each batch, after it was counted. A method with a schedule of its own
        overrides it.
        """
        if self.momentum is not None:
            return self.momentum
        assert self.num_batches_tracked is not None and self.running_var is not None
        return 1.0 / self.num_batches_tracked.to(self.running_var.dtype)

    def track(self, statistics: Moments) -> None:
        """running <- (1 - share) running + share statistics."""
        mean, var = self.running_mean, self.running_var
        if mean is None or var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        unbiased = self.running_variance == "unbiased"
        factor = statistics.count / (statistics.count - 1) if unbiased else 1.0
        statistics.track_(mean, var, self.tracked_share(), factor)

    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """The layer with a weight and bias from outside: (C,), or broadcasting against x."""
        self._check_input_dim(x)  # type: ignore[no-untyped-call]
        if x.shape[1] != self.num_features:
            raise ValueError(
                f"{type(self).__name__}: got {x.shape[1]} channels in x of {tuple(x.shape)}, "
                f"expected {self.num_features}: build the layer for the channels of x"
            )
        if not self.uses_batch():
            return standardise(x, self.running(), weight, bias, self.eps)
        count = x.numel() // max(x.shape[1], 1)
        if count < 2 and self.training:
            raise ValueError(
                f"{type(self).__name__}: got {count} element(s) a channel in training (x of "
                f"{tuple(x.shape)}), expected 2 or more: use a larger batch, or eval()"
            )
        statistics = self.estimate(x)
        if statistics is None and count == 0:  # in evaluation: there is nothing to normalise
            return x.clone()
        if statistics is None:
            y, mean, rstd = norm_with_statistics(
                x, weight, bias, groups=0, eps=self.eps, impl=self.impl
            )
            statistics = Found(mean, rstd, self.eps, count)
        else:
            y = standardise(x, statistics, weight, bias, self.eps)
        if self.training:
            self.track(statistics)
        return y

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = self.normalise(x, self.weight, self.bias)
        if residual is not None:
            if residual.shape != y.shape:
                raise ValueError(
                    f"{type(self).__name__}: got a residual of shape {tuple(residual.shape)}, "
                    f"expected that of x, {tuple(y.shape)}"
                )
            y = y + residual
        return y if self.activation is None else ACTIVATIONS[self.activation](y)

    def extra_repr(self) -> str:
        defaults = {"source": "auto", "running_variance": "unbiased", "activation": None}
        changed = [
            f", {k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v
        ]
        plain: str = super().extra_repr()  # type: ignore[no-untyped-call]
        return plain + "".join(changed)


class BatchNorm1d(_OpenBatchNorm, nn.BatchNorm1d):
    """Batch norm of (N, C) or (N, C, L); see `BatchNorm2d`."""


class BatchNorm2d(_OpenBatchNorm, nn.BatchNorm2d):
    """Batch norm: every channel is centred and scaled by its statistics over the batch.

    y = act((x - mean) / sqrt(var + eps) * weight + bias + residual). The biased variance
    normalises; the running variance takes the unbiased one, as torch's and the paper's do.

    Args:
        num_features: Channels C.
        eps: Added to the variance, inside the root.
        momentum: Share of the new batch in the running statistics; None: their plain mean.
        affine: Whether there are a weight and a bias.
        track_running_stats: Whether there are running statistics.
        source: Which statistics normalise: `auto` (the batch's in training, else the running
            ones), `batch` (always the batch's), `running` (frozen).
        running_variance: `unbiased` or `biased`: what the running variance accumulates.
        activation: None, `relu` or `silu`, applied last.
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Shape: (N, C, H, W); `residual` as x.
    Raises: ValueError for other shapes, fewer than 2 elements a channel in training, an eps below
        0, a momentum outside 0..1, or an unknown name of a setting, also when it is assigned.
    Source: Ioffe, Szegedy (2015), arXiv 1502.03167, algorithms 1 and 2.

    Override `estimate` to weight, mix or replace the statistics; see `shared.norms.statistics`.

    Example:
        >>> layer = BatchNorm2d(3, source="batch").eval()
        >>> bool(layer(torch.ones(2, 3, 4, 4)).abs().max() == 0)
        True
    """


class BatchNorm3d(_OpenBatchNorm, nn.BatchNorm3d):
    """Batch norm of (N, C, D, H, W); see `BatchNorm2d`."""


class SyncBatchNorm(_OpenBatchNorm):
    """Batch norm over the batches of all processes of a group together.

    Statistics are summed over the processes (with gradients, to any order); processes may have
    batches of different sizes. Without an initialised process group it is plain batch norm.

    Args: As `BatchNorm2d`, for any number of positions, and
        process_group: Processes that share statistics; None: all.
    """

    def __init__(self, *args: Any, process_group: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.process_group = process_group

    def _check_input_dim(self, x: Tensor) -> None:
        if x.dim() < 2:
            raise ValueError(
                f"SyncBatchNorm: got x of shape {tuple(x.shape)}, expected (N, C, ...): add a "
                "batch dimension"
            )

    def estimate(self, x: Tensor) -> Moments | None:
        if not dist.is_available() or not dist.is_initialized():
            return None
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        dims = [d for d in range(x.dim()) if d != 1]
        view = (1, -1, *[1] * (x.dim() - 2))
        own = torch.full((1,), x.numel() / x.shape[1], dtype=torch.float64, device=x.device)
        count = int(_sum_over_processes(own, self.process_group))
        mean = _sum_over_processes(wide.sum(dims), self.process_group) / count
        # The sum is rounded: what the mean lacks is the mean of the centred values.
        centred = wide - mean.view(view)
        rest = _sum_over_processes(centred.sum(dims), self.process_group) / count
        squares = (centred - rest.view(view)).square().sum(dims)
        var = _sum_over_processes(squares, self.process_group) / count
        return Moments(mean + rest, var, count)


class _SumOverProcesses(torch.autograd.Function):
    """Sum of a tensor over the processes; its backward is the same sum, hence any order."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, group: Any) -> Tensor:
        ctx.group = group
        total = value.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _sum_over_processes(grads[0].contiguous(), ctx.group), None


def _sum_over_processes(value: Tensor, group: Any) -> Tensor:
    result: Tensor = _SumOverProcesses.apply(value, group)
    return result
