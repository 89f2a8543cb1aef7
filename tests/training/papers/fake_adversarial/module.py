"""A linear generator against a linear critic, measured by the feature network."""

from typing import Any

from torch import nn

from shared.training.adversarial import Adversarial
from shared.training.features import FeatureTraining

__all__ = ["FeatureTraining", "Gan"]


class Gan(Adversarial):
    def __init__(self, **game: Any) -> None:
        super().__init__(noise_size=4, image_size=32, **game)
        self.generator = nn.Sequential(nn.Linear(4, 1024), nn.Tanh(), nn.Unflatten(1, (1, 32, 32)))
        self.critic = nn.Sequential(nn.Flatten(), nn.Linear(1024, 8), nn.ReLU(), nn.Linear(8, 1))

    def rate(self, step: int) -> float:
        return 0.5**step
