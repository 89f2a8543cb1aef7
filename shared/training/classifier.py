"""Training and testing of an image classifier.

Shapes: images_NCHW float32 (standardised), labels_N int64, logits_NC.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from shared.records.base import RecordError
from shared.training.grouped import Batch
from shared.training.lightning import LightningOptimizer
from shared.training.module import PaperModule


class Classifier(PaperModule):
    """Cross-entropy on `self.net`, error and loss on the test set, mixup on request.

    A subclass sets `self.net` in `__init__` and implements `configure_optimizers`.
    Rows: train_loss (nats, mean over the last `log_every_steps` steps), test_loss (nats) and
    test_error_percent (percent) at each evaluation and at the end; with a target also
    target_reached (1 or 0) and steps_to_target (step) at the end. A run that never reaches its
    target has all its steps as steps_to_target: a lower bound. One that takes no step has neither.

    Args:
        mixup_alpha: parameter of the Beta distribution of the mixing weight; 0 turns mixup off.
        target_error_percent: a test error; recorded is the first evaluation at or below it.

    Source: mixup is by Zhang, Cisse, Dauphin, Lopez-Paz (2018), arXiv 1710.09412.
    """

    net: nn.Module
    takes_groups = True

    def __init__(self, mixup_alpha: float = 0.0, target_error_percent: float | None = None) -> None:
        super().__init__()
        if target_error_percent is not None and not 0 <= target_error_percent < 100:
            raise ValueError(
                f"target_error_percent: got {target_error_percent}, expected a percentage below 100"
            )
        self.target_error_percent = target_error_percent
        if mixup_alpha < 0:
            raise ValueError(f"mixup_alpha: got {mixup_alpha}, expected a number >= 0 (0 = off)")
        self.mixup_alpha = mixup_alpha
        self._outputs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def training_step(self, batch: Batch | tuple[Batch, ...], _: int) -> torch.Tensor:
        if self.automatic_optimization:
            return self._loss(batch)  # type: ignore[arg-type]
        optimizer = self.optimizers()
        assert isinstance(optimizer, LightningOptimizer)
        # The sum, so that a loss that is not finite shows whichever step it was.
        total = torch.zeros((), device=self.device)
        for one in batch:
            loss = self._loss(one)  # type: ignore[arg-type]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        return total

    def _loss(self, batch: Batch) -> torch.Tensor:
        loss = self.batch_loss(*batch)
        self.record_mean("train_loss", loss, "nats")
        return loss

    def batch_loss(self, images_NCHW: torch.Tensor, labels_N: torch.Tensor) -> torch.Tensor:
        """What a step lowers, in nats: the mean cross-entropy, of mixed images on request."""
        if self.mixup_alpha > 0:
            return self._mixup_loss(images_NCHW, labels_N)
        return cross_entropy(self.net(images_NCHW), labels_N)

    def on_train_start(self) -> None:
        if not self.automatic_optimization and self.lr_schedulers():
            raise RecordError(
                f"{self.run.key}: trainer.steps_at_once: Lightning steps no schedule then. Leave "
                "it out, or let configure_optimizers return the optimiser alone."
            )

    def _mixup_loss(self, images_NCHW: torch.Tensor, labels_N: torch.Tensor) -> torch.Tensor:
        """Loss on images weight * a + (1 - weight) * b, with b a permutation of the batch."""
        weight = torch.distributions.Beta(self.mixup_alpha, self.mixup_alpha).sample().item()
        other_N = torch.randperm(len(labels_N), device=labels_N.device)
        logits_NC = self.net(torch.lerp(images_NCHW[other_N], images_NCHW, weight))
        return weight * cross_entropy(logits_NC, labels_N) + (1 - weight) * cross_entropy(
            logits_NC, labels_N[other_N]
        )

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> None:
        images_NCHW, labels_N = batch
        self._outputs.append((self.net(images_NCHW).float(), labels_N))

    def on_validation_epoch_end(self) -> None:
        self._record_test(*self._collect())

    def test_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_index: int) -> None:
        self.validation_step(batch, batch_index)

    def on_test_epoch_end(self) -> None:
        logits_NC, labels_N = self._collect()
        # The same step as that of the last validation, unless there was none at the end.
        if not self.run.recorder.has("test_loss", split="test", step=self.global_step):
            self._record_test(logits_NC, labels_N)
        if logits_NC.isfinite().all():
            self.run.save_predictions(logits_NC.softmax(dim=1), labels_N)
        if self.target_error_percent is not None and self.global_step > 0:
            self._record_target(self.target_error_percent)

    def _collect(self) -> tuple[torch.Tensor, torch.Tensor]:
        logits, labels = zip(*self._outputs, strict=True)
        self._outputs.clear()
        return torch.cat(logits), torch.cat(labels)

    def _record_target(self, target: float) -> None:
        reached = [
            row.step
            for row in self.run.recorder.rows()
            if row.metric == "test_error_percent" and row.value <= target
        ]
        self.record("target_reached", float(bool(reached)), "1", split="test")
        self.record("steps_to_target", min(reached, default=self.global_step), "step", split="test")

    def _record_test(self, logits_NC: torch.Tensor, labels_N: torch.Tensor) -> None:
        loss = cross_entropy(logits_NC, labels_N)
        self.record("test_loss", loss, "nats", split="test")
        if loss.isfinite():
            wrong_N = logits_NC.argmax(dim=1) != labels_N
            error = 100 * wrong_N.double().mean()
            self.record("test_error_percent", error, "percent", split="test")
