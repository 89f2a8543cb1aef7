from __future__ import annotations

import json
import os
import subprocess
import sys

import nbformat
import pytest

from .conftest import reporting

KNOWN_OUTPUTS = {"application/vnd.vegalite.v6+json", "image/png", "text/html", "text/plain"}


MAKE = """\
import psutil
from shared.reporting.__main__ import main
status = main(["notebook", "toy", "--scale", "laptop"])
print(status, len(psutil.Process().children(recursive=True)))
"""


@pytest.fixture(scope="module")
def made(tree, tmp_path_factory):
    """The notebook, made with an empty home, and what the command left there."""
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        [sys.executable, "-c", MAKE],
        cwd=tree,
        capture_output=True,
        text=True,
        env={**{k: v for k, v in os.environ.items() if "JUPYTER" not in k}, "HOME": str(home)},
    )
    assert done.stdout == "reports/notebooks/toy.ipynb\n0 0\n", "the kernel still runs"
    assert done.stderr == ""
    return tree / "reports/notebooks/toy.ipynb", [str(path) for path in home.rglob("*")]


@pytest.fixture(scope="module")
def notebook(made):
    return nbformat.read(made[0], as_version=4)


def test_it_is_valid_small_and_leaves_the_home_alone(made, notebook):
    nbformat.validate(notebook)
    assert made[0].stat().st_size < 2_000_000
    assert made[1] == []


def test_every_cell_ran_in_order_and_nothing_is_dated(notebook):
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert [cell.id for cell in notebook.cells] == [
        f"cell-{place:02d}" for place in range(1, len(notebook.cells) + 1)
    ]
    assert all(cell.metadata == {} for cell in notebook.cells)


def test_figures_are_shown_live_and_as_pictures(notebook):
    data = [output["data"] for cell in notebook.cells for output in cell.get("outputs", ())
            if "data" in output]  # fmt: skip
    assert sum("image/png" in item for item in data) == 4
    assert sum("application/vnd.vegalite.v6+json" in item for item in data) == 4
    assert {kind for item in data for kind in item} == KNOWN_OUTPUTS


def test_it_tells_the_verdicts_and_how_to_carry_on(notebook):
    text = json.dumps(notebook)
    assert "Yes, as far as decided." in text
    assert "toy2_gap" in text
    assert "Laptop scale: Fashion-MNIST instead of CIFAR-10" in text
    assert "## Carry on from here" in notebook.cells[-2].source
    assert notebook.cells[-1].outputs


def test_it_runs_from_the_folder_where_it_lies(made, notebook):
    code = "\n".join(cell.source for cell in notebook.cells[:4] if cell.cell_type == "code")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=made[0].parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_failing_cell_is_named(own_tree):
    file = own_tree / "papers/toy/figures.py"
    broken = file.read_text("utf-8").replace(
        "def figures(metrics, scale):",
        "import sys\n\n\ndef figures(metrics, scale):\n"
        "    if 'ipykernel' in sys.modules:\n        raise KeyError('only in the kernel')",
    )
    file.write_text(broken, "utf-8")
    done = reporting(own_tree, "notebook", "toy", "--scale", "laptop")
    assert done.returncode == 1
    assert "the notebook of toy: cell-08 failed: KeyError: 'only in the kernel'" in done.stderr
    assert "load_figures" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (own_tree / "reports/notebooks/toy.ipynb").exists()
