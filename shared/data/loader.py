"""Batches of images that lie in memory, with shuffle and augmentation that can be resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

CROP_PADDING = 4  # pixels on each side

Augmentation = Literal["crop", "flip"]


class ArrayLoader:
    """Iterates over (images float32 (B, C, H, W), labels int64 (B,)), standardised and augmented.

        x = (pixel / 255 - mean) / std

    The order of an epoch follows only from (seed, epoch), the augmentation of a batch only from
    (seed, epoch, batch), and both are drawn on the CPU for every device. So a training that is
    resumed in the middle of an epoch sees the same bits as one that was never interrupted.

    Each `iter()` that is used begins the next epoch, except the first after `load_state_dict` or
    `set_epoch`, which begins where these say. Use one iterator at a time.

    Args:
        images_NCHW: uint8 (N, C, H, W). Kept without a copy where `device` is the CPU.
        labels_N: int64 (N,).
        mean: of each channel on the scale 0..1.
        std: of each channel on the scale 0..1.
        batch_size: images a batch; the last one may be smaller unless `drop_last`.
        shuffle: a new order each epoch, else the order of the arrays.
        seed: of the order and of the augmentation.
        augment: `crop`: 4 pixels of zeros around the standardised image (that is of the mean
            colour), then a window of the old size at a random place; `flip`: left to right, in
            half of the images.
        channels_last: images in torch's channels-last memory format.
        device: where the images are kept and the batches made.

    Raises:
        ValueError: shapes, types or settings that do not fit.

    Example:
        >>> import numpy as np
        >>> images = np.zeros((5, 1, 2, 2), np.uint8)
        >>> loader = ArrayLoader(
        ...     images, np.arange(5), mean=[0.5], std=[0.25], batch_size=2, shuffle=False, seed=0
        ... )
        >>> [(x.shape[0], x.mean().item(), y.tolist()) for x, y in loader]
        [(2, -2.0, [0, 1]), (2, -2.0, [2, 3]), (1, -2.0, [4])]
    """

    def __init__(
        self,
        images_NCHW: NDArray[Any],
        labels_N: NDArray[Any],
        *,
        mean: Sequence[float],
        std: Sequence[float],
        batch_size: int,
        shuffle: bool,
        seed: int,
        augment: Sequence[Augmentation] = (),
        drop_last: bool = False,
        channels_last: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        _check_arrays(images_NCHW, labels_N, len(mean), len(std))
        if unknown := set(augment) - {"crop", "flip"}:
            raise ValueError(f"augment: got {sorted(unknown)}, expected of 'crop', 'flip'")
        if batch_size < 1 or (drop_last and batch_size > len(images_NCHW)):
            raise ValueError(
                f"batch_size: got {batch_size}, expected at least 1, and with drop_last at most "
                f"the number of images, {len(images_NCHW)}"
            )
        self.device = torch.device(device)
        self.batch_size = batch_size
        self._images = torch.from_numpy(images_NCHW).to(self.device)
        self._labels = torch.from_numpy(labels_N).to(self.device)
        # In float64 first: pixels stay on 0..255, and only the constants are scaled.
        self._mean = self._per_channel(mean)
        self._std = self._per_channel(std)
        self._shuffle = shuffle
        self._seed = seed
        self._crop = "crop" in augment
        self._flip = "flip" in augment
        self._format = torch.channels_last if channels_last else torch.contiguous_format
        whole, rest = divmod(len(images_NCHW), batch_size)
        self._num_batches = whole if drop_last or not rest else whole + 1
        self._epoch = 0
        self._batch = 0  # batches handed out in this epoch
        self._at_start = True  # the next iterator begins at (_epoch, _batch)

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._num_batches

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        # A generator, so all this happens when the first batch is asked for: Lightning makes
        # iterators that it never uses.
        if not self._at_start:
            self._epoch += 1
            self._batch = 0
        self._at_start = False
        epoch = self._epoch
        order = self._order(epoch)
        for batch in range(self._batch, len(self)):
            # Before the batch is handed out: a checkpoint that is made while it is used counts it.
            self._batch = batch + 1
            yield self._make(order, epoch, batch)

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iterator begin this epoch; a position loaded in this epoch is kept."""
        if not (self._at_start and epoch == self._epoch):
            self.load_state_dict({"epoch": epoch, "batch": 0})

    def state_dict(self) -> dict[str, int]:
        """The position: epoch, and the number of its batches that were handed out."""
        return {"epoch": self._epoch, "batch": self._batch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Makes the next iterator begin at a position; the end of an epoch begins the next."""
        finished, self._batch = divmod(state["batch"], len(self))
        self._epoch = state["epoch"] + finished
        self._at_start = True

    def _per_channel(self, values: Sequence[float]) -> Tensor:
        scaled = torch.tensor(values, dtype=torch.float64) * 255
        return scaled.to(self.device, torch.float32).view(1, -1, 1, 1)

    def _order(self, epoch: int) -> Tensor | None:
        if not self._shuffle:
            return None
        generator = seeded("order", self._seed, epoch)
        return torch.randperm(len(self._images), generator=generator).to(self.device)

    def _make(self, order: Tensor | None, epoch: int, batch: int) -> tuple[Tensor, Tensor]:
        part = slice(batch * self.batch_size, (batch + 1) * self.batch_size)
        if order is None:
            pixels_NCHW = self._images[part]
            labels_N = self._labels[part].clone()  # a batch is the module's to change
        else:
            pixels_NCHW = self._images.index_select(0, order[part])
            labels_N = self._labels.index_select(0, order[part])
        return self._standardise(pixels_NCHW, epoch, batch), labels_N

    def _standardise(self, pixels_NCHW: Tensor, epoch: int, batch: int) -> Tensor:
        """Float32 images of the pixels, augmented where that was asked for."""
        num = len(pixels_NCHW)
        if self._crop or self._flip:
            # Both are drawn, so that one augmentation does not change the draws of the other.
            generator = seeded("augment", self._seed, epoch, batch)
            corner_2N = torch.randint(0, 2 * CROP_PADDING + 1, (2, num), generator=generator)
            flip_N = torch.randint(0, 2, (num,), generator=generator)
        if self._flip:
            pixels_NCHW = flip_some(pixels_NCHW, flip_N.to(self.device))
        x_NCHW = pixels_NCHW.to(torch.float32).sub_(self._mean).div_(self._std)
        if self._crop:
            x_NCHW = crop(x_NCHW, *corner_2N.to(self.device))
        return x_NCHW.contiguous(memory_format=self._format)


def flip_some(x_NCHW: Tensor, flip_N: Tensor) -> Tensor:
    """The images, those where `flip_N` is 1 (and not 0) mirrored left to right.

    Example:
        >>> x_NCHW = torch.tensor([[[[1, 2]]], [[[3, 4]]]])
        >>> flip_some(x_NCHW, torch.tensor([0, 1])).tolist()
        [[[[1, 2]]], [[[4, 3]]]]
    """
    num = len(x_NCHW)
    both_2NCHW = torch.cat([x_NCHW, x_NCHW.flip(3)])
    return both_2NCHW.index_select(0, torch.arange(num, device=flip_N.device) + num * flip_N)


def crop(x_NCHW: Tensor, top_N: Tensor, left_N: Tensor) -> Tensor:
    """A window of the size of the image, out of the image with 4 pixels of zeros on each side.

    Args:
        x_NCHW: images.
        top_N: first row of each window in the padded image, 0..8; 4 is the image itself.
        left_N: first column, likewise.
    """
    num, channels, height, width = x_NCHW.shape
    padded_NCHW = pad(x_NCHW, (CROP_PADDING,) * 4)
    # A row of a window is a stretch of `width` numbers in memory: name where each one starts, and
    # copy them all at once.
    stretches = padded_NCHW.view(-1).unfold(0, width, 1)
    plane_NC1 = torch.arange(num * channels, device=top_N.device).view(num, channels, 1)
    row_H = torch.arange(height, device=top_N.device)
    row_NCH = plane_NC1 * padded_NCHW.shape[2] + top_N[:, None, None] + row_H
    start_NCH = row_NCH * padded_NCHW.shape[3] + left_N[:, None, None]
    return stretches.index_select(0, start_NCH.view(-1)).view(x_NCHW.shape)


def seeded(*key: object) -> torch.Generator:
    """A random stream that follows from `key` alone."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def _check_arrays(
    images_NCHW: NDArray[Any], labels_N: NDArray[Any], num_means: int, num_stds: int
) -> None:
    if images_NCHW.dtype.name != "uint8" or images_NCHW.ndim != 4 or not len(images_NCHW):
        raise ValueError(
            f"images: got {images_NCHW.dtype} {images_NCHW.shape}, expected uint8 (N, C, H, W) "
            "with N at least 1"
        )
    if labels_N.dtype.name != "int64" or labels_N.shape != (len(images_NCHW),):
        raise ValueError(
            f"labels: got {labels_N.dtype} {labels_N.shape}, expected int64 ({len(images_NCHW)},)"
        )
    channels = images_NCHW.shape[1]
    if (num_means, num_stds) != (channels, channels):
        raise ValueError(
            f"mean and std: got {num_means} and {num_stds} values, expected one for each of the "
            f"{channels} channels"
        )
