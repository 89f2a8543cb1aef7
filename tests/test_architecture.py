"""Rules of the layout that import-linter cannot state."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

LIGHT = {
    "records": "shared.records.paper",
    "plan": "shared.plan.targets",
    "claims": "shared.claims.judge",
    "reporting": "shared.reporting.__main__",
}


@pytest.mark.parametrize("module", LIGHT.values(), ids=LIGHT)
def test_light_parts_start_without_torch(module):
    code = f"import {module}, sys; print(sorted({{'torch', 'lightning'}} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


def test_a_measurement_starts_without_lightning():
    code = (
        "import sys, shared.training.run, shared.training.measure;print('lightning' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr


def test_the_machinery_names_no_paper():
    names = {path.parent.name for path in Path("papers").glob("*/paper.yaml")}
    files = [*Path("shared").rglob("*.py"), *Path("workflow").rglob("*.smk")]
    for file in files:
        if file.suffix == ".py":
            strings = {
                node.value
                for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
            assert not names & strings, file


def test_every_part_of_shared_has_tests_beside_it():
    parts = {path.parent.name for path in Path("shared").glob("*/__init__.py")}
    tested = {path.name for path in Path("tests").iterdir() if any(path.glob("test_*.py"))}
    assert parts - tested == set()


def test_a_paper_is_complete():
    for file in Path("papers").glob("*/paper.yaml"):
        present = {path.name for path in file.parent.iterdir()}
        assert {"README.md", "__init__.py", "figures.py"} <= present, file.parent
