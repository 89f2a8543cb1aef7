"""The loaders of a run's data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.data.loader import ArrayLoader
from shared.records.base import RecordError

if TYPE_CHECKING:
    from shared.training.run_context import Run


def array_loader(
    run: Run,
    *,
    train: bool,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    drop_last: bool = False,
) -> ArrayLoader:
    """The images and labels of the experiment's data set, shuffled and augmented in training.

    Args:
        train: the training images, else the test images.
        mean, std: constants of the standardisation for each channel; None: those of the data set.
        drop_last: without the last batch where that is smaller.

    Raises:
        RecordError: more examples are asked for than there are.
    """
    prepared = run.dataset()
    data, trainer = run.settings.data, run.settings.trainer
    assert data is not None and trainer is not None
    split = "train" if train else "test"
    size = data.train_size if train else data.test_size
    available = len(prepared.array(f"{split}_labels"))
    if size is not None and size > available:
        raise RecordError(
            f"{run.key}: data.{split}_size: got {size}, but {data.dataset} has {available} "
            f"{split} examples. Lower it, or leave it out to take all."
        )
    return ArrayLoader(
        prepared.array(f"{split}_images")[:size],
        prepared.array(f"{split}_labels")[:size],
        mean=prepared.manifest.mean if mean is None else mean,
        std=prepared.manifest.std if std is None else std,
        batch_size=data.batch_size if train else data.eval_batch_size,
        shuffle=train,
        seed=run.key.seed,
        augment=data.augment if train else (),
        drop_last=drop_last,
        channels_last=trainer.channels_last,
        device=run.device,
    )
