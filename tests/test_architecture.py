"""Rules of the layout that import-linter cannot state."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shared.reporting.readme import claim_lists, table

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
    assert names
    for file in Path("shared").rglob("*.py"):
        strings = {
            node.value
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        # A paper may be named like something else (`batch`), so only places of papers count.
        places = {place for name in names for place in (f"papers.{name}", f"papers/{name}")}
        assert not [text for text in strings for place in places if place in text], file
    for file in [Path("workflow/Snakefile"), *Path("workflow").rglob("*.smk")]:
        words = set(re.findall(r"\w+", file.read_text(encoding="utf-8")))
        assert not names & words, file


def test_every_part_of_shared_has_tests_beside_it():
    parts = {path.parent.name for path in Path("shared").glob("*/__init__.py")}
    tested = {path.name for path in Path("tests").iterdir() if any(path.glob("test_*.py"))}
    assert parts - tested == set()


def test_a_paper_is_complete():
    for file in Path("papers").glob("*/paper.yaml"):
        present = {path.name for path in file.parent.iterdir()}
        assert {"README.md", "__init__.py", "figures.py"} <= present, file.parent


def test_verdicts_in_documents_are_those_that_were_computed():
    remedy = "run `python -m shared.reporting readme --scale laptop`"
    assert table("laptop") in Path("README.md").read_text(encoding="utf-8"), remedy
    lists = claim_lists("laptop")
    assert lists
    for path, text in lists.items():
        assert path.read_text(encoding="utf-8") == text, remedy


def test_links_between_documents_lead_somewhere():
    files = [*Path().glob("*.md"), *Path("docs").rglob("*.md"), *Path("papers").rglob("*.md")]
    links = [
        (file, target)
        for file in files
        for target in re.findall(r"\]\(([^)#]+)\)", file.read_text(encoding="utf-8"))
        if "://" not in target
    ]
    assert [(str(f), t) for f, t in links if not (f.parent / t).exists()] == []
