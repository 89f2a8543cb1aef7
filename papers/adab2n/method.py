"""AdaB2N: batch norm whose batch statistics are balanced over tasks and whose momentum decays.

It adds three things to batch norm on a joint batch of new and replayed images: learnt weights of
the tasks in the batch's statistics (`psi`), a share of each batch in the running statistics that
shrinks over time (`kappa`), and a penalty on the distance of the two kinds of statistics
(`lambda`, which weights the sum that `penalty` returns).

Legend: N samples, C channels, H height, W width, S tasks seen so far, T tasks.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from shared.norms import BatchNorm2d, GroupNorm, Moments, moments

TaskWeights = Literal["plain", "bayes", "renormalised"]
TASK_WEIGHTS: tuple[TaskWeights, ...] = ("plain", "bayes", "renormalised")


def sample_weights(psi_S: Tensor, task_N: Tensor, *, renormalise: bool = False) -> Tensor:
    """The weight of each sample in the batch's statistics.

    With N_t samples of task t: c_t = exp(psi_t) + N_t, w_t = c_t / sum_s c_s, a_i = w_t / N_t for
    each sample i of task t. The sum runs over all tasks seen so far, so the weights of a batch
    without one of them add up to less than 1: its mean and its variance shrink by that factor.

    Args:
        psi_S: of the tasks seen so far.
        task_N: the task of each sample.
        renormalise: divides by the sum of the weights. The paper's method does not.

    Source: section 4 of arXiv 2310.08855, as its public code has it.

    Example:
        >>> sample_weights(torch.zeros(2), torch.tensor([0, 1, 1])).sum().item()
        1.0
        >>> round(sample_weights(torch.zeros(2), torch.tensor([1, 1, 1])).sum().item(), 6)
        0.8
    """
    counts_S = torch.bincount(task_N, minlength=len(psi_S)).to(psi_S.dtype)
    concentration_S = psi_S.exp() + counts_S
    weight_S = concentration_S / concentration_S.sum()
    weight_N = weight_S[task_N] / counts_S[task_N]
    return weight_N / weight_N.sum() if renormalise else weight_N


def next_eta(last_eta: Tensor, momentum: float, kappa: float) -> Tensor:
    """The share of a batch in the running statistics, from that of the batch before (0: none).

    eta_1 = m^kappa, eta_n = eta_(n-1) / (eta_(n-1) + (1 - m)^kappa). It is m throughout for
    kappa = 1 and 1/n for kappa = 0; in between it falls to 1 - (1 - m)^kappa.

    Source: section 4 of arXiv 2310.08855, as its public code has it.

    Example:
        >>> first = next_eta(torch.tensor(0.0), 0.1, kappa=0.0)
        >>> first.item(), next_eta(first, 0.1, kappa=0.0).item()
        (1.0, 0.5)
    """
    first = torch.full_like(last_eta, momentum**kappa)
    following = last_eta / (last_eta + (1 - momentum) ** kappa)
    return torch.where(last_eta == 0, first, following)


class AdaB2N(BatchNorm2d):
    """Batch norm with statistics that are balanced over the tasks of a stream.

    mean = sum_i a_i mean_hw(x_i), var = sum_i a_i mean_hw((x_i - mean)^2), with the weights a_i of
    `sample_weights`; running <- (1 - eta) running + eta (mean, var), with eta of `next_eta`. In
    evaluation it is batch norm with its running statistics.

    Before each training step `set_tasks` tells all layers of a net which tasks are in the batch.
    In the first task, and with `plain` weights always, every sample counts 1 / N.

    Args:
        num_features: Channels C.
        num_tasks: T, the length of psi.
        kappa: 0 (mean over all batches) to 1 (momentum as in batch norm).
        task_weights: `plain`, `bayes` (the paper's), or `renormalised` (the paper's, summing to 1).
        momentum: m.
        eps: Added to the variance, inside the root.

    Shape: (N, C, H, W).
    Raises: ValueError for a kappa outside 0..1, unknown weights, tasks that do not fit the batch.
    Source: Lyu et al. (2023), arXiv 2310.08855.

    Deviates from the source: the last eta is a buffer, so that a resumed training goes on with it;
    in the public code it is not in the state, and starts again.
    """

    last_eta: Tensor

    def __init__(
        self,
        num_features: int,
        num_tasks: int,
        kappa: float,
        task_weights: TaskWeights,
        *,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> None:
        super().__init__(num_features, momentum=momentum, eps=eps, running_variance="biased")
        if not 0 <= kappa <= 1:
            raise ValueError(f"kappa: got {kappa}, expected a number from 0 to 1")
        if task_weights not in TASK_WEIGHTS:
            raise ValueError(f"task_weights: got {task_weights!r}, expected of {TASK_WEIGHTS}")
        self.kappa = kappa
        self.task_weights = task_weights
        self.psi = None if task_weights == "plain" else nn.Parameter(torch.zeros(num_tasks))
        self.register_buffer("last_eta", torch.zeros((), dtype=torch.float64))
        self.task_N: Tensor | None = None
        self.num_seen = 1
        self.penalty: Tensor | None = None

    def estimate(self, x: Tensor) -> Moments:
        if self.psi is None or self.num_seen == 1:
            return moments(x)
        if self.task_N is None or self.task_N.shape != x.shape[:1]:
            raise ValueError(
                f"AdaB2N: got {'no' if self.task_N is None else len(self.task_N)} tasks for "
                f"{len(x)} samples, expected one each: call set_tasks before each training step"
            )
        weight_N = sample_weights(
            self.psi[: self.num_seen], self.task_N, renormalise=self.task_weights == "renormalised"
        )
        return moments(x, weight_N)

    def tracked_share(self) -> Tensor:
        assert self.momentum is not None and self.running_mean is not None
        self.last_eta.copy_(next_eta(self.last_eta, self.momentum, self.kappa))
        return self.last_eta.to(self.running_mean.dtype)

    def track(self, statistics: Moments) -> None:
        """Updates the running statistics; the penalty is the distance to them afterwards."""
        super().track(statistics)
        running = self.running()
        self.penalty = mse_loss(statistics.mean, running.mean.clone()) + mse_loss(
            statistics.var, running.var.clone()
        )


class ContinualNorm(nn.Module):
    """Group norm without weights, then batch norm.

    Args:
        num_features: Channels C.
        num_groups: Of the group norm; divides C.

    Shape: (N, C, H, W).
    Source: Pham, Liu, Hoi (2022), arXiv 2203.16102.
    """

    def __init__(self, num_features: int, num_groups: int, *, momentum: float = 0.1) -> None:
        super().__init__()
        self.group = GroupNorm(num_groups, num_features, affine=False)
        self.batch = BatchNorm2d(num_features, momentum=momentum)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        y_NCHW: Tensor = self.batch(self.group(x_NCHW))
        return y_NCHW


def layers(net: nn.Module) -> list[AdaB2N]:
    return [module for module in net.modules() if isinstance(module, AdaB2N)]


def set_tasks(net: nn.Module, task_N: Tensor, num_seen: int) -> None:
    """Tells every AdaB2N layer the tasks of the next batch, and how many were seen so far."""
    if int(task_N.max()) >= num_seen:
        raise ValueError(
            f"got a sample of task {int(task_N.max())}, but {num_seen} tasks were seen: count the "
            "task of the batch as seen"
        )
    for layer in layers(net):
        layer.task_N, layer.num_seen = task_N, num_seen


def penalty(net: nn.Module) -> Tensor:
    """sum over layers of MSE(mean, running mean) + MSE(var, running var), of the last forward."""
    parts: list[Any] = [layer.penalty for layer in layers(net)]
    return torch.stack(parts).sum()
