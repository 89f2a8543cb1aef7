"""The networks: a small strided CNN, and a ResNet for full scale. No critic has a norm inside.

The paper's own networks were not found. What the method asks of a critic is kept: it is piecewise
linear, and no sample influences another, so there is no batch norm in it.

Shapes: noise_NZ, images_NCHW in [-1, 1] of 32x32, scores_N1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, relu

from shared.norms import BatchNorm2d

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
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
        activation: after each convolution; a key of `ACTIVATIONS`.

    Raises: ValueError for an activation that there is not.
    """

    def __init__(self, width: int, in_channels: int, activation: str = "leaky_relu") -> None:
        if activation not in ACTIVATIONS:
            raise ValueError(f"got {activation!r}, expected of {', '.join(ACTIVATIONS)}")
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


def up(x_NCHW: Tensor) -> Tensor:
    return interpolate(x_NCHW, scale_factor=2, mode="nearest")


def down(x_NCHW: Tensor) -> Tensor:
    return avg_pool2d(x_NCHW, 2)


class Residual(nn.Module):
    """x -> shortcut(x) + conv(relu(norm(conv(relu(norm(x)))))), both halves at twice or half size.

    Args:
        c_in, c_out: channels.
        grow: enlarge before the first convolution, as a generator does, with batch norm.
        shrink: halve after the second, as a critic does.
        first: of a critic, which sees the images: no ReLU before the first convolution.
    """

    def __init__(
        self,
        c_in: int,
        c_out: int,
        *,
        grow: bool = False,
        shrink: bool = False,
        first: bool = False,
    ) -> None:
        super().__init__()

        def activate(channels: int) -> list[nn.Module]:
            return [BatchNorm2d(channels), nn.ReLU()] if grow else [nn.ReLU()]

        self.before = nn.Sequential(*([] if first else activate(c_in)))
        self.between = nn.Sequential(
            nn.Conv2d(c_in, c_out, 3, padding=1),
            *activate(c_out),
            nn.Conv2d(c_out, c_out, 3, padding=1),
        )
        same = c_in == c_out and not (grow or shrink)
        self.shortcut = nn.Identity() if same else nn.Conv2d(c_in, c_out, 1)
        self.enter = up if grow else nn.Identity()
        self.leave = down if shrink else nn.Identity()

    def forward(self, x_NCHW: Tensor) -> Tensor:
        long = self.between(self.enter(self.before(x_NCHW)))
        return self.leave(long + self.shortcut(self.enter(x_NCHW)))


class ResNetCritic(nn.Module):
    """Four blocks, the first two of which halve; ReLU, sum over the positions, dense.

    Args:
        width: channels of every block, 128 in SN-GAN.
        in_channels: of the images.
    """

    def __init__(self, width: int, in_channels: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            Residual(in_channels, width, shrink=True, first=True),
            Residual(width, width, shrink=True),
            Residual(width, width),
            Residual(width, width),
        )
        self.dense = nn.Linear(width, 1)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        return self.dense(relu(self.blocks(images_NCHW)).sum((2, 3)))


class ResNetGenerator(nn.Sequential):
    """A dense layer to 4x4, three blocks that double, batch norm, ReLU, a 3x3 convolution, tanh.

    Args:
        width: channels of every block, 256 in SN-GAN.
        out_channels, noise_size: see `CNNGenerator`.
    """

    def __init__(self, width: int, out_channels: int, noise_size: int) -> None:
        super().__init__(
            nn.Linear(noise_size, width * 16),
            nn.Unflatten(1, (width, 4, 4)),
            *(Residual(width, width, grow=True) for _ in range(3)),
            BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, out_channels, 3, padding=1),
            nn.Tanh(),
        )
