"""Images as generators and critics want them: pixels on [-1, 1], padded to a square of 32 or so."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from shared.data.loader import ArrayLoader
from shared.evaluation.network import to_pixels
from shared.training.loaders import array_loader
from shared.training.run_context import Run


def image_loader(run: Run, *, train: bool) -> ArrayLoader:
    """The experiment's images on [-1, 1]; in training shuffled, without the last, smaller batch."""
    middle = [0.5] * run.dataset().array("train_images").shape[1]
    return array_loader(run, train=train, mean=middle, std=middle, drop_last=train)


def padded(images_NCHW: Tensor, size: int) -> Tensor:
    """Images with black (-1) around them, so that both sides are `size`.

    Raises:
        ValueError: the images are larger, or cannot be in the middle.

    Example:
        >>> padded(torch.ones(1, 1, 28, 28), 32)[0, 0, :3, 2].tolist()
        [-1.0, -1.0, 1.0]
    """
    height, width = images_NCHW.shape[-2:]
    if max(height, width) > size or (size - height) % 2 or (size - width) % 2:
        raise ValueError(f"got images of {height}x{width}, expected at most {size}, and both even")
    rows, columns = (size - height) // 2, (size - width) // 2
    return pad(images_NCHW, (columns, columns, rows, rows), value=-1.0)


def tiled(images_NCHW: Tensor, columns: int) -> Tensor:
    """One picture of many images, row by row, with black in places that are left over.

    Shape: (N, C, H, W) on [-1, 1] -> (rows H, columns W) uint8 for one channel, else with a last
    dimension of C.

    Example:
        >>> tiled(torch.tensor([-1.0, 1.0, 1.0]).view(3, 1, 1, 1), columns=2).tolist()
        [[0, 255], [255, 0]]
    """
    num, channels, height, width = images_NCHW.shape
    missing = -num % columns
    black = images_NCHW.new_full((missing, channels, height, width), -1.0)
    whole = torch.cat([images_NCHW, black]).view(-1, columns, channels, height, width)
    picture_HWC = whole.permute(0, 3, 1, 4, 2).reshape(-1, columns * width, channels)
    pixels = to_pixels(picture_HWC)
    return pixels.squeeze(2) if channels == 1 else pixels
