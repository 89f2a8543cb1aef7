"""The trainings of the paper: a generator that draws layouts, and a critic that sees them, too.

Legend: N samples, K labels; images_NCHW in [-1, 1], labels_NHW int64, map_NKHW one-hot.
"""

from __future__ import annotations

import colorsys
import copy
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import l1_loss, one_hot
from torch.nn.utils import parametrize

from papers.spade.losses import PerceptualLoss, feature_matching
from papers.spade.method import BASES, METHODS, Base, Method
from papers.spade.model import Generator, PatchCritic
from papers.spade.segmentation import (
    NUM_LABELS,
    Segmenter,
    SegmenterTraining,
    confusion,
    layout_loader,
    mean_iou,
    pixel_accuracy,
    split_batch,
)
from shared.evaluation import frechet_distance
from shared.records.base import sha256_of
from shared.training.adversarial import FIXED_SEED, GRID, Adversarial

__all__ = ["CollageSynthesis", "SegmenterTraining", "Synthesis"]

PATCH = (slice(None), slice(13, 16), slice(17, 20))
"""A small edit: no row or column of it is read at the sizes 4 and 8, whose grids are coarser."""


class Synthesis(Adversarial):
    """Images from label maps: hinge loss, and any of L1, feature matching and perceptual loss.

    A batch's images have the label map as their last channel.

    Args:
        method, base, source, channels, sizes, hidden, aspect: see `Generator`.
        num_labels: K.
        image_channels: of the images.
        critic_width, critic_layers, critic_scales: see `PatchCritic`.
        l1, matching, perceptual: weights of the generator's other losses; 0 is none.
        decay_from: share of the training after which both learning rates fall linearly to 0.
        game: see `Adversarial`.

    Raises: ValueError for a method or norm that there is not.
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
        decay_from: float = 1.0,
        **game: Any,
    ) -> None:
        if method not in METHODS or base not in BASES:
            raise ValueError(
                f"got method {method!r} and base {base!r}, expected of {', '.join(METHODS)} and "
                f"of {', '.join(BASES)}"
            )
        super().__init__(loss="hinge", **game)
        self.base, self.num_labels, self.decay_from = base, num_labels, decay_from
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

    def rate(self, step: int) -> float:
        """1, then linear to 0 from `decay_from` of the training on."""
        trainer = self.run.settings.trainer
        assert trainer is not None
        if self.decay_from >= 1:
            return 1.0
        if trainer.max_steps:
            progress = step / trainer.max_steps
        else:
            assert trainer.max_epochs
            progress = self.current_epoch / trainer.max_epochs
        return min(1.0, (1 - progress) / (1 - self.decay_from))

    def shown(self) -> Any:
        """The batch of the test set whose layouts are drawn."""
        raise NotImplementedError

    @torch.no_grad()
    def grid(self) -> Tensor:
        """Layouts beside what is drawn of them, of a noise fixed for all arms, seeds and steps."""
        labels_NHW = split_batch(self.shown())[1][: GRID[0] * GRID[1] // 2]
        noise_NZ = self.noise(len(labels_NHW), torch.Generator().manual_seed(FIXED_SEED))
        with self.sampler() as sample:
            return self._beside(labels_NHW, sample(noise_NZ, self.encoded(labels_NHW)))

    def real_grid(self) -> Tensor:
        images_NCHW, labels_NHW = split_batch(self.shown())
        num = GRID[0] * GRID[1] // 2
        return self._beside(labels_NHW[:num], images_NCHW[:num])

    def _beside(self, labels_NHW: Tensor, *images: Tensor) -> Tensor:
        """Layouts in colour, each followed by its images, all with three channels."""
        columns = [coloured(labels_NHW, self.num_labels), *(in_colour(image) for image in images)]
        return torch.stack(columns, 1).flatten(0, 1)


class CollageSynthesis(Synthesis):
    """Synthesis of Fashion collages, read back by the run that `needs` names `segmenter`.

    Rows at `eval_steps`, split test: miou and pixel_accuracy of the layout that the segmenter finds
    in fakes of test collages; fid, of its features; single_label_accuracy, pixels of the layouts
    with a single label that it finds; single_label_difference, the largest change of a pixel by the
    label of such a layout, for one noise, in float64; segmenter_sha256_start, the first 48 bits of
    the digest of its weights. At the last of them also num_parameters of the generator,
    style_deviation of a pixel in an item over noises, edit_share, the share of all change that lies
    in the item when its label is changed, and, where no norm has statistics of a sample,
    edit_outside_reach, the largest change outside of the receptive field of a small edit, and
    reach_share, the share of pixels in that field. Pictures then: styles-STEP.png, edits-STEP.png.

    Args: see `Synthesis`; num_fake counts collages.
    """

    def train_dataloader(self) -> Any:
        return layout_loader(self.run, train=True)

    def test_dataloader(self) -> Any:
        return layout_loader(self.run, train=False)

    def shown(self) -> Any:
        return next(iter(self.test_dataloader()))

    def tests(self) -> tuple[Tensor, Tensor]:
        """Images and labels of the test collages; the layouts with a single label left out."""
        batches = list(self.test_dataloader())
        whole = torch.cat([batch[0][batch[1] == 0] for batch in batches])
        return split_batch((whole, None))

    @torch.no_grad()
    def evaluate(self) -> None:
        # A network draws weights when it is made; the training has to go on as if it did not.
        with torch.random.fork_rng(devices=[]):
            file = self.run.artifact("segmenter")
            segmenter = Segmenter.load(file).to(self.device)
        images_NCHW, labels_NHW = self.tests()
        drawn_NHW = labels_NHW[: self.num_fake]
        fixed = torch.Generator().manual_seed(FIXED_SEED - 1)
        noise_NZ = self.noise(len(drawn_NHW), fixed)
        with self.sampler() as sample:
            fakes_NCHW = self._drawn(sample, noise_NZ, drawn_NHW)
            singles_NHW = torch.arange(1, self.num_labels, device=self.device)
            singles_NHW = singles_NHW[:, None, None].expand(-1, *drawn_NHW.shape[1:])
            ten = [self._drawn(sample, one.expand(10, -1), singles_NHW) for one in noise_NZ[:10]]
            if self.global_step == max(self.eval_steps):
                self._edit_and_style(sample, noise_NZ, drawn_NHW)
            exact = copy.deepcopy(sample).double()
            one = noise_NZ[:1].double().expand(10, -1)
            same_NCHW = exact(one, self.encoded(singles_NHW).double())
        fake_NF, found_NHW = _read(segmenter, fakes_NCHW)
        real_NF, _ = _read(segmenter, images_NCHW)
        _, single_NHW = _read(segmenter, torch.cat(ten))
        unit = f"percent (segmenter, {len(drawn_NHW)} fakes)"
        counts = confusion(found_NHW, drawn_NHW, self.num_labels)
        self._record("miou", mean_iou(counts), unit)
        self._record("pixel_accuracy", pixel_accuracy(counts), unit)
        single = confusion(single_NHW, singles_NHW.repeat(len(ten), 1, 1), self.num_labels)
        unit = f"percent (segmenter, {len(single_NHW)} fakes)"
        self._record("single_label_accuracy", pixel_accuracy(single), unit)
        distance = (same_NCHW - same_NCHW[:1]).abs().max()
        self._record("single_label_difference", distance, "of a range of 2")
        if fake_NF.isfinite().all():
            unit = f"FID (segmenter, {len(fake_NF)} fake : {len(real_NF)} real)"
            self._record("fid", frechet_distance(real_NF, fake_NF), unit)
        digest = float(int(sha256_of(file)[:12], 16))
        self._record("segmenter_sha256_start", digest, "first 48 bits")

    def _record(self, metric: str, value: float | Tensor, unit: str) -> None:
        self.record(metric, value, unit, split="test")

    def _drawn(self, sample: nn.Module, noise_NZ: Tensor, labels_NHW: Tensor) -> Tensor:
        parts = zip(noise_NZ.split(250), labels_NHW.split(250), strict=True)
        return torch.cat([sample(noise, self.encoded(labels)) for noise, labels in parts])

    def _edit_and_style(self, sample: nn.Module, noise_NZ: Tensor, labels_NHW: Tensor) -> None:
        """What a user controls: the style by the noise, a region by its label."""
        num = sum(parameter.numel() for parameter in self.generator.parameters())
        self._record("num_parameters", num, "parameters")
        labels_NHW, noise_NZ = labels_NHW[:100], noise_NZ[:100]
        before = sample(noise_NZ, self.encoded(labels_NHW))
        edited_NHW = edited(labels_NHW)
        after = sample(noise_NZ, self.encoded(edited_NHW))
        change_NHW = (after - before).abs().sum(1)
        region = edited_NHW != labels_NHW
        self._record("edit_share", change_NHW[region].sum() / change_NHW.sum(), "share of change")
        rolled = [sample(noise_NZ.roll(k, 0), self.encoded(labels_NHW)) for k in range(5)]
        deviation_NHW = torch.stack(rolled).std(0).sum(1)
        style = deviation_NHW[labels_NHW > 0].mean()
        self._record("style_deviation", style, "of a range of 2")
        self._record_reach(sample, noise_NZ, labels_NHW)
        step = f"{self.global_step:06d}"
        styles = self._beside(labels_NHW[:4], *(image[:4] for image in rolled))
        self._save_picture(f"styles-{step}", styles)
        rows = [
            self._beside(labels_NHW[:4], before[:4]),
            self._beside(edited_NHW[:4], after[:4]),
            torch.stack([in_colour(2 * region[:4, None].float() - 1),
                         in_colour(change_NHW[:4, None] - 1)], 1).flatten(0, 1),
        ]  # fmt: skip
        pairs = [row.view(4, 2, *row.shape[1:]) for row in rows]
        self._save_picture(f"edits-{step}", torch.cat(pairs, 1).flatten(0, 1))

    def _record_reach(self, sample: nn.Module, noise_NZ: Tensor, labels_NHW: Tensor) -> None:
        if self.base != "batch":  # the others have statistics of the sample: all can change
            return
        changed_NHW = torch.zeros_like(labels_NHW, dtype=torch.bool)
        changed_NHW[PATCH] = True
        other_NHW = torch.where(changed_NHW, labels_NHW % (self.num_labels - 1) + 1, labels_NHW)
        exact: Any = copy.deepcopy(sample).double()
        noise_NZ = noise_NZ.double()
        before, after = (
            exact(noise_NZ, self.encoded(labels).double()) for labels in (labels_NHW, other_NHW)
        )
        reached_NHW = exact.reach(changed_NHW)
        change_NHW = (after - before).abs().sum(1)
        outside = change_NHW.masked_fill(reached_NHW, 0).max()
        self._record("edit_outside_reach", outside, "of a range of 2")
        self._record("reach_share", reached_NHW.double().mean(), "share of pixels")


def edited(labels_NHW: Tensor) -> Tensor:
    """Layouts with the items of one label, the highest there is, as the next of the ten labels.

    Example:
        >>> edited(torch.tensor([[[0, 3, 10]], [[0, 3, 4]]])).tolist()
        [[[0, 3, 1]], [[0, 3, 5]]]
    """
    highest_N11 = labels_NHW.amax((1, 2), keepdim=True)
    return torch.where(labels_NHW == highest_N11, highest_N11 % (NUM_LABELS - 1) + 1, labels_NHW)


def coloured(labels_NHW: Tensor, num_labels: int) -> Tensor:
    """Layouts (N, 3, H, W) in [-1, 1]: 0 is black, the others have hues that are far apart."""
    hues = [colorsys.hsv_to_rgb(k * 0.618 % 1, 0.75, 0.95) for k in range(1, num_labels)]
    palette = torch.tensor([(0.0, 0.0, 0.0), *hues], device=labels_NHW.device) * 2 - 1
    return palette[labels_NHW].movedim(3, 1)


def in_colour(images_NCHW: Tensor) -> Tensor:
    """Grey images with three equal channels."""
    return images_NCHW.expand(-1, 3, -1, -1)


def _read(segmenter: Segmenter, images_NCHW: Tensor) -> tuple[Tensor, Tensor]:
    """Features and the label found at each pixel."""
    read = [segmenter(part) for part in images_NCHW.split(250)]
    features, logits = zip(*read, strict=True)
    return torch.cat(features), torch.cat([part.argmax(1) for part in logits])


def _glorot(layer: nn.Module) -> None:
    """Glorot's normal initialisation, as in the paper."""
    if isinstance(layer, (nn.Conv2d, nn.Linear)):
        raw: Any = layer
        divided = parametrize.is_parametrized(layer)
        nn.init.xavier_normal_(raw.parametrizations.weight.original if divided else raw.weight)
        if raw.bias is not None:
            nn.init.zeros_(raw.bias)
