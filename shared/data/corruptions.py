"""Fifteen corruptions of small grey images at five severities, in the style of ImageNet-C.

Kinds and their groups (noise, blur, weather, digital) are those of the benchmark; where its frost
lays photographs over the image, spatter is in its place, which the benchmark has as an extra kind.
Strengths are our own, for images of 28x28: severity 1 is hardly visible, and severity 5 gives a
small residual network that was trained on clean Fashion-MNIST a mean error of about 40 percent,
which is what the networks of the literature have on CIFAR-10-C.

Shapes: x_NHW float32 on the scale 0..1; what a corruption returns is clipped to that scale later.
Source: Hendrycks, Dietterich (2019), arXiv 1903.12261.
"""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage  # type: ignore[import-untyped]

Images = NDArray[np.float32]
Random = np.random.Generator
SEVERITIES = (1, 2, 3, 4, 5)


def corrupt(images_NHW: NDArray[np.uint8], kind: str, severity: int, *key: int) -> Any:
    """The images with one corruption, uint8 (N, H, W).

    Args:
        images_NHW: grey images, uint8.
        kind: one of `CORRUPTIONS`.
        severity: 1..5.
        key: more numbers that the random draws follow from, beside kind and severity.

    Raises:
        ValueError: an unknown kind or severity, or no images of that shape and type.

    Example:
        >>> corrupt(np.full((1, 2, 2), 100, np.uint8), "brightness", 1).tolist()
        [[[108, 108], [108, 108]]]
    """
    if kind not in CORRUPTIONS or severity not in SEVERITIES:
        raise ValueError(
            f"got corruption {kind!r} at severity {severity}, expected one of "
            f"{', '.join(CORRUPTIONS)} at 1..5"
        )
    if images_NHW.dtype != np.uint8 or images_NHW.ndim != 3 or not images_NHW.size:
        raise ValueError(
            f"images: got {images_NHW.dtype} {images_NHW.shape}, expected uint8 (N, H, W) with N "
            "at least 1 and pixels on 0..255"
        )
    function, strengths = CORRUPTIONS[kind]
    random = np.random.default_rng([zlib.crc32(kind.encode()), severity, *key])
    x_NHW = images_NHW.astype(np.float32) / np.float32(255)
    y_NHW = function(x_NHW, strengths[severity - 1], random)
    return np.rint(y_NHW.clip(0, 1) * 255).astype(np.uint8)


# Noise


def gaussian_noise(x_NHW: Images, std: float, random: Random) -> Any:
    """x + std * normal."""
    return x_NHW + std * random.standard_normal(x_NHW.shape, np.float32)


def shot_noise(x_NHW: Images, photons: float, random: Random) -> Any:
    """The counts of a camera that gets `photons` from a white pixel."""
    return random.poisson(x_NHW * photons) / photons


def impulse_noise(x_NHW: Images, share: float, random: Random) -> Any:
    """That share of the pixels is black or white."""
    draw_NHW = random.random(x_NHW.shape, np.float32)
    return np.where(draw_NHW < share, draw_NHW < share / 2, x_NHW)


# Blur


def defocus_blur(x_NHW: Images, radius: float, random: Random) -> Any:
    """The mean over a disk of that radius in pixels, its edge smoothed."""
    axis = np.arange(-int(radius) - 1, int(radius) + 2)
    disk = np.clip(radius + 0.5 - np.hypot(axis[:, None], axis), 0, 1)
    return _convolve(x_NHW, disk / disk.sum())


def glass_blur(x_NHW: Images, strength: tuple[float, float], random: Random) -> Any:
    """(std, swaps): pixels change places with neighbours that often, between two small blurs."""
    std, swaps = strength
    y_NHW = ndimage.gaussian_filter(x_NHW, (0, std, std))
    height, width = y_NHW.shape[1:]
    image_N = np.arange(len(y_NHW))
    rounds = math.ceil(swaps)
    for _ in range(rounds):
        for row in range(1, height - 1):
            for column in range(1, width - 1):
                moves_N = random.random(len(y_NHW)) < swaps / rounds
                row_N, column_N = random.integers(-1, 2, (2, len(y_NHW))) * moves_N
                there = (image_N, row + row_N, column + column_N)
                swapped_N = y_NHW[there]
                y_NHW[there] = y_NHW[:, row, column]
                y_NHW[:, row, column] = swapped_N
    return ndimage.gaussian_filter(y_NHW, (0, std, std))


def motion_blur(x_NHW: Images, length: int, random: Random) -> Any:
    """The mean along a line of that many pixels, in one of eight directions for each image."""
    direction_N = random.integers(8, size=len(x_NHW))
    y_NHW = np.empty_like(x_NHW)
    for direction in range(8):
        chosen_N = direction_N == direction
        y_NHW[chosen_N] = _convolve(x_NHW[chosen_N], _line(length, np.pi * direction / 8))
    return y_NHW


def zoom_blur(x_NHW: Images, largest: float, random: Random) -> Any:
    """The mean of eight copies, magnified around the centre from 1 to `largest`."""
    centre = (np.array(x_NHW.shape[1:]) - 1) / 2
    total_NHW = np.zeros_like(x_NHW)
    for factor in np.linspace(1, largest, 8):
        scale = 1 / factor
        offset = centre * (1 - scale)
        total_NHW += ndimage.affine_transform(
            x_NHW, [1, scale, scale], [0, *offset], order=1, mode="nearest"
        )
    return total_NHW / 8


# Weather


def snow(x_NHW: Images, strength: tuple[float, float], random: Random) -> Any:
    """(share of flakes, whitening): flakes drawn out by their fall over a brighter image."""
    share, whitening = strength
    flakes_NHW = (random.random(x_NHW.shape, np.float32) < share).astype(np.float32)
    slanted = random.integers(2, size=len(x_NHW)).astype(bool)
    for chosen_N, angle in ((slanted, 0.35 * np.pi), (~slanted, 0.65 * np.pi)):
        flakes_NHW[chosen_N] = _convolve(flakes_NHW[chosen_N], 3 * _line(5, angle))
    return np.maximum(x_NHW, whitening + (1 - whitening) * x_NHW * 0.7) + flakes_NHW.clip(0, 0.9)


def spatter(x_NHW: Images, share: float, random: Random) -> Any:
    """Smooth opaque drops of a random grey cover that share of the image."""
    field_NHW = _smooth_noise(x_NHW.shape, 1.5, random)
    edge_N11 = np.quantile(field_NHW, 1 - share, axis=(1, 2), keepdims=True)
    cover_NHW = np.clip((field_NHW - edge_N11) * 4 + 0.5, 0, 1)
    grey_N11 = random.uniform(0.3, 1, (len(x_NHW), 1, 1))
    return x_NHW * (1 - cover_NHW) + grey_N11 * cover_NHW


def fog(x_NHW: Images, amount: float, random: Random) -> Any:
    """(x + amount * haze) / (1 + amount), with a haze of the spectrum 1 / f^1.5 on 0..1."""
    height, width = x_NHW.shape[1:]
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    frequency[0, 0] = np.inf
    spectrum = np.fft.rfft2(random.standard_normal(x_NHW.shape, np.float32)) / frequency**1.5
    haze_NHW = np.fft.irfft2(spectrum, (height, width))
    haze_NHW -= haze_NHW.min((1, 2), keepdims=True)
    haze_NHW /= haze_NHW.max((1, 2), keepdims=True)
    return (x_NHW + amount * haze_NHW) / (1 + amount)


def brightness(x_NHW: Images, amount: float, random: Random) -> Any:
    """x + amount."""
    return x_NHW + amount


# Digital


def contrast(x_NHW: Images, share: float, random: Random) -> Any:
    """That share of the contrast is left, around the mean of each image."""
    mean_N11 = x_NHW.mean((1, 2), keepdims=True)
    return (x_NHW - mean_N11) * share + mean_N11


def elastic_transform(x_NHW: Images, strength: tuple[float, float], random: Random) -> Any:
    """(pixels, std): each pixel moves by smooth noise of that typical length and smoothness."""
    pixels, std = strength
    shifts = [pixels * _smooth_noise(x_NHW.shape, std, random) for _ in range(2)]
    image, row, column = np.indices(x_NHW.shape, np.float32)
    places = [image, row + shifts[0], column + shifts[1]]
    return ndimage.map_coordinates(x_NHW, places, order=1, mode="nearest")


def pixelate(x_NHW: Images, size: int, random: Random) -> Any:
    """Shrunk to `size` pixels a side, and enlarged again without smoothing."""
    box, nearest = Image.Resampling.BOX, Image.Resampling.NEAREST
    return _by_pillow(
        x_NHW, lambda image: image.resize((size, size), box).resize(image.size, nearest)
    )


def jpeg_compression(x_NHW: Images, quality: int, random: Random) -> Any:
    """Written as JPEG of that quality and read again."""

    def compress(image: Image.Image) -> Image.Image:
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        return Image.open(file)

    return _by_pillow(x_NHW, compress)


def _convolve(x_NHW: Images, kernel: NDArray[np.float64]) -> Any:
    return ndimage.convolve(x_NHW, kernel[None].astype(np.float32), mode="nearest")


def _line(length: int, angle: float) -> NDArray[np.float64]:
    """A kernel of sum 1 with a line through its centre, drawn with many points."""
    half = length // 2
    kernel = np.zeros((2 * half + 1, 2 * half + 1))
    along = np.linspace((1 - length) / 2, (length - 1) / 2, 50 * length)
    rows, columns = half + along * np.sin(angle), half + along * np.cos(angle)
    np.add.at(kernel, (np.rint(rows).astype(int), np.rint(columns).astype(int)), 1.0)
    return kernel / kernel.sum()


def _smooth_noise(shape: tuple[int, ...], std: float, random: Random) -> Any:
    """Normal noise, blurred over `std` pixels and scaled to a standard deviation of 1."""
    noise_NHW = random.standard_normal(shape, np.float32)
    noise_NHW = ndimage.gaussian_filter(noise_NHW, (0, std, std), mode="wrap")
    return noise_NHW / noise_NHW.std((1, 2), keepdims=True)


def _by_pillow(x_NHW: Images, function: Callable[[Image.Image], Image.Image]) -> Any:
    pixels_NHW = np.rint(x_NHW * 255).astype(np.uint8)
    done = [np.asarray(function(Image.fromarray(pixels_HW))) for pixels_HW in pixels_NHW]
    return np.stack(done).astype(np.float32) / 255


# Kind -> its function and the strength at each severity.
CORRUPTIONS: dict[str, tuple[Callable[[Images, Any, Random], Any], tuple[Any, ...]]] = {
    "gaussian_noise": (gaussian_noise, (0.04, 0.06, 0.09, 0.13, 0.18)),
    "shot_noise": (shot_noise, (100, 50, 25, 12, 6)),
    "impulse_noise": (impulse_noise, (0.01, 0.03, 0.05, 0.08, 0.12)),
    "defocus_blur": (defocus_blur, (0.7, 0.95, 1.2, 1.6, 2.0)),
    "glass_blur": (glass_blur, ((0.4, 0.1), (0.4, 0.25), (0.4, 0.5), (0.5, 1), (0.5, 2))),
    "motion_blur": (motion_blur, (3, 4, 5, 6, 7)),
    "zoom_blur": (zoom_blur, (1.06, 1.12, 1.18, 1.24, 1.3)),
    "snow": (snow, ((0.005, 0.02), (0.01, 0.04), (0.015, 0.06), (0.02, 0.08), (0.03, 0.1))),
    "spatter": (spatter, (0.03, 0.06, 0.09, 0.12, 0.15)),
    "fog": (fog, (0.05, 0.1, 0.2, 0.3, 0.45)),
    "brightness": (brightness, (0.03, 0.06, 0.1, 0.14, 0.2)),
    "contrast": (contrast, (0.8, 0.7, 0.6, 0.5, 0.4)),
    "elastic_transform": (
        elastic_transform,
        ((0.4, 2.0), (0.6, 2.0), (0.8, 2.0), (1.0, 2.0), (1.2, 2.0)),
    ),
    "pixelate": (pixelate, (22, 18, 15, 13, 11)),
    "jpeg_compression": (jpeg_compression, (60, 40, 25, 16, 10)),
}
