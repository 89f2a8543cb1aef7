"""Prepare and load: whole arrays with a manifest, or a message that says what to do."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shared.data import prepare as prepare_module
from shared.data.__main__ import main
from shared.data.load import load
from shared.data.prepare import channel_statistics
from shared.data.registry import DataError
from shared.records.base import read_record
from shared.records.dataset import Manifest

from .conftest import cifar100, idx_set, tar_gz

FOLDER = Path("results/prepared/tiny")

Register = Callable[..., None]


@pytest.fixture
def raw(register: Register) -> dict[str, bytes]:
    """A registered data set whose raw files are in place."""
    files = idx_set()
    register(files)
    put(files)
    return files


def put(files: dict[str, bytes]) -> None:
    folder = Path("data/tiny")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def test_the_manifest_says_what_the_arrays_are(raw: dict[str, bytes]) -> None:
    assert main(["prepare", "tiny"]) == 0
    manifest = read_record(FOLDER / "manifest.json", Manifest)
    assert sorted(manifest.arrays) == ["test_images", "test_labels", "train_images", "train_labels"]
    for array in manifest.arrays.values():
        content = (FOLDER / array.file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == array.sha256
        loaded = np.load(FOLDER / array.file, allow_pickle=False)
        assert (loaded.shape, loaded.dtype.name) == (array.shape, array.dtype)
    assert manifest.num_classes == 5
    assert manifest.raw_sha256["train-images-idx3-ubyte"] == (
        hashlib.sha256(raw["train-images-idx3-ubyte"]).hexdigest()
    )
    names = {path.name for path in FOLDER.iterdir()}
    assert names == {"manifest.json", *(array.file for array in manifest.arrays.values())}


def test_a_whole_data_set_of_cifar(register: Register) -> None:
    files = {"cifar-100-binary.tar.gz": tar_gz(cifar100())}
    register(files, format="cifar")
    put(files)
    assert main(["prepare", "tiny"]) == 0
    data = load("tiny")
    assert data.array("train_images").shape == (8, 3, 32, 32)
    assert data.array("train_coarse_labels").max() < 20
    assert len(data.manifest.mean) == len(data.manifest.std) == 3
    assert data.manifest.classes[99] == "class_99"


def test_statistics_are_those_of_numpy_in_float64() -> None:
    images = np.random.default_rng(0).integers(0, 256, (2100, 3, 5, 4), dtype=np.uint8)
    images[:, 1] //= 3
    mean, std = channel_statistics(images)
    scaled = images.astype(np.float64) / 255
    np.testing.assert_allclose(mean, scaled.mean((0, 2, 3)), rtol=1e-13)
    np.testing.assert_allclose(std, scaled.std((0, 2, 3)), rtol=1e-13)


def test_a_constant_channel_is_an_error() -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, 2, 3, 3), dtype=np.uint8)
    images[:, 1] = 7
    with pytest.raises(DataError, match=r"channel 1 of the training images is constant \(7\)"):
        channel_statistics(images)


def test_raw_files_are_needed(register: Register, capsys: pytest.CaptureFixture[str]) -> None:
    register(idx_set())
    assert main(["prepare", "tiny"]) == 1
    assert "Run `python -m shared.data fetch tiny` first" in capsys.readouterr().err
    assert not FOLDER.exists()


def test_a_changed_raw_file_is_not_prepared(
    raw: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(raw["t10k-images-idx3-ubyte"])
    content[-1] ^= 1
    Path("data/tiny/t10k-images-idx3-ubyte").write_bytes(content)
    assert main(["prepare", "tiny"]) == 1
    assert "data/tiny/t10k-images-idx3-ubyte: got sha256" in capsys.readouterr().err
    assert not FOLDER.exists()


def test_a_broken_off_prepare_leaves_no_manifest(
    raw: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["prepare", "tiny"]) == 0
    write = prepare_module._write

    def stop_at_the_labels(path: Path, array: np.ndarray) -> object:
        if "labels" in path.name:
            raise KeyboardInterrupt
        return write(path, array)

    monkeypatch.setattr(prepare_module, "_write", stop_at_the_labels)
    with pytest.raises(KeyboardInterrupt):
        main(["prepare", "tiny"])
    assert not (FOLDER / "manifest.json").exists()
    with pytest.raises(DataError, match="prepare tiny"):
        load("tiny")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(raw: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    FOLDER.mkdir(parents=True)
    (FOLDER / ".train_images.npy.tmp").symlink_to("/dev/full")
    assert main(["prepare", "tiny"]) == 1
    assert (
        "the disk that holds results/prepared/tiny has not enough room" in capsys.readouterr().err
    )
    assert list(FOLDER.iterdir()) == []


def test_preparing_again_does_not_disturb_a_mapped_array(raw: dict[str, bytes]) -> None:
    assert main(["prepare", "tiny"]) == 0
    images = load("tiny").array("train_images")
    before = images.copy()
    inode = (FOLDER / "train_images.npy").stat().st_ino
    assert main(["prepare", "tiny"]) == 0
    assert (FOLDER / "train_images.npy").stat().st_ino != inode
    assert np.array_equal(images, before)


def test_loaded_arrays_are_mapped_and_the_files_safe(raw: dict[str, bytes]) -> None:
    assert main(["prepare", "tiny"]) == 0
    data = load("tiny")
    images = data.array("train_images")
    assert isinstance(images, np.memmap)
    manifest = (FOLDER / "manifest.json").read_bytes()
    assert data.sha256 == hashlib.sha256(manifest).hexdigest()
    before = (FOLDER / "train_images.npy").read_bytes()
    images[:] = 0
    assert (FOLDER / "train_images.npy").read_bytes() == before


def test_an_unknown_array(raw: dict[str, bytes]) -> None:
    assert main(["prepare", "tiny"]) == 0
    with pytest.raises(DataError, match="got array 'masks', expected one of train_images"):
        load("tiny").array("masks")


def test_loading_what_was_not_prepared(workspace: Path) -> None:
    with pytest.raises(DataError, match=r"fetch tiny` and `python -m shared.data prepare tiny`"):
        load("tiny")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "No such file"),
        (lambda path: os.truncate(path, path.stat().st_size - 1), "not a whole array"),
        (lambda path: path.write_bytes(b""), "not a whole array"),
        (lambda path: np.save(path, np.zeros((20, 1, 6, 4), np.uint8)), r"\(20, 1, 6, 5\)"),
        (lambda path: np.save(path, np.zeros((20, 1, 6, 5), np.int8)), "got int8"),
        (lambda path: np.save(path, np.array([{}]), allow_pickle=True), "not a whole array"),
        (lambda path: np.save(path, np.load(path) ^ 1), "changed after they had been prepared"),
        (lambda path: np.load(path, mmap_mode="r+").fill(0), "changed after they had been"),
    ],
    ids=["gone", "short", "empty", "shape", "type", "pickle", "content", "in place"],
)
def test_a_damaged_array(
    raw: dict[str, bytes], damage: Callable[[Path], object], said: str
) -> None:
    assert main(["prepare", "tiny"]) == 0
    damage(FOLDER / "train_images.npy")
    with pytest.raises(DataError, match=f"train_images.npy: .*{said}.*prepare tiny` again"):
        load("tiny")


def test_a_copy_of_the_folder_is_as_good(raw: dict[str, bytes]) -> None:
    assert main(["prepare", "tiny"]) == 0
    for file in FOLDER.iterdir():
        os.utime(file, (2e9 if file.suffix == ".npy" else 1e9,) * 2)
    assert load("tiny").array("train_images").shape == (20, 1, 6, 5)


def test_a_damaged_manifest(raw: dict[str, bytes]) -> None:
    assert main(["prepare", "tiny"]) == 0
    content = json.loads((FOLDER / "manifest.json").read_text())
    del content["mean"]
    (FOLDER / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"manifest.json:1: mean: Field required"):
        load("tiny")
