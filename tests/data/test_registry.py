"""The registry data.dvc itself, and that DVC accepts it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from shared.data.formats import CIFAR_LAYOUTS, FORMATS
from shared.data.registry import find
from shared.records.dataset import DatasetMeta, read_registry

from .conftest import REPOSITORY


def test_each_output_lies_in_the_folder_of_its_name() -> None:
    outs = yaml.safe_load((REPOSITORY / "data.dvc").read_text())["outs"]
    assert [out["path"] for out in outs] == [
        f"data/{name}" for name in read_registry(REPOSITORY / "data.dvc")
    ]


def test_every_format_has_a_reader_and_every_reader_a_format() -> None:
    allowed = DatasetMeta.model_fields["format"].annotation
    assert set(FORMATS) == set(allowed.__args__)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_mnist_and_fashion_mnist_have_the_sizes_of_their_format(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(REPOSITORY)
    sizes = {file.name: file.size for file in find(name).meta.files}
    assert sizes == {
        "train-images-idx3-ubyte": 16 + 60_000 * 28 * 28,
        "train-labels-idx1-ubyte": 8 + 60_000,
        "t10k-images-idx3-ubyte": 16 + 10_000 * 28 * 28,
        "t10k-labels-idx1-ubyte": 8 + 10_000,
    }


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_cifar_is_the_binary_version(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(REPOSITORY)
    (file,) = find(name).meta.files
    assert file.name in CIFAR_LAYOUTS
    assert file.url == f"https://www.cs.toronto.edu/~kriz/{file.name}"


def test_dvc_accepts_the_registry(tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "data.dvc", tmp_path)
    shutil.copy(REPOSITORY / ".dvcignore", tmp_path)
    (tmp_path / ".dvc").mkdir()
    shutil.copy(REPOSITORY / ".dvc/config", tmp_path / ".dvc/config")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "status"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for name in read_registry(REPOSITORY / "data.dvc"):
        assert f"data/{name}" in done.stdout
