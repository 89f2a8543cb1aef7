"""All measures of a set of fakes against fixed real images, with what they depend on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from shared.evaluation.distance import frechet_distance, kernel_distance
from shared.evaluation.network import Network
from shared.evaluation.scores import classifier_score, precision_recall


class Measured(NamedTuple):
    """A number whose unit names the network and the numbers of samples."""

    metric: str
    value: float
    unit: str


class ImageQuality:
    """FID, KID, classifier score, precision and recall against fixed real images.

    The features of the real images are computed once. Each number's unit says what it depends on,
    e.g. `FID (classifier, 2000 fake : 5000 real)`.

    Args:
        network: gives features and logits.
        real_NCHW: real images in [-1, 1], on the network's device.
        splits: of the classifier score.
        batch_size: images that the network sees at once.
    """

    def __init__(
        self, network: Network, real_NCHW: Tensor, *, splits: int = 1, batch_size: int = 500
    ) -> None:
        self.network = network
        self.splits = splits
        self.batch_size = batch_size
        self.real_MF, _ = self.see(real_NCHW)

    @torch.no_grad()
    def see(self, images_NCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits of images."""
        seen = [self.network(part) for part in images_NCHW.split(self.batch_size)]
        features, logits = zip(*seen, strict=True)
        return torch.cat(features), torch.cat(logits)

    def measure(self, fake_NCHW: Tensor) -> Iterator[Measured]:
        """Every measure of the fakes; NaN where the fakes are not finite."""
        counts = f"({self.network.name}, {len(fake_NCHW)} fake : {len(self.real_MF)} real)"
        names = {
            "fid": f"FID {counts}",
            "kid": f"KID {counts}",
            "classifier_score": f"score ({self.network.name}, {len(fake_NCHW)} fake)",
            "precision": f"share {counts}",
            "recall": f"share {counts}",
        }
        values = self._values(fake_NCHW) if fake_NCHW.isfinite().all() else [math.nan] * len(names)
        for (metric, unit), value in zip(names.items(), values, strict=True):
            yield Measured(metric, value, unit)

    def _values(self, fake_NCHW: Tensor) -> list[float]:
        fake_NF, logits_NK = self.see(fake_NCHW)
        return [
            frechet_distance(self.real_MF, fake_NF),
            kernel_distance(self.real_MF, fake_NF),
            classifier_score(logits_NK, self.splits),
            *precision_recall(self.real_MF, fake_NF),
        ]
