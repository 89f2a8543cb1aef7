"""pyproject.toml, requirements.lock and environment.yml name the same packages and versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
LOCK = Path("requirements.lock").read_text(encoding="utf-8")
CONDA = yaml.safe_load(Path("environment.yml").read_text(encoding="utf-8"))

WANTED = [
    Requirement(text)
    for text in [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]
]


def locked() -> dict[str, str]:
    return {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", LOCK, re.MULTILINE)
    }


@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: wanted.name)
def test_the_lock_holds_a_version_that_the_project_accepts(wanted):
    assert wanted.specifier.contains(locked()[canonicalize_name(wanted.name)])


def test_every_locked_package_has_a_hash():
    packages = re.split(r"^(?=[A-Za-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    assert len(packages) >= len(locked()) > 100
    assert [text.split()[0] for text in packages if "--hash=sha256:" not in text] == []


def test_the_conda_environment_pins_exactly_the_versions_of_the_lock():
    pip = next(entry["pip"] for entry in CONDA["dependencies"] if isinstance(entry, dict))
    pinned = {canonicalize_name(r.name): str(r.specifier) for r in map(Requirement, pip)}
    wanted = {canonicalize_name(r.name) for r in WANTED}
    assert pinned == {name: f"=={locked()[name]}" for name in wanted}


def test_all_three_want_the_same_python():
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.12"
    assert "python=3.11" in CONDA["dependencies"]
    assert "PYTHON ?= python3.11" in Path("Makefile").read_text(encoding="utf-8")
