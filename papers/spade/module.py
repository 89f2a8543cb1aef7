"""The trainings of the paper: a generator that draws layouts, and a critic that sees them, too.

Legend: N samples, K labels; images_NCHW in [-1, 1], labels_NHW int64, map_NKHW one-hot.
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import l1_loss, one_hot
from torch.nn.utils import parametrize

from papers.spade.losses import PerceptualLoss, feature_matching
from papers.spade.method import Base, Method
from papers.spade.model import Generator, PatchCritic
from papers.spade.segmentation import NUM_LABELS, split_batch
from shared.training.adversarial import GRID, GRID_SEED, Adversarial


class Synthesis(Adversarial):
    """Images from label maps: hinge loss, and any of L1, feature matching and perceptual loss.

    A batch's images have the label map as their last channel.

    Args:
        method, base, source, channels, sizes, hidden, aspect: see `Generator`.
        num_labels: K.
        image_channels: of the images.
        critic_width, critic_layers, critic_scales: see `PatchCritic`.
        l1, matching, perceptual: weights of the generator's other losses; 0 is none.
        game: see `Adversarial`.
    """

    generator: Generator

    def __init__(
        self,
        method: Method,
        channels: Sequence[int],
        sizes: Sequence[int],
        base: Base = "batch",
        source: Literal["noise", "map"] = "noise",
        hidden: int = 128,
        aspect: int = 1,
        num_labels: int = NUM_LABELS,
        image_channels: int = 1,
        critic_width: int = 64,
        critic_layers: int = 4,
        critic_scales: int = 1,
        l1: float = 0.0,
        matching: float = 0.0,
        perceptual: float = 0.0,
        **game: Any,
    ) -> None:
        super().__init__(loss="hinge", **game)
        self.base, self.num_labels = base, num_labels
        self.l1, self.matching, self.perceptual = l1, matching, perceptual
        self.generator = Generator(
            method, base, source, channels, sizes, num_labels, image_channels, self.noise_size,
            hidden, aspect,
        )  # fmt: skip
        self.critic = PatchCritic(
            image_channels + num_labels, critic_width, critic_layers, critic_scales
        )
        for layer in (*self.generator.modules(), *self.critic.modules()):
            _glorot(layer)
        # In a list, so that its weights are no part of the module's.
        self._perceptual = [PerceptualLoss()] if perceptual else []

    def encoded(self, labels_NHW: Tensor) -> Tensor:
        """The one-hot map (N, K, H, W)."""
        return one_hot(labels_NHW, self.num_labels).movedim(3, 1).float()

    def real(self, batch: Any) -> Tensor:
        return split_batch(batch)[0]

    def generate(self, noise_NZ: Tensor, batch: Any) -> Tensor:
        return self.generator(noise_NZ, self.encoded(split_batch(batch)[1]))

    def judged(self, images_NCHW: Tensor, batch: Any) -> list[list[Tensor]]:
        """What the critic's layers make of images beside their map, scale by scale."""
        map_NKHW = self.encoded(split_batch(batch)[1])
        copies = len(images_NCHW) // len(map_NKHW)
        return self.critic(torch.cat([images_NCHW, map_NKHW.repeat(copies, 1, 1, 1)], 1))

    def critic_loss(self, real_NCHW: Tensor, fake_NCHW: Tensor, batch: Any) -> Tensor:
        # Real images and fakes in one forward, so that they meet the same statistics.
        both = self.judged(torch.cat([real_NCHW, fake_NCHW]), batch)
        losses = [self.loss.critic(*scale[-1].chunk(2)) for scale in both]
        return torch.stack(losses).mean()

    def generator_loss(self, fake_NCHW: Tensor, batch: Any) -> Tensor:
        real_NCHW = self.real(batch)
        if self.matching:
            both = self.judged(torch.cat([fake_NCHW, real_NCHW]), batch)
            halves = [[layer.chunk(2) for layer in scale] for scale in both]
            fake, real = ([[layer[k] for layer in scale] for scale in halves] for k in (0, 1))
        else:
            fake, real = self.judged(fake_NCHW, batch), []
        loss = torch.stack([self.loss.generator(scale[-1]) for scale in fake]).mean()
        if self.matching:
            loss = loss + self.matching * feature_matching(fake, real)
        if self.l1:
            loss = loss + self.l1 * l1_loss(fake_NCHW, real_NCHW)
        if self._perceptual:
            term = self._perceptual[0].to(self.device)(fake_NCHW, real_NCHW)
            loss = loss + self.perceptual * term
        return loss

    def shown(self) -> Any:
        """The batch of the test set whose layouts are drawn."""
        raise NotImplementedError

    @torch.no_grad()
    def grid(self) -> Tensor:
        """Layouts beside what is drawn of them, of a noise fixed for all arms, seeds and steps."""
        labels_NHW = split_batch(self.shown())[1][: GRID[0] * GRID[1] // 2]
        noise_NZ = self.fixed_noise(len(labels_NHW), GRID_SEED)
        with self.sampler() as sample:
            return self.beside(labels_NHW, sample(noise_NZ, self.encoded(labels_NHW)))

    def real_grid(self) -> Tensor:
        images_NCHW, labels_NHW = split_batch(self.shown())
        num = GRID[0] * GRID[1] // 2
        return self.beside(labels_NHW[:num], images_NCHW[:num])

    def beside(self, labels_NHW: Tensor, *images: Tensor) -> Tensor:
        """Layouts in colour, each followed by its images, all with three channels."""
        columns = [coloured(labels_NHW, self.num_labels), *(in_colour(image) for image in images)]
        return torch.stack(columns, 1).flatten(0, 1)


def coloured(labels_NHW: Tensor, num_labels: int) -> Tensor:
    """Layouts (N, 3, H, W) in [-1, 1]: 0 is black, the others have hues that are far apart."""
    hues = [colorsys.hsv_to_rgb(k * 0.618 % 1, 0.75, 0.95) for k in range(1, num_labels)]
    palette = torch.tensor([(0.0, 0.0, 0.0), *hues], device=labels_NHW.device) * 2 - 1
    return palette[labels_NHW].movedim(3, 1)


def in_colour(images_NCHW: Tensor) -> Tensor:
    """Grey images with three equal channels."""
    return images_NCHW.expand(-1, 3, -1, -1)


def _glorot(layer: nn.Module) -> None:
    """Glorot's normal initialisation, as in the paper."""
    if isinstance(layer, (nn.Conv2d, nn.Linear)):
        raw: Any = layer
        divided = parametrize.is_parametrized(layer)
        nn.init.xavier_normal_(raw.parametrizations.weight.original if divided else raw.weight)
        if raw.bias is not None:
            nn.init.zeros_(raw.bias)
