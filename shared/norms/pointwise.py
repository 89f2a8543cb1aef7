"""Element-wise layers that stand where a norm would: DyT, Derf and Fixup's scalar tail."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shared.kernels import pointwise


class _Saturating(nn.Module):
    """What DyT and Derf share: y = f(alpha x + s) * weight + bias over the last dimension."""

    function: str
    shift: nn.Parameter | None

    def __init__(self, num_features: int, alpha: float, channels_last: bool, impl: str) -> None:
        super().__init__()
        self.num_features = num_features
        self.channels_last = channels_last
        self.impl = impl
        self.alpha = nn.Parameter(torch.full((1,), alpha))
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))

    def forward(self, x: Tensor) -> Tensor:
        axis = -1 if self.channels_last else 1
        if x.dim() < 2 or x.shape[axis] != self.num_features:
            place = "(..., {})" if self.channels_last else "(N, {}, ...)"
            raise ValueError(
                f"{type(self).__name__}: got x of shape {tuple(x.shape)}, expected "
                f"{place.format(self.num_features)}: build the layer for the channels of x"
            )
        flat = x.reshape(-1, self.num_features) if self.channels_last else x
        y = pointwise(
            flat,
            self.alpha,
            self.shift,
            None,
            self.weight,
            self.bias,
            function=self.function,
            impl=self.impl,
        )
        return y.view(x.shape)

    def extra_repr(self) -> str:
        return f"{self.num_features}, channels_last={self.channels_last}"


class DyT(_Saturating):
    """Dynamic tanh: y = tanh(alpha x) * weight + bias.

    Args:
        num_features: Channels.
        alpha: First value of the slope, which is learnt.
        channels_last: Whether channels are the last dimension (else the second).
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Raises: ValueError for another number of channels.
    Source: Zhu, Chen, He, LeCun, Liu (2025), arXiv 2503.10622.

    Example:
        >>> DyT(2)(torch.zeros(1, 2)).tolist()
        [[0.0, 0.0]]
    """

    function = "tanh"
    shift = None

    def __init__(
        self,
        num_features: int,
        alpha: float = 0.5,
        *,
        channels_last: bool = True,
        impl: str = "auto",
    ) -> None:
        super().__init__(num_features, alpha, channels_last, impl)


class Derf(_Saturating):
    """Dynamic error function: y = erf(alpha x + s) * weight + bias.

    Args:
        num_features: Channels.
        alpha: First value of the slope, which is learnt.
        shift: First value of s, one learnt number.
        channels_last: Whether channels are the last dimension (else the second).
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Raises: ValueError for another number of channels.
    Source: Chen, Lu, Zhu, Sun, Liu (2025), arXiv 2512.10938.

    Example:
        >>> Derf(2)(torch.zeros(1, 2)).tolist()
        [[0.0, 0.0]]
    """

    function = "erf"

    def __init__(
        self,
        num_features: int,
        alpha: float = 0.5,
        shift: float = 0.0,
        *,
        channels_last: bool = True,
        impl: str = "auto",
    ) -> None:
        super().__init__(num_features, alpha, channels_last, impl)
        self.shift = nn.Parameter(torch.full((1,), shift))


class ScalarTail(nn.Module):
    """The end of Fixup's residual branch: y = relu(x * scale + bias + residual).

    Args:
        scale: First value of the multiplier, one learnt number.
        bias: First value of the bias, one learnt number.
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Shape: (N, C, ...); residual as x.
    Raises: ValueError where the two shapes differ.
    Source: Zhang, Dauphin, Ma (2019), arXiv 1901.09321, figure 1.

    Example:
        >>> ScalarTail()(torch.ones(1, 1), torch.tensor([[-3.0]])).tolist()
        [[0.0]]
    """

    def __init__(self, scale: float = 1.0, bias: float = 0.0, *, impl: str = "auto") -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1,), scale))
        self.bias = nn.Parameter(torch.full((1,), bias))
        self.impl = impl

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return pointwise(x, self.scale, self.bias, residual, function="relu", impl=self.impl)
