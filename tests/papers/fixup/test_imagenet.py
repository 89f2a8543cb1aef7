"""ResNet-50 on a folder of images that the test writes: two steps through the whole envelope."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from papers.fixup.imagenet import FOLDER_VARIABLE, imagenet_folder
from shared.records.base import RecordError, read_record
from shared.records.metrics import read_metrics
from shared.records.run import Provenance
from shared.training.run import main

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def images(tmp_path):
    generator = np.random.default_rng(0)
    for split, size in (("train", 4), ("val", 3)):
        for label in ("n01440764", "n01443537"):
            folder = tmp_path / "imagenet" / split / label
            folder.mkdir(parents=True)
            for index in range(size):
                pixels = generator.integers(0, 256, (40, 50, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{index}.JPEG")
    return tmp_path / "imagenet"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    (tmp_path / "shared").symlink_to(REPOSITORY / "shared")
    shutil.copytree(REPOSITORY / "papers/fixup", tmp_path / "papers/fixup")
    (tmp_path / "papers/__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    return tmp_path


def start(arm):
    small = ["batch_size=4", "image_size=32", "num_workers=0"]
    overrides = ["trainer.max_epochs=1", *(f"settings.{setting}" for setting in small)]
    options = [argument for override in overrides for argument in ("--set", override)]
    return main(["fixup", "imagenet_resnet50", arm, "--seed", "0", "--scale", "full", *options])


@pytest.mark.parametrize("arm", ["fixup_mixup", "batchnorm"])
def test_two_steps_on_a_folder_of_images(repository, images, monkeypatch, arm):
    monkeypatch.setenv(FOLDER_VARIABLE, str(images))
    assert start(arm) == 0
    directory = repository / f"results/full/runs/fixup/imagenet_resnet50/{arm}/seed-0"
    outcome = read_record(directory / "provenance.json", Provenance).outcome
    assert (outcome.status, outcome.step) == ("finished", 2)
    rows = read_metrics(directory / "metrics.parquet")
    errors = rows.filter(pl.col("metric") == "test_error_percent")
    assert errors["step"].to_list() == [2]


def test_without_the_variable_the_message_says_what_to_do(repository, capsys):
    assert start("fixup") == 1
    message = capsys.readouterr().err
    assert f"{FOLDER_VARIABLE} is not set" in message
    assert "FOLDER/train/CLASS" in message
    assert "Traceback" not in message


def test_a_folder_without_val_is_an_error(images, monkeypatch):
    shutil.rmtree(images / "val")
    monkeypatch.setenv(FOLDER_VARIABLE, str(images))
    with pytest.raises(RecordError, match="got no folder 'val'"):
        imagenet_folder()
