"""Computes one run: `python -m shared.training.run PAPER EXPERIMENT ARM --seed K --scale S`.

Files appear in the run's directory only when the run is complete. Until then they, and the
checkpoints of a training, lie in a scratch folder named by all that decides the result.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import random
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from shared.data.lock import alone
from shared.data.registry import DataError
from shared.plan.closure import closure_digest
from shared.records.base import RecordError, parse_yaml, write_json
from shared.records.catalog import paper_file
from shared.records.experiment import SCALES, RunKey, RunSettings, read_experiments, resolve
from shared.records.metrics import Row, table, write_metrics
from shared.records.run import Outcome
from shared.training.arguments import check_arguments, named_in_errors
from shared.training.console import Console, console, duration
from shared.training.entry import load_entry, swap_norms
from shared.training.inputs import input_digests

if TYPE_CHECKING:
    from shared.training.run_context import Computed, Run

SCRATCH = Path("results/scratch")


def main(arguments: list[str] | None = None) -> int:
    options = vars(_parser().parse_args(arguments))
    overrides = dict(options.pop("set"))
    try:
        key = RunKey.model_validate(options)
        settings = resolve(read_experiments(paper_file(key.paper)), key, overrides)
        lock = SCRATCH / key.scale / f"{key}.lock"
        with alone(lock, str(key)), console(key, key.directory() / "run.log") as out:
            compute(settings, out)
    except (RecordError, DataError, ValidationError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def compute(settings: RunSettings, out: Console) -> None:
    """Computes a run and moves its files into place."""
    # Libraries read these when they are loaded, so they come before torch.
    os.environ["OMP_NUM_THREADS"] = str(settings.threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch

    from shared.training.device import leased_device
    from shared.training.provenance import EnergyMeter, gather
    from shared.training.run_context import Run

    torch.set_num_threads(settings.threads)
    # The same switch as use_deterministic_algorithms(True), which imports the compiler (1.6 s).
    torch.set_deterministic_debug_mode("error")
    # Every kernel that we use writes all of its output; filling it first only costs time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    # A net of 10,000 blocks is a million objects; the usual search for garbage among them took a
    # seventh of its time.
    gc.set_threshold(100_000, 50, 100)
    started, energy = datetime.now(UTC), EnergyMeter()
    code = closure_digest(*settings.code())
    scratch = _scratch(settings, code)
    staging = scratch / "files"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    with leased_device() as device:
        run = Run(settings, staging, device)
        _seed_everything(settings.key.seed)
        computed = _train_or_measure(run, scratch / "last.ckpt", out)
        outcome = _outcome(run, computed.outcome)
        _write_records(run, outcome)
        provenance = gather(run, computed, outcome, code, started, energy.read())
        write_json(staging / "provenance.json", provenance)
    _publish(staging, settings.key.directory())
    shutil.rmtree(scratch.parent)  # what older code or settings of this run left, too
    out.line(_summary(run, outcome, computed.wall_seconds))


def _train_or_measure(run: Run, checkpoint: Path, out: Console) -> Computed:
    entry = load_entry(run.settings)
    if run.settings.kind == "training":
        from shared.training.fit import fit

        module = _call(entry, run.settings)
        if run.settings.norm is not None:
            out.line(swap_norms(module, run.settings))
        return fit(run, module, checkpoint, out)
    from shared.training.measure import measure

    return measure(run, _call(entry, run.settings, run))


def _call(entry: Callable[..., Any], settings: RunSettings, *arguments: Any) -> Any:
    """Calls the paper's code with the settings as keyword arguments."""
    check_arguments(entry, settings)
    with named_in_errors(settings):
        return entry(*arguments, **settings.settings)


def _outcome(run: Run, outcome: Outcome) -> Outcome:
    """A number that is not finite means that the run diverged, wherever it was met."""
    broken = run.recorder.first_non_finite()
    if outcome.status == "finished" and broken is not None:
        detail = f"{broken.metric} is {broken.value} at step {broken.step}"
        return Outcome(status="diverged", step=outcome.step, detail=detail)
    return outcome


def _write_records(run: Run, outcome: Outcome) -> None:
    diverged = Row("diverged", float(outcome.status == "diverged"), "flag", "run", outcome.step)
    key = run.key
    rows = [*run.recorder.rows(), diverged]
    write_metrics(run.directory / "metrics.parquet", table(key.experiment, key.arm, key.seed, rows))
    write_json(run.directory / "settings.json", run.settings)


def _publish(staging: Path, directory: Path) -> None:
    """Moves the files of a complete run into place; provenance.json, which lists them, last."""
    # What it lists is about to change: no run is better than one that is half old.
    (directory / "provenance.json").unlink(missing_ok=True)
    new = {file.relative_to(staging) for file in staging.rglob("*") if file.is_file()}
    old = {file.relative_to(directory) for file in directory.rglob("*") if file.is_file()}
    for file in old - new - {Path("run.log")}:
        (directory / file).unlink()
    for file in sorted(new, key=lambda file: (file.name == "provenance.json", file)):
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (staging / file).replace(directory / file)


def _summary(run: Run, outcome: Outcome, wall_seconds: float) -> str:
    newest = {row.metric: row for row in run.recorder.rows()}
    numbers = [f"{row.metric} {row.value:.4g}" for row in list(newest.values())[-3:]]
    text = [f"{outcome.status} after {duration(wall_seconds)}", *numbers]
    return "  ".join([*text, outcome.detail] if outcome.detail else text)


def _scratch(settings: RunSettings, code: str) -> Path:
    """A folder for this code, these settings and these data, and nothing else."""
    inputs = [settings.model_dump_json(), code, *input_digests(settings)]
    name = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:16]
    return SCRATCH / settings.key.scale / str(settings.key) / name


def _seed_everything(seed: int) -> None:
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m shared.training.run", description="Computes one run of a paper."
    )
    parser.add_argument("paper")
    parser.add_argument("experiment")
    parser.add_argument("arm")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--scale", choices=SCALES, default="laptop")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=_override,
        metavar="NAME=VALUE",
        help="override a setting, e.g. trainer.max_steps=10, settings.lr=0.1 or norm=rms",
    )
    return parser


def _override(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected NAME=VALUE, e.g. settings.lr=0.1")
    try:
        return name, parse_yaml(value)
    except yaml.YAMLError:
        raise argparse.ArgumentTypeError(f"got {value!r}, expected a YAML value") from None


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # All is on disk. Taking down what torch and Lightning have built would take another second.
    os._exit(code)
