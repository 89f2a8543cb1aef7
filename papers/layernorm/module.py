"""The trainings: each network with Adam, all arms treated alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from papers.layernorm.model import MLP, ConvNet, Norm, RowGRU
from shared.training.classifier import Classifier


class AdamClassifier(Classifier):
    """A network trained with Adam at a constant learning rate.

    Args:
        net: images to logits.
        lr: the paper does not give it, so each arm has the best of one grid.
        target_error_percent: see `Classifier`.
    """

    def __init__(
        self, net: nn.Module, lr: float, target_error_percent: float | None = None
    ) -> None:
        super().__init__(target_error_percent=target_error_percent)
        self.net = net
        self.lr = lr

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.net.parameters(), lr=self.lr, fused=True)


class MNISTMLP(AdamClassifier):
    """Figure 6: permutation-invariant MNIST, or a data set of the same shape.

    Args:
        norm, widths, norm_logits: see `MLP`.
    """

    def __init__(
        self, norm: Norm, widths: Sequence[int], lr: float, norm_logits: bool = False
    ) -> None:
        super().__init__(MLP(norm, widths, norm_logits), lr)


class RowReader(AdamClassifier):
    """A GRU that reads an image row by row: the recurrent claims in small.

    Args:
        norm, width: see `RowGRU`.
    """

    def __init__(
        self,
        norm: Literal["none", "layernorm"],
        width: int,
        lr: float,
        target_error_percent: float,
    ) -> None:
        super().__init__(RowGRU(norm, width), lr, target_error_percent)


class SmallConvNet(AdamClassifier):
    """Section 6.7: a convolutional network with each normalization.

    Args:
        norm, widths: see `ConvNet`.
    """

    def __init__(self, norm: Norm, widths: Sequence[int], lr: float) -> None:
        super().__init__(ConvNet(norm, widths), lr)
