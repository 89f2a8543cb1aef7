from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.workflow.synthetic import build, snakemake


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """Two papers, each with its own data set and layer, with everything computed."""
    root = tmp_path_factory.mktemp("built")
    papers = {
        "alpha": {"data": {"dataset": "first"}},
        "beta": {"layer": "two", "data": {"dataset": "second"}, "seeds": 1},
    }
    build(root, papers)
    result = snakemake(root)
    assert result.returncode == 0, result.stderr
    return root


@pytest.fixture
def project(built, tmp_path) -> Path:
    """A copy of `built` to edit; modification times and Snakemake's records are copied with it."""
    return Path(shutil.copytree(built, tmp_path / "project"))
