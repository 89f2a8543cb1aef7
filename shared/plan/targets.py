"""What the rules ask: which files, with which parameters, for given wildcards.

Every method that takes `wildcards` serves as an input, params, threads or resources function of a
rule. A paper.yaml is read when a rule first asks for that paper, so a target of one paper never
looks at another.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import yaml

from shared.plan.closure import CodeIndex
from shared.plan.config import read_config
from shared.plan.lost import LostFiles
from shared.records.base import RecordError
from shared.records.catalog import paper_names
from shared.records.dataset import Dataset, read_registry
from shared.records.experiment import RunKey, RunSettings, Scale, resolve
from shared.records.paper import Paper, read_paper
from shared.records.results import metrics_file, planned_runs, verdicts_file

RUN_OUTPUTS = ("metrics.parquet", "settings.json", "provenance.json")

P = ParamSpec("P")
T = TypeVar("T")


def exits_on_error(function: Callable[P, T]) -> Callable[P, T]:
    """Ends Snakemake with the message of a `RecordError` alone, without its traceback.

    Snakemake asks for all inputs and parameters before it starts the first job.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> T:
        try:
            return function(*arguments, **keywords)
        except RecordError as error:
            sys.exit(f"Error: {error}")

    return call


class Plan:
    """Everything that the workflow builds, for one configuration.

    The parameters of a rule are one mapping: Snakemake compares parameters as a set of values, in
    which two settings with swapped values would look the same.
    """

    @exits_on_error
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = read_config(config)
        self.scale: Scale = self.config.scale
        self.seeds_argument = f"--seeds {self.config.seeds}" if self.config.seeds else ""
        self._code = CodeIndex()
        self._lost = LostFiles()
        self._papers: dict[str, Paper] = {}
        self._registry: dict[str, Dataset] = {}
        self._settings: dict[RunKey, RunSettings] = {}
        self._packages: dict[str, str] = {}
        self._check_overrides()

    # Targets

    def pages(self, wildcards: Any = None) -> list[str]:
        """The page of every paper, and the list of papers."""
        return [f"reports/{name}.html" for name in paper_names()] + ["reports/index.html"]

    # Data

    @exits_on_error
    def fetch_params(self, wildcards: Any) -> dict[str, Any]:
        """What identifies the bytes of a data set, from its entry in the registry."""
        meta = self._dataset(wildcards.dataset).meta
        return {
            "format": meta.format,
            "files": [(file.name, file.sha256, file.size) for file in meta.files],
        }

    @exits_on_error
    def prepare_params(self, wildcards: Any) -> dict[str, Any]:
        return {"code": self._code.digest("shared.data.prepare")}

    # Runs

    @exits_on_error
    def run_inputs(self, wildcards: Any) -> list[str]:
        """The prepared data and the runs whose weights a run starts from."""
        settings = self._resolve(wildcards)
        needed = [str(key.directory() / "provenance.json") for key in settings.needs.values()]
        if settings.dataset is not None:
            self._dataset(settings.dataset)
            needed.append(f"results/prepared/{settings.dataset}/manifest.json")
        return needed

    @exits_on_error
    def run_params(self, wildcards: Any) -> dict[str, Any]:
        """All that decides what a run computes, and its overrides as arguments with YAML values."""
        settings = self._resolve(wildcards)
        overrides = self.config.overrides_of(wildcards.paper, wildcards.experiment)
        arguments = [
            word
            for name, value in overrides.items()
            for word in ("--set", f"{name}={yaml_text(value)}")
        ]
        return {
            "settings": settings.model_dump(mode="json"),
            "code": self._run_code(settings),
            "overrides": shlex.join(arguments),
        }

    def run_threads(self, wildcards: Any) -> int:
        """The threads that paper.yaml gives to a run."""
        return self._paper(wildcards.paper).experiments[wildcards.experiment].threads

    def run_files(self, file: str) -> Any:
        """An input function: that file of all judged runs of a paper."""

        @exits_on_error
        def files(wildcards: Any) -> list[str]:
            scale = wildcards.get("scale", self.scale)
            return [f"{folder}/{file}" for folder in self._run_folders(wildcards.paper, scale)]

        return files

    # Verdicts and reports

    @exits_on_error
    def collect_params(self, wildcards: Any) -> dict[str, Any]:
        table = metrics_file(wildcards.paper, wildcards.scale)
        runs = self._run_folders(wildcards.paper, wildcards.scale)
        return {
            "seeds": self.seeds_argument,
            "code": self._package_code("shared.claims"),
            "lost": self._lost.count(
                table, (Path(run) / file for run in runs for file in RUN_OUTPUTS)
            ),
        }

    @exits_on_error
    def judge_params(self, wildcards: Any) -> dict[str, Any]:
        claims = self._paper(wildcards.paper).claims
        verdicts = verdicts_file(wildcards.paper, wildcards.scale)
        return {
            "seeds": self.seeds_argument,
            "lost": self._lost.count(verdicts, [metrics_file(wildcards.paper, wildcards.scale)]),
            "claims": _sha256(*(claim.model_dump_json().encode() for claim in claims)),
            "code": self._package_code("shared.claims"),
        }

    @exits_on_error
    def report_params(self, wildcards: Any) -> dict[str, Any]:
        """For the page and the notebook: they show all that paper.yaml says, and the figures."""
        return {
            "scale": self.scale,
            "seeds": self.seeds_argument,
            "paper": _sha256(self._paper(wildcards.paper).model_dump_json().encode()),
            "figures": self._code.digest(f"papers.{wildcards.paper}.figures"),
            "code": self._package_code("shared.reporting"),
            "lost": self._lost.count(
                Path("reports") / f"{wildcards.paper}.html",
                [
                    metrics_file(wildcards.paper, self.scale),
                    verdicts_file(wildcards.paper, self.scale),
                    Path("reports/notebooks") / f"{wildcards.paper}.ipynb",
                ],
            ),
        }

    def index_inputs(self, wildcards: Any = None) -> list[str]:
        """The verdicts of every paper."""
        return [str(verdicts_file(name, self.scale)) for name in paper_names()]

    @exits_on_error
    def index_params(self, wildcards: Any = None) -> dict[str, Any]:
        papers = (self._paper(name).model_dump_json().encode() for name in paper_names())
        return {
            "scale": self.scale,
            "papers": _sha256(*papers),
            "code": self._package_code("shared.reporting"),
        }

    # Reading

    def _paper(self, name: str) -> Paper:
        if name not in self._papers:
            self._papers[name] = read_paper(name)
        return self._papers[name]

    def _run_folders(self, paper: str, scale: Scale) -> list[str]:
        experiments = self._paper(paper).experiments
        keys = planned_runs(paper, experiments, scale, self.config.seeds)
        return [str(key.directory()) for key in keys]

    def _resolve(self, wildcards: Any) -> RunSettings:
        names = ("scale", "paper", "experiment", "arm", "seed")
        key = RunKey(**{name: getattr(wildcards, name) for name in names})
        if key not in self._settings:
            overrides = self.config.overrides_of(key.paper, key.experiment)
            self._settings[key] = resolve(self._paper(key.paper).experiments, key, overrides)
        return self._settings[key]

    def _run_code(self, settings: RunSettings) -> str:
        """The digest of the code behind a run: that of the envelope and that of the paper."""
        return self._code.digest(*settings.code())

    def _package_code(self, package: str) -> str:
        """The digest of what `python -m PACKAGE` runs, its templates included."""
        if package not in self._packages:
            folder = Path(package.replace(".", "/"))
            templates = sorted(
                path
                for path in folder.rglob("*")
                if path.is_file() and path.suffix not in (".py", ".pyc")
            )
            parts = [str(path).encode() + b"\0" + path.read_bytes() for path in templates]
            code = self._code.digest(f"{package}.__main__").encode()
            self._packages[package] = _sha256(code, *parts)
        return self._packages[package]

    def _dataset(self, name: str) -> Dataset:
        if not self._registry:
            self._registry = read_registry()
        if name not in self._registry:
            raise RecordError(
                f"got data set {name!r}, expected one of {', '.join(self._registry)}. "
                "A data set is an entry of data.dvc."
            )
        return self._registry[name]

    def _check_overrides(self) -> None:
        for name in self.config.overrides:
            paper, experiment, _ = name.split(".", 2)
            experiments = self._paper(paper).experiments
            if experiment not in experiments:
                raise RecordError(
                    f"overrides: {name}: got experiment {experiment!r}, expected one of "
                    f"{', '.join(experiments)}"
                )


def has_gpu(devices: Path = Path("/dev")) -> bool:
    """Whether an NVIDIA GPU is visible (`dxg` is the one of Windows' Linux subsystem)."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return False
    return (devices / "dxg").exists() or any(devices.glob("nvidia[0-9]*"))


def yaml_text(value: Any) -> str:
    """A value on one line, as YAML reads it back: JSON's 1e-05 would be a text there."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**9)
    return text.removesuffix("...\n").strip()


def _sha256(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()
