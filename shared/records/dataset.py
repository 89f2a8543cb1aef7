"""Data sets: the registry data.dvc, the receipt of a fetch, the manifest of prepared arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from shared.records.base import Record, RecordError, read_yaml, validate
from shared.records.experiment import Name

Sha256 = str


class RawFile(Record):
    """One canonical file. `url` may end in .gz where `name` does not: it is then decompressed."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0, description="bytes, decompressed")
    url: str = ""


class DebianPackage(Record):
    """A Debian package that holds the files, as a last source on Debian."""

    package: str
    folder: str = Field(description="inside the package; its files are named NAME or NAME.gz")


class DatasetMeta(Record):
    """The `meta` of one output in data.dvc."""

    format: Literal["idx", "cifar", "cifar_c"]
    licence: str
    homepage: str
    files: tuple[RawFile, ...] = Field(min_length=1)
    debian: DebianPackage | None = None
    manual: str = Field("", description="where no download is allowed: what to put where")


class Dataset(Record):
    """One data set of the registry."""

    name: Name
    description: str
    dvc_md5: str | None
    meta: DatasetMeta


class Receipt(Record):
    """results/fetched/<dataset>.json: the raw bytes lie in data/<dataset>/ and were verified."""

    dataset: str
    files: dict[str, Sha256]
    source: str
    licence: str


class Array(Record):
    """One .npy file of prepared data."""

    file: str
    shape: tuple[int, ...]
    dtype: str
    sha256: Sha256


class Manifest(Record):
    """results/prepared/<dataset>/manifest.json, written last: where it is, the arrays are whole."""

    dataset: str
    arrays: dict[str, Array] = Field(description="e.g. test_images (N, C, H, W) uint8")
    num_classes: int | None
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = Field(
        description="per channel of train_images, scaled to 0..1; those of the source in a derived "
        "data set; empty in one without train_images"
    )
    std: tuple[float, ...]
    raw_sha256: dict[str, Sha256] = Field(description="of its raw files; none if it is derived")
    source: str | None = Field(None, description="the data set that a derived one is made of")
    source_sha256: Sha256 | None = Field(None, description="of the manifest of the source")


def read_registry(path: Path = Path("data.dvc")) -> dict[str, Dataset]:
    """The data sets of data.dvc by name.

    Raises:
        RecordError: the file is not a registry; names the line.
    """
    content: Any = read_yaml(path)
    if not isinstance(content, dict) or not isinstance(content.get("outs"), list):
        raise RecordError(f"{path}:1: expected a DVC file with `outs`")
    registry = {}
    for out in content["outs"]:
        name = Path(str(out.get("path", ""))).name
        registry[name] = validate(
            {
                "name": name,
                "description": out.get("desc", ""),
                "dvc_md5": out.get("md5"),
                "meta": out.get("meta"),
            },
            Dataset,
            path,
        )
    return registry
