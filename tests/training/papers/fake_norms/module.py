"""A convolution with a batch norm, so that there is a norm to swap."""

import torch
from torch import nn

from shared.norms import BatchNorm2d
from shared.training.classifier import Classifier


class Convolution(Classifier):
    def __init__(self, *, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2), BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 4)
        )

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)
