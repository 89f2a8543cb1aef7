"""The readers are strict: a file that is not exactly what the format demands is named."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
from torchvision import datasets

from shared.data.formats import read_cifar_set, read_idx, read_idx_set
from shared.data.registry import DataError
from shared.records.dataset import Dataset

from .conftest import cifar10, cifar100, idx, idx_set, tar_gz


def dataset(file: str, format: str) -> Dataset:
    files = [{"name": file, "sha256": "0" * 64, "size": 0}]
    meta = {"format": format, "licence": "", "homepage": "", "files": files}
    return Dataset.model_validate(
        {"name": "tiny", "description": "", "dvc_md5": None, "meta": meta}
    )


IDX = dataset("train-images-idx3-ubyte", "idx")
CIFAR10 = dataset("cifar-10-binary.tar.gz", "cifar")
CIFAR100 = dataset("cifar-100-binary.tar.gz", "cifar")


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("train", [True, False])
def test_idx_gives_the_images_of_torchvision(tmp_path: Path, train: bool) -> None:
    write(tmp_path / "FashionMNIST/raw", idx_set())
    theirs = datasets.FashionMNIST(str(tmp_path), train=train)
    ours = read_idx_set(tmp_path / "FashionMNIST/raw", IDX)
    split = "train" if train else "test"
    images, labels = ours.arrays[f"{split}_images"], ours.arrays[f"{split}_labels"]
    assert images.shape == (20 if train else 10, 1, 6, 5)
    assert images.dtype == np.uint8
    assert labels.dtype == np.int64
    assert np.array_equal(images[:, 0], theirs.data.numpy())
    assert np.array_equal(labels, theirs.targets.numpy())
    assert ours.num_classes == 5


GOOD = idx(np.arange(6).reshape(1, 2, 3))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "got 0 bytes that begin with , expected an IDX file"),
        (GOOD[:15], "got 15 bytes that begin with 00000803"),
        (b"\x1f\x8b" + GOOD[2:], "begin with 1f8b0803, expected .* begins with 00000803"),
        (GOOD[:2] + b"\x0d" + GOOD[3:], "begin with 00000d03"),
        (idx(np.zeros((2, 3))), "begin with 00000802"),
        (GOOD[:-1], "got 21 bytes, expected 22 .* says 1 x 2 x 3"),
        (GOOD + b"x", "got 23 bytes, expected 22"),
        (idx(np.zeros((0, 2, 3))), "no size of zero"),
        (GOOD[:4] + b"\xff" * 12, "expected 79228162458924105385300197391"),
    ],
    ids=["empty", "header", "gzip", "float", "dimensions", "short", "long", "zero", "huge"],
)
def test_a_wrong_idx_file(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"{path}: .*{said}"):
        read_idx(path, 3)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("train-labels-idx1-ubyte", idx(np.arange(19) % 5), "got 19 labels, .* the 20 images"),
        ("t10k-labels-idx1-ubyte", idx(np.arange(10)), "got label 9, expected 0..4"),
        ("train-labels-idx1-ubyte", idx(np.arange(20) % 5 * 2), r".* none of \[1, 3, 5, 7\]"),
    ],
    ids=["count", "range", "gap"],
)
def test_labels_that_do_not_fit(tmp_path: Path, file: str, content: bytes, said: str) -> None:
    write(tmp_path, {**idx_set(), file: content})
    with pytest.raises(DataError, match=f"{file}: {said}"):
        read_idx_set(tmp_path, IDX)


def test_cifar10(tmp_path: Path) -> None:
    files = cifar10()
    write(tmp_path, {"cifar-10-binary.tar.gz": tar_gz(files)})
    read = read_cifar_set(tmp_path, CIFAR10)
    assert read.classes == tuple(f"class_{number}" for number in range(10))
    assert read.num_classes == 10
    assert sorted(read.arrays) == ["test_images", "test_labels", "train_images", "train_labels"]
    assert read.arrays["train_images"].shape == (15, 3, 32, 32)
    assert read.arrays["test_images"].shape == (4, 3, 32, 32)
    # The format as its page has it: one byte of label, then red, green and blue row by row.
    record = files["cifar-10-batches-bin/data_batch_2.bin"][3073 : 2 * 3073]
    assert read.arrays["train_labels"][4] == record[0]
    assert read.arrays["train_images"][4, 1, 2, 3] == record[1 + 1024 + 2 * 32 + 3]


def test_cifar100_has_both_kinds_of_labels(tmp_path: Path) -> None:
    files = cifar100()
    write(tmp_path, {"cifar-100-binary.tar.gz": tar_gz(files)})
    read = read_cifar_set(tmp_path, CIFAR100)
    assert read.num_classes == 100
    record = files["cifar-100-binary/train.bin"][3074 : 2 * 3074]
    assert read.arrays["train_coarse_labels"][1] == record[0]
    assert read.arrays["train_labels"][1] == record[1]
    assert read.arrays["train_images"][1, 2, 31, 31] == record[-1]
    assert read.arrays["test_coarse_labels"].dtype == np.int64


@pytest.mark.parametrize(
    ("member", "content", "said"),
    [
        ("data_batch_3.bin", bytes(3072), "got 3072 bytes, expected a multiple of 3073"),
        ("data_batch_3.bin", b"", "got 0 bytes"),
        ("test_batch.bin", b"\x0a" + bytes(3072), "got label 10, expected 0..9"),
        ("batches.meta.txt", b"cat dog", "got 2 names of classes, expected 10"),
    ],
)
def test_a_wrong_file_in_an_archive(tmp_path: Path, member: str, content: bytes, said: str) -> None:
    path = f"cifar-10-batches-bin/{member}"
    archive = tmp_path / "cifar-10-binary.tar.gz"
    archive.write_bytes(tar_gz({**cifar10(), path: content}))
    with pytest.raises(DataError, match=f"{archive}/{path}: {said}"):
        read_cifar_set(tmp_path, CIFAR10)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no archive", "not a whole tar.gz archive"),
        (tar_gz(cifar10())[:-2000], "not a whole tar.gz archive"),
        (tar_gz(cifar100()), "has no cifar-10-batches-bin/batches.meta.txt, cifar-10-batches-bin/"),
        (tar_gz({f"/{name}": data for name, data in cifar10().items()}), "has no cifar-10"),
        (tar_gz({f"../{name}": data for name, data in cifar10().items()}), "has no cifar-10"),
    ],
    ids=["text", "cut off", "another archive", "absolute names", "parent names"],
)
def test_a_wrong_archive(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_cifar_set(tmp_path, CIFAR10)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_link_in_an_archive_is_refused(tmp_path: Path, kind: bytes) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(3073))
    info = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
    info.type, info.linkname = kind, str(secret)
    files = cifar10()
    del files["cifar-10-batches-bin/test_batch.bin"]
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(tar_gz(files, extra=(info,)))
    with pytest.raises(DataError, match=r"test_batch.bin: expected one plain file"):
        read_cifar_set(tmp_path, CIFAR10)


def test_a_file_that_claims_to_be_huge_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
    info.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 45)}
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(tar_gz(cifar10(), extra=(info,)))
    with pytest.raises(DataError, match=r"test_batch.bin: expected one plain file"):
        read_cifar_set(tmp_path, CIFAR10)


def test_a_file_twice_in_an_archive_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(tar_gz(cifar10(), extra=(info,)))
    with pytest.raises(DataError, match=r"test_batch.bin: expected one plain file"):
        read_cifar_set(tmp_path, CIFAR10)


def test_a_hostile_archive_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "a/b"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, ".."
    hostile = {"../up": b"x", f"{tmp_path}/absolute": b"x", "link/through": b"x", "plain": b"x"}
    (inside / "cifar-10-binary.tar.gz").write_bytes(tar_gz({**hostile, **cifar10()}, (link,)))
    before = sorted(tmp_path.rglob("*"))
    assert read_cifar_set(inside, CIFAR10).num_classes == 10
    assert sorted(tmp_path.rglob("*")) == before


def test_an_archive_of_another_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"got the file 'other.tar.gz', expected one of cifar-10-b"):
        read_cifar_set(tmp_path, dataset("other.tar.gz", "cifar"))
