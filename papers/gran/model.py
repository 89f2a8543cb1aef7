"""The networks at laptop scale: a small strided CNN. No critic has a norm inside.

The paper's own networks were not found. What the method asks of a critic is kept: it is piecewise
linear, and no sample influences another, so there is no batch norm in it.

Shapes: noise_NZ, images_NCHW in [-1, 1] of 32x32, scores_N1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Literal

from torch import nn

from shared.norms import BatchNorm2d

Activation = Literal["relu", "leaky_relu", "softplus", "tanh"]
ACTIVATIONS: dict[Activation, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": partial(nn.LeakyReLU, 0.1),
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
}
"""The first two are piecewise linear; the others are there to break what needs that."""


class CNNCritic(nn.Sequential):
    """Three 4x4 convolutions of stride 2 to 4x4, and a dense layer.

    Args:
        width: channels of the first convolution, doubled by each of the next two.
        in_channels: of the images.
        activation: after each convolution.
    """

    def __init__(self, width: int, in_channels: int, activation: Activation = "leaky_relu") -> None:
        sizes = (in_channels, width, 2 * width, 4 * width)
        layers: list[nn.Module] = []
        for c_in, c_out in pairwise(sizes):
            layers += [nn.Conv2d(c_in, c_out, 4, 2, 1), ACTIVATIONS[activation]()]
        super().__init__(*layers, nn.Flatten(), nn.Linear(sizes[-1] * 16, 1))


class CNNGenerator(nn.Sequential):
    """The critic backwards: a dense layer to 4x4, three 4x4 deconvolutions, tanh.

    A layer before a batch norm has no bias, which the norm would take out again: its gradient is
    rounding error, and Adam makes a full step of that.

    Args:
        width: channels before the last deconvolution; four times as many at 4x4.
        out_channels: of the images.
        noise_size: Z.
    """

    def __init__(self, width: int, out_channels: int, noise_size: int) -> None:
        sizes = (4 * width, 2 * width, width, out_channels)
        layers: list[nn.Module] = [
            nn.Linear(noise_size, sizes[0] * 16, bias=False),
            nn.Unflatten(1, (sizes[0], 4, 4)),
        ]
        for c_in, c_out in pairwise(sizes):
            deconv = nn.ConvTranspose2d(c_in, c_out, 4, 2, 1, bias=c_in == width)
            layers += [BatchNorm2d(c_in), nn.ReLU(), deconv]
        super().__init__(*layers, nn.Tanh())
