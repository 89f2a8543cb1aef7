"""The checks of .pre-commit-config.yaml are tests, so that one command knows of every fault."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

BIN = Path(sys.executable).parent

COMMANDS = {
    "ruff-check": ["ruff", "check", "."],
    "ruff-format": ["ruff", "format", "--check", "."],
    "snakefmt": ["snakefmt", "--check", "Snakefile", "workflow"],
    "mypy": ["mypy"],
    "layers": ["lint-imports"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_check(name):
    program, *arguments = COMMANDS[name]
    result = subprocess.run(
        [BIN / program, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "."},
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_pre_commit_runs_the_same_checks():
    config = yaml.safe_load(Path(".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = {hook["id"]: hook["entry"].split() for hook in config["repos"][0]["hooks"]}
    assert hooks.keys() == COMMANDS.keys()
    for name, (program, *_) in COMMANDS.items():
        assert hooks[name][0] == f".venv/bin/{program}"


def tracked_python_files() -> list[Path]:
    folders = ("shared", "papers")
    return [path for folder in folders for path in Path(folder).rglob("*.py")]


def test_files_are_small_enough_to_be_read():
    long = {str(p): n for p in tracked_python_files() if (n := _lines(p)) > 400}
    assert long == {}


def test_no_pickle_is_read_from_a_download():
    reading = re.compile(r"\bpickle\.loads?\(|allow_pickle=True")
    found = [str(p) for p in tracked_python_files() if reading.search(p.read_text("utf-8"))]
    assert found == []


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())
