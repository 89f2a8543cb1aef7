"""The generator and the patch critic of the paper, of any width.

Legend: N samples, Z noise, K labels; map_NKHW one-hot, images_NCHW in [-1, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, leaky_relu, max_pool2d

from papers.spade.method import Base, Method, modulation, resized
from shared.norms import InstanceNorm2d, SpectralNorm

LEAK = 0.2


def spectral(conv: nn.Conv2d) -> nn.Conv2d:
    """The convolution with spectral norm. SPADE's own convolutions and the last ones have none."""
    SpectralNorm(conv, warm_up=0)
    return conv


class Block(nn.Module):
    """Residual block: each norm sees the map; so does each convolution where it is concatenated.

    y = shortcut(x) + conv_1(leaky(norm_1(conv_0(leaky(norm_0(x))))))

    Where the number of channels changes, shortcut(x) = conv_s(norm_s(x)), without an activation;
    else it is x.

    Args:
        method, base, num_labels, hidden: see `modulation`.

    Source: section 3 of the paper, and its public code.
    """

    def __init__(
        self,
        c_in: int,
        c_out: int,
        method: Method,
        base: Base,
        num_labels: int,
        hidden: int,
    ) -> None:
        super().__init__()
        norm = modulation(method, base, num_labels, hidden)
        self.extra = num_labels if method == "concat" else 0
        self.reads_map = method != "input_only"
        self.radius = 2 if method == "spade" else 0  # of the map around a position, for its norm
        middle = min(c_in, c_out)

        def conv(c_in: int, c_out: int) -> nn.Conv2d:
            return spectral(nn.Conv2d(c_in + self.extra, c_out, 3, padding=1))

        self.norm_0, self.conv_0 = norm(c_in), conv(c_in, middle)
        self.norm_1, self.conv_1 = norm(middle), conv(middle, c_out)
        self.learned = c_in != c_out
        if self.learned:
            self.norm_s = norm(c_in)
            self.conv_s = spectral(nn.Conv2d(c_in + self.extra, c_out, 1, bias=False))

    def forward(self, x: Tensor, map_NKHW: Tensor) -> Tensor:
        def seen(h: Tensor) -> Tensor:
            if not self.extra:
                return h
            return torch.cat([h, resized(map_NKHW, (h.shape[2], h.shape[3]))], 1)

        h = self.conv_0(seen(leaky_relu(self.norm_0(x, map_NKHW), LEAK)))
        h = self.conv_1(seen(leaky_relu(self.norm_1(h, map_NKHW), LEAK)))
        shortcut = self.conv_s(seen(self.norm_s(x, map_NKHW))) if self.learned else x
        return shortcut + h


class Generator(nn.Module):
    """A head of noise or of the map, blocks at growing sizes, a 3x3 convolution and tanh.

    Args:
        method, base: how the map enters the blocks, and the norm in them.
        source: what the head makes the first features of: `noise`, through a linear layer, or
            `map`, through one convolution of whole patches. It sees all of the layout, and makes
            constant features of a map with one label: it has no padding.
        channels: of the head, and of each block after it.
        sizes: height of the features in each block; the last is that of the images.
        num_labels: K.
        out_channels: of the images.
        noise_size: Z.
        hidden: see `modulation`.
        aspect: width of the images over their height.

    Shape: noise (N, Z), map (N, K, H, aspect H) -> images (N, C, H, aspect H).
    Raises: ValueError for lists that do not fit.
    """

    def __init__(
        self,
        method: Method,
        base: Base,
        source: Literal["noise", "map"],
        channels: Sequence[int],
        sizes: Sequence[int],
        num_labels: int,
        out_channels: int,
        noise_size: int,
        hidden: int,
        aspect: int = 1,
    ) -> None:
        super().__init__()
        if len(channels) != len(sizes) + 1 or sizes[-1] % sizes[0]:
            raise ValueError(
                f"got channels {list(channels)} and sizes {list(sizes)}, expected one more number "
                "of channels than sizes, and a last size that the first one divides"
            )
        self.source, self.sizes, self.aspect = source, tuple(sizes), aspect
        self.patch = sizes[-1] // sizes[0]
        self.first = (channels[0], sizes[0], aspect * sizes[0])
        self.head: nn.Module
        if source == "noise":
            self.head = nn.Linear(noise_size, channels[0] * sizes[0] * sizes[0] * aspect)
        else:
            self.head = nn.Conv2d(num_labels, channels[0], self.patch, stride=self.patch)
        self.blocks = nn.ModuleList(
            Block(c_in, c_out, method, base, num_labels, hidden)
            for c_in, c_out in pairwise(channels)
        )
        self.last = nn.Conv2d(channels[-1], out_channels, 3, padding=1)

    def forward(self, noise_NZ: Tensor, map_NKHW: Tensor) -> Tensor:
        if self.source == "noise":
            x = self.head(noise_NZ).view(-1, *self.first)
        else:
            x = self.head(map_NKHW)
        for size, block in zip(self.sizes, self.blocks, strict=True):
            x = block(interpolate(x, size=(size, size * self.aspect), mode="nearest"), map_NKHW)
        return self.last(leaky_relu(x, LEAK)).tanh()

    def reach(self, changed_NHW: Tensor) -> Tensor:
        """Pixels that can change when the map changes at some: the receptive field, exactly.

        Holds where a norm has no statistics of the sample: batch norm in evaluation.

        Shape: bool (N, H, W) -> bool (N, H, W).
        """
        changed = changed_NHW[:, None].float()
        first = (len(changed), 1, *self.first[1:])
        x = changed.new_zeros(first) if self.source == "noise" else _grown(changed, 0, self.patch)
        for size, module in zip(self.sizes, self.blocks, strict=True):
            block: Block = module  # type: ignore[assignment]
            shape = (size, size * self.aspect)
            x = interpolate(x, size=shape, mode="nearest")
            seen = _grown(resized(changed, shape), block.radius) * block.reads_map
            inside = torch.maximum(_grown(torch.maximum(x, seen), 1), seen)
            shortcut = torch.maximum(x, seen) if block.learned else x
            x = torch.maximum(_grown(inside, 1), shortcut)
        return _grown(x, 1)[:, 0] > 0


def _grown(x: Tensor, radius: int, stride: int = 1) -> Tensor:
    """Each pixel becomes the largest within the radius, or of its square of side `stride`."""
    if stride > 1:
        return max_pool2d(x, stride)
    return max_pool2d(x, 2 * radius + 1, 1, radius)


class PatchCritic(nn.Module):
    """Strided 4x4 convolutions to a map of scores, at several scales.

    Spectral norm and instance norm on all layers but the first and the last.

    Args:
        in_channels: of the images and the map together.
        width: channels of the first layer, doubled up to 8 times as many.
        num_layers: convolutions before the last one; all but the last of them halve the size.
        num_scales: copies that see the image whole, halved, and so on.

    Shape: (N, C, H, W) -> for each scale the activations of its layers, the scores (N, 1, h, w)
        last.
    Source: the paper's public code.
    """

    def __init__(self, in_channels: int, width: int, num_layers: int, num_scales: int) -> None:
        super().__init__()
        outs = [width * min(2**index, 8) for index in range(num_layers)]
        self.scales = nn.ModuleList(_scale(in_channels, outs) for _ in range(num_scales))

    def forward(self, images_NCHW: Tensor) -> list[list[Tensor]]:
        result = []
        for index, scale in enumerate(self.scales):
            if index:
                images_NCHW = avg_pool2d(images_NCHW, 3, 2, 1, count_include_pad=False)
            x, activations = images_NCHW, []
            for layer in scale:  # type: ignore[attr-defined]
                x = layer(x)
                activations.append(x)
            result.append(activations)
        return result


def _scale(c_in: int, outs: Sequence[int]) -> nn.ModuleList:
    layers = [nn.Sequential(nn.Conv2d(c_in, outs[0], 4, 2, 2), nn.LeakyReLU(LEAK))]
    for index, (c_prev, c_out) in enumerate(pairwise(outs), 2):
        stride = 1 if index == len(outs) else 2
        conv = spectral(nn.Conv2d(c_prev, c_out, 4, stride, 2, bias=False))
        layers.append(nn.Sequential(conv, InstanceNorm2d(c_out), nn.LeakyReLU(LEAK)))
    layers.append(nn.Sequential(nn.Conv2d(outs[-1], 1, 4, 1, 2)))
    return nn.ModuleList(layers)
