"""ImageNet from a folder of the user's, who alone may download it (full scale only).

The folder is named by the environment variable RENORM_IMAGENET and holds `train/` and `val/`, with
one folder of images for each class in both.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from timm.data.transforms_factory import create_transform
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from shared.records.base import RecordError

FOLDER_VARIABLE = "RENORM_IMAGENET"
Batch = tuple[torch.Tensor, torch.Tensor]


def imagenet_folder() -> Path:
    """The user's folder of images.

    Raises:
        RecordError: the variable is not set, or the folder lacks `train/` or `val/`.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        raise RecordError(
            f"{FOLDER_VARIABLE} is not set. ImageNet may not be downloaded for you: get it from "
            "https://image-net.org, unpack it to FOLDER/train/CLASS/*.JPEG and "
            f"FOLDER/val/CLASS/*.JPEG, and set {FOLDER_VARIABLE}=FOLDER."
        )
    for split in ("train", "val"):
        if not (Path(named) / split).is_dir():
            raise RecordError(
                f"{FOLDER_VARIABLE}={named}: got no folder {split!r} in it, expected `train` and "
                "`val`, each with one folder of images for each class."
            )
    return Path(named)


@dataclass(frozen=True)
class ImageNet:
    """Loaders of the folder: a random crop and a flip in training, else the central crop.

    Images are standardised with ImageNet's mean and standard deviation. They are read by worker
    processes, so a training on them does not continue with the same bits after it was killed.

    Args:
        batch_size: images in one step.
        image_size: side of the crops in pixels; the central crop is 0.875 of the scaled image.
        num_workers: processes that decode images.
        eval_batch_size: images in one step of a test; None: `batch_size`.

    Raises:
        RecordError: the folder of images is not there.
    """

    batch_size: int
    image_size: int = 224
    num_workers: int = 8
    eval_batch_size: int | None = None
    folder: Path = field(default_factory=imagenet_folder)

    @property
    def num_classes(self) -> int:
        return sum(path.is_dir() for path in (self.folder / "train").iterdir())

    def loader(self, split: Literal["train", "val"], device: torch.device) -> DataLoader[Batch]:
        """Batches (images_NCHW, labels_N); `device` is where the module will move them to."""
        training = split == "train"
        transform = create_transform(
            self.image_size,
            is_training=training,
            color_jitter=0.0,
            interpolation="bilinear",
            crop_pct=0.875,
        )
        return DataLoader(
            ImageFolder(str(self.folder / split), transform),
            batch_size=self.batch_size if training else self.eval_batch_size or self.batch_size,
            shuffle=training,
            drop_last=training,
            num_workers=self.num_workers,
            pin_memory=device.type == "cuda",
            persistent_workers=self.num_workers > 0,
        )
