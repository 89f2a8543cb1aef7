"""Batch norms of any model made open: which statistics they use is said, and no mode changes it."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from shared.norms import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm

OpenBatchNorm = BatchNorm1d | BatchNorm2d | BatchNorm3d | SyncBatchNorm
OPEN: dict[type[nn.Module], type[OpenBatchNorm]] = {
    nn.BatchNorm1d: BatchNorm1d,
    nn.BatchNorm2d: BatchNorm2d,
    nn.BatchNorm3d: BatchNorm3d,
    nn.SyncBatchNorm: SyncBatchNorm,
}
SOURCES = {"batch": "batch", "source": "running"}


class BatchNormAct2d(BatchNorm2d):
    """timm's batch norm with dropout and activation inside, open."""

    drop: nn.Module
    act: nn.Module

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        return self.act(self.drop(super().forward(x, residual)))


def normalise_by(model: nn.Module, statistics: Literal["batch", "source"]) -> nn.Module:
    """Replaces every batch norm by an open one with the same parameters, buffers and names.

    Args:
        statistics: `batch`: always those of the batch, in `train()` and in `eval()`; `source`:
            always the running ones. torch's own layers would switch with the mode.

    Returns:
        The model; a new one only where the model is itself a batch norm.

    Raises:
        ValueError: a batch norm with a forward of its own, or without the statistics asked for.

    Example:
        >>> import torch
        >>> net = normalise_by(nn.Sequential(nn.BatchNorm1d(1, affine=False)), "batch").eval()
        >>> net(torch.tensor([[1.0], [3.0]])).round(decimals=2).tolist()
        [[-1.0], [1.0]]
    """
    if statistics not in SOURCES:
        raise ValueError(f"tent: got statistics {statistics!r}, expected 'batch' or 'source'")
    made: dict[nn.Module, OpenBatchNorm] = {}
    # With duplicates: a layer that stands at two places is replaced at both.
    for path, old in list(model.named_modules(remove_duplicate=False)):
        if not isinstance(old, nn.modules.batchnorm._BatchNorm):
            continue
        if statistics == "source" and old.running_mean is None:
            raise ValueError(
                f"tent: {path or 'model'}: got a batch norm without running statistics, expected "
                "some for statistics='source': use 'batch'"
            )
        if old not in made:
            made[old] = _open(path, old)
            made[old].source = SOURCES[statistics]
        if not path:
            return made[old]
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, made[old])
    return model


def _open(path: str, old: nn.modules.batchnorm._BatchNorm) -> OpenBatchNorm:
    if isinstance(old, OpenBatchNorm):  # one of ours, perhaps with an `estimate` of its own
        return old
    has_tail = isinstance(getattr(old, "act", None), nn.Module) and hasattr(old, "drop")
    kind = BatchNormAct2d if has_tail else OPEN.get(type(old))
    if kind is None:
        raise ValueError(
            f"tent: {path}: got {type(old).__name__}, a batch norm with a forward of its own, "
            f"expected one of {', '.join(k.__name__ for k in OPEN)} or timm's BatchNormAct2d: "
            "replace it first, e.g. with shared.norms.replace_norms"
        )
    new = kind(old.num_features, eps=old.eps, momentum=old.momentum, device="meta")
    new.train(old.training)
    # The same tensors, under the same names: a state_dict fits before and after.
    for name in ("weight", "bias"):
        setattr(new, name, getattr(old, name))
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        new.register_buffer(name, getattr(old, name))
    if has_tail:
        assert isinstance(new, BatchNormAct2d)
        new.drop, new.act = old.get_submodule("drop"), old.get_submodule("act")
    return new
