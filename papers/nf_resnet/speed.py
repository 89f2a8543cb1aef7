"""Time of a training step of NFNet-F1 and EfficientNet-B7, both timm's (full scale only): nf8.

Shapes: images_NCHW (examples, channels, height, width).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import timm
import torch
from torch.nn.functional import cross_entropy

from shared.records.metrics import Row
from shared.training.run_context import Run


def training_speed(
    run: Run, network: str, image_size: int, batch_size: int, num_steps: int
) -> Iterator[Row]:
    """Time of a training step of a network of timm, forward and backward: nf8.

    The median of `num_steps` after as many to warm up.
    """
    net = timm.create_model(network).to(run.device)
    images_NCHW = torch.randn(batch_size, 3, image_size, image_size, device=run.device)
    labels_N = torch.randint(1000, (batch_size,), device=run.device)
    seconds = []
    for _ in range(2 * num_steps):
        start = time.perf_counter()
        net.zero_grad()
        cross_entropy(net(images_NCHW), labels_N).backward()
        if run.device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    yield Row("step_time_ms", 1000 * float(np.median(seconds[num_steps:])), "ms")
