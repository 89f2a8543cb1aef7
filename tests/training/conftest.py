"""A small repository in a temporary folder: our `shared`, the fake papers, a fake data set."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import papers
from shared.records.base import sha256_of, write_json
from shared.records.dataset import Array, Manifest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    (tmp_path / "shared").symlink_to(REPOSITORY / "shared")
    shutil.copytree(Path(__file__).parent / "papers", tmp_path / "papers")
    (tmp_path / "papers" / "__init__.py").touch()
    write_fake_images(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(tmp_path / "papers")])
    return tmp_path


def write_fake_images(root: Path) -> None:
    """96 + 32 images of four classes that differ in the mean of one quadrant."""
    folder = root / "results/prepared/fake_images"
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    arrays = {}
    for split, size in [("train", 96), ("test", 32)]:
        labels = np.arange(size) % 4
        images = generator.integers(0, 100, (size, 1, 8, 8), dtype=np.uint8)
        for index, label in enumerate(labels):
            row, column = divmod(int(label), 2)
            images[index, 0, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 100
        for name, array in [("images", images), ("labels", labels.astype(np.int64))]:
            file = folder / f"{split}_{name}.npy"
            np.save(file, array)
            arrays[f"{split}_{name}"] = Array(
                file=file.name,
                shape=array.shape,
                dtype=str(array.dtype),
                sha256=sha256_of(file),
            )
    write_json(
        folder / "manifest.json",
        Manifest(
            dataset="fake_images",
            arrays=arrays,
            num_classes=4,
            mean=(0.3,),
            std=(0.2,),
            raw_sha256={},
        ),
    )
