"""The three rules of Fixup (section 3 of the paper) and the initialisations it is compared with.

    1. The classifier and the last layer of each residual branch start at zero.
    2. Every other layer gets a standard initialisation; the weight layers inside the branches are
       then multiplied by L^(-1/(2m-2)), with L branches of m layers each.
    3. Each branch has a scalar multiplier that starts at 1, and there is a scalar bias that starts
       at 0 before each convolution, linear layer and activation.

Source: Zhang, Dauphin, Ma (2019), arXiv 1901.09321, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import nn

Method = Literal["batchnorm", "fixup", "zero_init", "he", "xavier"]
WeightLayer = nn.Linear | nn.Conv2d
Branch = Sequence[WeightLayer]


def branch_scale(num_branches: int, layers_per_branch: int) -> float:
    """The factor of rule 2, L^(-1/(2m-2)).

    Args:
        num_branches: L, the number of residual branches (of blocks, not of layers).
        layers_per_branch: m, the number of weight layers in one branch.

    Raises:
        ValueError: no branches, or branches of one layer, for which the factor is not defined.

    Example:
        >>> round(branch_scale(num_branches=54, layers_per_branch=2), 3)  # ResNet-110
        0.136
    """
    if num_branches < 1 or layers_per_branch < 2:
        raise ValueError(
            f"got {num_branches} branches of {layers_per_branch} layers, expected at least one "
            "branch and at least two layers in it: a single layer is the last one, which is zero"
        )
    return float(num_branches ** (-1 / (2 * layers_per_branch - 2)))


@torch.no_grad()
def zero_last_layers(branches: Sequence[Branch], classifier: nn.Linear) -> None:
    """Rule 1: zeroes the classifier and the last layer of each branch, in place."""
    for layer in [branch[-1] for branch in branches] + [classifier]:
        layer.weight.zero_()
        if layer.bias is not None:
            layer.bias.zero_()


@torch.no_grad()
def scale_branches(branches: Sequence[Branch]) -> None:
    """Rule 2: multiplies the weight layers of each branch by L^(-1/(2m-2)), in place.

    The last layers are zero by rule 1, so that multiplying them too changes nothing.
    """
    for branch in branches:
        factor = branch_scale(num_branches=len(branches), layers_per_branch=len(branch))
        for layer in branch:
            layer.weight.mul_(factor)


class ScalarBias(nn.Module):
    """Rule 3: x + b, with b = 0 at the start.

    Args:
        num_channels: one bias for each channel of (N, C, H, W) instead of a single one. The paper
            uses 1; more is an ablation.
    """

    def __init__(self, num_channels: int = 1) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(_shape(num_channels)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.bias


class ScalarMultiplier(nn.Module):
    """Rule 3: s * x, with s = 1 at the start. `num_channels` as in `ScalarBias`."""

    def __init__(self, num_channels: int = 1) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(_shape(num_channels)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def _shape(num_channels: int) -> tuple[int, ...]:
    return (1,) if num_channels == 1 else (num_channels, 1, 1)


@torch.no_grad()
def initialise(
    net: nn.Module, branches: Sequence[Branch], classifier: nn.Linear, method: Method
) -> None:
    """Initialises a network in place.

    - `fixup`: rules 1 and 2 on top of He's initialisation.
    - `zero_init`: rule 1 only, He's initialisation without the scaling by depth.
    - `he`, `batchnorm`: He's initialisation of every layer.
    - `xavier`: Xavier's initialisation of every layer.

    Deviates from the public code, which counts outgoing instead of incoming connections for the
    convolutions of a branch and leaves the first convolution at torch's default.

    Source: He et al. (2015), arXiv 1502.01852, eq. 10; Glorot, Bengio (2010), eq. 12.
    """
    if method not in get_args(Method):
        raise ValueError(f"method: got {method!r}, expected one of {', '.join(get_args(Method))}")
    for layer in net.modules():
        if isinstance(layer, WeightLayer):
            if method == "xavier":
                nn.init.xavier_normal_(layer.weight)
            else:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                layer.bias.zero_()
    if method in ("fixup", "zero_init"):
        zero_last_layers(branches, classifier)
    if method == "fixup":
        scale_branches(branches)


def parameter_groups(
    net: nn.Module, lr: float, scalar_lr_divisor: float = 10.0
) -> list[dict[str, Any]]:
    """Optimiser groups: weights at `lr`, biases and multipliers at `lr / scalar_lr_divisor`.

    The smaller rate is in the public code, not among the three rules: the gradient of a scalar
    sums over all channels and positions. Weight decay applies to both groups.

    Args:
        lr: learning rate of the weights.
        scalar_lr_divisor: 10 in the public code; 1 is an ablation.
    """
    weights: list[nn.Parameter] = []
    scalars: list[nn.Parameter] = []
    for name, parameter in net.named_parameters():
        is_scalar = name.endswith((".bias", ".scale"))
        (scalars if is_scalar else weights).append(parameter)
    return [{"params": weights, "lr": lr}, {"params": scalars, "lr": lr / scalar_lr_divisor}]
