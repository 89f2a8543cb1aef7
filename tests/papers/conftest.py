"""A run of a paper on a folder of images in ImageNet's layout that the test writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.data.imagenet import FOLDER_VARIABLE
from shared.records.experiment import RunKey
from shared.training.run import main
from tests.data.images import write_imagenet

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def run_on_imagenet(tmp_path, monkeypatch) -> Callable[..., Path]:
    """Computes a run in the whole envelope, at full scale but for overrides; gives its folder."""

    def compute(paper: str, experiment: str, arm: str, *overrides: str) -> Path:
        (tmp_path / "shared").symlink_to(REPOSITORY / "shared")
        shutil.copytree(REPOSITORY / "papers" / paper, tmp_path / "papers" / paper)
        (tmp_path / "papers/__init__.py").touch()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv(FOLDER_VARIABLE, str(write_imagenet(tmp_path / "imagenet")))
        options = [word for override in overrides for word in ("--set", override)]
        assert main([paper, experiment, arm, "--seed", "0", "--scale", "full", *options]) == 0
        key = RunKey(scale="full", paper=paper, experiment=experiment, arm=arm, seed=0)
        return tmp_path / key.directory()

    return compute
