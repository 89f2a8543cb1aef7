"""A recurrent net that reads an image row by row."""

import torch
from torch import nn

from shared.training.classifier import Classifier


class Rows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 12, batch_first=True)
        self.head = nn.Linear(12, 4)

    def forward(self, images):
        states, _ = self.gru(images.squeeze(1))
        return self.head(states[:, -1])


class Recurrent(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.net = Rows()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
