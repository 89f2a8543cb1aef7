"""Inception on a folder of images that the test writes: two steps through the whole envelope."""

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
    shutil.copytree(REPOSITORY / "papers/batchnorm", tmp_path / "papers/batchnorm")
    (tmp_path / "papers/__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FOLDER_VARIABLE, str(write_imagenet(tmp_path / "imagenet")))
    return tmp_path


@pytest.mark.parametrize("arm", ["inception", "bn_x5_sigmoid"])
def test_two_steps_on_a_folder_of_images(repository, arm):
    overrides = [
        *("trainer.max_steps=2", "trainer.eval_every_steps=1"),
        *("settings.batch_size=4", "settings.image_size=64", "settings.num_workers=0"),
    ]
    options = [argument for override in overrides for argument in ("--set", override)]
    key = ["batchnorm", "imagenet_inception", arm, "--seed", "0", "--scale", "full"]
    assert main([*key, *options]) == 0
    directory = repository / f"results/full/runs/batchnorm/imagenet_inception/{arm}/seed-0"
    outcome = read_record(directory / "provenance.json", Provenance).outcome
    assert (outcome.status, outcome.step) == ("finished", 2)
    rows = read_metrics(directory / "metrics.parquet")
    errors = rows.filter(pl.col("metric") == "test_error_percent")
    assert errors["step"].to_list() == [1, 2]
    assert "steps_to_target" in rows["metric"].to_list()
