"""Adaptation at test time: starts from another run's weights, takes a gradient per test batch."""

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import cross_entropy

from shared.training.classifier import Classifier
from shared.training.module import PaperModule


class Source(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)
        )

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Adapt(PaperModule):
    test_needs_gradient = True

    def __init__(self, *, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.net = Source().net

    def setup(self, stage):
        weights = load_file(self.run.artifact("source"))
        self.net.load_state_dict({k.removeprefix("net."): v for k, v in weights.items()})
        self.wrong = self.seen = 0

    def on_test_start(self):
        self.net.train()
        self.net.requires_grad_(True)
        self.optimizer = torch.optim.SGD(self.net[2].parameters(), lr=self.lr)

    def test_step(self, batch, batch_index):
        images, labels = batch
        with torch.enable_grad():
            logits = self.net(images)
            entropy = cross_entropy(logits, logits.softmax(1))
            self.optimizer.zero_grad()
            entropy.backward()
            self.optimizer.step()
        self.wrong += (logits.argmax(1) != labels).sum().item()
        self.seen += len(labels)
        self.record("entropy", entropy, "nats", split="test", step=batch_index)

    def on_test_end(self):
        self.record("test_error_percent", 100 * self.wrong / self.seen, "percent", split="test")
