"""Group norm and instance norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from shared.kernels import norm, norm_with_statistics
from shared.norms.statistics import Moments, standardise


def _check_channels(layer: nn.Module, x: Tensor, channels: int) -> None:
    if x.dim() < 2 or x.shape[1] != channels:
        raise ValueError(
            f"{type(layer).__name__}: got x of shape {tuple(x.shape)}, expected (N, {channels}, "
            "...): build the layer for the channels of x"
        )


class GroupNorm(nn.GroupNorm):
    """Group norm: the channels of every sample are normalised in groups.

    y = (x - mean) / sqrt(var + eps) * weight + bias, var biased, over a group's channels and all
    positions.

    Args:
        num_groups: Groups; divides num_channels.
        num_channels: Channels C.
        eps: Added to the variance, inside the root.
        affine: Whether there are a weight and a bias.
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Shape: (N, C, ...).
    Raises: ValueError for other shapes.
    Source: Wu, He (2018), arXiv 1803.08494.

    Example:
        >>> GroupNorm(1, 2, eps=0.0)(torch.tensor([[[0.0], [2.0]]])).flatten().tolist()
        [-1.0, 1.0]
    """

    def __init__(self, *args: Any, impl: str = "auto", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.impl = impl

    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """The layer with a weight and bias from outside: (C,), or broadcasting against x."""
        _check_channels(self, x, self.num_channels)
        return norm(x, weight, bias, groups=self.num_groups, eps=self.eps, impl=self.impl)

    def forward(self, x: Tensor) -> Tensor:
        return self.normalise(x, self.weight, self.bias)


class _OpenInstanceNorm(nn.modules.instancenorm._InstanceNorm):
    """What the three instance norms share; see `InstanceNorm2d`."""

    def __init__(self, *args: Any, impl: str = "auto", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.impl = impl

    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """The layer with a weight and bias from outside: (C,), or broadcasting against x."""
        self._check_input_dim(x)  # type: ignore[no-untyped-call]
        _check_channels(self, x, self.num_features)
        if self.running_mean is not None and self.running_var is not None and not self.training:
            known = Moments(self.running_mean, self.running_var, 0)
            return standardise(x, known, weight, bias, self.eps)
        count = x.numel() // max(x.shape[0] * x.shape[1], 1)
        if count < 2 and self.training and x.shape[0] > 0:
            raise ValueError(
                f"{type(self).__name__}: got {count} element(s) an instance in training (x of "
                f"{tuple(x.shape)}), expected 2 or more: use larger maps, or eval()"
            )
        y, mean, rstd = norm_with_statistics(
            x, weight, bias, groups=self.num_features, eps=self.eps, impl=self.impl
        )
        if self.training and self.running_mean is not None:
            self._track(mean, (rstd.pow(-2) - self.eps).clamp_min(0), count)
        return y

    @torch.no_grad()
    def _track(self, mean: Tensor, var: Tensor, count: int) -> None:
        assert self.running_mean is not None and self.running_var is not None
        share = 0.0 if self.momentum is None else self.momentum
        by_channel = (-1, self.num_features)
        self.running_mean.lerp_(mean.view(by_channel).mean(0), share)
        unbiased = var.view(by_channel).mean(0) * (count / (count - 1))
        self.running_var.lerp_(unbiased, share)

    def forward(self, x: Tensor) -> Tensor:
        return self.normalise(x, self.weight, self.bias)


class InstanceNorm1d(_OpenInstanceNorm, nn.InstanceNorm1d):
    """Instance norm of (N, C, L); see `InstanceNorm2d`."""


class InstanceNorm2d(_OpenInstanceNorm, nn.InstanceNorm2d):
    """Instance norm: every channel of every sample is normalised over its positions.

    y = (x - mean) / sqrt(var + eps) * weight + bias, var biased.

    Args:
        num_features: Channels C.
        eps: Added to the variance, inside the root.
        momentum: Share of the new batch in the running statistics, where they are tracked.
        affine: Whether there are a weight and a bias.
        track_running_stats: Whether running statistics are kept, and used in evaluation.
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Shape: (N, C, H, W).
    Raises: ValueError for other shapes, or fewer than 2 positions in training.
    Source: Ulyanov, Vedaldi, Lempitsky (2016), arXiv 1607.08022.
    """


class InstanceNorm3d(_OpenInstanceNorm, nn.InstanceNorm3d):
    """Instance norm of (N, C, D, H, W); see `InstanceNorm2d`."""
