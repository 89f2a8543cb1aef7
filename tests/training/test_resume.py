"""kill -9 in the middle of a training; the same command then ends with the same bits."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from shared.records.base import read_record
from shared.records.experiment import RunKey
from shared.records.metrics import read_metrics
from shared.records.run import Provenance
from shared.training.callbacks import Resume
from shared.training.run import main

COMMAND = [
    *(sys.executable, "-m", "shared.training.run", "fake_classifier", "train", "mixup"),
    *("--seed", "3", "--set", "trainer.checkpoint_every_seconds=0.1"),
    *("--set", "trainer.max_epochs=200", "--set", "trainer.eval_every_epochs=50"),
]
KEY = RunKey(scale="laptop", paper="fake_classifier", experiment="train", arm="mixup", seed=3)


def run_in_process(*more):
    arguments = [KEY.paper, KEY.experiment, KEY.arm, "--seed", str(KEY.seed)]
    assert main([*arguments, *more]) == 0
    files = ("weights.safetensors", "predictions.safetensors", "metrics.parquet")
    return {file: (KEY.directory() / file).read_bytes() for file in files}


@pytest.mark.parametrize(
    "crashes", [(k,) for k in (1, 3, 5, 6, 7, 12, 23, 24)] + [(4, 5, 7, 13, 14), (6, 12)]
)
@pytest.mark.parametrize("every_steps", [None, 5])
def test_a_crash_at_any_step_changes_no_bit(repository, monkeypatch, crashes, every_steps):
    more = () if every_steps is None else ("--set", f"trainer.eval_every_steps={every_steps}")
    undisturbed = run_in_process(*more)
    on_train_batch_end = Resume.on_train_batch_end

    class CrashError(Exception):
        pass

    for step in crashes:

        def crash(self, trainer, *arguments, at=step):
            self._every_seconds = 0 if trainer.global_step >= at - 2 else 1000
            on_train_batch_end(self, trainer, *arguments)
            if trainer.global_step == at:
                raise CrashError

        monkeypatch.setattr(Resume, "on_train_batch_end", crash)
        with pytest.raises(CrashError):
            run_in_process(*more)
    monkeypatch.setattr(Resume, "on_train_batch_end", on_train_batch_end)
    assert run_in_process(*more) == undisturbed
    provenance = read_record(KEY.directory() / "provenance.json", Provenance)

    # At the end of an epoch and before a test nothing is saved: there the step before counts.
    def saved(step):
        return step % 6 != 0 and (every_steps is None or step % every_steps != 0)

    resumed = (next(k for k in range(crash, 0, -1) if saved(k)) for crash in crashes)
    assert provenance.resumed_at_steps == tuple(dict.fromkeys(resumed))


def test_a_crash_between_groups_of_steps_changes_no_bit(repository, monkeypatch):
    more = ("--set", "trainer.steps_at_once=4", "--set", "settings.constant_lr=true")
    undisturbed = run_in_process(*more)
    on_train_batch_end = Resume.on_train_batch_end
    spent = []

    def crash(self, trainer, *arguments):
        self._every_seconds = 0
        on_train_batch_end(self, trainer, *arguments)
        if trainer.global_step == 10:
            spent.append(self.processor_seconds)
            raise KeyboardInterrupt

    monkeypatch.setattr(Resume, "on_train_batch_end", crash)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        run_in_process(*more)
    monkeypatch.setattr(Resume, "on_train_batch_end", on_train_batch_end)
    assert run_in_process(*more) == undisturbed
    provenance = read_record(KEY.directory() / "provenance.json", Provenance)
    assert provenance.resumed_at_steps == (10,)
    # Both parts ran in this process, whose clock alone cannot have doubled in between.
    assert provenance.processor_seconds > 2 * spent[0]


@pytest.mark.parametrize("kills", [1, 2])
def test_a_killed_training_ends_with_the_same_bits(repository, kills):
    directory = KEY.directory(repository / "results")
    subprocess.run(COMMAND, cwd=repository, check=True, capture_output=True)
    undisturbed = repository / "undisturbed"
    shutil.move(directory, undisturbed)
    for _ in range(kills):
        kill_in_the_middle(repository)
    assert not (directory / "metrics.parquet").exists()

    subprocess.run(COMMAND, cwd=repository, check=True, capture_output=True)

    provenance = read_record(directory / "provenance.json", Provenance)
    assert len(provenance.resumed_at_steps) == kills
    assert all(0 < step < 200 * 6 for step in provenance.resumed_at_steps)
    for file in ("weights.safetensors", "predictions.safetensors"):
        assert (directory / file).read_bytes() == (undisturbed / file).read_bytes()
    assert read_metrics(directory / "metrics.parquet").equals(
        read_metrics(undisturbed / "metrics.parquet")
    )


def kill_in_the_middle(repository):
    process = subprocess.Popen(COMMAND, cwd=repository, stdout=subprocess.DEVNULL)
    scratch = repository / "results/scratch"
    known = {file: file.stat().st_mtime_ns for file in scratch.rglob("last.ckpt")}
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        new = [f for f in scratch.rglob("last.ckpt") if f.stat().st_mtime_ns != known.get(f)]
        if new:
            break
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("kept", [0, 100, -100, None])
def test_a_damaged_checkpoint_says_which_file_to_delete(repository, monkeypatch, capsys, kept):
    """Cut off after that many bytes, or a whole file of something else."""
    undisturbed = run_in_process()
    on_train_batch_end = Resume.on_train_batch_end

    def crash(self, trainer, *arguments):
        self._every_seconds = 0
        on_train_batch_end(self, trainer, *arguments)
        if trainer.global_step == 4:
            raise InterruptedError

    monkeypatch.setattr(Resume, "on_train_batch_end", crash)
    with pytest.raises(InterruptedError):
        run_in_process()
    monkeypatch.setattr(Resume, "on_train_batch_end", on_train_batch_end)
    (file,) = (repository / "results/scratch").rglob("last.ckpt")
    if kept is None:
        torch.save({"other": 1}, file)
    else:
        file.write_bytes(file.read_bytes()[:kept])
    for _ in range(2):
        assert main([KEY.paper, KEY.experiment, KEY.arm, "--seed", str(KEY.seed)]) == 1
        said = capsys.readouterr().err
        assert f"{file.relative_to(repository)}: got a damaged checkpoint" in said
        assert "Delete this file and run the same command again" in said
    file.unlink()
    assert run_in_process() == undisturbed
