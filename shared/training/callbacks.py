"""What the envelope does while Lightning trains: resume, divergence, progress."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shared.records.base import RecordError
from shared.records.experiment import TrainerSettings
from shared.training.console import Console, duration
from shared.training.lightning import Callback, LightningModule, Trainer
from shared.training.recorder import Recorder


class Resume(Callback):
    """Checkpoints that make a killed run end with the same bits as an undisturbed one.

    Lightning's checkpoint holds weights, optimisers, schedulers, loops and the loader's position;
    this adds the random streams and the rows recorded so far. The file is replaced atomically.
    """

    def __init__(self, file: Path, settings: TrainerSettings, recorder: Recorder) -> None:
        self.file = file
        self.resumed_at_steps: list[int] = []
        self._every_seconds = settings.checkpoint_every_seconds
        self._eval_every = (settings.eval_every_steps or 0) // settings.steps_at_once
        self._recorder = recorder
        self._seconds_before = 0.0
        self._processor_seconds_before = 0.0
        self._start = time.monotonic()
        self._last_save = self._start
        self._random_streams: dict[str, Any] | None = None

    @property
    def wall_seconds(self) -> float:
        """Seconds of computing, those of killed processes up to their last checkpoint included."""
        return self._seconds_before + time.monotonic() - self._start

    @property
    def processor_seconds(self) -> float:
        """Seconds on processors, start-up included; of killed processes as `wall_seconds`."""
        return self._processor_seconds_before + time.process_time()

    def save(self, trainer: Trainer) -> None:
        """Writes the checkpoint of this moment."""
        temporary = self.file.with_suffix(".partial")
        trainer.save_checkpoint(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(self.file)
        self._last_save = time.monotonic()

    def check(self) -> None:
        """Whether the checkpoint can be read at all.

        Raises:
            RecordError: it cannot, and so would stop this run for ever.
        """
        try:
            torch.load(self.file, map_location="cpu", weights_only=False)["renorm"]
        except (MemoryError, PermissionError):  # the file may be whole
            raise
        except Exception as error:  # whatever a damaged archive or pickle gives
            raise RecordError(
                f"{self.file}: got a damaged checkpoint ({type(error).__name__}: "
                f"{str(error).splitlines()[0] if str(error) else 'no message'}), expected one that "
                "this run saved. Delete this file and run the same command again: the training "
                "then begins at its first step"
            ) from None

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        checkpoint["renorm"] = {
            "random_streams": _random_streams(),
            "recorder": self._recorder.state_dict(),
            "wall_seconds": self.wall_seconds,
            "processor_seconds": self.processor_seconds,
            "resumed_at_steps": self.resumed_at_steps,
        }

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        state = checkpoint["renorm"]
        self._recorder.load_state_dict(state["recorder"])
        self._seconds_before = state["wall_seconds"]
        self._processor_seconds_before = state["processor_seconds"]
        self.resumed_at_steps = [*state["resumed_at_steps"], checkpoint["global_step"]]
        self._random_streams = state["random_streams"]
        # A training that was already at its end goes straight to the test: restore here too.
        _set_random_streams(self._random_streams)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._random_streams is not None:
            _set_random_streams(self._random_streams)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # After the last batch of an epoch Lightning has still to validate and to step schedulers,
        # after others to validate, and a run resumed there would skip it. The next batch will do.
        due = time.monotonic() - self._last_save >= self._every_seconds
        if due and not trainer.is_last_batch and not self._validates_next(trainer):
            self.save(trainer)

    def _validates_next(self, trainer: Trainer) -> bool:
        every = self._eval_every
        return every > 0 and (trainer.fit_loop.total_batch_idx + 1) % every == 0


class Divergence(Callback):
    """Stops a training whose loss is no longer finite; that is an outcome, not an error."""

    def __init__(self, every_steps: int) -> None:
        self.step: int | None = None
        self._every_steps = every_steps

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if not isinstance(loss, torch.Tensor):
            return
        # Looking at the loss waits for a GPU, so there it is looked at less often.
        if loss.is_cuda and trainer.global_step % self._every_steps:
            return
        if not loss.isfinite().all():
            self.step = trainer.global_step
            trainer.should_stop = True


class Progress(Callback):
    """One line every ten seconds: epoch, step, loss, images/s, time left."""

    def __init__(self, console: Console, settings: TrainerSettings, batch_size: int | None) -> None:
        self._console = console
        self._settings = settings
        self._batch_size = batch_size
        self._start = time.monotonic()
        self._first_step = 0
        self.started_at: float | None = None

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self.started_at is None:
            self.started_at = time.time()
            self._start = time.monotonic()
            self._first_step = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self._console.due():
            return
        step = trainer.global_step
        steps_per_second = (step - self._first_step) / (time.monotonic() - self._start)
        parts = [f"epoch {trainer.current_epoch + 1}"]
        total = trainer.estimated_stepping_batches * self._settings.steps_at_once
        if self._settings.max_steps is not None:
            total = min(total, self._settings.max_steps)
        known = isinstance(total, int) and total > 0
        parts.append(f"step {step:,}/{total:,}" if known else f"step {step:,}")
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if isinstance(loss, torch.Tensor):
            parts.append(f"loss {loss.item():.4g}")
        if self._batch_size:
            parts.append(f"{steps_per_second * self._batch_size:,.0f} images/s")
        if known and steps_per_second > 0:
            parts.append(f"{duration((total - step) / steps_per_second)} left")
        self._console.line("  ".join(parts))


def _random_streams() -> dict[str, Any]:
    kind, keys, *rest = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (kind, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _set_random_streams(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
