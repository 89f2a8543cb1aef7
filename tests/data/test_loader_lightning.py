"""Lightning's protocol of stateful loaders: a checkpoint resumes with the next batch."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from shared.data.loader import ArrayLoader


class Module(LightningModule):
    """Trains one layer and notes every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(16, 23)
        torch.nn.init.zeros_(self.net.weight)
        torch.nn.init.zeros_(self.net.bias)
        self.seen: list[tuple[list[int], float]] = []

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        x_NCHW, labels_N = batch
        self.seen.append((labels_N.tolist(), x_NCHW.double().sum().item()))
        return torch.nn.functional.cross_entropy(self.net(x_NCHW.flatten(1)), labels_N)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


class SaveWithinEpochs(Callback):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
        if not trainer.is_last_batch:
            trainer.save_checkpoint(self.folder / f"{trainer.global_step}.ckpt")


def train(limits: dict[str, int], *callbacks: Callback, checkpoint: Path | None = None) -> Module:
    images = np.random.default_rng(0).integers(0, 256, (23, 1, 4, 4), dtype=np.uint8)
    loader = ArrayLoader(
        images,
        np.arange(23),
        mean=[0.5],
        std=[0.2],
        batch_size=5,
        shuffle=True,
        seed=1,
        augment=("crop", "flip"),
    )
    trainer = Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        **limits,
    )
    module = Module()
    trainer.fit(module, loader, ckpt_path=checkpoint, weights_only=False)
    return module


@pytest.mark.parametrize(
    "limits",
    [{"max_epochs": 3}, {"max_epochs": -1, "max_steps": 13}],
    ids=["epochs", "steps"],
)
def test_every_checkpoint_within_an_epoch_resumes_the_same_batches(
    tmp_path: Path, limits: dict[str, int]
) -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    straight = train(limits, SaveWithinEpochs(tmp_path))
    checkpoints = list(tmp_path.iterdir())
    assert len(checkpoints) >= 11
    for checkpoint in checkpoints:
        resumed = train(limits, checkpoint=checkpoint)
        assert resumed.seen == straight.seen[int(checkpoint.stem) :]
        assert torch.equal(resumed.net.weight, straight.net.weight)
