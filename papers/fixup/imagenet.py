"""Table 2: ResNet-50 on ImageNet, from a folder of the user's (full scale only).

Shapes: x_NCHW (examples, channels, height, width), logits_NK.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import timm
import torch
from torch import nn
from torch.nn.functional import relu

from papers.fixup.method import Branch, ScalarBias, ScalarMultiplier, initialise
from papers.fixup.module import SGDClassifier
from shared.data.imagenet import ImageNet
from shared.training.imagenet import OnImageNet


class Bottleneck(nn.Module):
    """relu(shortcut(x + b) + s f(x) + b) with three layers in f, and a bias before each of them.

    With m = 3 layers, rule 2 scales the branch by L^(-1/4). As in the public code, a shortcut that
    changes the shape is a 1x1 convolution of x + b, and the stride is in the 3x3 convolution.
    """

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        out_channels = 4 * channels
        self.bias1a, self.bias1b = ScalarBias(), ScalarBias()
        self.conv1 = nn.Conv2d(in_channels, channels, 1, bias=False)
        self.bias2a, self.bias2b = ScalarBias(), ScalarBias()
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bias3a, self.bias3b = ScalarBias(), ScalarBias()
        self.conv3 = nn.Conv2d(channels, out_channels, 1, bias=False)
        self.multiplier = ScalarMultiplier()
        self.shortcut = (
            nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)
            if stride != 1 or in_channels != out_channels
            else None
        )

    @property
    def branch(self) -> Branch:
        return (self.conv1, self.conv2, self.conv3)

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        biased = self.bias1a(x_NCHW)
        out = relu(self.bias1b(self.conv1(biased)))
        out = relu(self.bias2b(self.conv2(self.bias2a(out))))
        out = self.multiplier(self.conv3(self.bias3a(out)))
        shortcut = x_NCHW if self.shortcut is None else self.shortcut(biased)
        return relu(self.bias3b(out) + shortcut)


class FixupResNet50(nn.Module):
    """ResNet-50 with Fixup: stages of 3, 4, 6 and 3 bottleneck blocks, L = 16."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.after_stem = ScalarBias()
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks = []
        in_channels = 64
        for stage, num_blocks in enumerate((3, 4, 6, 3)):
            for index in range(num_blocks):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(Bottleneck(in_channels, 64 * 2**stage, stride))
                in_channels = 4 * 64 * 2**stage
        self.blocks = nn.Sequential(*blocks)
        self.before_classifier = ScalarBias()
        self.classifier = nn.Linear(in_channels, num_classes)
        initialise(self, [block.branch for block in blocks], self.classifier, "fixup")

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        x_NCHW = self.blocks(self.pool(relu(self.after_stem(self.stem(x_NCHW)))))
        return self.classifier(self.before_classifier(x_NCHW.mean(dim=(2, 3))))


class ImageNetResNet50(OnImageNet, SGDClassifier):
    """ResNet-50 with Fixup, or timm's with BatchNorm (whose last gammas start at zero).

    Args:
        batch_size, image_size, num_workers: see `ImageNet`.

    Raises:
        RecordError: the folder of images is not there.
    """

    def __init__(
        self,
        method: Literal["batchnorm", "fixup"],
        batch_size: int = 256,
        image_size: int = 224,
        num_workers: int = 8,
        lr: float = 0.1,
        weight_decay: float = 1e-4,
        momentum: float = 0.9,
        lr_drops: Sequence[float] = (1 / 3, 2 / 3),
        mixup_alpha: float = 0.0,
    ) -> None:
        images = ImageNet(batch_size, image_size, num_workers)
        super().__init__(
            FixupResNet50(images.num_classes)
            if method == "fixup"
            else timm.create_model("resnet50", num_classes=images.num_classes),
            method,
            lr=lr,
            scalar_lr_divisor=10.0,
            weight_decay=weight_decay,
            momentum=momentum,
            lr_drops=lr_drops,
            mixup_alpha=mixup_alpha,
        )
        self.images = images
