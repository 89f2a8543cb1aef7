"""How far running statistics are from those of the tasks seen so far.

Legend: N images, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from shared.norms import BatchNorm2d, Moments, moments


@torch.no_grad()
def layer_inputs(net: nn.Module, x_NCHW: Tensor) -> list[tuple[BatchNorm2d, Tensor]]:
    """Every batch norm of the net in evaluation, with its input for these images."""
    found: list[tuple[BatchNorm2d, Tensor]] = []
    hooks = [
        layer.register_forward_pre_hook(lambda layer, inputs: found.append((layer, inputs[0])))
        for layer in net.modules()
        if isinstance(layer, BatchNorm2d)
    ]
    net(x_NCHW)
    for hook in hooks:
        hook.remove()
    return found


def distances(net: nn.Module, x_NCHW: Tensor, task_N: Tensor) -> Iterator[tuple[str, float, str]]:
    """(metric, value, unit) of the running statistics against those of the images.

    running_mean_distance is |running mean - mean| in standard deviations, running_var_distance is
    |ln(running variance / variance)|, against the statistics of all images (`_to_seen_tasks`,
    the same number of each class), of the last task (`_to_current_task`), and of the others
    (`_to_earlier_tasks`); each is a mean over channels, then over layers. running_mean_recency is
    how much closer the running mean is to the last task than to the earlier ones. Nothing where
    the net has no running statistics.
    """
    inputs = layer_inputs(net, x_NCHW)
    if not inputs:
        return
    current_N = task_N == task_N.max()
    references = {"seen_tasks": torch.ones_like(current_N), "current_task": current_N}
    if not current_N.all():
        references["earlier_tasks"] = ~current_N
    means = {}
    for name, chosen_N in references.items():
        pairs = [_distance(layer, moments(x[chosen_N])) for layer, x in inputs]
        mean, var = torch.tensor(pairs, dtype=torch.float64).mean(0).tolist()
        means[name] = mean
        yield f"running_mean_distance_to_{name}", mean, "standard deviations"
        yield f"running_var_distance_to_{name}", var, "nats"
    if "earlier_tasks" in means:
        recency = means["earlier_tasks"] - means["current_task"]
        yield "running_mean_recency", recency, "standard deviations"


def _distance(layer: BatchNorm2d, true: Moments) -> tuple[float, float]:
    running = layer.running()
    var = true.var + layer.eps
    mean_distance = (running.mean - true.mean).abs() / var.sqrt()
    var_distance = ((running.var + layer.eps) / var).log().abs()
    return mean_distance.mean().item(), var_distance.mean().item()
