"""The trainings: one recipe for all arms, that of the paper's public code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from papers.nf_resnet.method import Method
from papers.nf_resnet.model import ResNet
from shared.norms import clip_adaptively_
from shared.training.classifier import Classifier

REFERENCE_BATCH = 256
"""Learning rates are given for a batch of this size."""


class NFClassifier(Classifier):
    """A ResNet of any scheme, trained with SGD as in the paper's public code.

    Nesterov momentum; the rate is lr * batch / 256, with a linear warm-up and a cosine to 0; no
    weight decay on gains, biases and norms; label smoothing.

    Args:
        method, depths, widths, in_channels, num_classes, stem, stochastic_depth: see `ResNet`.
        lr: highest learning rate for a batch of 256, the same for all arms.
        weight_decay: of the weights.
        warmup: share of the training (0..1) in which the rate rises.
        label_smoothing: share of the target (0..1) spread over all classes.
        agc_limit: largest |gradient| / |weight| of a unit, by adaptive gradient clipping of all
            but the classifier's weight; None: no clipping.
    """

    def __init__(
        self,
        method: Method,
        depths: Sequence[int],
        widths: Sequence[int],
        in_channels: int,
        num_classes: int = 10,
        stem: Literal["imagenet", "small"] = "small",
        stochastic_depth: float = 0.0,
        lr: float = 0.1,
        weight_decay: float = 1e-4,
        momentum: float = 0.9,
        warmup: float = 5 / 90,
        label_smoothing: float = 0.1,
        agc_limit: float | None = None,
    ) -> None:
        super().__init__()
        self.net = ResNet(method, depths, widths, in_channels, num_classes, stem, stochastic_depth)
        self.method = method
        self.lr = lr
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.warmup = warmup
        self.label_smoothing = label_smoothing
        self.agc_limit = agc_limit

    @property
    def batch_size(self) -> int:
        data = self.run.settings.data
        assert data is not None
        return data.batch_size

    def batch_loss(self, images_NCHW: torch.Tensor, labels_N: torch.Tensor) -> torch.Tensor:
        logits_NK = self.net(images_NCHW)
        return cross_entropy(logits_NK, labels_N, label_smoothing=self.label_smoothing)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        # Before the optimiser adds the weight decay, as in the public code.
        if self.agc_limit is not None:
            clip_adaptively_(clipped_parameters(self.net), self.agc_limit)

    def configure_optimizers(self) -> Any:
        lr = self.lr * self.batch_size / REFERENCE_BATCH
        optimiser = torch.optim.SGD(
            parameter_groups(self.net, self.method, lr, self.weight_decay),
            lr=lr,
            momentum=self.momentum,
            nesterov=True,
            fused=True,
        )
        num_steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: warmup_cosine(step / num_steps, self.warmup)
        )
        return {
            "optimizer": optimiser,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


def clipped_parameters(net: nn.Module) -> list[nn.Parameter]:
    """All parameters but the classifier's weight, which adaptive clipping leaves alone."""
    return [p for name, p in net.named_parameters() if name != "classifier.weight"]


def parameter_groups(
    net: nn.Module, method: Method, lr: float, weight_decay: float
) -> list[dict[str, Any]]:
    """Weights with weight decay; gains, biases and norms without.

    Fixup's scalars learn at a tenth of the rate, as in its own public code.
    """
    weights = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() == 1 and p.numel() > 1]
    scalars = [p for p in net.parameters() if p.dim() < 2 and p.numel() == 1]
    scalar_lr = lr / 10 if method == "fixup" else lr
    groups = [
        {"params": weights, "lr": lr, "weight_decay": weight_decay},
        {"params": others, "lr": lr, "weight_decay": 0.0},
        {"params": scalars, "lr": scalar_lr, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def warmup_cosine(progress: float, warmup: float) -> float:
    """The factor of the learning rate after a share of the training.

    Example:
        >>> [round(warmup_cosine(progress, 0.2), 3) for progress in (0, 0.1, 0.2, 0.6, 1)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if progress < warmup:
        return progress / warmup
    return 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))
