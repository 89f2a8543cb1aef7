"""Collages of Fashion-MNIST: the layout is exactly what was put there."""

from __future__ import annotations

import numpy as np

from shared.data.derived.fashion_collages import SILHOUETTE, collages, halved


def items(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Items of one grey level each, which tells which one a pixel is of."""
    generator = np.random.default_rng(seed)
    classes = generator.integers(0, 10, 50)
    images = np.zeros((50, 28, 28), np.uint8)
    images[:, 4:24, 8:20] = np.arange(50)[:, None, None] * 4 + 40
    return images, classes


def make(num: int, key: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return collages(*items(), num, np.random.Generator(np.random.Philox(key=key)))


def test_every_pixel_has_the_label_of_what_is_seen_there() -> None:
    images, labels = make(40)
    _, classes = items()
    assert images.shape == (40, 2, 32, 32)
    grey, layout = images[labels == 0].transpose(1, 0, 2, 3)
    assert ((layout == 0) == (grey == 0)).all()
    seen = (grey[layout > 0].astype(int) - 40) // 4
    assert (layout[layout > 0] == 1 + classes[seen]).all()


def test_every_fourth_example_has_one_label_everywhere_and_the_whole_item() -> None:
    images, labels = make(40)
    assert (labels > 0).tolist() == [index % 4 == 0 for index in range(40)]
    for image, label in zip(images[::4], labels[::4], strict=True):
        assert (image[1] == label).all()
        assert image[0, 2:-2, 2:-2].max() > 0
        assert image[0, :2].max() == image[0, :, -2:].max() == 0


def test_collages_have_two_to_four_items_that_may_cover_each_other() -> None:
    images, labels = make(400)
    grey = images[labels == 0][:, 0]
    counts = {len(np.unique(image)) - 1 for image in grey}
    assert {2, 3, 4} <= counts <= {1, 2, 3, 4}


def test_the_same_key_gives_the_same_bytes_and_another_one_others() -> None:
    first, again, other = make(20), make(20), make(20, key=1)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])


def test_halving_rounds_the_mean_of_four_and_the_silhouette_leaves_noise_out() -> None:
    image = np.array([[0, 0, 10, 11], [0, 1, 10, 11]], np.uint8)
    assert halved(image).tolist() == [[0, 11]]
    assert 0 < SILHOUETTE < 40
