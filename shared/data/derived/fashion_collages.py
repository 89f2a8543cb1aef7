"""Collages of Fashion-MNIST whose layout is known exactly, for synthesis from label maps.

`train_images` and `test_images` (N, 2, 32, 32): channel 0 is the grey image, channel 1 its label
map, so that whatever cuts or mirrors an image takes its map along. A pixel's label is 0 for the
black canvas and 1 + class for an item.

Three of four examples are collages: 2 to 4 items, halved to 14x14, lie at random places, the later
over the earlier; an item is where it is brighter than `SILHOUETTE`. Every fourth example has a
single label: one whole item of 28x28 in the middle, and its label at every pixel.
`train_labels` and `test_labels` hold that label, and 0 for a collage.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.data.formats import Arrays
from shared.data.load import PreparedData

SIZES = {"train": 8_000, "test": 2_000}
SIDE = 32
MOST_ITEMS = 4
SINGLE_EVERY = 4
SILHOUETTE = 15  # of 255: the cloth of dark clothes is brighter, the noise around them is not


def make(source: PreparedData) -> Arrays:
    """The collages: training ones of training items, test ones of test items."""
    arrays: dict[str, NDArray[np.uint8] | NDArray[np.int64]] = {}
    for split, num in SIZES.items():
        whole_NHW = source.array(f"{split}_images")[:, 0]
        classes_N = source.array(f"{split}_labels")
        random = np.random.Generator(np.random.Philox(key=len(arrays)))
        images, labels = collages(whole_NHW, classes_N, num, random)
        arrays[f"{split}_images"], arrays[f"{split}_labels"] = images, labels
    num_classes = source.manifest.num_classes
    assert num_classes is not None
    return Arrays(arrays, num_classes + 1)


def collages(
    whole_NHW: NDArray[Any], classes_N: NDArray[Any], num: int, random: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Examples (num, 2, 32, 32) and the single label of each, 0 for a collage."""
    images = np.zeros((num, 2, SIDE, SIDE), np.uint8)
    labels = np.zeros(num, np.int64)
    for index, image in enumerate(images):
        chosen = random.integers(0, len(whole_NHW), MOST_ITEMS)
        corners = random.integers(0, SIDE - 14 + 1, (MOST_ITEMS, 2))
        count = random.integers(2, MOST_ITEMS + 1)
        if index % SINGLE_EVERY == 0:
            labels[index] = 1 + classes_N[chosen[0]]
            image[0, 2:-2, 2:-2] = whole_NHW[chosen[0]]
            image[1] = labels[index]
            continue
        for item, (top, left) in zip(chosen[:count], corners[:count], strict=True):
            small_HW = halved(whole_NHW[item])
            place = np.s_[top : top + 14, left : left + 14]
            cloth = small_HW > SILHOUETTE
            image[0][place][cloth] = small_HW[cloth]
            image[1][place][cloth] = 1 + classes_N[item]
    return images, labels


def halved(image_HW: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Half the size: the rounded mean of each square of four pixels.

    Example:
        >>> halved(np.array([[0, 1], [0, 1]], np.uint8)).tolist()
        [[1]]
    """
    height, width = image_HW.shape
    fours = image_HW.reshape(height // 2, 2, width // 2, 2).astype(np.uint16)
    return ((fours.sum((1, 3)) + 2) // 4).astype(np.uint8)
