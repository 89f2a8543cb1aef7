"""The networks: a small CNN for the laptop, and the paper's ResNet-18 of 64 filters.

Legend: N images, C channels, H height, W width, K classes.
"""

from __future__ import annotations

import itertools
from typing import Literal, assert_never

import torch
from torch import nn
from torch.nn.functional import relu

from papers.adab2n.method import AdaB2N, ContinualNorm, TaskWeights
from shared.norms import BatchNorm2d, GroupNorm, InstanceNorm2d

Norm = Literal["batch", "adab2n", "continual", "group", "layer", "instance"]
Network = Literal["small_cnn", "resnet18"]


class NormFactory:
    """Builds the norm of an arm for any number of channels.

    Args:
        norm: `batch`, `adab2n`, `continual` (group norm, then batch norm), `group`, `layer` (over
            channels and positions, that is one group), or `instance`.
        num_tasks, kappa, task_weights: see `AdaB2N`.
        momentum: of all running statistics.
        num_groups: of `continual` and `group`.
    """

    def __init__(
        self,
        norm: Norm,
        *,
        num_tasks: int,
        kappa: float,
        task_weights: TaskWeights,
        momentum: float,
        num_groups: int,
    ) -> None:
        self.norm = norm
        self.num_tasks = num_tasks
        self.kappa = kappa
        self.task_weights = task_weights
        self.momentum = momentum
        self.num_groups = num_groups

    def __call__(self, channels: int) -> nn.Module:
        match self.norm:
            case "batch":
                return BatchNorm2d(channels, momentum=self.momentum)
            case "adab2n":
                return AdaB2N(
                    channels,
                    self.num_tasks,
                    self.kappa,
                    self.task_weights,
                    momentum=self.momentum,
                )
            case "continual":
                return ContinualNorm(channels, self.num_groups, momentum=self.momentum)
            case "group":
                return GroupNorm(self.num_groups, channels)
            case "layer":
                return GroupNorm(1, channels)
            case "instance":
                return InstanceNorm2d(channels, affine=True)
            case _:
                assert_never(self.norm)


class SmallCNN(nn.Module):
    """Three 3x3 convolutions with a norm and ReLU each, mean over the positions, linear classifier.

    Shape: (N, C, H, W) -> (N, K).
    """

    def __init__(self, norm: NormFactory, in_channels: int, width: int, num_classes: int) -> None:
        super().__init__()
        widths = (in_channels, width, 2 * width, 4 * width)
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            conv = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
            layers += [conv, norm(after), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(4 * width, num_classes)

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        logits_NK: torch.Tensor = self.classifier(self.features(x_NCHW).mean(dim=(2, 3)))
        return logits_NK


class BasicBlock(nn.Module):
    """relu(shortcut(x) + norm(conv(relu(norm(conv(x))))))."""

    def __init__(self, norm: NormFactory, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False),
            norm(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            norm(after),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            conv = nn.Conv2d(before, after, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(conv, norm(after))

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        return relu(self.branch(x_NCHW) + self.shortcut(x_NCHW))


class ResNet18(nn.Module):
    """ResNet-18 for small images: a first 3x3 convolution of stride 1, and no pooling after it.

    Shape: (N, C, H, W) -> (N, K).
    """

    def __init__(self, norm: NormFactory, in_channels: int, width: int, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1, bias=False), norm(width), nn.ReLU()
        )
        blocks: list[nn.Module] = []
        before = width
        for stage in range(4):
            after = width * 2**stage
            blocks.append(BasicBlock(norm, before, after, stride=1 if stage == 0 else 2))
            blocks.append(BasicBlock(norm, after, after, stride=1))
            before = after
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(before, num_classes)

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        features_NC = self.blocks(self.stem(x_NCHW)).mean(dim=(2, 3))
        logits_NK: torch.Tensor = self.classifier(features_NC)
        return logits_NK


def build(
    network: Network, norm: NormFactory, *, in_channels: int, width: int, num_classes: int
) -> nn.Module:
    """A network of images to logits of all classes of the stream."""
    make = {"small_cnn": SmallCNN, "resnet18": ResNet18}[network]
    return make(norm, in_channels, width, num_classes)
