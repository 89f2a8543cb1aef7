"""Prepare: a data set as arrays to map into memory, with a manifest.

The arrays come from raw files (data.dvc) or from another prepared data set (`DERIVED`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.data.formats import FORMATS, Arrays
from shared.data.load import load
from shared.data.lock import alone
from shared.data.registry import PREPARED, RAW, DataError, find
from shared.data.verified import WrongFileError, check, describe
from shared.records.base import sha256_of, write_json
from shared.records.dataset import Array, Dataset, Manifest
from shared.records.derived import DERIVED, derivation_module

IMAGES_AT_A_TIME = 1000

# Makes the arrays and puts them into a folder: what waits until the folder is ours alone.
Preparation = Callable[[Path], Manifest]


def prepare(name: str) -> Manifest:
    """Writes results/prepared/NAME/*.npy and then manifest.json.

    While the manifest is there the arrays are whole: it is removed first and written last.

    Raises:
        DataError: the raw files, or the data set that this one is made of, are missing or wrong;
            says what to do.
    """
    write_arrays = _derived(name) if name in DERIVED else _from_raw_files(name)
    folder = PREPARED / name
    try:
        with alone(PREPARED / f".{name}.lock", f"prepare {name}"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "manifest.json").unlink(missing_ok=True)
            manifest = write_arrays(folder)
            write_json(folder / "manifest.json", manifest)
    except OSError as error:
        raise DataError(f"{name}: {describe(error, folder)}") from None
    return manifest


def _from_raw_files(name: str) -> Preparation:
    dataset = find(name)
    _check_raw(dataset, RAW / name)

    def write_arrays(folder: Path) -> Manifest:
        read = FORMATS[dataset.meta.format](RAW / name, dataset)
        images = read.arrays.get("train_images")
        mean, std = ((), ()) if images is None else channel_statistics(images)
        return Manifest(
            dataset=name,
            arrays=_write_all(folder, read),
            num_classes=read.num_classes,
            classes=read.classes,
            mean=mean,
            std=std,
            raw_sha256={file.name: file.sha256 for file in dataset.meta.files},
        )

    return write_arrays


def _derived(name: str) -> Preparation:
    source = load(DERIVED[name])

    def write_arrays(folder: Path) -> Manifest:
        made: Arrays = importlib.import_module(derivation_module(name)).make(source)
        return Manifest(
            dataset=name,
            arrays=_write_all(folder, made),
            num_classes=made.num_classes,
            classes=made.classes,
            # Not of the made images: what was trained on the source is tested as it was trained.
            mean=source.manifest.mean,
            std=source.manifest.std,
            raw_sha256={},
            source=source.manifest.dataset,
            source_sha256=source.sha256,
        )

    return write_arrays


def channel_statistics(
    images_NCHW: NDArray[Any],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel over all pixels, on the scale 0..1.

        mean = sum(x) / n / 255        std = sqrt(sum((255 mean - x)^2) / n) / 255

    The variance is the biased one. Sums run over the histogram of the 256 values in float64, so
    the result does not depend on the order of the images.

    Args:
        images_NCHW: pixels 0..255.

    Raises:
        DataError: a channel is constant, so that it cannot be standardised.

    Example:
        >>> channel_statistics(np.array([[[[0, 255]]]], np.uint8))
        ((0.5,), (0.5,))
    """
    means, stds = [], []
    values = np.arange(256, dtype=np.float64)
    for channel in range(images_NCHW.shape[1]):
        counts = np.zeros(256, np.int64)
        for start in range(0, len(images_NCHW), IMAGES_AT_A_TIME):
            part = images_NCHW[start : start + IMAGES_AT_A_TIME, channel]
            counts += np.bincount(part.ravel(), minlength=256)
        mean = counts @ values / counts.sum()
        var = counts @ (values - mean) ** 2 / counts.sum()
        if var == 0:
            raise DataError(f"channel {channel} of the training images is constant ({mean:g})")
        means.append(float(mean / 255))
        stds.append(float(np.sqrt(var) / 255))
    return tuple(means), tuple(stds)


def _check_raw(dataset: Dataset, folder: Path) -> None:
    for file in dataset.meta.files:
        path = folder / file.name
        if not path.is_file():
            raise DataError(
                f"{path}: no such file. Run `python -m shared.data fetch {dataset.name}` first."
            )
        try:
            check(path, file)
        except WrongFileError as error:
            raise DataError(
                f"{path}: {error}. Delete it and run `python -m shared.data fetch {dataset.name}`."
            ) from None


def _write_all(folder: Path, made: Arrays) -> dict[str, Array]:
    return {name: _write(folder / f"{name}.npy", array) for name, array in made.arrays.items()}


def _write(path: Path, array: NDArray[np.uint8] | NDArray[np.int64]) -> Array:
    # A new file, never the old one: a running training may have that one mapped.
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            np.save(file, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return Array(file=path.name, shape=array.shape, dtype=array.dtype.name, sha256=sha256_of(path))
