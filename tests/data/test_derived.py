"""Derived data sets: made of a prepared one, and made again when it changes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from shared.data.__main__ import main
from shared.data.formats import Arrays
from shared.data.load import PreparedData, load
from shared.records.derived import DERIVED, derivation_module

from .conftest import REPOSITORY, idx_set
from .test_prepare import Register, put


@pytest.fixture
def derived(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tiny`, with its raw files in place, and `tiny_halves`, made of it: without train_images."""

    def make(source: PreparedData) -> Arrays:
        images = source.array("test_images")
        return Arrays(
            {"top_images": images[:, :, :3], "bottom_images": images[:, :, 3:]}, num_classes=5
        )

    files = idx_set()
    register(files)
    put(files)
    module = ModuleType(derivation_module("tiny_halves"))
    module.make = make  # type: ignore[attr-defined]
    monkeypatch.setitem(DERIVED, "tiny_halves", "tiny")
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_the_manifest_names_the_source_and_keeps_its_statistics(derived: None) -> None:
    assert main(["prepare", "tiny"]) == 0
    assert main(["prepare", "tiny_halves"]) == 0
    source, made = load("tiny"), load("tiny_halves")
    assert made.manifest.source == "tiny"
    assert made.manifest.source_sha256 == source.sha256
    assert (made.manifest.mean, made.manifest.std) == (source.manifest.mean, source.manifest.std)
    assert made.manifest.raw_sha256 == {}
    joined = np.concatenate([made.array("top_images"), made.array("bottom_images")], axis=2)
    assert np.array_equal(joined, source.array("test_images"))


def test_the_source_is_needed(derived: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "tiny_halves"]) == 1
    assert "python -m shared.data prepare tiny`" in capsys.readouterr().err
    assert not Path("results/prepared/tiny_halves").exists()


def test_another_source_gives_another_manifest(derived: None, register: Register) -> None:
    for name in ("tiny", "tiny_halves"):
        assert main(["prepare", name]) == 0
    before = load("tiny_halves").sha256
    files = idx_set(seed=1)
    register(files)
    put(files)
    for name in ("tiny", "tiny_halves"):
        assert main(["prepare", name]) == 0
    assert load("tiny_halves").sha256 != before


def test_there_is_nothing_to_fetch(derived: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "tiny_halves"]) == 1
    assert "is made of tiny and has no raw files" in capsys.readouterr().err


def test_every_derived_data_set_has_its_module_and_is_no_registered_one() -> None:
    modules = {path.stem for path in (REPOSITORY / "shared/data/derived").glob("*.py")}
    assert set(DERIVED) == modules - {"__init__"}
    registered = (REPOSITORY / "data.dvc").read_text()
    assert not [name for name in DERIVED if f"path: data/{name}\n" in registered]
