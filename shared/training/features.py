"""The training of the classifier whose features measure generated images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from shared.data.loader import ArrayLoader
from shared.evaluation import ImageClassifier
from shared.training.classifier import Classifier
from shared.training.images import image_loader, padded


class _Logits(nn.Module):
    """The classifier as `Classifier` calls it: images of the data set to logits."""

    def __init__(self, network: ImageClassifier) -> None:
        super().__init__()
        self.network = network

    def forward(self, images_NCHW: Tensor) -> Tensor:
        _, logits_NK = self.network(padded(images_NCHW, 32))
        return logits_NK


class FeatureTraining(Classifier):
    """Trains `shared.evaluation.ImageClassifier` with Adam, on images in [-1, 1].

    A paper names it in its `module.py`, trains it as an experiment `features`, and lets its
    generators say `needs: {features: {experiment: features, arm: classifier}}`.

    Args:
        lr: of Adam, constant.
        in_channels, width, num_features, num_classes: see `ImageClassifier`.
    """

    def __init__(
        self,
        lr: float = 1e-3,
        in_channels: int = 1,
        width: int = 16,
        num_features: int = 64,
        num_classes: int = 10,
    ) -> None:
        super().__init__()
        self.lr = lr
        self.net = _Logits(ImageClassifier(in_channels, width, num_features, num_classes))

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.net.parameters(), lr=self.lr)

    def train_dataloader(self) -> ArrayLoader:
        return image_loader(self.run, train=True)

    def val_dataloader(self) -> ArrayLoader:
        return image_loader(self.run, train=False)

    def test_dataloader(self) -> ArrayLoader:
        return image_loader(self.run, train=False)
