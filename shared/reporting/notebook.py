"""reports/notebooks/PAPER.ipynb: an executed notebook to carry on from."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from shared.records.base import RecordError, write_text
from shared.records.experiment import Scale
from shared.reporting.inputs import load_figures, read_inputs
from shared.reporting.scaled import stamp

NOTEBOOKS = Path("reports/notebooks")
SECONDS_PER_CELL = 300


def write_notebook(name: str, scale: Scale, seeds: int | None = None) -> Path:
    """Builds and executes the notebook of a paper and returns its path.

    Raises:
        RecordError: an input is missing or broken, or a cell fails; names the cell.
    """
    notebook = build(name, scale, seeds)
    _execute(notebook, name)
    path = NOTEBOOKS / f"{name}.ipynb"
    write_text(path, nbformat.writes(notebook) + "\n")  # type: ignore[no-untyped-call]
    return path


def build(name: str, scale: Scale, seeds: int | None = None) -> Any:
    """The notebook before it is executed; the ids of its cells are their places."""
    inputs = read_inputs(name, scale, seeds)
    paper = inputs.paper
    figures = load_figures(name, inputs.metrics, scale)
    seeds_flag = f" --seeds {seeds}" if seeds else ""
    cells = [
        _text(
            f"# {paper.title}\n\n{', '.join(paper.authors)}, {paper.venue}, "
            f"[arXiv:{paper.arxiv}](https://arxiv.org/abs/{paper.arxiv})\n\n"
            f"**{stamp(paper, scale)}**\n\n"
            "This notebook was made by\n\n"
            f"    python -m shared.reporting notebook {name} --scale {scale}{seeds_flag}\n\n"
            f"and shows the numbers of the page [../{name}.html](../{name}.html). Nothing is "
            "trained here: the first cell finds the repository, the second reads its results."
        ),
        _code(
            "import os\nimport sys\nfrom pathlib import Path\n\n"
            "here = Path.cwd()\n"
            'ROOT = next(p for p in [here, *here.parents] if (p / "papers" / '
            f'"{name}").is_dir())\n'
            "os.chdir(ROOT)\nsys.path.insert(0, str(ROOT))"
        ),
        _text("## The metrics table\n\nOne number a row, each with its unit."),
        _code(
            "import polars as pl\n\n"
            "from shared.reporting.inputs import load_figures, read_inputs\n\n"
            f'inputs = read_inputs("{name}", "{scale}", seeds={seeds})\n'
            "metrics = inputs.metrics\nmetrics"
        ),
        _text("## Verdicts\n\nComputed by the judge; the bounds were fixed before the runs."),
        _code(
            "from shared.reporting.answer import answer, evidence\n\n"
            "said = answer(inputs.paper, inputs.judged, inputs.scale)\n"
            "print(said.headline, said.sentence)\n"
            "with pl.Config(tbl_rows=-1, fmt_str_lengths=80, tbl_width_chars=200):\n"
            "    display(\n        pl.DataFrame(\n            [\n"
            "                {\n"
            '                    "claim": item.claim.id,\n'
            '                    "verdict": item.verdict.verdict,\n'
            '                    "here": evidence(item.verdict),\n'
            '                    "reason": item.verdict.reason,\n'
            "                }\n"
            "                for item in inputs.judged\n"
            "            ]\n        )\n    )"
        ),
        _text("## Figures"),
        _code(f'figures = load_figures("{name}", metrics, inputs.scale)\nlen(figures)'),
    ]
    for index, figure in enumerate(figures):
        cells += [_text(f"### {figure.title}\n\n{figure.caption}"), _code(f"figures[{index}]")]
    cells += [
        _text(
            "## Carry on from here\n\nThe last value of every metric of every run that did not "
            "diverge, and its mean and spread over the seeds. Change the query to ask your own "
            "question."
        ),
        _code(
            'diverged = metrics.filter((pl.col("metric") == "diverged") & (pl.col("value") > 0))\n'
            'finished = metrics.join(diverged, on=["experiment", "arm", "seed"], how="anti")\n'
            'last = finished.sort("step").group_by(\n'
            '    "experiment", "arm", "seed", "split", "metric", "unit", maintain_order=True\n'
            ").last()\n"
            "(\n"
            '    last.filter(pl.col("metric") != "diverged")\n'
            '    .group_by("experiment", "metric", "split", "arm", "unit")\n'
            "    .agg(\n"
            '        seeds=pl.len(), mean=pl.col("value").mean(), spread=pl.col("value").std()\n'
            "    )\n"
            '    .sort("experiment", "metric", "split", "arm")\n'
            ")"
        ),
    ]
    for place, cell in enumerate(cells, 1):
        cell.id = f"cell-{place:02d}"
    return nbformat.v4.new_notebook(  # type: ignore[no-untyped-call]
        cells=cells,
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
        },
    )


class _ThisPython(KernelSpecManager):
    """Starts the kernel with the interpreter that runs this command, whatever is installed."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="Python 3",
            language="python",
        )


def _execute(notebook: Any, name: str) -> None:
    """Runs all cells in the repository root; no file of the user's home is read or written."""
    with tempfile.TemporaryDirectory() as scratch:
        # The client shuts down only a kernel whose manager it has made itself, so it gets a class.
        class Kernel(AsyncKernelManager):
            def __init__(self, **options: Any) -> None:
                super().__init__(
                    kernel_spec_manager=_ThisPython(),
                    transport="ipc",
                    connection_file=str(Path(scratch) / "kernel.json"),
                    **options,
                )

        client = NotebookClient(
            notebook,
            kernel_manager_class=Kernel,
            timeout=SECONDS_PER_CELL,
            record_timing=False,
            resources={"metadata": {"path": str(Path.cwd())}},
        )
        private = {"IPYTHONDIR": scratch, "JUPYTER_RUNTIME_DIR": scratch}
        try:
            client.execute(env={**os.environ, **private})
        except CellExecutionError as error:
            cell = next(c for c in reversed(notebook.cells) if _failed(c))
            raise RecordError(
                f"the notebook of {name}: {cell.id} failed: {error.ename}: {error.evalue}\n"
                f"in this cell:\n{cell.source}"
            ) from None
        except DeadKernelError as error:
            raise RecordError(f"the notebook of {name}: the kernel died: {error}") from None
    # The kernel adds its exact versions; they belong to the provenance of the runs, not here.
    notebook.metadata["language_info"] = {"name": "python"}


def _failed(cell: Any) -> bool:
    return any(output.output_type == "error" for output in cell.get("outputs", []))


def _text(source: str) -> Any:
    return nbformat.v4.new_markdown_cell(source)  # type: ignore[no-untyped-call]


def _code(source: str) -> Any:
    return nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]
