"""Readers of upstream formats: raw files in, arrays out. Strict, and without pickle.

A reader is a function `(folder of raw files, registry entry) -> Arrays`; `FORMATS` names them. A
new format is one more function there. Data sets made of prepared ones are in `shared.data.derived`.
"""

from __future__ import annotations

import gzip
import io
import math
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
    """The content of the files FOLDER/NAME of a .tar or .tar.gz; nothing is written to disk.

    Raises:
        DataError: not such an archive, or a file is missing, twice there, or not a plain file.
    """
    found: dict[str, bytes] = {}
    mode: Literal["r:gz", "r:"] = "r:gz" if archive.suffix == ".gz" else "r:"
    try:
        with tarfile.open(archive, mode) as tar:
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
        kind = "tar.gz" if mode == "r:gz" else "tar"
        raise DataError(f"{archive}: not a whole {kind} archive: {error}") from None
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


CIFAR_C_CLASSES = {"CIFAR-10-C.tar": 10, "CIFAR-100-C.tar": 100}
CIFAR_C_KINDS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)


def read_cifar_c_set(folder: Path, dataset: Dataset) -> Arrays:
    """The archive of CIFAR-10-C or CIFAR-100-C: the 15 corruptions of the benchmark.

    A file KIND.npy holds the test images at severity 1, then 2 and so on to 5. The arrays are
    `test_KIND_SEVERITY_images` and `test_labels`; there are no training images.

    Raises:
        DataError: the archive or a file in it is not what the format demands; names both.
    """
    name = dataset.meta.files[0].name
    if name not in CIFAR_C_CLASSES:
        raise DataError(
            f"data.dvc: {dataset.name}: got the file {name!r}, expected one of "
            f"{', '.join(CIFAR_C_CLASSES)}"
        )
    archive, inner = folder / name, name.removesuffix(".tar")
    files = [f"{kind}.npy" for kind in (*CIFAR_C_KINDS, "labels")]
    members = read_members(archive, inner, set(files))
    # Popped one by one: the archive has gigabytes.
    loaded = {
        file[:-4]: _npy(members.pop(file), archive / inner / file, images=file != "labels.npy")
        for file in files
    }
    labels = loaded.pop("labels").astype(np.int64)
    num = len(labels) // 5
    for kind, images in loaded.items():
        if len(images) != len(labels) or len(labels) % 5:
            raise DataError(
                f"{archive / inner / kind}.npy: got {len(images)} images and {len(labels)} labels, "
                "expected as many of both, for five severities"
            )
    if (labels.reshape(5, num) != labels[:num]).any():
        raise DataError(f"{archive / inner}/labels.npy: expected the same labels five times")
    _check_labels(labels, CIFAR_C_CLASSES[name], archive / inner / "labels.npy")
    arrays: dict[str, NDArray[np.uint8] | NDArray[np.int64]] = {"test_labels": labels[:num]}
    for kind, images_NHWC in loaded.items():
        for severity in range(1, 6):
            part = images_NHWC[(severity - 1) * num : severity * num]
            arrays[f"test_{kind}_{severity}_images"] = part.transpose(0, 3, 1, 2)
    return Arrays(arrays, CIFAR_C_CLASSES[name])


def _npy(content: bytes, path: Path, *, images: bool) -> NDArray[np.uint8]:
    """One array without pickle: images (N, 32, 32, 3), or labels (N,), of bytes and not empty."""
    try:
        array: NDArray[np.uint8] = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path}: not a whole array: {error}") from None
    shape = (32, 32, 3) if images else ()
    if array.dtype != np.uint8 or array.ndim < 1 or array.shape[1:] != shape or not len(array):
        expected = ", ".join(map(str, ("N", *shape)))
        raise DataError(f"{path}: got {array.dtype} {array.shape}, expected uint8 ({expected})")
    return array


Reader = Callable[[Path, Dataset], Arrays]

FORMATS: dict[str, Reader] = {
    "idx": read_idx_set,
    "cifar": read_cifar_set,
    "cifar_c": read_cifar_c_set,
}
