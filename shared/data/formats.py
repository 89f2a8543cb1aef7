"""Readers of upstream formats: raw files in, arrays out. Strict, and without pickle.

A reader is a function `(folder of raw files, registry entry) -> Arrays`; `FORMATS` names them. A
new format is one more function there. Data sets made of prepared ones are in `shared.data.derived`.
"""

from __future__ import annotations

import gzip
import math
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shared.data.registry import DataError
from shared.records.dataset import Dataset


@dataclass(frozen=True)
class Arrays:
    """The arrays of a data set by name, e.g. `train_images` (N, C, H, W) and `train_labels` (N,).

    Images are uint8 and labels int64. Which arrays there are is the data set's own choice.
    """

    arrays: dict[str, NDArray[np.uint8] | NDArray[np.int64]]
    num_classes: int
    classes: tuple[str, ...] = ()


def read_idx_set(folder: Path, dataset: Dataset) -> Arrays:
    """The four IDX files of MNIST and its successors, under their usual names.

    Raises:
        DataError: a file is not what the format demands; names the file.
    """
    arrays: dict[str, NDArray[np.uint8] | NDArray[np.int64]] = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        images_file = folder / f"{prefix}-images-idx3-ubyte"
        labels_file = folder / f"{prefix}-labels-idx1-ubyte"
        images_NHW, labels_N = read_idx(images_file, 3), read_idx(labels_file, 1)
        if len(images_NHW) != len(labels_N):
            raise DataError(
                f"{labels_file}: got {len(labels_N)} labels, expected one for each of the "
                f"{len(images_NHW)} images of {images_file.name}"
            )
        arrays[f"{split}_images"] = images_NHW[:, None]
        arrays[f"{split}_labels"] = labels_N.astype(np.int64)
    counts = np.bincount(arrays["train_labels"])
    if absent := np.flatnonzero(counts == 0).tolist():
        raise DataError(
            f"{folder / 'train-labels-idx1-ubyte'}: got labels up to {len(counts) - 1} and none of "
            f"{absent}, expected every class to have a training image"
        )
    num_classes = len(counts)
    _check_labels(arrays["test_labels"], num_classes, folder / "t10k-labels-idx1-ubyte")
    return Arrays(arrays, num_classes)


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """One IDX file of unsigned bytes: 0, 0, 8, number of dimensions, big-endian sizes, data.

    Raises:
        DataError: another magic number, a size of zero, or another length than the sizes give.
    """
    content = np.fromfile(path, np.uint8)
    header = 4 + 4 * dimensions
    magic = bytes(content[:4])
    if len(content) < header or magic != bytes((0, 0, 8, dimensions)):
        raise DataError(
            f"{path}: got {len(content)} bytes that begin with {magic.hex()}, expected an IDX file "
            f"of bytes with {dimensions} dimensions, which begins with 000008{dimensions:02x}"
        )
    shape = tuple(int(size) for size in content[4:header].view(">u4"))
    expected = header + math.prod(shape)
    if 0 in shape or len(content) != expected:
        raise DataError(
            f"{path}: got {len(content)} bytes, expected {expected} and no size of zero, as its "
            f"header says {' x '.join(map(str, shape))}"
        )
    return content[header:].reshape(shape)


@dataclass(frozen=True)
class CifarLayout:
    """Where an archive of the binary version of CIFAR holds what.

    A record is one byte for each kind of label and then 3 x 32 x 32 bytes of the image.
    """

    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    labels: dict[str, int]  # name of the label array -> number of classes, in the record's order
    classes: str


CIFAR_LAYOUTS = {
    "cifar-10-binary.tar.gz": CifarLayout(
        folder="cifar-10-batches-bin",
        train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        test=("test_batch.bin",),
        labels={"labels": 10},
        classes="batches.meta.txt",
    ),
    "cifar-100-binary.tar.gz": CifarLayout(
        folder="cifar-100-binary",
        train=("train.bin",),
        test=("test.bin",),
        labels={"coarse_labels": 20, "labels": 100},
        classes="fine_label_names.txt",
    ),
}


def read_cifar_set(folder: Path, dataset: Dataset) -> Arrays:
    """The archive of the binary version of CIFAR-10 or CIFAR-100, read without unpacking it.

    CIFAR-100 has its fine labels as `..._labels` and its 20 groups as `..._coarse_labels`.

    Raises:
        DataError: the archive or a file in it is not what the format demands; names both.
    """
    name = dataset.meta.files[0].name
    if name not in CIFAR_LAYOUTS:
        raise DataError(
            f"data.dvc: {dataset.name}: got the file {name!r}, expected one of "
            f"{', '.join(CIFAR_LAYOUTS)}"
        )
    archive, layout = folder / name, CIFAR_LAYOUTS[name]
    members = read_members(archive, layout.folder, {*layout.train, *layout.test, layout.classes})
    arrays: dict[str, NDArray[np.uint8] | NDArray[np.int64]] = {}
    for split, names in (("train", layout.train), ("test", layout.test)):
        records = np.concatenate(
            [
                _cifar_records(members[name], archive / layout.folder / name, layout)
                for name in names
            ]
        )
        arrays[f"{split}_images"] = records[:, len(layout.labels) :].reshape(-1, 3, 32, 32)
        for column, kind in enumerate(layout.labels):
            arrays[f"{split}_{kind}"] = records[:, column].astype(np.int64)
    num_classes = layout.labels["labels"]
    classes = tuple(members[layout.classes].decode("ascii", "replace").split())
    if len(classes) != num_classes:
        raise DataError(
            f"{archive / layout.folder / layout.classes}: got {len(classes)} names of classes, "
            f"expected {num_classes}"
        )
    return Arrays(arrays, num_classes, classes)


def read_members(archive: Path, folder: str, names: set[str]) -> dict[str, bytes]:
    """The content of the files FOLDER/NAME of a tar.gz archive; nothing is written to disk.

    Raises:
        DataError: not such an archive, or a file is missing, twice there, or not a plain file.
    """
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                inner, _, name = member.name.rpartition("/")
                if inner != folder or name not in names:
                    continue
                # A link could lead elsewhere, and a sparse file claim any size.
                plain = member.isreg() and not member.issparse()
                content = tar.extractfile(member) if plain else None
                if content is None or name in found:
                    raise DataError(f"{archive}: {member.name}: expected one plain file")
                found[name] = content.read()
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{archive}: not a whole tar.gz archive: {error}") from None
    if absent := names - set(found):
        raise DataError(f"{archive}: has no {', '.join(sorted(f'{folder}/{n}' for n in absent))}")
    return found


def _cifar_records(content: bytes, path: Path, layout: CifarLayout) -> NDArray[np.uint8]:
    length = len(layout.labels) + 3 * 32 * 32
    if not content or len(content) % length:
        raise DataError(f"{path}: got {len(content)} bytes, expected a multiple of {length}")
    records = np.frombuffer(content, np.uint8).reshape(-1, length)
    for column, num_classes in enumerate(layout.labels.values()):
        _check_labels(records[:, column], num_classes, path)
    return records


def _check_labels(
    labels_N: NDArray[np.uint8] | NDArray[np.int64],
    num_classes: int,
    path: Path,
) -> None:
    highest = int(labels_N.max())
    if highest >= num_classes:
        raise DataError(f"{path}: got label {highest}, expected 0..{num_classes - 1}")


Reader = Callable[[Path, Dataset], Arrays]

FORMATS: dict[str, Reader] = {"idx": read_idx_set, "cifar": read_cifar_set}
