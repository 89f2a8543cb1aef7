"""A replay buffer that holds a uniform random sample of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shared.data.loader import seeded


class Reservoir:
    """Keeps `size` examples of a stream, each one seen so far with equal probability size / seen.

    The n-th example (from 1) takes a free slot while there is one; then, with probability
    size / n, it takes the place of a kept one that is drawn uniformly.

    Examples are tuples of tensors, all with the same shapes and types. Which are kept and which
    are drawn follows from the seed and the numbers of examples alone, not from their content: two
    learners with one seed replay the same places of the stream. `state_dict` holds everything,
    the random stream included.

    Args:
        size: slots; 0 keeps nothing.
        seed: of both draws.

    Raises:
        ValueError: a negative size, parts of different lengths or other than before, a draw from an
            empty buffer, or the state of a buffer of another size.

    Source: Vitter (1985), Random sampling with a reservoir, algorithm R.

    Example:
        >>> buffer = Reservoir(2, seed=0)
        >>> buffer.add(torch.arange(5), torch.arange(5) * 10)
        >>> a, b = buffer.sample(2)
        >>> len(buffer), buffer.seen, bool((b == 10 * a).all())
        (2, 5, True)
    """

    def __init__(self, size: int, seed: int) -> None:
        if size < 0:
            raise ValueError(f"size: got {size}, expected 0 or more")
        self.size = size
        self.seen = 0
        self._parts: list[Tensor] = []
        self._generator = seeded("reservoir", seed)

    def __len__(self) -> int:
        """Examples that are kept."""
        return min(self.seen, self.size)

    def add(self, *parts: Tensor) -> None:
        """Offers a batch of examples, one after another; each part is (B, ...)."""
        lengths = {len(part) for part in parts}
        if len(lengths) != 1:
            raise ValueError(f"got parts of lengths {sorted(lengths)}, expected equal ones")
        if not self._parts:
            self._parts = [part.new_empty((self.size, *part.shape[1:])) for part in parts]
        got, expected = _kinds(parts), _kinds(self._parts)
        if got != expected:
            raise ValueError(
                f"got examples of {got}, expected {expected}, as those that were added first"
            )
        # A later example of the batch may push out an earlier one, so the last one counts.
        taken = {slot: index for index in range(*lengths) if (slot := self._slot()) < self.size}
        if taken:
            slots, indices = list(taken), list(taken.values())
            for kept, part in zip(self._parts, parts, strict=True):
                kept[slots] = part.detach()[indices]

    def sample(self, num: int) -> tuple[Tensor, ...]:
        """Up to `num` different examples, drawn uniformly, in random order."""
        if num < 0:
            raise ValueError(f"num: got {num}, expected 0 or more")
        if not len(self):
            raise ValueError("got an empty buffer, expected examples: add() some before sample()")
        drawn = torch.randperm(len(self), generator=self._generator)[:num]
        return tuple(part[drawn.to(part.device)] for part in self._parts)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs to go on with the same draws."""
        return {
            "seen": self.seen,
            "parts": [part.clone() for part in self._parts],
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if any(len(part) != self.size for part in state["parts"]):
            raise ValueError(
                f"got the state of a buffer of size {len(state['parts'][0])}, expected "
                f"{self.size}: build the Reservoir with the size of the saved one"
            )
        self.seen = state["seen"]
        self._parts = [part.clone() for part in state["parts"]]
        self._generator.set_state(state["generator"].cpu())

    def _slot(self) -> int:
        """Where the next example goes; `size` or above: nowhere."""
        self.seen += 1
        if self.seen <= self.size:
            return self.seen - 1
        return int(torch.randint(self.seen, (), generator=self._generator))


def _kinds(parts: Sequence[Tensor]) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Shape and type of each part of an example."""
    return [(tuple(part.shape[1:]), part.dtype) for part in parts]
