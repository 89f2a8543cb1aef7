"""A small repository with this workflow and fake commands: quick, without torch or a network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).parents[2]
COPIED = (
    "Snakefile",
    "workflow",
    "profiles",
    "config",
    "shared/__init__.py",
    "shared/plan",
    "shared/records",
    "papers/__init__.py",
)

# Each fake command writes the files of the contract, with what they depend on as their content.
COMMANDS = {
    "shared/data/__main__.py": """
import pathlib, sys
step, name = sys.argv[1:]
file = {"fetch": f"results/fetched/{name}.json",
        "prepare": f"results/prepared/{name}/manifest.json"}
pathlib.Path(file[step]).write_text(pathlib.Path("data.dvc").read_text())
""",
    "shared/training/run.py": """
import argparse, importlib, os, pathlib, sys, time
parser = argparse.ArgumentParser()
for name in ("paper", "experiment", "arm", "--seed", "--scale"):
    parser.add_argument(name)
parser.add_argument("--set", action="append")
o = parser.parse_args()
folder = pathlib.Path(f"results/{o.scale}/runs/{o.paper}/{o.experiment}/{o.arm}/seed-{o.seed}")
(folder / "run.log").write_text("started\\n")
code = importlib.import_module(f"papers.{o.paper}.measurements")
if o.arm in code.BROKEN:
    sys.exit(f"{folder}: this arm is broken")
for file in ("metrics.parquet", "settings.json", "provenance.json"):
    (folder / file).write_text(f"{o} {code.VALUE}")
    time.sleep(float(os.environ.get("SECONDS_OF_A_RUN", 0)))
""",
    "shared/claims/__main__.py": """
import pathlib, sys
step, paper, _, scale = sys.argv[1:5]
file = {"collect": f"results/{scale}/metrics/{paper}.parquet",
        "judge": f"results/{scale}/verdicts/{paper}.json"}
pathlib.Path(file[step]).write_text(" ".join(sys.argv))
""",
    "shared/reporting/__main__.py": """
import pathlib, sys
step, paper = sys.argv[1:3]
file = {"notebook": f"reports/notebooks/{paper}.ipynb", "page": f"reports/{paper}.html",
        "index": "reports/index.html"}
pathlib.Path(file[step]).write_text(" ".join(sys.argv))
""",
    "shared/reporting/templates/page.html": "<html></html>",
    "shared/data/prepare.py": "",
    "shared/norms/one.py": "VALUE = 1\n",
    "shared/norms/two.py": "VALUE = 2\n",
}


def build(root: Path, papers: dict[str, dict[str, object]]) -> None:
    """Writes the repository.

    Args:
        papers: name -> what `experiment` takes, for each paper.
    """
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, root / name)
    for name, text in COMMANDS.items():
        write(root / name, text)
    for package in ("data", "training", "claims", "reporting", "norms"):
        write(root / "shared" / package / "__init__.py", "")
    for name, changes in papers.items():
        write_paper(root, name, **changes)
    write(root / "environment.yml", "dependencies: []\n")
    registry(root, first="a", second="b")


def write_paper(root: Path, name: str, layer: str = "one", **experiment: object) -> None:
    """A paper with one experiment of two arms, whose code imports `shared.norms.LAYER`."""
    folder = root / "papers" / name
    content = {
        "title": f"On {name}",
        "authors": ["A. Author"],
        "year": 2020,
        "venue": "none",
        "arxiv": "2001.00001v1",
        "summary": "A fake.",
        "main_claims": ["first"],
        "here": "here",
        "deviations": [],
        "claims": [
            {
                "id": "first",
                "statement": "It holds.",
                "source": {"where": "Table 1", "verified": False},
                "kind": "value",
                "experiment": "toy",
                "arms": ["left"],
                "metric": "size",
                "unit": "one",
                "bound": {"at_least": 1.0},
                "bound_reason": "a fake",
            }
        ],
        "experiments": {
            "toy": {
                "title": "Toy",
                "kind": "measurement",
                "entry": "measurements:measure",
                "settings": {"width": 1, "depth": 2},
                "arms": {"left": {}, "right": {"settings": {"depth": 3}}},
                "seeds": 3,
                "scales": {"smoke": None, "laptop": None},
            }
            | experiment
        },
    }
    write(folder / "paper.yaml", yaml.safe_dump(content, sort_keys=False))
    write(folder / "__init__.py", "")
    write(
        folder / "measurements.py",
        f'"""Measures."""\nfrom shared.norms.{layer} import VALUE\n\nRATE = 0.1\nBROKEN = ()\n',
    )
    write(folder / "figures.py", "def figures(metrics, scale):\n    return []\n")


def registry(root: Path, **digits: str) -> None:
    """data.dvc with one data set per argument; the digit stands for the hash of its bytes."""
    outs = [
        {
            "path": f"data/{name}",
            "desc": "A fake.",
            "meta": {
                "format": "idx",
                "licence": "MIT",
                "homepage": "https://example.org",
                "files": [{"name": "bytes", "sha256": digit * 64, "size": 1}],
            },
        }
        for name, digit in digits.items()
    ]
    write(root / "data.dvc", yaml.safe_dump({"outs": outs}, sort_keys=False))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


SNAKEMAKE = str(Path(sys.executable).parent / "snakemake")


def snakemake(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Snakemake in that repository, as a user does."""
    command = [SNAKEMAKE, *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
