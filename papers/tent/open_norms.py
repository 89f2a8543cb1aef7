"""Norms of any model made open: which statistics they use is said, and no mode changes it."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from shared.norms import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    SyncBatchNorm,
)

OpenBatchNorm = BatchNorm1d | BatchNorm2d | BatchNorm3d | SyncBatchNorm
OPEN: dict[type[nn.Module], type[OpenBatchNorm]] = {
    nn.BatchNorm1d: BatchNorm1d,
    nn.BatchNorm2d: BatchNorm2d,
    nn.BatchNorm3d: BatchNorm3d,
    nn.SyncBatchNorm: SyncBatchNorm,
}
INSTANCE_NORMS: tuple[type[nn.Module], ...] = (
    *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
    *(InstanceNorm1d, InstanceNorm2d, InstanceNorm3d),
)
SOURCES = {"batch": "batch", "source": "running"}


class BatchNormAct2d(BatchNorm2d):
    """timm's batch norm with dropout and activation inside, open."""

    drop: nn.Module
    act: nn.Module

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        return self.act(self.drop(super().forward(x, residual)))


def normalise_by(model: nn.Module, statistics: Literal["batch", "source"]) -> nn.Module:
    """Replaces every batch norm by an open one with the same parameters, buffers, names and hooks.

    So it does with an instance norm that has running statistics, which it would use in evaluation:
    `batch` makes it use those of each instance.

    Args:
        statistics: `batch`: always those of the batch, in `train()` and in `eval()`; `source`:
            always the running ones. torch's own layers would switch with the mode.

    Returns:
        The model; a new one only where the model is itself a norm.

    Raises:
        ValueError: a norm with a forward of its own, or without the statistics asked for.

    Example:
        >>> import torch
        >>> net = normalise_by(nn.Sequential(nn.BatchNorm1d(1, affine=False)), "batch").eval()
        >>> net(torch.tensor([[1.0], [3.0]])).round(decimals=2).tolist()
        [[-1.0], [1.0]]
    """
    if statistics not in SOURCES:
        raise ValueError(f"tent: got statistics {statistics!r}, expected 'batch' or 'source'")
    made: dict[nn.Module, nn.Module] = {}
    # With duplicates: a layer that stands at two places is replaced at both.
    for path, old in list(model.named_modules(remove_duplicate=False)):
        if old not in made:
            new = _open(path or "model", old, statistics)
            if new is None:
                continue
            made[old] = new
        if not path:
            return made[old]
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, made[old])
    return model


def _open(path: str, old: nn.Module, statistics: Literal["batch", "source"]) -> nn.Module | None:
    """The open norm in place of a module; None where the module stays."""
    if isinstance(old, nn.modules.batchnorm._BatchNorm):
        if statistics == "source" and old.running_mean is None:
            raise ValueError(
                f"tent: {path}: got a batch norm without running statistics, expected "
                "some for statistics='source': use 'batch'"
            )
        opened = _open_batch_norm(path, old)
        opened.source = SOURCES[statistics]
        return opened
    if isinstance(old, nn.modules.instancenorm._InstanceNorm) and old.running_mean is not None:
        return _open_instance_norm(path, old) if statistics == "batch" else None
    return None


def _open_batch_norm(path: str, old: nn.modules.batchnorm._BatchNorm) -> OpenBatchNorm:
    if isinstance(old, OpenBatchNorm):  # one of ours, perhaps with an `estimate` of its own
        return old
    has_tail = isinstance(getattr(old, "act", None), nn.Module) and hasattr(old, "drop")
    kind = BatchNormAct2d if has_tail else OPEN.get(type(old))
    if kind is None:
        raise _own_forward(path, old, (*OPEN, BatchNormAct2d))
    new = kind(old.num_features, eps=old.eps, momentum=old.momentum, device="meta")
    # All that the old layer holds, under the same names: parameters, buffers, parts and hooks.
    vars(new).update(vars(old))
    return new


def _open_instance_norm(path: str, old: nn.modules.instancenorm._InstanceNorm) -> GroupNorm:
    """Instance norm is group norm with one channel a group, which has no running statistics."""
    if type(old) not in INSTANCE_NORMS:
        raise _own_forward(path, old, INSTANCE_NORMS[:3])
    new = GroupNorm(old.num_features, old.num_features, eps=old.eps, device="meta")
    vars(new).update(vars(old))
    return new


def _own_forward(path: str, old: nn.Module, known: tuple[type[nn.Module], ...]) -> ValueError:
    return ValueError(
        f"tent: {path}: got {type(old).__name__}, a norm with a forward of its own, "
        f"expected one of {', '.join(kind.__name__ for kind in known)}: "
        "replace it first, e.g. with shared.norms.replace_norms"
    )
