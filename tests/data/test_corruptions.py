"""The corruption suite: deterministic, graded, and of the shape and type of its source."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from shared.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Soft blobs on black, like clothes: 24 images of 28x28."""
    rng = np.random.default_rng(0)
    centre = rng.uniform(8, 20, (24, 2, 1, 1))
    row, column = np.indices((28, 28))
    distance = np.hypot(row - centre[:, 0], column - centre[:, 1])
    texture = 40 * np.sin(row + column)
    return np.clip(220 - 22 * distance + texture * (distance < 8), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_a_corruption_is_deterministic_and_grows_with_its_severity(
    images: np.ndarray, kind: str
) -> None:
    distances = []
    for severity in SEVERITIES:
        made = corrupt(images, kind, severity)
        assert (made.dtype, made.shape) == (np.uint8, images.shape)
        assert np.array_equal(made, corrupt(images, kind, severity))
        distances.append(np.abs(made.astype(float) - images).mean())
    assert distances[-1] > 1.5 * distances[0] > 0
    # JPEG is uneven by a little.
    assert all(b > 0.95 * a for a, b in itertools.pairwise(distances))


def test_another_key_gives_other_noise_and_nothing_is_random_elsewhere(images: np.ndarray) -> None:
    changed = {
        kind
        for kind in CORRUPTIONS
        if not np.array_equal(corrupt(images, kind, 3), corrupt(images, kind, 3, 1))
    }
    fixed = {"defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression"}
    assert set(CORRUPTIONS) - changed == fixed


@pytest.mark.parametrize("kind", ["defocus_blur", "motion_blur", "zoom_blur", "glass_blur"])
def test_a_blur_keeps_a_flat_image(kind: str) -> None:
    flat = np.full((3, 28, 28), 90, np.uint8)
    assert np.array_equal(corrupt(flat, kind, 5), flat)


def test_the_noise_has_the_strength_that_it_names() -> None:
    grey = np.full((50, 28, 28), 128, np.uint8)
    for kind, expected in (("gaussian_noise", 0.18), ("shot_noise", (128 / 255 / 6) ** 0.5)):
        scaled = corrupt(grey, kind, 5) / 255
        assert scaled.std() == pytest.approx(expected, rel=0.1), kind
    impulse = corrupt(grey, "impulse_noise", 5)
    assert np.mean(impulse != 128) == pytest.approx(0.12, abs=0.01)
    assert set(np.unique(impulse)) == {0, 128, 255}


def test_an_unknown_kind_or_severity(images: np.ndarray) -> None:
    with pytest.raises(ValueError, match="got corruption 'frost' at severity 1, expected one of"):
        corrupt(images, "frost", 1)
    with pytest.raises(ValueError, match=r"at 1\.\.5"):
        corrupt(images, "fog", 6)


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_images_of_another_type_or_none_at_all(images: np.ndarray, kind: str) -> None:
    for wrong, got in (
        (images / 255, "float64 (24, 28, 28)"),
        (images[:, None], "uint8 (24, 1, 28, 28)"),
        (images[:0], "uint8 (0, 28, 28)"),
    ):
        with pytest.raises(ValueError) as error:
            corrupt(wrong, kind, 1)
        assert f"images: got {got}, expected uint8 (N, H, W)" in str(error.value)
