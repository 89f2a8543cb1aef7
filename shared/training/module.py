"""The LightningModule that papers subclass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.training.lightning import LightningModule

if TYPE_CHECKING:
    import torch

    from shared.training.run_context import Run


class PaperModule(LightningModule):
    """A LightningModule that knows its run.

    Built as `Cls(**settings)` after seeding; all hooks of Lightning work as documented there
    (several optimisers with `automatic_optimization = False`, own `train_dataloader`, ...).

    Attributes:
        run: the run, set by the envelope before any hook is called.
        test_needs_gradient: True for methods that adapt at test time.
        takes_groups: True where `training_step` also takes a tuple of batches and makes one
            optimiser step with each; see `trainer.steps_at_once`.
    """

    run: Run
    test_needs_gradient = False
    takes_groups = False

    def record(
        self,
        metric: str,
        value: float | torch.Tensor,
        unit: str,
        *,
        split: str = "train",
        step: int | None = None,
    ) -> None:
        """Records one number; `step` is the number of optimiser steps if it is not given."""
        step = self.global_step if step is None else step
        self.run.recorder.add(metric, value, unit, split=split, step=step)

    def record_mean(
        self, metric: str, value: float | torch.Tensor, unit: str, *, step: int | None = None
    ) -> None:
        """Adds to a running mean, which is recorded every `trainer.log_every_steps` steps.

        `step` is the one that the optimiser is about to make if it is not given.
        """
        trainer = self.run.settings.trainer
        assert trainer is not None
        step = self.global_step + 1 if step is None else step
        every = trainer.log_every_steps
        self.run.recorder.add_mean(metric, value, unit, split="train", step=step, every=every)
