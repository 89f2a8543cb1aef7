"""The standard CNN (Table 3) of any width, and the critic of the ResNet (Table 4) by method.

Shapes: noise_NZ, images_NCHW in [-1, 1] of 32x32, scores_N1.
"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from papers.sngan.method import Method, norm_of_maps, normalise_weights
from shared.norms import BatchNorm2d
from shared.training.gan_resnet import ResNetCritic

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


def resnet_critic(method: Method, width: int, in_channels: int) -> ResNetCritic:
    """The critic of Table 4, for `sn`, `none` or `orthonormal`.

    Raises: ValueError for another method: it has no ResNet in the paper.
    """
    if method not in ("sn", "none", "orthonormal"):
        raise ValueError(f"got a ResNet with {method!r}, expected sn, none or orthonormal")
    critic = ResNetCritic(width, in_channels)
    normalise_weights(critic, method)
    return critic
