"""The networks of the comparison: a residual MLP, a wide ResNet (Figure 3), a ResNet (Table 1).

Each has a block with Fixup's scalars and a block with BatchNorm. All unnormalised arms (`fixup`,
`zero_init`, `he`, `xavier`) use the block with the scalars, which at their start compute nothing:
the arms differ in the initialisation of the weights alone.

Shapes: x_NF (examples, features), x_NCHW (examples, channels, height, width), logits_NK.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn.functional import avg_pool2d, relu

from papers.fixup.method import (
    Branch,
    Method,
    ScalarBias,
    ScalarMultiplier,
    WeightLayer,
    initialise,
)


class PreActivationBlock(nn.Module):
    """x + s layer2(relu(layer1(relu(x)))), with a bias before each layer and each relu."""

    def __init__(self, layer1: WeightLayer, layer2: WeightLayer, shortcut: nn.Module) -> None:
        super().__init__()
        self.bias1a, self.bias1b = ScalarBias(), ScalarBias()
        self.layer1 = layer1
        self.bias2a, self.bias2b = ScalarBias(), ScalarBias()
        self.layer2 = layer2
        self.multiplier = ScalarMultiplier()
        self.shortcut = shortcut

    @property
    def branch(self) -> Branch:
        return (self.layer1, self.layer2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer1(self.bias1b(relu(self.bias1a(x))))
        out = self.layer2(self.bias2b(relu(self.bias2a(out))))
        return self.shortcut(x) + self.multiplier(out)


class BatchNormPreActivationBlock(nn.Module):
    """x + layer2(relu(norm(layer1(relu(norm(x))))))."""

    def __init__(self, layer1: WeightLayer, layer2: WeightLayer, shortcut: nn.Module) -> None:
        super().__init__()
        self.norm1 = _norm_before(layer1)
        self.layer1 = layer1
        self.norm2 = _norm_before(layer2)
        self.layer2 = layer2
        self.shortcut = shortcut

    @property
    def branch(self) -> Branch:
        return (self.layer1, self.layer2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer1(relu(self.norm1(x)))
        out = self.layer2(relu(self.norm2(out)))
        return self.shortcut(x) + out


class BasicBlock(nn.Module):
    """relu(shortcut(x + b) + s conv2(relu(conv1(x + b))) + b), with a bias before each of them.

    As in the public code, a shortcut that changes the shape reads x + b, any other reads x.
    """

    def __init__(self, in_channels: int, channels: int, stride: int, per_channel: bool) -> None:
        super().__init__()
        before, after = (in_channels, channels) if per_channel else (1, 1)
        self.bias1a, self.bias1b = ScalarBias(before), ScalarBias(after)
        self.conv1 = conv3x3(in_channels, channels, stride)
        self.bias2a, self.bias2b = ScalarBias(after), ScalarBias(after)
        self.conv2 = conv3x3(channels, channels)
        self.multiplier = ScalarMultiplier(after)
        self.shortcut = PoolShortcut(in_channels, channels, stride)

    @property
    def branch(self) -> Branch:
        return (self.conv1, self.conv2)

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        biased = self.bias1a(x_NCHW)
        out = relu(self.bias1b(self.conv1(biased)))
        out = self.multiplier(self.conv2(self.bias2a(out)))
        shortcut = x_NCHW if self.shortcut.is_identity else self.shortcut(biased)
        return relu(self.bias2b(out) + shortcut)


class BatchNormBasicBlock(nn.Module):
    """relu(shortcut(x) + norm2(conv2(relu(norm1(conv1(x))))))."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv3x3(in_channels, channels, stride)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = conv3x3(channels, channels)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut = PoolShortcut(in_channels, channels, stride)

    @property
    def branch(self) -> Branch:
        return (self.conv1, self.conv2)

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        out = relu(self.norm1(self.conv1(x_NCHW)))
        out = self.norm2(self.conv2(out))
        return relu(out + self.shortcut(x_NCHW))


class PoolShortcut(nn.Module):
    """The shortcut without weights: keeps every `stride`-th pixel and appends zero channels."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.num_zeros = channels - in_channels
        self.is_identity = stride == 1 and self.num_zeros == 0

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        if self.is_identity:
            return x_NCHW
        # Average pooling over 1x1 windows, as in the public code, is plain subsampling.
        kept = avg_pool2d(x_NCHW, kernel_size=1, stride=self.stride)
        zeros = kept.new_zeros(kept.shape[0], self.num_zeros, *kept.shape[2:])
        return torch.cat([kept, zeros], dim=1)


class ResidualMLP(nn.Module):
    """A residual network of linear layers, pre-activation, for nets of very many layers.

    Args:
        method: how the network starts and whether it is normalised.
        num_blocks: L; the net has 2 L + 2 weight layers.
        width: features in each block.
        in_features: numbers in one example.
        num_classes: outputs.
    """

    def __init__(
        self,
        method: Method,
        num_blocks: int,
        width: int = 32,
        in_features: int = 784,
        num_classes: int = 10,
    ) -> None:
        super().__init__()
        self.stem = nn.Linear(in_features, width, bias=False)
        block = BatchNormPreActivationBlock if method == "batchnorm" else PreActivationBlock
        self.blocks = nn.Sequential(
            *(
                block(
                    nn.Linear(width, width, bias=False),
                    nn.Linear(width, width, bias=False),
                    shortcut=nn.Identity(),
                )
                for _ in range(num_blocks)
            )
        )
        self.last = nn.BatchNorm1d(width) if method == "batchnorm" else ScalarBias()
        self.before_classifier = nn.Identity() if method == "batchnorm" else ScalarBias()
        self.classifier = nn.Linear(width, num_classes)
        initialise(self, branches_of(self), self.classifier, method)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x_NF = self.blocks(self.stem(x.flatten(1)))
        return self.classifier(self.before_classifier(relu(self.last(x_NF))))


class WideResNet(nn.Module):
    """The pre-activation network of Figure 3: three stages of (width, 2 width, 4 width) channels.

    Args:
        depth: number of weight layers in the paper's count, 6n + 4 with n blocks in a stage.
        width: channels of the first stage; the paper's width factor 1 is 16.

    Raises:
        ValueError: no such depth.
    """

    def __init__(
        self,
        method: Method,
        depth: int,
        width: int = 16,
        in_channels: int = 3,
        num_classes: int = 10,
    ) -> None:
        super().__init__()
        num_blocks = blocks_per_stage(depth, extra_layers=4)
        block = BatchNormPreActivationBlock if method == "batchnorm" else PreActivationBlock
        self.stem = conv3x3(in_channels, width)
        self.blocks = nn.Sequential(
            *(
                block(
                    conv3x3(before, after, stride),
                    conv3x3(after, after),
                    shortcut=PoolShortcut(before, after, stride),
                )
                for before, after, stride in _stages(width, num_blocks)
            )
        )
        self.last = nn.BatchNorm2d(4 * width) if method == "batchnorm" else ScalarBias()
        self.before_classifier = nn.Identity() if method == "batchnorm" else ScalarBias()
        self.classifier = nn.Linear(4 * width, num_classes)
        initialise(self, branches_of(self), self.classifier, method)

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        x_NCHW = relu(self.last(self.blocks(self.stem(x_NCHW))))
        return self.classifier(self.before_classifier(x_NCHW.mean(dim=(2, 3))))


class ConvResNet(nn.Module):
    """The CIFAR ResNet of Table 1: three stages of (width, 2 width, 4 width) channels.

    Args:
        depth: number of weight layers, 6n + 2 with n blocks in a stage (110 in the paper).
        width: channels of the first stage (16 in the paper).
        stem_stride: 2 halves the images first, to save time.
        per_channel: a multiplier and biases for each channel instead of scalars (an ablation).

    Raises:
        ValueError: no such depth, or `per_channel` with BatchNorm, which has no scalars.
    """

    def __init__(
        self,
        method: Method,
        depth: int,
        width: int = 16,
        in_channels: int = 3,
        num_classes: int = 10,
        stem_stride: int = 1,
        per_channel: bool = False,
    ) -> None:
        super().__init__()
        normalised = method == "batchnorm"
        if normalised and per_channel:
            raise ValueError("per_channel: got True with batchnorm, expected an unnormalised arm")
        self.stem = conv3x3(in_channels, width, stem_stride)
        self.after_stem = nn.BatchNorm2d(width) if normalised else ScalarBias()
        self.blocks = nn.Sequential(
            *(
                BatchNormBasicBlock(before, after, stride)
                if normalised
                else BasicBlock(before, after, stride, per_channel)
                for before, after, stride in _stages(width, blocks_per_stage(depth, 2))
            )
        )
        self.before_classifier = nn.Identity() if normalised else ScalarBias()
        self.classifier = nn.Linear(4 * width, num_classes)
        initialise(self, branches_of(self), self.classifier, method)

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        x_NCHW = self.blocks(relu(self.after_stem(self.stem(x_NCHW))))
        return self.classifier(self.before_classifier(x_NCHW.mean(dim=(2, 3))))


def branches_of(net: ResidualMLP | WideResNet | ConvResNet) -> list[Branch]:
    """The weight layers of each residual branch; their number is the paper's L."""
    return [block.branch for block in net.blocks]


def conv3x3(in_channels: int, channels: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_channels, channels, 3, stride=stride, padding=1, bias=False)


def blocks_per_stage(depth: int, extra_layers: int) -> int:
    """n of a net with 6n + extra_layers layers.

    Raises:
        ValueError: depth is not of this form.
    """
    num_blocks, rest = divmod(depth - extra_layers, 6)
    if num_blocks < 1 or rest:
        raise ValueError(f"depth: got {depth}, expected 6n + {extra_layers} with n >= 1")
    return num_blocks


def _stages(width: int, num_blocks: int) -> list[tuple[int, int, int]]:
    """(channels before, channels after, stride) of each block."""
    channels = [width] + [width * 2**stage for stage in range(3) for _ in range(num_blocks)]
    return [
        (before, after, 1 if before == after else 2) for before, after in itertools.pairwise(channels)
    ]


def _norm_before(layer: WeightLayer) -> nn.Module:
    """The BatchNorm of the signal that a layer reads."""
    if isinstance(layer, nn.Linear):
        return nn.BatchNorm1d(layer.in_features)
    return nn.BatchNorm2d(layer.in_channels)
