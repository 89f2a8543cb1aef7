"""The usual residual generator and critic of 32x32 images; papers differ in their norms.

Shapes: noise_NZ, images_NCHW in [-1, 1] of 32x32, scores_N1.

Source: Miyato, Kataoka, Koyama, Yoshida (2018), arXiv 1802.05957, Table 4; the blocks are those of
    Gulrajani, Ahmed, Arjovsky, Dumoulin, Courville (2017), arXiv 1704.00028.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, relu

from shared.norms import BatchNorm2d

Norm = Callable[[int], nn.Module]
"""channels -> the norm of maps with so many; `nn.Identity` is none."""


def up(x_NCHW: Tensor) -> Tensor:
    return interpolate(x_NCHW, scale_factor=2, mode="nearest")


def down(x_NCHW: Tensor) -> Tensor:
    return avg_pool2d(x_NCHW, 2)


class Residual(nn.Module):
    """x -> shortcut(x) + conv(relu(norm(conv(relu(norm(x)))))), both halves at twice or half size.

    Args:
        c_in, c_out: channels.
        norm: before each ReLU.
        grow: enlarge before the first convolution, as a generator does.
        shrink: halve after the second, as a critic does.
        first: of a critic, which sees the images: no norm and no ReLU before the first convolution.
    """

    def __init__(
        self,
        c_in: int,
        c_out: int,
        norm: Norm = nn.Identity,
        *,
        grow: bool = False,
        shrink: bool = False,
        first: bool = False,
    ) -> None:
        super().__init__()
        self.before = nn.Sequential(*([] if first else [norm(c_in), nn.ReLU()]))
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.between = nn.Sequential(norm(c_out), nn.ReLU())
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        same = c_in == c_out and not (grow or shrink)
        self.shortcut = nn.Identity() if same else nn.Conv2d(c_in, c_out, 1)
        self.enter = up if grow else nn.Identity()
        self.leave = down if shrink else nn.Identity()

    def forward(self, x_NCHW: Tensor) -> Tensor:
        long = self.conv2(self.between(self.conv1(self.enter(self.before(x_NCHW)))))
        return self.leave(long + self.shortcut(self.enter(x_NCHW)))


class ResNetCritic(nn.Module):
    """Four blocks, the first two of which halve; ReLU, sum over the positions, dense.

    Args:
        width: channels of every block, 128 in the source.
        in_channels: of the images.
        norm: in the blocks, none in the source. One over the batch would let samples influence each
            other.
    """

    def __init__(self, width: int, in_channels: int, norm: Norm = nn.Identity) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            Residual(in_channels, width, norm, shrink=True, first=True),
            Residual(width, width, norm, shrink=True),
            Residual(width, width, norm),
            Residual(width, width, norm),
        )
        self.dense = nn.Linear(width, 1)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        return self.dense(relu(self.blocks(images_NCHW)).sum((2, 3)))


class ResNetGenerator(nn.Sequential):
    """A dense layer to 4x4, three blocks that double, norm, ReLU, a 3x3 convolution, tanh.

    Args:
        width: channels of every block, 256 in the source.
        out_channels: of the images.
        noise_size: Z.
        norm: in the blocks and after them.
    """

    def __init__(
        self, width: int, out_channels: int, noise_size: int, norm: Norm = BatchNorm2d
    ) -> None:
        super().__init__(
            nn.Linear(noise_size, width * 16),
            nn.Unflatten(1, (width, 4, 4)),
            *(Residual(width, width, norm, grow=True) for _ in range(3)),
            norm(width),
            nn.ReLU(),
            nn.Conv2d(width, out_channels, 3, padding=1),
            nn.Tanh(),
        )
