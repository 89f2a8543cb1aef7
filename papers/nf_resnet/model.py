"""The network of all comparisons: a pre-activation bottleneck ResNet, built by any scheme.

Shapes: x_NCHW (examples, channels, height, width), logits_NK.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from papers.nf_resnet.method import (
    ALPHA,
    SCHEMES,
    Activation,
    Method,
    StochasticDepth,
    convolution,
    planned_variances,
)


class Block(nn.Module):
    """x + alpha g f(x / beta), with 1x1, 3x3 and 1x1 convolutions in f, each behind an activation.

    A shortcut that changes the shape is a 1x1 convolution of the activated signal. alpha = beta = 1
    unless the scheme has a plan. The factor 1 / beta stands behind the activation, as in the
    source's code; for ReLU that is the same.

    Args:
        variance: beta^2, what the plan expects of x.
        drop_rate: share of the examples whose branch is left out in training.
        skip_gain: start of g, where the scheme has one.
    """

    def __init__(
        self,
        method: Method,
        in_channels: int,
        channels: int,
        stride: int,
        variance: float,
        drop_rate: float,
        skip_gain: float | None,
    ) -> None:
        super().__init__()
        planned = SCHEMES[method].planned
        self.alpha = ALPHA if planned else 1.0
        self.beta = variance**0.5 if planned else 1.0
        width = channels // 4
        self.activation = Activation(method, in_channels)
        self.branch = nn.Sequential(
            convolution(method, in_channels, width, 1),
            Activation(method, width),
            convolution(method, width, width, 3, stride),
            Activation(method, width),
            convolution(method, width, channels, 1),
        )
        self.shortcut = (
            convolution(method, in_channels, channels, 1, stride)
            if stride != 1 or in_channels != channels
            else None
        )
        self.stochastic_depth = StochasticDepth(drop_rate)
        self.skip_gain = None if skip_gain is None else nn.Parameter(torch.tensor(skip_gain))

    def forward(self, x_NCHW: Tensor) -> Tensor:
        entering = self.activation(x_NCHW) / self.beta
        shortcut = x_NCHW if self.shortcut is None else self.shortcut(entering)
        out = self.stochastic_depth(self.branch(entering))
        if self.skip_gain is not None:
            out = out * self.skip_gain
        return shortcut + self.alpha * out


class ResNet(nn.Module):
    """Stem, stages of bottleneck blocks, activation, average pool, linear classifier.

    Args:
        depths: blocks in each stage.
        widths: channels of each stage at the blocks' ends; a fourth of them inside.
        stem: `imagenet`, 7x7 of stride 2 and a max pool, or `small`, 3x3 of stride 2. All stages
            but the first halve the image.
        stochastic_depth: drop rate at the end of the net; block i of L gets i / L of it.
        skip_gain: start of the skip gains in place of the scheme's, where it has them.

    Raises:
        ValueError: not one width for each stage, or a width that is no multiple of four.
    """

    def __init__(
        self,
        method: Method,
        depths: Sequence[int],
        widths: Sequence[int],
        in_channels: int = 3,
        num_classes: int = 10,
        stem: Literal["imagenet", "small"] = "small",
        stochastic_depth: float = 0.0,
        skip_gain: float | None = None,
    ) -> None:
        super().__init__()
        if len(depths) != len(widths) or any(width % 4 for width in widths):
            raise ValueError(
                f"got {len(depths)} stages of widths {list(widths)}, expected one width for each "
                "stage, a multiple of four"
            )
        stem_width = widths[0] // 4
        match stem:
            case "imagenet":
                conv = convolution(method, in_channels, stem_width, 7, 2)
                self.stem = nn.Sequential(conv, nn.MaxPool2d(3, stride=2, padding=1))
            case "small":
                self.stem = nn.Sequential(convolution(method, in_channels, stem_width, 3, 2))
            case _:
                raise ValueError(f"stem: got {stem!r}, expected 'imagenet' or 'small'")
        variances = planned_variances(depths)
        start = SCHEMES[method].skip_gain
        blocks: list[Block] = []
        channels = stem_width
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            for index in range(depth):
                blocks.append(
                    Block(
                        method,
                        channels,
                        width,
                        stride=2 if stage > 0 and index == 0 else 1,
                        variance=variances[len(blocks)],
                        drop_rate=stochastic_depth * len(blocks) / sum(depths),
                        skip_gain=start if start is None or skip_gain is None else skip_gain,
                    )
                )
                channels = width
        self.blocks = nn.Sequential(*blocks)
        self.activation = Activation(method, channels)
        self.classifier = nn.Linear(channels, num_classes)
        nn.init.normal_(self.classifier.weight, std=0.01)
        nn.init.zeros_(self.classifier.bias)
        if SCHEMES[method].zero_classifier:
            nn.init.zeros_(self.classifier.weight)
        if method == "fixup":
            apply_fixup(blocks)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        x_NCHW = self.activation(self.blocks(self.stem(x_NCHW)))
        logits_NK: Tensor = self.classifier(x_NCHW.mean(dim=(2, 3)))
        return logits_NK


@torch.no_grad()
def apply_fixup(blocks: Sequence[Block]) -> None:
    """Fixup's start: the last layer of each branch 0, the others times L^(-1/4) (three layers).

    Source: Zhang, Dauphin, Ma (2019), arXiv 1901.09321, section 3.
    """
    for block in blocks:
        *inner, last = (layer for layer in block.branch if isinstance(layer, nn.Conv2d))
        for layer in inner:
            layer.weight.mul_(len(blocks) ** -0.25)
        last.weight.zero_()
