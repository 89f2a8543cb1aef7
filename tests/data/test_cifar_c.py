"""The reader of CIFAR-10-C and CIFAR-100-C, on small archives in the upstream layout."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared.data.__main__ import main
from shared.data.formats import CIFAR_C_KINDS, read_cifar_c_set
from shared.data.load import load
from shared.data.registry import DataError

from .conftest import tar_gz
from .test_formats import dataset
from .test_prepare import Register, put

NUM = 4


def npy(array: np.ndarray, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def members(folder: str = "CIFAR-10-C", num_classes: int = 10) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    images = {
        f"{folder}/{kind}.npy": npy(rng.integers(0, 256, (5 * NUM, 32, 32, 3), dtype=np.uint8))
        for kind in CIFAR_C_KINDS
    }
    labels = np.tile(rng.integers(0, num_classes, NUM, dtype=np.uint8), 5)
    # Upstream has four more kinds, which the benchmark leaves out.
    return images | {f"{folder}/labels.npy": npy(labels), f"{folder}/spatter.npy": b"not read"}


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize(("name", "num_classes"), [("CIFAR-10-C", 10), ("CIFAR-100-C", 100)])
def test_a_whole_archive(register: Register, name: str, num_classes: int) -> None:
    files = members(name, num_classes)
    archive = {f"{name}.tar": tar(files)}
    register(archive, format="cifar_c")
    put(archive)
    assert main(["prepare", "tiny"]) == 0
    data = load("tiny")
    assert data.manifest.num_classes == num_classes
    assert (data.manifest.mean, data.manifest.std) == ((), ())
    assert len(data.arrays) == 1 + 5 * len(CIFAR_C_KINDS)
    upstream = np.load(io.BytesIO(files[f"{name}/fog.npy"]))
    for severity in range(1, 6):
        images = data.array(f"test_fog_{severity}_images")
        part = upstream[(severity - 1) * NUM : severity * NUM]
        assert np.array_equal(images, part.transpose(0, 3, 1, 2))
    assert data.array("test_labels").dtype == np.int64


IMAGES = np.zeros((5 * NUM, 32, 32, 3), np.uint8)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("fog", npy(np.array([{}]), allow_pickle=True), "not a whole array: Object arrays"),
        ("fog", npy(IMAGES)[:-1], "not a whole array"),
        ("fog", npy(IMAGES.astype(np.float32)), r"got float32 .*expected uint8 \(N, 32, 32, 3\)"),
        ("fog", npy(IMAGES[:, :31]), r"got uint8 \(20, 31, 32, 3\)"),
        ("fog", npy(IMAGES[1:]), "got 19 images and 20 labels"),
        ("labels", npy(np.arange(5 * NUM, dtype=np.uint8)), "the same labels five times"),
        ("labels", npy(np.full(5 * NUM, 10, np.uint8)), "got label 10, expected 0..9"),
        ("labels", npy(IMAGES), r"expected uint8 \(N\)"),
    ],
    ids=["pickle", "short", "type", "shape", "count", "order", "class", "labels"],
)
def test_a_wrong_file(tmp_path: Path, file: str, content: bytes, said: str) -> None:
    files = members() | {f"CIFAR-10-C/{file}.npy": content}
    (tmp_path / "CIFAR-10-C.tar").write_bytes(tar(files))
    with pytest.raises(DataError, match=f"CIFAR-10-C/{file}.npy: .*{said}"):
        read_cifar_c_set(tmp_path, dataset("CIFAR-10-C.tar", "cifar_c"))


def test_a_missing_kind_and_another_archive(tmp_path: Path) -> None:
    files = members()
    del files["CIFAR-10-C/frost.npy"]
    (tmp_path / "CIFAR-10-C.tar").write_bytes(tar(files))
    entry = dataset("CIFAR-10-C.tar", "cifar_c")
    with pytest.raises(DataError, match=r"has no CIFAR-10-C/frost\.npy"):
        read_cifar_c_set(tmp_path, entry)
    (tmp_path / "CIFAR-10-C.tar").write_bytes(tar_gz(files))
    with pytest.raises(DataError, match="not a whole tar archive"):
        read_cifar_c_set(tmp_path, entry)
    with pytest.raises(DataError, match=r"got the file 'x\.tar', expected one of CIFAR-10-C\.tar"):
        read_cifar_c_set(tmp_path, dataset("x.tar", "cifar_c"))
