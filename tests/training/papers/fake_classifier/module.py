"""A linear classifier, with dropout so that a random stream is used in each step."""

import torch
from torch import nn

from shared.training.classifier import Classifier


class Linear(Classifier):
    def __init__(
        self, *, lr: float, mixup_alpha: float = 0.0, target_error_percent: float | None = None
    ) -> None:
        super().__init__(mixup_alpha, target_error_percent)
        self.lr = lr
        self.net = nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(64, 4))

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        return [optimizer], [schedule]
