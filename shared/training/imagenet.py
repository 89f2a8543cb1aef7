"""Modules that are trained on a folder of ImageNet (full scale only)."""

from __future__ import annotations

from torch.utils.data import DataLoader

from shared.data.imagenet import Batch, ImageNet
from shared.training.run_context import Run


class OnImageNet:
    """The loaders of a module that is trained on a folder of ImageNet; stands before its base.

    A subclass sets `self.images` in `__init__`.
    """

    run: Run
    images: ImageNet

    def train_dataloader(self) -> DataLoader[Batch]:
        return self.images.loader("train", self.run.device)

    def val_dataloader(self) -> DataLoader[Batch]:
        return self.images.loader("val", self.run.device)

    def test_dataloader(self) -> DataLoader[Batch]:
        return self.images.loader("val", self.run.device)
