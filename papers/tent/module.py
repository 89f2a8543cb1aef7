"""The training of the source classifier on clean images: once, shared by all methods and seeds."""

from __future__ import annotations

from typing import Any

import torch

from papers.tent.model import Norm, ResNet
from shared.training.classifier import Classifier


class SourceClassifier(Classifier):
    """A residual network trained with SGD and Nesterov momentum, its learning rate falling to zero.

    The statistics by which the training images are standardised stay with the weights: whoever
    adapts the network to other images needs them.

    Args:
        lr: at the start; it follows half a cosine.
        norm, depth, width, in_channels, stem_stride, num_classes: see `ResNet`.
    """

    pixel_mean: torch.Tensor
    pixel_std: torch.Tensor

    def __init__(
        self,
        norm: Norm,
        depth: int,
        width: int,
        in_channels: int,
        stem_stride: int = 1,
        num_classes: int = 10,
        lr: float = 0.1,
        weight_decay: float = 5e-4,
        momentum: float = 0.9,
    ) -> None:
        super().__init__()
        self.net = ResNet(norm, depth, width, in_channels, stem_stride, num_classes)
        self.lr = lr
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.register_buffer("pixel_mean", torch.zeros(in_channels))
        self.register_buffer("pixel_std", torch.ones(in_channels))

    def setup(self, stage: str) -> None:
        manifest = self.run.dataset().manifest
        self.pixel_mean.copy_(torch.tensor(manifest.mean))
        self.pixel_std.copy_(torch.tensor(manifest.std))

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.SGD(
            self.net.parameters(),
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=True,
        )
        num_steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, num_steps)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
