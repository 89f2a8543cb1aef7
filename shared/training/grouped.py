"""Several optimiser steps in one call of Lightning.

Around each step Lightning does about half a millisecond of work of its own. That is nothing beside
a convolutional network and a third of the time of a small MLP, which such groups give back.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from torch import Tensor

from shared.data.loader import ArrayLoader

Batch = tuple[Tensor, Tensor]


class Grouped:
    """Hands out the batches of a loader in groups; the last group of an epoch may be smaller."""

    def __init__(self, loader: ArrayLoader, size: int) -> None:
        self.loader = loader
        self.size = size

    def __len__(self) -> int:
        return -(-len(self.loader) // self.size)

    def __iter__(self) -> Iterator[tuple[Batch, ...]]:
        batches = iter(self.loader)
        while group := tuple(itertools.islice(batches, self.size)):
            yield group

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, int]:
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.loader.load_state_dict(state)
