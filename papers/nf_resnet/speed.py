"""Time of a training step of NFNet-F1 and EfficientNet-B7, both timm's (full scale only): nf8.

Shapes: images_NCHW (examples, channels, height, width).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import timm
import torch
from torch.nn.functional import cross_entropy

from shared.records.metrics import Row
from shared.training.run_context import Run
from shared.training.timing import in_turns


def training_speed(
    run: Run, network: str, image_size: int, batch_size: int, num_steps: int
) -> Iterator[Row]:
    """Time of a training step of a network of timm, forward and backward: nf8.

    The median of `num_steps` after as many to warm up.
    """
    net = timm.create_model(network).to(run.device)
    images_NCHW = torch.randn(batch_size, 3, image_size, image_size, device=run.device)
    labels_N = torch.randint(1000, (batch_size,), device=run.device)

    def step() -> None:
        net.zero_grad()
        cross_entropy(net(images_NCHW), labels_N).backward()

    seconds = in_turns({"step": step}, num_steps, run.device, warm_up=num_steps)
    yield Row("step_time_ms", 1000 * statistics.median(seconds["step"]), "ms")
