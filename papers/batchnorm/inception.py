"""Inception networks with and without BatchNorm: a small one, and the paper's (section 4.2).

Shapes: x_NCHW (examples, channels, height, width), logits_NK (examples, classes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from papers.batchnorm.method import Method, conv

Activation = Literal["relu", "sigmoid"]
ACTIVATIONS = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid}


@dataclass(frozen=True)
class Channels:
    """Output channels of the layers of one Inception module.

    Attributes:
        one: of the 1x1 convolution; 0: the module has none, its stride is 2 and its pooled branch
            passes through, which halves the image.
        three: of the 1x1 convolution and of the 3x3 convolution after it.
        double: of the 1x1 convolution and of both 3x3 convolutions after it.
        pool: of the 1x1 convolution after the pooling.
        pooling: of the 3x3 windows.
    """

    one: int
    three: tuple[int, int]
    double: tuple[int, int]
    pool: int = 0
    pooling: Literal["average", "max"] = "average"

    @property
    def stride(self) -> int:
        return 1 if self.one else 2

    def out_channels(self, in_channels: int) -> int:
        return self.one + self.three[1] + self.double[1] + (self.pool or in_channels)


# The appendix' table, as public re-implementations have it.
PAPER = (
    Channels(64, (64, 64), (64, 96), 32),
    Channels(64, (64, 96), (64, 96), 64),
    Channels(0, (128, 160), (64, 96)),
    Channels(224, (64, 96), (96, 128), 128),
    Channels(192, (96, 128), (96, 128), 128),
    Channels(160, (128, 160), (128, 160), 128),
    Channels(96, (128, 192), (160, 192), 128),
    Channels(0, (128, 192), (192, 256)),
    Channels(352, (192, 320), (160, 224), 128),
    Channels(352, (192, 320), (192, 224), 128, "max"),
)


class Module(nn.Module):
    """Four branches side by side: 1x1, 1x1-3x3, 1x1-3x3-3x3, and pooling-1x1."""

    def __init__(
        self, method: Method, in_channels: int, channels: Channels, activation: Activation
    ) -> None:
        super().__init__()

        def layers(*sizes: tuple[int, int, int], start: int = in_channels) -> list[nn.Module]:
            """[convolution, (BN), activation] for each (kernel size, channels, stride)."""
            found: list[nn.Module] = []
            for kernel_size, width, stride in sizes:
                found += conv(method, start, width, kernel_size, stride)
                found.append(ACTIVATIONS[activation]())
                start = width
            return found

        stride = channels.stride
        (three_in, three), (double_in, double) = channels.three, channels.double
        # Strides of 2 take the largest value; windows of an average reach over the edge.
        pooling: nn.Module = nn.MaxPool2d(3, stride, padding=1)
        if stride == 1 and channels.pooling == "average":
            pooling = nn.AvgPool2d(3, 1, padding=1)
        branches = [
            [pooling, *layers((1, channels.pool, 1))] if channels.pool else [pooling],
            layers((1, three_in, 1), (3, three, stride)),
            layers((1, double_in, 1), (3, double, 1), (3, double, stride)),
        ]
        if channels.one:
            branches.append(layers((1, channels.one, 1)))
        self.branches = nn.ModuleList(nn.Sequential(*branch) for branch in branches)

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x_NCHW) for branch in self.branches], dim=1)


class Inception(nn.Module):
    """Stem -> Inception modules -> mean over the places -> dropout -> linear.

    Weights start as He's for ReLU, biases at zero, in all arms.

    Args:
        stem: layers before the first module, and the channels that they give.
        modules: channels of each module.
        dropout: share of the features that the classifier does not see in training.
    """

    def __init__(
        self,
        method: Method,
        stem: tuple[list[nn.Module], int],
        modules: tuple[Channels, ...],
        num_classes: int,
        activation: Activation = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        layers, width = stem
        layers = list(layers)
        for channels in modules:
            layers.append(Module(method, width, channels, activation))
            width = channels.out_channels(width)
        self.features = nn.Sequential(*layers)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, num_classes)
        for module in self.features.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.classifier.weight, std=width**-0.5)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        features_NC = self.features(x_NCHW).mean(dim=(2, 3))
        return self.classifier(self.dropout(features_NC))


def small_inception(method: Method, width: int, in_channels: int = 1) -> Inception:
    """Ten convolutions deep, for images of 28x28: a stem of stride 2 and three modules."""
    stem = [*conv(method, in_channels, 2 * width, 3, stride=2), nn.ReLU()]
    pair = (width, width)
    modules = (
        Channels(width, pair, pair, width),
        Channels(0, pair, pair),
        Channels(width, pair, pair, width),
    )
    return Inception(method, (stem, 2 * width), modules, num_classes=10)


def paper_inception(
    method: Method, num_classes: int, activation: Activation, dropout: float, lrn: bool
) -> Inception:
    """The network of section 4.2, for images of 224x224.

    Args:
        lrn: local response normalization in the stem, which section 4.2.1 removes.

    Deviates from the source: no auxiliary classifiers.
    """

    def unit(*arguments: int) -> list[nn.Module]:
        return [*conv(method, *arguments), ACTIVATIONS[activation]()]

    response = [nn.LocalResponseNorm(5)] if lrn else []
    stem = [
        *unit(3, 64, 7, 2),
        nn.MaxPool2d(3, 2, padding=1),
        *response,
        *unit(64, 64, 1),
        *unit(64, 192, 3),
        *response,
        nn.MaxPool2d(3, 2, padding=1),
    ]
    return Inception(method, (stem, 192), PAPER, num_classes, activation, dropout)
