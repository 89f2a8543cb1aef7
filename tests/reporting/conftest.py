"""A complete fake results tree: 150 runs, all four verdicts, diverged and missing runs."""

from __future__ import annotations

import math
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

import papers
from shared.records.base import write_json
from shared.records.claim import Bound
from shared.records.experiment import RunKey, resolve
from shared.records.metrics import Row, table, write_metrics
from shared.records.paper import Paper, read_paper
from shared.records.run import Energy, Machine, Outcome, Provenance
from shared.records.verdict import ArmCount, ClaimVerdict, Look, PaperVerdicts

REPOSITORY = Path(__file__).parents[2]
MISSING = ("conv", "fixup", 7)
"""The one planned run that left no files."""

PAPER_YAML = """\
title: "Scaled Initialization: Residual Learning Without Normalization"
authors: [Ada Example, Bo Sample, Chi Placeholder]
year: 2019
venue: ICLR 2019
arxiv: 1901.00001v2
code: https://example.org/scaled-initialization
summary: Residual networks train without normalization when each branch is scaled at the start.
main_claims: [toy1_depth, toy2_gap]
here: >-
  Fashion-MNIST instead of CIFAR-10, one epoch instead of 200, width 8, on two CPU cores.
experiments:
  init:
    title: Signal propagation at initialisation
    kind: measurement
    entry: measurements:variance
    settings: {blocks: 50}
    arms: {fixup: , he: , zero-init: }
    seeds: 3
    scales: {smoke: , laptop: }
  depth:
    title: Depth sweep of a residual MLP
    kind: training
    entry: module:Deep
    data: {dataset: fashion-mnist, batch_size: 128}
    trainer: {max_epochs: 200}
    settings: {lr: 0.1}
    grid:
      method: [bn, fixup, he, zero-init]
      depth: [10, 100, 1000, 10000]
    seeds: 5
    scales:
      smoke: {trainer: {max_epochs: null, max_steps: 2}}
      laptop: {data: {train_size: 20000}, trainer: {max_epochs: 1}}
      full: {data: {dataset: cifar-10}}
    threads: 1
    configurations_tried: one learning rate for all arms, from the paper
  conv:
    title: Small convolutional residual network
    kind: training
    entry: module:Conv
    data: {dataset: fashion-mnist, batch_size: 128, augment: [crop, flip]}
    trainer: {max_epochs: 200}
    settings: {lr: 0.1, width: 16, mixup_alpha: 1.0}
    arms:
      bn: {settings: {norm: batch}}
      fixup: {settings: {norm: none}}
      he: {settings: {norm: none, scale: false}}
      xavier: {settings: {norm: none, scale: false, init: xavier}}
      no-scalar-lr: {settings: {norm: none, scalar_lr: 1.0}}
    seeds: 8
    scales:
      smoke: {trainer: {max_epochs: null, max_steps: 2}}
      laptop: {trainer: {max_epochs: 3}, settings: {width: 8}}
      full: {data: {dataset: cifar-10}}
  source:
    title: The network that the next experiment starts from
    kind: training
    entry: module:Conv
    data: {dataset: fashion-mnist}
    trainer: {max_epochs: 2}
    arms: {bn: }
    seeds: 1
    scales: {laptop: }
  adapt:
    title: Adaptation of a trained network
    kind: training
    entry: module:Adapt
    data: {dataset: fashion-mnist}
    trainer: {max_epochs: 1}
    arms: {bn: , fixup: , he: , xavier: }
    seeds: 5
    scales: {laptop: }
    needs: {source: {experiment: source, arm: bn}}
claims:
  - id: toy1_depth
    statement: Test error after one epoch does not grow with depth up to 10,000 layers.
    source: {where: "Figure 3", verified: true}
    paper_value: {text: about 50, unit: percent accuracy, verified: false}
    kind: trend
    experiment: depth
    arms: [fixup-10, fixup-100, fixup-1000, fixup-10000]
    x: [1, 2, 3, 4]
    metric: test_error_percent
    unit: percent
    bound: {at_most: 1.0}
    bound_reason: Pilots on seeds 1000 to 1004 spread by 0.3; one point is a third of BN's gain.
  - id: toy2_gap
    statement: The scaled network comes within two points of batch normalization's test error.
    source: {where: "Table 1, row 4", verified: true, note: The table gives no spread.}
    paper_value: {text: "7.24 (BatchNorm 6.61)", unit: percent, verified: true}
    kind: gap
    experiment: conv
    arms: [fixup, bn]
    metric: test_error_percent
    unit: percent
    bound: {at_most: 2.0}
    bound_reason: Twice the gap that the paper prints, rounded up.
    would_change: A tuned learning rate for the scaled network.
  - id: toy3_ratio
    statement: Its update changes the function by the same factor at all depths.
    source: {where: "Section 3", verified: true}
    kind: ratio
    experiment: depth
    arms: [fixup-1000, fixup-10]
    metric: logit_change
    split: none
    unit: logit
    bound: {at_least: 0.5, at_most: 2.0}
    bound_reason: A factor of two either way is what the theorem hides in its constant.
  - id: toy4_rate
    statement: >-
      Without scaling <script>document.title = "injected"</script> a deep network fails & stops.
    source: {where: "Section 3, ablation", verified: false}
    kind: rate
    experiment: depth
    arms: [zero-init-1000]
    metric: test_error_percent
    unit: percent
    success: {at_most: 60.0}
    bound: {at_most: 0.5}
    bound_reason: A coin would do as well.
  - id: toy5_exact
    statement: At the first step all logits are zero.
    source: {where: "Section 2", verified: true}
    kind: exact
    experiment: init
    arms: [fixup]
    metric: logit_max_abs
    split: none
    unit: logit
    bound: {at_most: 1.0e-6}
    bound_reason: Float32 has no rounding here.
  - id: toy6_ordering
    statement: Batch normalization beats the scaled network, which beats Xavier.
    source: {where: "Table 1", verified: true}
    paper_value: {text: "6.61 < 7.24 < 7.78", unit: percent, verified: true}
    kind: ordering
    experiment: conv
    arms: [bn, fixup, xavier]
    metric: test_error_percent
    unit: percent
    bound: {at_most: 0.0}
    bound_reason: The order is the claim.
  - id: toy7_imagenet
    statement: On ImageNet the scaled ResNet-50 with mixup reaches 24.0 percent error.
    source: {where: "Table 2", verified: true}
    paper_value: {text: "24.0 (BatchNorm with mixup 23.3)", unit: percent, verified: true}
    kind: value
    not_run: Needs ImageNet and about 200 GPU hours.
  - id: toy8_translation
    statement: Translation works without layer normalization.
    source: {where: "Table 3", verified: false}
    paper_value: {text: "34.5 (LayerNorm 34.2)", unit: BLEU, verified: false}
    kind: value
    not_run: No translation data set is wired yet.
deviations:
  - Fashion-MNIST stands in for CIFAR-10, so absolute errors cannot be compared.
  - The stem is initialised by He's rule; the authors' code leaves it at the framework's default.
"""

FIGURES_PY = '''\
"""Figures of the fake paper."""

from shared.reporting.figures import Figure, dots_by_arm, seed_band, sweep
from shared.reporting.pictures import pictures

METHODS = ("BatchNorm", "Fixup", "He, no norm", "Zero init", "Xavier, no norm", "Fixup, one lr")
ARMS = {"bn": 0, "fixup": 1, "he": 2, "xavier": 4, "no-scalar-lr": 5}


def figures(metrics, scale):
    arms = {arm: METHODS[index] for arm, index in ARMS.items()}
    points = {
        f"{name}-{depth}": (METHODS[index], depth)
        for index, name in enumerate(["bn", "fixup", "he", "zero-init"])
        for depth in (10, 100, 1000, 10000)
    }
    return [
        Figure(
            "Test error against depth",
            "Last test error of a residual MLP. Line: mean; bar: lowest to highest seed.",
            sweep(
                metrics, experiment="depth", metric="test_error_percent", points=points,
                methods=METHODS, x_title="depth (layers)",
            ),
        ),
        Figure(
            "Training loss of the small ResNet",
            "Mean and range over the seeds, <b>not</b> smoothed.",
            seed_band(
                metrics, experiment="conv", metric="train_loss", arms=arms, methods=METHODS,
                split="train", log_y=True,
            ),
        ),
        Figure(
            "Last test error of the small ResNet",
            "One dot is one seed; the tick is the mean of the seeds that finished.",
            dots_by_arm(
                metrics, experiment="conv", metric="test_error_percent", arms=arms,
                methods=METHODS,
            ),
        ),
        Figure(
            "Test error during training",
            "Mean and range over the seeds.",
            seed_band(
                metrics, experiment="conv", metric="test_error_percent", arms=arms,
                methods=METHODS,
            ),
        ),
        pictures(
            "toy", scale, experiment="conv",
            arms={arm: arms[arm] for arm in ("bn", "no-scalar-lr")},
            seeds=(0, 1), title="Samples", caption="The same <i>noise</i> everywhere.",
        ),
    ]
'''


def build_tree(root: Path) -> None:
    """Writes papers/toy, papers/idle (no results) and results/laptop under `root`."""
    (root / "papers" / "toy").mkdir(parents=True)
    (root / "papers" / "idle").mkdir()
    (root / "papers" / "__init__.py").touch()
    (root / "shared").symlink_to(REPOSITORY / "shared")
    (root / "papers" / "toy" / "paper.yaml").write_text(PAPER_YAML, encoding="utf-8")
    (root / "papers" / "toy" / "figures.py").write_text(FIGURES_PY, encoding="utf-8")
    idle = PAPER_YAML.replace("Scaled Initialization", "A Paper That Waits")
    (root / "papers" / "idle" / "paper.yaml").write_text(idle, encoding="utf-8")
    paper = read_paper("toy", root / "papers")
    results = root / "results"
    tables = []
    for name, experiment in paper.experiments.items():
        for arm in experiment.arms_at("laptop"):
            for seed in experiment.seeds_at("laptop"):
                if (name, arm, seed) != MISSING:
                    key = RunKey(scale="laptop", paper="toy", experiment=name, arm=arm, seed=seed)
                    tables.append(_write_run(results, paper, key))
    write_metrics(results / "laptop" / "metrics" / "toy.parquet", pl.concat(tables))
    write_json(
        results / "laptop" / "verdicts" / "toy.json",
        PaperVerdicts(paper="toy", scale="laptop", claims=_verdicts()),
    )


def _write_run(results: Path, paper: Paper, key: RunKey) -> pl.DataFrame:
    dice = random.Random(str(key))
    diverges = (key.experiment, key.arm) in {
        ("depth", "he-1000"),
        ("depth", "he-10000"),
        ("depth", "zero-init-10000"),
    } or (key.experiment == "conv" and key.arm == "no-scalar-lr" and key.seed in (1, 4))
    settings = resolve(paper.experiments, key)
    step = 7 + key.seed * 40 if diverges else 0 if settings.kind == "measurement" else 469
    rows = list(_rows(key, dice, step, diverges))
    directory = key.directory(results)
    metrics = table(key.experiment, key.arm, key.seed, rows)
    write_metrics(directory / "metrics.parquet", metrics)
    write_json(directory / "settings.json", settings)
    write_json(directory / "provenance.json", _provenance(key, dice, step, diverges))
    lines = [
        f"{0.9 * i:8.1f} s  epoch 1/1  step {i}/100  loss {2.3 / (1 + i):.4f}  "
        f"{dice.randint(900, 1100)} images/s  {90 - 0.9 * i:.0f} s left"
        for i in range(100)
    ]
    if key.experiment == "conv" and key.arm in ("bn", "no-scalar-lr") and key.seed < 2:
        _save_pictures(directory / "images", (0, 50) if diverges else (0, 50, 1000))
    (directory / "run.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return metrics


def _save_pictures(folder: Path, steps: tuple[int, ...]) -> None:
    folder.mkdir()
    Image.new("L", (6, 4), 200).save(folder / "real.png")
    for step in steps:
        Image.new("L", (6, 4), step // 4).save(folder / f"samples-{step:06d}.png")


def _rows(key: RunKey, dice: random.Random, step: int, diverges: bool) -> Iterator[Row]:
    yield Row("diverged", float(diverges), "flag", "run", step)
    method, _, depth = key.arm.rpartition("-") if key.experiment == "depth" else (key.arm, "", "")
    level = {"bn": 8.6, "fixup": 9.4, "he": 12.0, "xavier": 11.2, "zero-init": 10.5}.get(method, 11)
    if key.experiment == "depth":
        growth = {"bn": 1.6, "fixup": 0.15, "he": 4.0, "zero-init": 9.0}[method]
        yield Row("logit_change", 0.08 * (1 + dice.gauss(0, 0.03)), "logit")
        level += 4 + growth * (math.log10(float(depth)) - 1)
    if key.experiment == "init":
        yield Row("logit_max_abs", 0.0 if key.arm == "fixup" else 0.3, "logit")
        return
    last = step if diverges else 469
    for at in range(1, last + 1, 12):
        yield Row("train_loss", 2.3 / (1 + at / 25) + dice.uniform(0, 0.06), "nats", "train", at)
    for at in range(67, last + 1, 67):
        error = level + 40 * math.exp(-at / 90) + dice.gauss(0, 0.35)
        yield Row("test_error_percent", error, "percent", "test", at)


def _provenance(key: RunKey, dice: random.Random, step: int, diverges: bool) -> Provenance:
    return Provenance(
        key=key,
        outcome=Outcome(
            status="diverged" if diverges else "finished",
            step=step,
            detail=f"train_loss was inf at step {step}" if diverges else "",
        ),
        git_commit="0123456789abcdef0123456789abcdef01234567",
        git_dirty_sha256="d" * 64 if key.experiment == "adapt" else None,
        code_sha256="c" * 64,
        settings_sha256=f"{dice.getrandbits(256):064x}",
        data_sha256="a" * 64,
        needs_sha256={},
        versions={"python": "3.11.2", "torch": "2.14.1", "lightning": "2.6.0", "numpy": "2.4.6"},
        machine=Machine(
            cpu="Example CPU 3000",
            cores=2,
            memory_gib=8.0,
            platform="Linux-6.1",
            gpu=None,
            gpu_driver=None,
        ),
        device="cpu",
        threads=1,
        flags={"deterministic_algorithms": "true", "float32_matmul_precision": "highest"},
        started=datetime(2025, 1, 2, 3, 4, key.seed, tzinfo=UTC),
        wall_seconds=dice.uniform(3, 40),
        processor_seconds=dice.uniform(6, 50),
        startup_seconds=dice.uniform(2, 4),
        peak_memory_mib=dice.uniform(400, 700),
        peak_gpu_memory_mib=None,
        energy=Energy(
            joules=None if key.experiment == "init" else dice.uniform(40, 600),
            source="not measured: no counter"
            if key.experiment == "init"
            else "intel-rapl:0 (whole CPU package)",
        ),
        files={
            "metrics.parquet": f"{dice.getrandbits(256):064x}",
            "weights.safetensors": f"{dice.getrandbits(256):064x}",
        },
    )


def _look(claim: str, seeds: int, alpha: float) -> Look:
    return Look(
        claim=claim, seeds=seeds, alpha=alpha, claim_sha256="1" * 64, metrics_sha256="2" * 64
    )


def _verdicts() -> tuple[ClaimVerdict, ...]:
    full = {"planned": 5, "finished": 5, "diverged": 0, "missing": 0}
    return (
        ClaimVerdict(
            id="toy1_depth",
            verdict="reproduced",
            kind="trend",
            unit="percent per unit of x",
            reason="The whole interval lies at or below 1.",
            estimate=0.152,
            low=-0.081,
            high=0.385,
            confidence=0.95,
            bound=Bound(at_most=1.0),
            effect_size=-3.61,
            effect_size_name="distance to the bound over the spread of seeds",
            seeds=5,
            per_seed=(0.11, 0.36, -0.05, 0.21, 0.13),
            counts=tuple(ArmCount(arm=f"fixup-{d}", **full) for d in (10, 100, 1000, 10000)),
            looks=(_look("toy1_depth", 5, 0.05),),
        ),
        ClaimVerdict(
            id="toy2_gap",
            verdict="inconclusive",
            kind="gap",
            unit="percent",
            reason="1 of 8 planned runs of fixup is missing, and the interval crosses 2.",
            estimate=1.214,
            low=0.31,
            high=2.118,
            confidence=0.975,
            bound=Bound(at_most=2.0),
            effect_size=1.12,
            effect_size_name="Cohen's d of the paired gaps",
            seeds=7,
            seeds_to_decide=14,
            per_seed=(0.9, 1.8, 0.2, 2.4, 1.1, 0.7, 1.4),
            counts=(
                ArmCount(arm="fixup", planned=8, finished=7, diverged=0, missing=1),
                ArmCount(arm="bn", planned=8, finished=8, diverged=0, missing=0),
            ),
            looks=(_look("toy2_gap", 5, 0.025), _look("toy2_gap", 8, 0.025)),
            warnings=(
                "The test was changed after data had been seen: at_most was 1.5 at the first look.",
            ),
        ),
        ClaimVerdict(
            id="toy3_ratio",
            verdict="reproduced",
            kind="ratio",
            unit="times",
            reason="The whole interval lies between 0.5 and 2.",
            estimate=1.03,
            low=0.94,
            high=1.12,
            confidence=0.95,
            bound=Bound(at_least=0.5, at_most=2.0),
            effect_size=6.2,
            seeds=5,
            effect_size_name="log ratio over its spread",
            per_seed=(1.01, 1.05, 0.98, 1.1, 1.02),
            looks=(_look("toy3_ratio", 5, 0.05),),
        ),
        ClaimVerdict(
            id="toy4_rate",
            verdict="not_reproduced",
            kind="rate",
            unit="share of runs",
            reason="5 of 5 runs train; the exact interval lies above 0.5.",
            estimate=1.0,
            low=0.549,
            high=1.0,
            confidence=0.9,
            bound=Bound(at_most=0.5),
            seeds=5,
            counts=(ArmCount(arm="zero-init-1000", **full),),
            looks=(_look("toy4_rate", 5, 0.05),),
        ),
        ClaimVerdict(
            id="toy5_exact",
            verdict="reproduced",
            kind="exact",
            unit="logit",
            reason="The largest error of 3 runs is 0.",
            estimate=0.0,
            bound=Bound(at_most=1e-6),
            seeds=3,
            looks=(_look("toy5_exact", 3, 0.05),),
        ),
        ClaimVerdict(
            id="toy6_ordering",
            verdict="not_reproduced",
            kind="ordering",
            unit="percent",
            reason="fixup minus xavier lies above 0.",
            estimate=0.8312,
            low=0.4127,
            high=1.2497,
            confidence=0.95,
            bound=Bound(at_most=0.0),
            effect_size=2.4,
            seeds=8,
            effect_size_name="Cohen's d of the paired gaps",
            per_seed=(0.7, 1.1, 0.4, 1.0, 0.9, 0.6, 1.3, 0.65),
            looks=(_look("toy6_ordering", 8, 0.05),),
        ),
        ClaimVerdict(
            id="toy7_imagenet",
            verdict="not_run",
            kind="value",
            reason="Needs ImageNet and about 200 GPU hours.",
        ),
        ClaimVerdict(
            id="toy8_translation",
            verdict="not_run",
            kind="value",
            reason="No translation data set is wired yet.",
        ),
    )


def reporting(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `python -m shared.reporting ...` in `root`, as the workflow does."""
    return subprocess.run(
        [sys.executable, "-m", "shared.reporting", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake tree. Shared by all tests: nobody writes to its papers and results."""
    root = tmp_path_factory.mktemp("reporting") / "tree"
    root.mkdir()
    build_tree(root)
    return root


@pytest.fixture
def own_tree(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the fake tree that a test may break, as working directory with its own papers."""
    root = tmp_path / "tree"
    shutil.copytree(tree, root, symlinks=True, ignore=shutil.ignore_patterns("reports"))
    monkeypatch.chdir(root)
    monkeypatch.setattr(papers, "__path__", [str(root / "papers")])
    for name in [name for name in sys.modules if name.startswith("papers.")]:
        monkeypatch.delitem(sys.modules, name)
    yield root
    for name in [name for name in sys.modules if name.startswith("papers.toy")]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def page(tree: Path) -> Path:
    """The rendered page of the fake paper."""
    done = reporting(tree, "page", "toy", "--scale", "laptop")
    assert done.returncode == 0, done.stderr
    return tree / "reports" / "toy.html"
