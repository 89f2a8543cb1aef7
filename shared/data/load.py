"""Load: the prepared arrays of a data set, mapped into memory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.data.registry import PREPARED, DataError
from shared.records.base import read_record, sha256_of
from shared.records.dataset import Array, Manifest


@dataclass(frozen=True)
class PreparedData:
    """The arrays of a data set and their manifest.

    Attributes:
        sha256: of manifest.json, which holds the sha256 of every array.
    """

    manifest: Manifest
    sha256: str
    arrays: Mapping[str, NDArray[Any]]

    def array(self, name: str) -> NDArray[Any]:
        """One array, e.g. `train_images` (N, C, H, W) uint8 or `test_labels` (N,) int64.

        Raises:
            DataError: the data set has no such array; lists those it has.
        """
        if name not in self.arrays:
            raise DataError(
                f"{self.manifest.dataset}: got array {name!r}, expected one of "
                f"{', '.join(self.arrays)}"
            )
        return self.arrays[name]


def load(name: str) -> PreparedData:
    """Maps the arrays of results/prepared/NAME into memory.

    The mapping is copy-on-write: torch takes such an array without a copy, and whatever is written
    to it stays in this process.

    Raises:
        DataError: the data were not prepared, or an array is not what the manifest says.
    """
    folder = PREPARED / name
    path = folder / "manifest.json"
    if not path.is_file():
        raise DataError(
            f"{path}: no such file. Run `python -m shared.data fetch {name}` and "
            f"`python -m shared.data prepare {name}`."
        )
    manifest = read_record(path, Manifest)
    return PreparedData(
        manifest=manifest,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        arrays={
            key: _map(folder / array.file, array, written=path.stat().st_mtime_ns)
            for key, array in manifest.arrays.items()
        },
    )


def _map(path: Path, expected: Array, written: int) -> NDArray[Any]:
    remedy = f"Run `python -m shared.data prepare {path.parent.name}` again."
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: not a whole array: {error}. {remedy}") from None
    if array.shape != expected.shape or array.dtype.name != expected.dtype:
        raise DataError(
            f"{path}: got {array.dtype} {array.shape}, expected {expected.dtype} "
            f"{expected.shape}. {remedy}"
        )
    # The manifest is written last. Hashing every array in each of hundreds of runs would cost more
    # than some of them take, so that is kept for a file that was written after it: an accident
    # shows, a date that was set back does not.
    if path.stat().st_mtime_ns >= written and sha256_of(path) != expected.sha256:
        raise DataError(f"{path}: its bytes were changed after they had been prepared. {remedy}")
    return array
