"""The paper's networks: the standard CNN (Table 3) and the ResNet (Table 4), of any width.

Shapes: noise_NZ, images_NCHW in [-1, 1] of 32x32, scores_N1.
"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, relu

from papers.sngan.method import Method, norm_of_maps, normalise_weights
from shared.norms import BatchNorm2d

LEAK = 0.1


class CNNGenerator(nn.Module):
    """Dense layer to 4x4, three deconvolutions that double it, a 3x3 convolution, tanh.

    Args:
        width: channels of the last deconvolution, 64 in the paper (256, 128, 64 after 512).
        out_channels: of the images.
        noise_size: Z.
    """

    def __init__(self, width: int, out_channels: int, noise_size: int = 128) -> None:
        super().__init__()
        sizes = [8 * width, 4 * width, 2 * width, width]
        self.dense = nn.Linear(noise_size, sizes[0] * 16)
        blocks: list[nn.Module] = [
            nn.Unflatten(1, (sizes[0], 4, 4)),
            BatchNorm2d(sizes[0]),
            nn.ReLU(),
        ]
        for c_in, c_out in pairwise(sizes):
            blocks += [
                nn.ConvTranspose2d(c_in, c_out, 4, stride=2, padding=1),
                BatchNorm2d(c_out),
                nn.ReLU(),
            ]
        blocks += [nn.Conv2d(width, out_channels, 3, padding=1), nn.Tanh()]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, noise_NZ: Tensor) -> Tensor:
        return self.blocks(self.dense(noise_NZ))


class CNNCritic(nn.Module):
    """Seven convolutions, 3x3 of stride 1 and 4x4 of stride 2 in turn, leaky ReLU 0.1, dense.

    Args:
        method: what is done to the weights or after the convolutions.
        width: channels of the first layer, 64 in the paper (64, 64, 128, 128, 256, 256, 512).
        in_channels: of the images.
    """

    def __init__(self, method: Method, width: int, in_channels: int) -> None:
        super().__init__()
        norm = norm_of_maps(method)
        outs = [width, width, 2 * width, 2 * width, 4 * width, 4 * width, 8 * width]
        blocks: list[nn.Module] = []
        for index, (c_in, c_out) in enumerate(zip([in_channels, *outs], outs, strict=False)):
            kernel, stride = (4, 2) if index % 2 else (3, 1)
            blocks += [
                nn.Conv2d(c_in, c_out, kernel, stride, padding=1),
                # As usual in GANs the layer that sees the images has no norm after it.
                norm(c_out) if index else nn.Identity(),
                nn.LeakyReLU(LEAK),
            ]
        self.blocks = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(outs[-1] * 16, 1))
        normalise_weights(self, method)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        return self.blocks(images_NCHW)


class UpBlock(nn.Module):
    """Residual block of the generator, which doubles both sides; batch norm before each ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = BatchNorm2d(channels), BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, channels, 1)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        def up(x: Tensor) -> Tensor:
            return interpolate(x, scale_factor=2, mode="nearest")

        out = self.conv1(up(relu(self.norm1(x_NCHW))))
        return self.conv2(relu(self.norm2(out))) + self.shortcut(up(x_NCHW))


class ResNetGenerator(nn.Module):
    """Dense layer to 4x4x256, three blocks, batch norm, ReLU, a 3x3 convolution, tanh.

    Args:
        width: channels of every block, 256 in the paper.
        out_channels, noise_size: see `CNNGenerator`.
    """

    def __init__(self, width: int, out_channels: int, noise_size: int = 128) -> None:
        super().__init__()
        self.width = width
        self.dense = nn.Linear(noise_size, width * 16)
        self.blocks = nn.Sequential(*(UpBlock(width) for _ in range(3)), BatchNorm2d(width))
        self.last = nn.Conv2d(width, out_channels, 3, padding=1)

    def forward(self, noise_NZ: Tensor) -> Tensor:
        x_NCHW = self.blocks(self.dense(noise_NZ).unflatten(1, (self.width, 4, 4)))
        return self.last(relu(x_NCHW)).tanh()


class DownBlock(nn.Module):
    """Residual block of the critic; with `down` both sides are halved by mean pooling.

    Args:
        first: the block that sees the images: no ReLU before its first convolution.
    """

    def __init__(self, c_in: int, c_out: int, *, down: bool, first: bool = False) -> None:
        super().__init__()
        self.down, self.first = down, first
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.shortcut = nn.Conv2d(c_in, c_out, 1) if down or c_in != c_out else None

    def forward(self, x_NCHW: Tensor) -> Tensor:
        out = x_NCHW if self.first else relu(x_NCHW)
        out = self.conv2(relu(self.conv1(out)))
        shortcut = x_NCHW if self.shortcut is None else self.shortcut(x_NCHW)
        return avg_pool2d(out + shortcut, 2) if self.down else out + shortcut


class ResNetCritic(nn.Module):
    """Four blocks of 128 channels, the first two of which halve; ReLU, sum over positions, dense.

    Args:
        method: `sn`, `none` or `orthonormal`; the other methods have no ResNet in the paper.
        width: channels of every block, 128 in the paper.
        in_channels: of the images.

    Raises: ValueError for another method.
    """

    def __init__(self, method: Method, width: int, in_channels: int) -> None:
        super().__init__()
        if method not in ("sn", "none", "orthonormal"):
            raise ValueError(f"got a ResNet with {method!r}, expected sn, none or orthonormal")
        self.blocks = nn.Sequential(
            DownBlock(in_channels, width, down=True, first=True),
            DownBlock(width, width, down=True),
            DownBlock(width, width, down=False),
            DownBlock(width, width, down=False),
        )
        self.dense = nn.Linear(width, 1)
        normalise_weights(self, method)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        return self.dense(relu(self.blocks(images_NCHW)).sum((2, 3)))
