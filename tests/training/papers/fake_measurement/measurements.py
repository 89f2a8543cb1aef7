"""Measurements without training."""

import torch

from shared.records.metrics import Row


def identity(run, *, size: int, break_it: bool = False):
    if size < 1:
        raise ValueError(f"size: got {size}, expected 1 or more")
    x = torch.randn(size, dtype=torch.float64)
    yield Row("error", float((x + x - 2 * x).abs().max()), "1")
    if break_it:
        yield Row("broken", float("nan"), "1", step=3)
