"""The trainings of the paper: SGD on the networks of `model.py`, with all arms treated alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from papers.fixup.method import Method, parameter_groups
from papers.fixup.model import ConvResNet, ResidualMLP, WideResNet
from shared.training.classifier import Classifier


class SGDClassifier(Classifier):
    """A network trained with SGD as in the public code.

    Args:
        net: images to logits.
        method: the arm; nets with BatchNorm have no scalars, so one learning rate serves all.
        lr: learning rate of the weights, the same for every arm.
        scalar_lr_divisor: the scalars' learning rate is `lr` over this.
        weight_decay: of all parameters, scalars included.
        lr_drops: after these shares of the training (0..1) the learning rates fall to a tenth.
        mixup_alpha: see `Classifier`.
    """

    def __init__(
        self,
        net: nn.Module,
        method: Method,
        *,
        lr: float,
        scalar_lr_divisor: float,
        weight_decay: float,
        momentum: float,
        lr_drops: Sequence[float],
        mixup_alpha: float,
    ) -> None:
        super().__init__(mixup_alpha)
        self.net = net
        self.lr = lr
        self.scalar_lr_divisor = 1.0 if method == "batchnorm" else scalar_lr_divisor
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.lr_drops = lr_drops

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.SGD(
            parameter_groups(self.net, self.lr, self.scalar_lr_divisor),
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            fused=True,  # thousands of scalars: one by one they would take a quarter of the step
        )
        num_steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.MultiStepLR(
            optimiser, milestones=[round(share * num_steps) for share in self.lr_drops]
        )
        return {
            "optimizer": optimiser,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


class DepthSweep(SGDClassifier):
    """Figure 3: networks of very many layers after a short training at BatchNorm's rate.

    Args:
        depth: number of weight layers.
        network: `wide_resnet` as in the paper, or `residual_mlp`, which is small enough for a CPU.
        width: channels of the first stage, or features of the MLP.
        in_channels, image_size: of the data set.

    Raises:
        ValueError: the network has no such depth.
    """

    def __init__(
        self,
        method: Method,
        depth: int,
        network: Literal["residual_mlp", "wide_resnet"],
        width: int,
        in_channels: int,
        image_size: int,
        lr: float = 0.1,
        weight_decay: float = 5e-4,
        momentum: float = 0.9,
        mixup_alpha: float = 0.0,
    ) -> None:
        net: nn.Module
        match network:
            case "wide_resnet":
                net = WideResNet(method, depth, width, in_channels)
            case "residual_mlp":
                if depth < 4 or depth % 2:
                    raise ValueError(f"depth: got {depth}, expected an even number, 4 or more")
                net = ResidualMLP(method, (depth - 2) // 2, width, in_channels * image_size**2)
            case _:
                raise ValueError(
                    f"network: got {network!r}, expected 'wide_resnet' or 'residual_mlp'"
                )
        super().__init__(
            net,
            method,
            lr=lr,
            scalar_lr_divisor=10.0,
            weight_decay=weight_decay,
            momentum=momentum,
            lr_drops=(),
            mixup_alpha=mixup_alpha,
        )


class SmallResNet(SGDClassifier):
    """Table 1: the CIFAR ResNet of one depth, with each normalization or initialisation.

    Args:
        depth, width, in_channels, stem_stride, per_channel: see `ConvResNet`.
    """

    def __init__(
        self,
        method: Method,
        depth: int,
        width: int,
        in_channels: int,
        stem_stride: int = 1,
        per_channel: bool = False,
        lr: float = 0.1,
        scalar_lr_divisor: float = 10.0,
        weight_decay: float = 1e-4,
        momentum: float = 0.9,
        lr_drops: Sequence[float] = (0.5, 0.75),
        mixup_alpha: float = 0.0,
    ) -> None:
        super().__init__(
            ConvResNet(
                method,
                depth,
                width,
                in_channels,
                stem_stride=stem_stride,
                per_channel=per_channel,
            ),
            method,
            lr=lr,
            scalar_lr_divisor=scalar_lr_divisor,
            weight_decay=weight_decay,
            momentum=momentum,
            lr_drops=lr_drops,
            mixup_alpha=mixup_alpha,
        )
