"""Computed: the paper's module in Lightning's Trainer, with our loaders and callbacks."""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from safetensors.torch import save_file

from shared.data.loader import ArrayLoader
from shared.records.base import RecordError
from shared.records.experiment import TrainerSettings
from shared.records.run import Outcome
from shared.training.callbacks import Divergence, Progress, Resume
from shared.training.console import Console
from shared.training.grouped import Grouped
from shared.training.inputs import WEIGHTS
from shared.training.lightning import Trainer, is_overridden
from shared.training.loaders import array_loader
from shared.training.module import PaperModule
from shared.training.run_context import Computed, Run

for name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.WARNING)


def fit(run: Run, module: PaperModule, checkpoint: Path, console: Console) -> Computed:
    """Trains and tests; continues from `checkpoint` if a killed process left one."""
    settings = run.settings.trainer
    assert settings is not None
    data = run.settings.data
    module.run = run
    resume = Resume(checkpoint, settings, run.recorder)
    divergence = Divergence(settings.log_every_steps)
    progress = Progress(console, settings, data.batch_size if data else None)
    if settings.steps_at_once > 1:
        if not module.takes_groups or is_overridden("train_dataloader", module):
            raise RecordError(
                f"{run.key}: trainer.steps_at_once: got {settings.steps_at_once}, but "
                f"{type(module).__name__} takes one batch at a time. Leave it out."
            )
        module.automatic_optimization = False
    if settings.channels_last:
        module.to(memory_format=torch.channels_last)
    if settings.precision == "16-mixed" and run.device.type == "cpu":
        # Lightning would take bfloat16 in its place.
        raise RecordError(
            f"{run.key}: trainer.precision: got 16-mixed, which a CPU does not have. "
            "Use bf16-mixed or 32-true, or a GPU."
        )
    trainer = Trainer(
        accelerator="cuda" if run.device.type == "cuda" else "cpu",
        devices=1,
        max_epochs=-1 if settings.max_epochs is None else settings.max_epochs,
        max_steps=-1 if settings.max_steps is None else settings.max_steps,
        # Without epochs Lightning counts batches over the whole training.
        check_val_every_n_epoch=None if settings.eval_every_steps else settings.eval_every_epochs,
        val_check_interval=(
            settings.eval_every_steps and settings.eval_every_steps // settings.steps_at_once
        ),
        precision=settings.precision,
        gradient_clip_val=settings.gradient_clip_norm,
        inference_mode=not module.test_needs_gradient,
        callbacks=[divergence, progress, resume],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
    )
    train_loader, test_loader = _loaders(run, module)
    if checkpoint.exists():
        resume.check()
        console.line(f"continues from {checkpoint}")
    if 0 not in (settings.max_epochs, settings.max_steps):
        trainer.fit(
            module,
            train_loader,
            test_loader if is_overridden("validation_step", module) else None,
            ckpt_path=checkpoint if checkpoint.exists() else None,
            weights_only=False,  # our own file: it also holds random streams and rows
        )
        if divergence.step is None:
            resume.save(trainer)
    step = trainer.global_step
    if divergence.step is None and is_overridden("test_step", module):
        trainer.test(module, test_loader, verbose=False)
    if divergence.step is None:
        run.recorder.close_means(step)
    save_file(
        {name: tensor.contiguous() for name, tensor in module.state_dict().items()},
        run.directory / WEIGHTS,
    )
    return Computed(
        outcome=_outcome(divergence, step),
        wall_seconds=resume.wall_seconds,
        processor_seconds=resume.processor_seconds,
        first_step_at=progress.started_at,
        resumed_at_steps=tuple(resume.resumed_at_steps),
    )


def _outcome(divergence: Divergence, step: int) -> Outcome:
    if divergence.step is None:
        return Outcome(status="finished", step=step)
    return Outcome(status="diverged", step=divergence.step, detail="the loss is not finite")


def _loaders(
    run: Run, module: PaperModule
) -> tuple[ArrayLoader | Grouped | None, ArrayLoader | None]:
    """Loaders of the experiment's data set; none where the module brings its own."""
    if run.settings.data is None:
        return None, None
    train: ArrayLoader | Grouped | None = None
    if not is_overridden("train_dataloader", module):
        train = array_loader(run, train=True)
        assert run.settings.trainer is not None
        if run.settings.trainer.steps_at_once > 1:
            train = _grouped(run, train, run.settings.trainer)
    test = None if is_overridden("test_dataloader", module) else array_loader(run, train=False)
    return train, test


def _grouped(run: Run, loader: ArrayLoader, settings: TrainerSettings) -> Grouped:
    """Groups of steps. A short group at the end of an epoch would shift all that counts steps."""
    size = settings.steps_at_once
    if len(loader) % size and (settings.max_steps or settings.eval_every_steps):
        raise RecordError(
            f"{run.key}: trainer.steps_at_once: got {size}, but an epoch has {len(loader)} batches "
            "and max_steps or eval_every_steps count steps. Take a divisor, or count epochs."
        )
    return Grouped(loader, size)
