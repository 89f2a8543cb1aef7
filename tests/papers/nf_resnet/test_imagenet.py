"""NF-ResNet-50 on a folder of images that the test writes: two steps through the whole envelope."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from shared.data.imagenet import FOLDER_VARIABLE
from shared.records.base import read_record
from shared.records.metrics import read_metrics
from shared.records.run import Provenance
from shared.training.run import main
from tests.data.images import write_imagenet

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    (tmp_path / "shared").symlink_to(REPOSITORY / "shared")
    shutil.copytree(REPOSITORY / "papers/nf_resnet", tmp_path / "papers/nf_resnet")
    (tmp_path / "papers/__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FOLDER_VARIABLE, str(write_imagenet(tmp_path / "imagenet")))
    return tmp_path


@pytest.mark.parametrize("arm", ["nf-1024", "batchnorm-1024"])
def test_two_steps_on_a_folder_of_images(repository, arm):
    small = ["batch_size=4", "image_size=64", "num_workers=0", "widths=[16,32,64,128]"]
    overrides = ["trainer.max_epochs=1", *(f"settings.{setting}" for setting in small)]
    options = [argument for override in overrides for argument in ("--set", override)]
    run = ["nf_resnet", "imagenet_resnet50", arm, "--seed", "0", "--scale", "full"]
    assert main([*run, *options]) == 0
    directory = repository / f"results/full/runs/nf_resnet/imagenet_resnet50/{arm}/seed-0"
    outcome = read_record(directory / "provenance.json", Provenance).outcome
    assert (outcome.status, outcome.step) == ("finished", 2)
    rows = read_metrics(directory / "metrics.parquet")
    errors = rows.filter(pl.col("metric") == "test_error_percent")
    assert errors["step"].to_list() == [2]
