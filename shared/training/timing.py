"""Times that can be compared: what is compared takes turns in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch


def clock(device: torch.device) -> float:
    """Seconds of a clock, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def in_turns(
    calls: Mapping[str, Callable[[], object]],
    rounds: int,
    device: torch.device,
    *,
    warm_up: int = 1,
) -> dict[str, list[float]]:
    """Seconds of each call in each round. A machine that slows down slows all of them.

    Args:
        warm_up: rounds before those that count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(warm_up + rounds):
        for name, call in calls.items():
            start = clock(device)
            call()
            taken = clock(device) - start
            if number >= warm_up:
                seconds[name].append(taken)
    return seconds


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Median of the ratios of two calls, over the rounds that both of them have.

    Example:
        >>> median_ratio([2.0, 9.0, 6.0], [1.0, 3.0, 2.0])
        3.0
    """
    return statistics.median(a / b for a, b in zip(above, below, strict=False))
