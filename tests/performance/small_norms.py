"""What a call costs on small tensors: `python -m tests.performance.small_norms`.

Ours and torch's layers take turns in one process, forward and backward together, on one thread of
a CPU. Printed are medians of that thread's processor time, and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from shared import norms

CALLS = 50  # between two looks at the clock
LAYERS: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module], Callable[[], nn.Module]]] = {
    "BatchNorm1d 60x100": (
        (60, 100),
        lambda: norms.BatchNorm1d(100),
        lambda: nn.BatchNorm1d(100),
    ),
    "BatchNorm2d 32x16x8x8": (
        (32, 16, 8, 8),
        lambda: norms.BatchNorm2d(16),
        lambda: nn.BatchNorm2d(16),
    ),
    "LayerNorm 60x100": ((60, 100), lambda: norms.LayerNorm(100), lambda: nn.LayerNorm(100)),
    "LayerNorm 128x256": ((128, 256), lambda: norms.LayerNorm(256), lambda: nn.LayerNorm(256)),
    "RMSNorm 60x100": (
        (60, 100),
        lambda: norms.RMSNorm(100, eps=1e-5),
        lambda: nn.RMSNorm(100, eps=1e-5),
    ),
    "RMSNorm 128x256 beside LayerNorm": (
        (128, 256),
        lambda: norms.RMSNorm(256, eps=1e-5),
        lambda: nn.LayerNorm(256),
    ),
    "GroupNorm 32x16x8x8": (
        (32, 16, 8, 8),
        lambda: norms.GroupNorm(4, 16),
        lambda: nn.GroupNorm(4, 16),
    ),
}


def _seconds(layer: nn.Module, x: Tensor, grad: Tensor) -> float:
    start = time.thread_time()
    for _ in range(CALLS):
        layer(x).backward(grad)
    return (time.thread_time() - start) / CALLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", default="", help="layers whose name contains this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| layer, training, forward + backward | torch us | ours us | ratio |\n|---|---|---|---|")
    for name, (shape, make_ours, make_torch) in LAYERS.items():
        if options.only not in name:
            continue
        x = torch.randn(shape, requires_grad=True)
        grad = torch.randn(shape)
        layers = {"torch": make_torch(), "ours": make_ours()}
        times: dict[str, list[float]] = {side: [] for side in layers}
        for turn in range(options.rounds + 1):
            for side, layer in layers.items():
                taken = _seconds(layer, x, grad)
                if turn:  # the first warms up
                    times[side].append(taken)
        torch_us, ours_us = (1e6 * statistics.median(times[side]) for side in ("torch", "ours"))
        print(f"| {name} | {torch_us:.0f} | {ours_us:.0f} | {ours_us / torch_us:.2f} |")


if __name__ == "__main__":
    main()
