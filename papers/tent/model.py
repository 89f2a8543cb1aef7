"""The source network: a residual network for small images, with batch norm or group norm.

Shapes: x_NCHW (examples, channels, height, width), logits_NK.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import relu

from shared.norms import BatchNorm2d, GroupNorm

Norm = Literal["batchnorm", "groupnorm"]


def make_norm(kind: Norm, channels: int) -> nn.Module:
    """The norm behind each convolution; group norm has groups of 8 channels, or one group."""
    if kind == "batchnorm":
        return BatchNorm2d(channels)
    if kind == "groupnorm":
        return GroupNorm(max(channels // 8, 1), channels)
    raise ValueError(f"norm: got {kind!r}, expected 'batchnorm' or 'groupnorm'")


class Block(nn.Module):
    """relu(shortcut(x) + norm(conv(relu(norm(conv(x))))))."""

    def __init__(self, norm: Norm, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.norm1 = make_norm(norm, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = make_norm(norm, channels)
        self.shortcut = (
            nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride, bias=False), make_norm(norm, channels)
            )
            if stride != 1 or in_channels != channels
            else nn.Identity()
        )

    def forward(self, x_NCHW: Tensor) -> Tensor:
        y_NCHW = relu(self.norm1(self.conv1(x_NCHW)))
        return relu(self.shortcut(x_NCHW) + self.norm2(self.conv2(y_NCHW)))


class ResNet(nn.Module):
    """The CIFAR ResNet of 6n + 2 layers.

    Args:
        norm: `batchnorm` or `groupnorm`.
        depth: 6n + 2; 26 in the paper.
        width: channels of the first of the three stages.
        in_channels, num_classes: of the data.
        stem_stride: stride of the first convolution; 1 in the paper.

    Raises:
        ValueError: a depth that is not 6n + 2.
    """

    def __init__(
        self,
        norm: Norm,
        depth: int,
        width: int,
        in_channels: int,
        stem_stride: int = 1,
        num_classes: int = 10,
    ) -> None:
        super().__init__()
        if depth < 8 or depth % 6 != 2:
            raise ValueError(f"depth: got {depth}, expected 6 n + 2, e.g. 8 or 26")
        self.stem = nn.Conv2d(in_channels, width, 3, stem_stride, padding=1, bias=False)
        self.stem_norm = make_norm(norm, width)
        blocks = []
        channels = width
        for stage in range(3):
            for index in range((depth - 2) // 6):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(Block(norm, channels, width * 2**stage, stride))
                channels = width * 2**stage
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(channels, num_classes)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        x_NCHW = relu(self.stem_norm(self.stem(x_NCHW)))
        return self.classifier(self.blocks(x_NCHW).mean(dim=(2, 3)))
