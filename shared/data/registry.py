"""Where data sets lie, and finding one by its name. All paths are relative to the repository."""

from __future__ import annotations

from pathlib import Path

from shared.records.dataset import Dataset, read_registry

RAW = Path("data")
FETCHED = Path("results/fetched")
PREPARED = Path("results/prepared")


class DataError(ValueError):
    """A data set is not there or not as it should be. The message says what to do."""


def find(name: str) -> Dataset:
    """The entry of a data set in data.dvc.

    Raises:
        DataError: no such data set; lists those that exist.
    """
    registry = read_registry()
    if name not in registry:
        raise DataError(
            f"got data set {name!r}, expected one of {', '.join(registry)}. "
            "To add one, add an output to data.dvc."
        )
    return registry[name]
