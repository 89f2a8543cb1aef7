"""Norms of weights: standardisation (plain and scaled) and weight norm.

Legend: O outputs (rows of a weight), F fan-in (all other dimensions together).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from shared.kernels import norm


def _column(gain: Tensor | None, weight: Tensor, factor: float) -> Tensor:
    if gain is None:
        return weight.new_full((weight.shape[0], 1), factor)
    if gain.numel() not in (1, weight.shape[0]):
        raise ValueError(
            f"got a gain of {gain.numel()} numbers for a weight of shape {tuple(weight.shape)}, "
            f"expected {weight.shape[0]}: one for each output"
        )
    return gain.reshape(-1, 1) * factor


def standardise_weight(
    weight: Tensor, gain: Tensor | None = None, eps: float = 1e-10, impl: str = "auto"
) -> Tensor:
    """Weight standardisation: every output's weights with mean 0 and variance 1.

    W' = gain (W - mean) / sqrt(var + eps), over the fan-in, var biased.

    Args:
        weight: (O, ...).
        gain: (O,) or None: 1.
        eps: Added to the variance.
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Source: Qiao, Wang, Liu, Shen, Yuille (2019), arXiv 1903.10520.
    Deviates from the source's code, which divides by (unbiased std + 1e-5).

    Example:
        >>> standardise_weight(torch.tensor([[1.0, 3.0]])).tolist()
        [[-1.0, 1.0]]
    """
    rows = weight.flatten(1)
    w = None if gain is None else _column(gain, weight, 1.0)
    return norm(rows, w, groups=1, eps=eps, impl=impl).view(weight.shape)


def scaled_standardise_weight(
    weight: Tensor, gain: Tensor | None = None, gamma: float = 1.0, floor: float = 1e-4
) -> Tensor:
    """Scaled weight standardisation: rows of norm gain * gamma and mean 0.

    W' = gain gamma (W - mean) / sqrt(max(var F, floor)), over the fan-in F, var biased.

    Args:
        weight: (O, ...).
        gain: (O,) or None: 1.
        gamma: What the activation takes off, e.g. sqrt(2 / (1 - 1/pi)) for ReLU.
        floor: Least value of var * F, as in the authors' code.

    Source: Brock, De, Smith (2021), arXiv 2101.08692.

    Example:
        >>> scaled_standardise_weight(torch.tensor([[0.0, 3.0, 0.0, -3.0]]), gamma=2**0.5).tolist()
        [[0.0, 1.0, 0.0, -1.0]]
    """
    rows = weight.flatten(1)
    centred = rows - rows.mean(1, keepdim=True)
    squares = centred.square().sum(1, keepdim=True)  # = var F
    scale = _column(gain, weight, gamma) * torch.rsqrt(squares.clamp_min(floor))
    return (centred * scale).view(weight.shape)


def normalise_weight(direction: Tensor, length: Tensor, impl: str = "auto") -> Tensor:
    """Weight norm: W = length * direction / |direction| for every output.

    Args:
        direction: (O, ...). A row of zeros gives NaN: it has no direction.
        length: (O,).
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Source: Salimans, Kingma (2016), arXiv 1602.07868, equation 2.

    Example:
        >>> normalise_weight(torch.tensor([[3.0, 4.0]]), torch.tensor([10.0])).tolist()
        [[6.0, 8.0]]
    """
    rows = direction.flatten(1)
    factor = _column(length, direction, 1 / math.sqrt(rows.shape[1]))
    return norm(rows, factor, groups=1, centre=False, eps=0.0, impl=impl).view(direction.shape)


def activation_gain(function: str) -> float:
    """gamma of scaled weight standardisation: 1 / std(f(z)), z standard normal, by quadrature.

    Args:
        function: Name of a function of `torch.nn.functional`.

    Source: Brock, De, Smith (2021), arXiv 2101.08692, section 4.

    Example:
        >>> round(activation_gain("relu"), 6)
        1.712859
    """
    # The two halves apart, so that a kink at 0 lies on the edge of the rule.
    half = torch.linspace(0, 12, 200_001, dtype=torch.float64)
    density = torch.exp(-half * half / 2) / math.sqrt(2 * math.pi)
    f = getattr(nn.functional, function)
    first = second = 0.0
    for z in (half, -half):
        first += float(torch.trapezoid(f(z) * density, half))
        second += float(torch.trapezoid(f(z).square() * density, half))
    return 1 / math.sqrt(second - first * first)


class _Standardised(nn.Module):
    """Parametrisation W -> standardised W, with a learnt gain for each output."""

    def __init__(self, weight: Tensor, scaled: bool, gamma: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(weight.shape[0], dtype=weight.dtype))
        self.scaled, self.gamma = scaled, gamma

    def forward(self, weight: Tensor) -> Tensor:
        if self.scaled:
            return scaled_standardise_weight(weight, self.gain, self.gamma)
        return standardise_weight(weight, self.gain * self.gamma)


def standardised(layer: nn.Module, *, scaled: bool, gamma: float = 1.0) -> nn.Module:
    """The layer with its weight standardised at every use; a gain of each output is learnt."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() < 2:
        raise ValueError(f"got {layer!r}, expected a layer with a weight of 2 or more dimensions")
    parametrize.register_parametrization(layer, "weight", _Standardised(weight, scaled, gamma))
    return layer
