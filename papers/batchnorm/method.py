"""Where BatchNorm goes (section 3.2), and what becomes of it after training (Algorithm 2).

The transform itself, Algorithm 1, is `shared.norms`' layer. Shapes: x_NF (examples, features),
x_NCHW (examples, channels, height, width).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import nn

from shared.norms import BatchNorm1d, BatchNorm2d

Method = Literal["batchnorm", "none"]
MakeNorms = Callable[[int], list[nn.Module]]

# What stands behind a dense layer, and behind a convolution.
NORMS: dict[Method, tuple[MakeNorms, MakeNorms]] = {
    "batchnorm": (lambda n: [BatchNorm1d(n)], lambda n: [BatchNorm2d(n)]),
    "none": (lambda n: [], lambda n: []),
}


def dense(method: Method, in_features: int, out_features: int) -> list[nn.Module]:
    """The affine map before a non-linearity: W u + b, or BN(W u).

    BN subtracts the mean, so it takes the bias away, and its own beta replaces it.

    Source: section 3.2.
    """
    norms = NORMS[method][0](out_features)
    return [nn.Linear(in_features, out_features, bias=not norms), *norms]


def conv(
    method: Method, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1
) -> list[nn.Module]:
    """A convolution before a non-linearity, padded to keep the size at stride 1.

    All places of a feature map are normalised together: m' = m p q values, one gamma, one beta.

    Source: section 3.2.
    """
    norms = NORMS[method][1](out_channels)
    convolution = nn.Conv2d(
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding=kernel_size // 2,
        bias=not norms,
    )
    return [convolution, *norms]


def inference_affine(layer: BatchNorm1d | BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """What BatchNorm is once its statistics are fixed: y = scale x + shift.

        scale = gamma / sqrt(Var[x] + eps)
        shift = beta - gamma E[x] / sqrt(Var[x] + eps)

    with E[x] and Var[x] the layer's running statistics, of which the variance is the unbiased one,
    m / (m - 1) times the mean over the batches of m.

    Source: Algorithm 2, lines 8 to 12.
    """
    running = layer.running()
    scale_F = layer.weight / (running.var + layer.eps).sqrt()
    return scale_F, layer.bias - scale_F * running.mean
