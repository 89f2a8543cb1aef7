"""The segmenter that reads a layout back from an image, its training, and the measures.

Legend: N samples, K labels, F features; images_NCHW in [-1, 1], labels_NHW int64.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate

from shared.data.loader import ArrayLoader
from shared.norms import BatchNorm2d
from shared.training.loaders import array_loader
from shared.training.module import PaperModule
from shared.training.run_context import Run

NUM_LABELS = 11


def confusion(
    found_NHW: Tensor, labels_NHW: Tensor, num_labels: int, ignore: int | None = None
) -> Tensor:
    """Pixels by their label (rows) and by what was found there (columns).

    Args:
        ignore: pixels with this label are not counted. A data set whose unlabelled pixels are
            counted as wrong has another pixel accuracy.

    Shape: (K, K) int64.

    Example:
        >>> confusion(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 2]), 2, ignore=2).tolist()
        [[1, 1], [0, 0]]
    """
    counted = torch.ones_like(labels_NHW, dtype=torch.bool)
    if ignore is not None:
        counted = labels_NHW != ignore
    pairs = labels_NHW[counted] * num_labels + found_NHW[counted]
    return pairs.bincount(minlength=num_labels**2).view(num_labels, num_labels)


def mean_iou(confusion_KK: Tensor) -> float:
    """Mean of |both| / |either| over the labels that occur, in percent.

    Example:
        >>> mean_iou(torch.tensor([[3, 0, 0], [1, 0, 0], [0, 0, 0]]))
        37.5
    """
    both = confusion_KK.diagonal().double()
    either = confusion_KK.sum(0) + confusion_KK.sum(1) - both
    return float(100 * (both / either)[either > 0].mean())


def pixel_accuracy(confusion_KK: Tensor) -> float:
    """Pixels whose label was found, in percent of those counted.

    Example:
        >>> pixel_accuracy(torch.tensor([[2, 0], [1, 1]]))
        75.0
    """
    return float(100 * confusion_KK.diagonal().sum() / confusion_KK.sum())


class Segmenter(nn.Module):
    """Three strided convolutions down and three back, each beside what it was made of.

    The means over the positions of the innermost maps are the features.

    Args:
        width: channels of the first convolution, doubled by each of the next two.

    Shape: (N, 1, H, W), H and W divisible by 8 -> features (N, 4 width), logits (N, K, H, W).
    """

    name = "segmenter"

    def __init__(self, width: int = 16, num_labels: int = NUM_LABELS) -> None:
        super().__init__()
        sizes = (1, width, 2 * width, 4 * width)
        self.downs = nn.ModuleList(
            _layer(c_in, c_out, 4, stride=2) for c_in, c_out in pairwise(sizes)
        )
        outs = (width, width, 2 * width, 4 * width)
        self.ups = nn.ModuleList(
            _layer(outs[level + 1] + sizes[level], outs[level], 3, stride=1) for level in (2, 1, 0)
        )
        self.classify = nn.Conv2d(width, num_labels, 1)

    def forward(self, images_NCHW: Tensor) -> tuple[Tensor, Tensor]:
        x, beside = images_NCHW, []
        for down in self.downs:
            beside.append(x)
            x = down(x)
        features_NF = x.mean((2, 3))
        for up in self.ups:
            x = interpolate(x, scale_factor=2.0, mode="nearest")
            x = up(torch.cat([x, beside.pop()], 1))
        return features_NF, self.classify(x)

    @classmethod
    def load(cls, file: Path) -> Segmenter:
        """The segmenter whose weights a training left in a safetensors file, in eval mode."""
        weights = {name.removeprefix("net."): value for name, value in load_file(file).items()}
        network = cls(len(weights["downs.0.0.weight"]), len(weights["classify.weight"]))
        network.load_state_dict(weights)
        return network.eval().requires_grad_(False)


def _layer(c_in: int, c_out: int, kernel: int, stride: int) -> nn.Sequential:
    conv = nn.Conv2d(c_in, c_out, kernel, stride, padding=1, bias=False)
    return nn.Sequential(conv, BatchNorm2d(c_out), nn.ReLU())


def split_batch(batch: Any) -> tuple[Tensor, Tensor]:
    """Images (N, C, H, W) and labels (N, H, W) of a batch whose last channel is the label map."""
    return batch[0][:, :-1], batch[0][:, -1].long()


def layout_loader(run: Run, *, train: bool) -> ArrayLoader:
    """Images on [-1, 1] with their label map as the last channel, whose pixels stay whole numbers.

    In training shuffled, without the last, smaller batch.
    """
    return array_loader(run, train=train, mean=(0.5, 0.0), std=(0.5, 1 / 255), drop_last=train)


class SegmenterTraining(PaperModule):
    """Trains `Segmenter` on real collages with Adam.

    Rows: train_loss (nats), at the end of split test: miou and pixel_accuracy of the collages, and
    single_label_accuracy of the layouts with one label (percent of pixels). They are what a perfect
    generator could reach.

    Args:
        lr: of Adam, falling linearly to 0.
        width: see `Segmenter`.
    """

    def __init__(self, lr: float = 2e-3, width: int = 16) -> None:
        super().__init__()
        self.lr = lr
        self.net = Segmenter(width)
        self._found: list[tuple[Tensor, Tensor, Tensor]] = []

    def training_step(self, batch: Any, _: int) -> Tensor:
        images_NCHW, labels_NHW = split_batch(batch)
        _, logits_NKHW = self.net(images_NCHW)
        loss = cross_entropy(logits_NKHW, labels_NHW)
        self.record_mean("train_loss", loss, "nats")
        return loss

    def test_step(self, batch: Any, _: int) -> None:
        images_NCHW, labels_NHW = split_batch(batch)
        _, logits_NKHW = self.net(images_NCHW)
        self._found.append((logits_NKHW.argmax(1), labels_NHW, batch[1]))

    def on_test_epoch_end(self) -> None:
        found_NHW, labels_NHW, single_N = map(torch.cat, zip(*self._found, strict=True))
        collage_N = single_N == 0
        counts = confusion(found_NHW[collage_N], labels_NHW[collage_N], NUM_LABELS)
        single = confusion(found_NHW[~collage_N], labels_NHW[~collage_N], NUM_LABELS)
        self.record("miou", mean_iou(counts), "percent", split="test")
        self.record("pixel_accuracy", pixel_accuracy(counts), "percent", split="test")
        self.record("single_label_accuracy", pixel_accuracy(single), "percent", split="test")

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.Adam(self.net.parameters(), lr=self.lr)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
        return {
            "optimizer": optimiser,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def train_dataloader(self) -> ArrayLoader:
        return layout_loader(self.run, train=True)

    def test_dataloader(self) -> ArrayLoader:
        return layout_loader(self.run, train=False)
