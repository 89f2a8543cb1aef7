"""The training on Fashion collages, and what it measures: layouts that are read back, and edits.

Legend: N samples, K labels, F features; images_NCHW in [-1, 1], labels_NHW int64.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from papers.spade.module import Synthesis, in_colour
from papers.spade.segmentation import (
    NUM_LABELS,
    Segmenter,
    confusion,
    layout_loader,
    mean_iou,
    pixel_accuracy,
    split_batch,
)
from shared.evaluation import frechet_distance
from shared.records.base import sha256_of
from shared.records.metrics import first_48_bits

PATCH = (slice(None), slice(13, 16), slice(17, 20))
"""A small edit: no row or column of it is read at the sizes 4 and 8, whose grids are coarser."""


class CollageSynthesis(Synthesis):
    """Synthesis of Fashion collages, read back by the run that `needs` names `segmenter`.

    Rows at `eval_steps`, split test: miou and pixel_accuracy of the layout that the segmenter finds
    in fakes of test collages; fid, of its features; single_label_accuracy, pixels of the layouts
    with a single label that it finds; single_label_difference, the largest change of a pixel by the
    label of such a layout, for one noise, in float64; segmenter_sha256_start, the first 48 bits of
    the digest of its weights. At the last of them also edit_share, the share of all change that
    lies in the item when its label is changed, and, where no norm has statistics of a sample,
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
        file = self.run.artifact("segmenter")
        segmenter = Segmenter.load(file).to(self.device)
        images_NCHW, labels_NHW = self.tests()
        drawn_NHW = labels_NHW[: self.num_fake]
        noise_NZ = self.fixed_noise(len(drawn_NHW))
        with self.sampler() as sample:
            fakes_NCHW = self._drawn(sample, noise_NZ, drawn_NHW)
            singles_NHW = torch.arange(1, self.num_labels, device=self.device)
            singles_NHW = singles_NHW[:, None, None].expand(-1, *drawn_NHW.shape[1:])
            ten = [self._drawn(sample, one.expand(10, -1), singles_NHW) for one in noise_NZ[:10]]
            if self.global_step == max(self.eval_steps):
                self._edit_and_style(sample, noise_NZ[:100], drawn_NHW[:100])
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
        digest = first_48_bits(sha256_of(file))
        self._record("segmenter_sha256_start", digest, "first 48 bits")

    def _record(self, metric: str, value: float | Tensor, unit: str) -> None:
        self.record(metric, value, unit, split="test")

    def _drawn(self, sample: nn.Module, noise_NZ: Tensor, labels_NHW: Tensor) -> Tensor:
        parts = zip(noise_NZ.split(250), labels_NHW.split(250), strict=True)
        return torch.cat([sample(noise, self.encoded(labels)) for noise, labels in parts])

    def _edit_and_style(self, sample: nn.Module, noise_NZ: Tensor, labels_NHW: Tensor) -> None:
        """What a user controls: the style by the noise, a region by its label."""
        before = sample(noise_NZ, self.encoded(labels_NHW))
        edited_NHW = edited(labels_NHW)
        after = sample(noise_NZ, self.encoded(edited_NHW))
        change_NHW = (after - before).abs().sum(1)
        region = edited_NHW != labels_NHW
        self._record("edit_share", change_NHW[region].sum() / change_NHW.sum(), "share of change")
        self._record_reach(sample, noise_NZ, labels_NHW)
        step = f"{self.global_step:06d}"
        rolled = [sample(noise_NZ.roll(k, 0), self.encoded(labels_NHW))[:4] for k in range(5)]
        self._save_picture(f"styles-{step}", self.beside(labels_NHW[:4], *rolled))
        rows = [
            self.beside(labels_NHW[:4], before[:4]),
            self.beside(edited_NHW[:4], after[:4]),
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


def _read(segmenter: Segmenter, images_NCHW: Tensor) -> tuple[Tensor, Tensor]:
    """Features and the label found at each pixel."""
    read = [segmenter(part) for part in images_NCHW.split(250)]
    features, logits = zip(*read, strict=True)
    return torch.cat(features), torch.cat([part.argmax(1) for part in logits])
