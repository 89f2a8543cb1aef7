"""Streams of tasks for continual learning: classes in an order, each image seen once.

Legend: N images, C channels, H height, W width, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shared.data.loader import seeded


class TaskSplit:
    """Classes in the order in which a stream shows them, a fixed number of them in each task.

    A class is named by its place in that order, as a learner meets it: task t holds the labels
    t n to t n + n - 1, with n classes a task.

    Args:
        order: the data set's class at each place, each class once.
        classes_per_task: n, which divides the number of classes.

    Raises:
        ValueError: not an order, or a number that does not divide it.

    Example:
        >>> split = TaskSplit([3, 0, 2, 1], classes_per_task=2)
        >>> split.relabel(np.array([0, 1, 2, 3])).tolist()
        [1, 3, 2, 0]
        >>> split.task_of(torch.tensor([1, 3, 2, 0])).tolist()
        [0, 1, 1, 0]
    """

    def __init__(self, order: Sequence[int], classes_per_task: int) -> None:
        if sorted(order) != list(range(len(order))) or not order:
            raise ValueError(f"order: got {list(order)}, expected each of 0..K-1 once")
        if classes_per_task < 1 or len(order) % classes_per_task:
            raise ValueError(
                f"classes_per_task: got {classes_per_task}, expected a divisor of the "
                f"{len(order)} classes"
            )
        self.order = tuple(order)
        self.classes_per_task = classes_per_task
        self._place_K = np.argsort(np.asarray(order, dtype=np.int64), kind="stable")

    @classmethod
    def draw(cls, num_classes: int, classes_per_task: int, seed: int) -> TaskSplit:
        """A random order of the classes that follows from the seed alone."""
        order = torch.randperm(num_classes, generator=seeded("classes", seed))
        return cls(order.tolist(), classes_per_task)

    @property
    def num_classes(self) -> int:
        return len(self.order)

    @property
    def num_tasks(self) -> int:
        return self.num_classes // self.classes_per_task

    def relabel(self, labels_N: NDArray[Any]) -> NDArray[np.int64]:
        """The data set's labels as places in the order.

        Raises:
            ValueError: a label that is none of the classes.
        """
        if wrong := sorted(set(np.unique(labels_N).tolist()) - set(self.order)):
            raise ValueError(
                f"labels: got {wrong}, expected of the {len(self.order)} classes "
                f"0..{len(self.order) - 1}"
            )
        places_N: NDArray[np.int64] = self._place_K[labels_N]
        return places_N

    def task_of(self, places_N: Tensor) -> Tensor:
        """The task, 0..num_tasks - 1, of each relabelled image."""
        return places_N // self.classes_per_task


class TaskStream:
    """Batches (images uint8 (B, C, H, W), relabelled classes int64 (B,)) of one task after another.

    Within a task the images are shuffled, and a batch never holds two tasks, so the last batch of a
    task may be smaller. It is one single pass: every `iter()` goes on where the last one stopped,
    and none begins again. The order follows from the seed alone. `state_dict` is the position, by
    which a resumed training goes on with the same batches.

    Args:
        images_NCHW: uint8, kept without a copy.
        labels_N: the data set's own labels.
        split: order of the classes, and tasks.
        batch_size: images a batch.
        seed: of the order of the images.
        images_per_class: the first images of each class, else all.

    Raises:
        ValueError: a class has fewer images than asked for, or settings that do not fit.

    Example:
        >>> images = np.zeros((4, 1, 2, 2), np.uint8)
        >>> stream = TaskStream(
        ...     images, np.array([0, 1, 0, 1]), TaskSplit([1, 0], 1), batch_size=2, seed=0
        ... )
        >>> [labels.tolist() for _, labels in stream], list(stream)
        ([[0, 0], [1, 1]], [])
    """

    def __init__(
        self,
        images_NCHW: NDArray[Any],
        labels_N: NDArray[Any],
        split: TaskSplit,
        *,
        batch_size: int,
        seed: int,
        images_per_class: int | None = None,
    ) -> None:
        if batch_size < 1 or len(images_NCHW) != len(labels_N):
            raise ValueError(
                f"got {len(images_NCHW)} images, {len(labels_N)} labels and batches of "
                f"{batch_size}, expected as many labels as images and batches of 1 or more"
            )
        if images_per_class is not None and images_per_class < 1:
            raise ValueError(
                f"images_per_class: got {images_per_class}, expected 1 or more, or None for all"
            )
        self._images_NCHW = torch.from_numpy(images_NCHW)
        places_N = split.relabel(labels_N)
        self._places_N = torch.from_numpy(places_N)
        self._batches: list[Tensor] = []  # indices of the images
        self._last: set[int] = set()  # batches with which a task ends
        for task in range(split.num_tasks):
            first = task * split.classes_per_task
            chosen = [
                _first_of_class(places_N, place, images_per_class)
                for place in range(first, first + split.classes_per_task)
            ]
            indices = torch.from_numpy(np.concatenate(chosen))
            shuffled = torch.randperm(len(indices), generator=seeded("images", seed, task))
            self._batches += indices[shuffled].split(batch_size)
            self._last.add(len(self._batches) - 1)
        self._position = 0

    def __len__(self) -> int:
        """Batches of the whole stream."""
        return len(self._batches)

    def ends_task(self, batch: int) -> bool:
        """Whether this batch, counted from 0, is the last one of its task."""
        return batch in self._last

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while self._position < len(self):
            chosen = self._batches[self._position]
            # Before the batch is handed out: a checkpoint that is made while it is used counts it.
            self._position += 1
            yield self._images_NCHW[chosen], self._places_N[chosen]

    def state_dict(self) -> dict[str, int]:
        """The number of batches that were handed out."""
        return {"batch": self._position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on after these batches."""
        self._position = state["batch"]


def _first_of_class(
    places_N: NDArray[np.int64], place: int, limit: int | None
) -> NDArray[np.int64]:
    """Indices of the first images of a class."""
    indices = np.flatnonzero(places_N == place)
    if len(indices) < (limit or 1):
        raise ValueError(
            f"class {place} of the stream has {len(indices)} images, expected {limit or 1} or more"
        )
    return indices[:limit]
