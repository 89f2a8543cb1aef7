"""What the paper defines: the signal's plan, the schemes of a block, what is measured of a signal.

An NF block computes x + alpha g f(x / beta), with beta^2 the variance that the plan expects of x,
and g a learnt skip gain. Activations are multiplied by gamma, so that they keep the variance of a
standard normal signal, and convolutions have weights of mean 0 and norm 1 in each row (scaled
weight standardisation), so that they keep it too and add no mean.

Shapes: x_NCHW (examples, channels, height, width).
Source: Brock, De, Smith (2021), arXiv 2101.08692, sections 3 and 4; code: deepmind-research/nfnets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from shared.norms import BatchNorm2d, activation_gain, standardised

Method = Literal["batchnorm", "relu_bn", "he", "nf", "nf_no_gamma", "skipinit", "fixup"]
ALPHA = 0.2
"""The paper's share of a branch."""
GAMMA = activation_gain("relu")
"""sqrt(2 / (1 - 1/pi)): the standard deviation that ReLU takes off a standard normal signal."""


@dataclass(frozen=True)
class Scheme:
    """How a method builds its blocks.

    Attributes:
        before: what stands before a convolution, beside the ReLU.
        standardised: scaled weight standardisation, or a plain convolution.
        planned: alpha and beta of the NF block, or x + g f(x).
        weight_variance: of a plain convolution at its start, times the fan-in.
        conv_bias: the convolutions have one.
        skip_gain: start of g; None where the branch has no factor.
        zero_classifier: the classifier starts at zero.
    """

    before: Literal["nothing", "norm_then_relu", "relu_then_norm", "gamma", "scalar_biases"]
    standardised: bool = False
    planned: bool = False
    weight_variance: float = 2.0
    conv_bias: bool = True
    skip_gain: float | None = None
    zero_classifier: bool = False


SCHEMES: dict[Method, Scheme] = {
    "batchnorm": Scheme("norm_then_relu", conv_bias=False),
    # Here a convolution reads a normalised signal, for which 1 / fan-in keeps the variance.
    "relu_bn": Scheme("relu_then_norm", weight_variance=1.0, conv_bias=False),
    "he": Scheme("nothing", planned=True, skip_gain=0.0),
    "nf": Scheme("gamma", standardised=True, planned=True, skip_gain=0.0),
    "nf_no_gamma": Scheme("nothing", standardised=True, planned=True, skip_gain=0.0),
    "skipinit": Scheme("nothing", skip_gain=0.0, zero_classifier=True),
    "fixup": Scheme("scalar_biases", conv_bias=False, skip_gain=1.0, zero_classifier=True),
}


def planned_variances(depths: Sequence[int], alpha: float = ALPHA) -> list[float]:
    """The variance that the plan expects at the entrance of each block, and at the end.

    Var_(l+1) = Var_l + alpha^2, but 1 + alpha^2 after the first block of a stage, whose shortcut
    is a convolution of the activated signal x / beta. The net starts with 1; beta_l = sqrt(Var_l).

    Args:
        depths: blocks in each stage.

    Returns:
        One number for each block and one more.

    Example:
        >>> [round(variance, 2) for variance in planned_variances([2, 1])]
        [1.0, 1.04, 1.08, 1.04]
    """
    variances = [1.0]
    for depth in depths:
        variances += [1 + alpha**2 * (index + 1) for index in range(depth)]
    return variances


class Activation(nn.Module):
    """What stands before a convolution: the ReLU with a scheme's norm, gain or biases.

    The NF form is gamma relu(x).

    Deviates from the source's code, whose constant is 1.713959 instead of 1.712859.
    """

    def __init__(self, method: Method, num_channels: int) -> None:
        super().__init__()
        self.before = SCHEMES[method].before
        if self.before in ("norm_then_relu", "relu_then_norm"):
            self.norm = BatchNorm2d(num_channels)
        elif self.before == "scalar_biases":
            self.bias_relu = nn.Parameter(torch.zeros(1))
            self.bias_conv = nn.Parameter(torch.zeros(1))

    def forward(self, x_NCHW: Tensor) -> Tensor:
        if self.before == "norm_then_relu":
            return relu(self.norm(x_NCHW))
        if self.before == "relu_then_norm":
            normalised: Tensor = self.norm(relu(x_NCHW))
            return normalised
        if self.before == "scalar_biases":
            return relu(x_NCHW + self.bias_relu) + self.bias_conv
        if self.before == "gamma":
            return GAMMA * relu(x_NCHW)
        return relu(x_NCHW)


def convolution(
    method: Method, in_channels: int, channels: int, size: int, stride: int = 1
) -> nn.Module:
    """A convolution of a scheme: plain, or with scaled weight standardisation and a learnt gain.

    W' = gain (W - mean) / sqrt(max(var F, 1e-4)) over the fan-in F, as in the source's code.
    """
    chosen = SCHEMES[method]
    conv = nn.Conv2d(
        in_channels, channels, size, stride=stride, padding=size // 2, bias=chosen.conv_bias
    )
    fan_in = in_channels * size**2
    variance = 1.0 if chosen.standardised else chosen.weight_variance
    nn.init.normal_(conv.weight, std=math.sqrt(variance / fan_in))
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)
    return standardised(conv, scaled=True) if chosen.standardised else conv


class Signal(NamedTuple):
    """What a signal propagation plot shows of x, over examples and positions of a channel.

    squared_mean = mean_C(mean_NHW(x)^2), variance = mean_C(var_NHW(x)), biased.
    """

    squared_mean: float
    variance: float


def signal(x_NCHW: Tensor) -> Signal:
    """The two numbers of a signal propagation plot.

    Source: section 3 of the paper.

    Example:
        >>> signal(torch.tensor([1.0, 3.0]).view(2, 1, 1, 1))
        Signal(squared_mean=4.0, variance=1.0)
    """
    var_C, mean_C = torch.var_mean(x_NCHW, dim=(0, 2, 3), correction=0)
    return Signal(mean_C.square().mean().item(), var_C.mean().item())


class StochasticDepth(nn.Module):
    """Leaves out the branch of an example with probability `rate`, in training only.

    Deviates from most code: as in the source's code, the branches that stay are not scaled up.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"stochastic depth: got a rate of {rate}, expected 0 <= rate < 1")
        self.rate = rate

    def forward(self, x_NCHW: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x_NCHW
        kept_N = torch.rand(len(x_NCHW), device=x_NCHW.device) >= self.rate
        return x_NCHW * kept_N.view(-1, 1, 1, 1).to(x_NCHW.dtype)
