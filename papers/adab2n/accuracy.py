"""What a stream's learner is judged by.

Legend: N images, K classes, T tasks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from shared.data.stream import TaskSplit


def accuracy_by_task(logits_NK: Tensor, places_N: Tensor, split: TaskSplit) -> Tensor:
    """Percent of each task's images whose largest logit, of all classes, is the right one.

    Example:
        >>> split = TaskSplit([0, 1], classes_per_task=1)
        >>> logits = torch.tensor([[1.0, 0], [0, 1], [1, 0]])
        >>> accuracy_by_task(logits, torch.tensor([0, 1, 1]), split)
        tensor([100.,  50.])
    """
    right_N = (logits_NK.argmax(dim=1) == places_N).float()
    task_N = split.task_of(places_N)
    return torch.stack([100 * right_N[task_N == t].mean() for t in range(split.num_tasks)])


def forgetting(accuracy_TT: Tensor) -> Tensor:
    """Mean over the tasks but the last of (best accuracy before the end) - (accuracy at the end).

    Args:
        accuracy_TT: row i after task i, column j of task j; entries above the diagonal are not
            looked at.

    Source: Chaudhry et al. (2018), arXiv 1801.10112, equation 3.

    Example:
        >>> forgetting(torch.tensor([[90.0, 0], [60, 80]])).item()
        30.0
    """
    before, final = torch.tril(accuracy_TT)[:-1], accuracy_TT[-1]
    return (before.max(dim=0).values - final)[:-1].mean()
