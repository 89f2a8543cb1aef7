"""Swapping the norms of any torch or timm model for those of this package."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from shared.norms.batch import BatchNorm1d, BatchNorm2d, BatchNorm3d
from shared.norms.group import GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from shared.norms.layer import LayerNorm, RMSNorm
from shared.norms.pointwise import Derf, DyT

KINDS = ("layer", "rms", "batch", "group", "instance", "dyt", "derf", "none")
# timm's norms that derive from none of torch's; others derive from these.
BY_NAME = {
    f"{kind}{places}{precision}"
    for kind in ("RmsNorm", "SimpleNorm")
    for places in ("", "2d")
    for precision in ("", "Fp32")
}


class NoNormError(ValueError):
    """There is nothing to swap."""


class Replacement(NamedTuple):
    """What became of one norm. `weight` and `bias`: kept, new, dropped or absent."""

    path: str
    before: str
    after: str
    weight: str
    bias: str


class Report(NamedTuple):
    """What `replace_norms` did, and what it left as it was (path, reason)."""

    replaced: tuple[Replacement, ...]
    left: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [
            f"{r.path}: {r.before} -> {r.after} (weight {r.weight}, bias {r.bias})"
            for r in self.replaced
        ]
        return "\n".join(lines + [f"{path}: left, {reason}" for path, reason in self.left])


class _Found(NamedTuple):
    """A norm in the model: its channels, their axis (1 or -1) and its eps."""

    channels: int
    axis: int
    eps: float
    positions: int  # dimensions beside batch and channels; -1: unknown


class ChannelsAt(nn.Module):
    """A norm of one axis' convention on tensors of the other: moves channels there and back."""

    def __init__(self, norm: nn.Module, source: int, target: int) -> None:
        super().__init__()
        self.norm = norm
        self.source, self.target = source, target

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x.movedim(self.source, self.target))
        return y.movedim(self.target, self.source)


class AnyBatchNorm(BatchNorm1d):
    """Batch norm for any number of positions, for models that do not tell."""

    def _check_input_dim(self, x: Tensor) -> None:
        if x.dim() < 2:
            raise ValueError(f"got x of shape {tuple(x.shape)}, expected (N, C, ...)")


class AnyInstanceNorm(InstanceNorm1d):
    """Instance norm for any number of positions, for models that do not tell."""

    def _check_input_dim(self, x: Tensor) -> None:
        if x.dim() < 3:
            raise ValueError(f"got x of shape {tuple(x.shape)}, expected (N, C, positions...)")


_BATCH: dict[int, type[nn.Module]] = {1: BatchNorm1d, 2: BatchNorm2d, 3: BatchNorm3d}
_INSTANCE: dict[int, type[nn.Module]] = {1: InstanceNorm1d, 2: InstanceNorm2d, 3: InstanceNorm3d}


def _positions(module: nn.Module) -> int:
    name = type(module).__name__
    return next((d for d in (1, 2, 3) if name.endswith(f"{d}d")), -1)


def _found(module: nn.Module) -> _Found | None:
    """What `replace_norms` must know of a norm; None where the module is none that it knows."""
    name = type(module).__name__
    eps = getattr(module, "eps", None) or 1e-6
    if isinstance(module, nn.modules.batchnorm._NormBase):
        return _Found(module.num_features, 1, eps, _positions(module))
    if isinstance(module, nn.GroupNorm):
        return _Found(module.num_channels, 1, eps, -1)
    shape = getattr(module, "normalized_shape", None)
    known = isinstance(module, nn.LayerNorm | nn.RMSNorm) or any(
        kind.__name__ in BY_NAME for kind in type(module).__mro__
    )
    if known and isinstance(shape, tuple):
        axis = 1 if "2d" in name else -1
        return _Found(math.prod(shape), axis, eps, 2 if axis == 1 else -1)
    return None


def is_norm(module: nn.Module) -> bool:
    """Whether a module is one of the norms known here: torch's, timm's, and what derives from them.

    Example:
        >>> is_norm(nn.GroupNorm(1, 4)), is_norm(nn.Linear(4, 4))
        (True, False)
    """
    return _found(module) is not None


def is_unknown_norm(module: nn.Module) -> bool:
    """Whether a module is called a norm, and neither is one that is known here nor holds one."""
    return "Norm" in type(module).__name__ and not any(map(is_norm, module.modules()))


def _build(kind: str, found: _Found, groups: int) -> nn.Module:
    """The new norm; channels move to where it wants them."""
    c, eps = found.channels, found.eps
    made: dict[str, Callable[[], tuple[nn.Module, int]]] = {
        "layer": lambda: (LayerNorm(c, eps=eps), -1),
        "rms": lambda: (RMSNorm(c, eps=eps), -1),
        "batch": lambda: (_BATCH.get(found.positions, AnyBatchNorm)(c, eps=eps), 1),
        "group": lambda: (GroupNorm(math.gcd(groups, c), c, eps=eps), 1),
        "instance": lambda: (
            _INSTANCE.get(found.positions, AnyInstanceNorm)(c, eps=eps, affine=True),
            1,
        ),
        "dyt": lambda: (DyT(c, channels_last=found.axis == -1), found.axis),
        "derf": lambda: (Derf(c, channels_last=found.axis == -1), found.axis),
        "none": lambda: (nn.Identity(), found.axis),
    }
    norm, axis = made[kind]()
    return norm if axis == found.axis else ChannelsAt(norm, found.axis, axis)


@torch.no_grad()
def _carry(old: nn.Module, new: nn.Module, name: str, affine: str) -> str:
    """Copies one affine parameter where both have it; says what became of it."""
    before = getattr(old, name, None)
    inner = new.norm if isinstance(new, ChannelsAt) else new
    after = getattr(inner, name, None)
    if before is None or after is None:
        return "absent" if before is after is None else "dropped" if after is None else "new"
    after.requires_grad_(before.requires_grad)
    if affine == "reset":
        return "new"
    after.copy_(before.view(after.shape))
    return "kept"


def _place(model: nn.Module, path: str, new: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, new)


def _with_tail(old: nn.Module, new: nn.Module) -> nn.Module:
    """timm's norm layers with dropout and activation inside: these stay, behind the new norm."""
    tail = [getattr(old, name) for name in ("drop", "act") if hasattr(old, name)]
    tail = [m for m in tail if isinstance(m, nn.Module) and not isinstance(m, nn.Identity)]
    return nn.Sequential(new, *tail) if tail else new


def replace_norms(model: nn.Module, kind: str, *, affine: str = "keep", groups: int = 32) -> Report:
    """Swaps every norm of a model for one of this package, in place.

    Args:
        model: Any torch or timm model. A norm that is the model itself cannot be swapped.
        kind: `layer` and `rms` (over the channels of each position), `batch`, `group`,
            `instance`, `dyt`, `derf`, or `none` (no norm).
        affine: `keep` copies weight and bias where both norms have one, `reset` starts anew.
        groups: Groups of `group`; where these do not divide the channels, their largest common
            divisor.

    Returns:
        What was swapped, with what became of each weight and bias, and what was left and why.

    Raises:
        ValueError: An unknown kind.
        NoNormError: No norm in the model.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
        >>> print(replace_norms(net, "rms"))
        1: BatchNorm2d(4) -> RMSNorm(4) (weight kept, bias dropped)
    """
    if kind not in KINDS:
        raise ValueError(f"replace_norms: got kind {kind!r}, expected one of {', '.join(KINDS)}")
    if affine not in ("keep", "reset"):
        raise ValueError(f"replace_norms: got affine {affine!r}, expected 'keep' or 'reset'")
    replaced: list[Replacement] = []
    left: list[tuple[str, str]] = []
    swapped: dict[nn.Module, nn.Module] = {}  # one norm may stand at two places
    for path, old in list(model.named_modules(remove_duplicate=False)):
        if old in swapped:
            _place(model, path, swapped[old])
            continue
        found = _found(old) if path else None
        if found is None:
            if path and is_unknown_norm(old):
                left.append((path, f"{type(old).__name__} is none of the norms known here"))
            continue
        new = _build(kind, found, groups)
        reference = next(iter(old.parameters()), next(model.parameters(), torch.empty(0)))
        new = new.to(device=reference.device, dtype=reference.dtype).train(old.training)
        fate = [_carry(old, new, name, affine) for name in ("weight", "bias")]
        if affine == "keep" and isinstance(new, nn.modules.batchnorm._BatchNorm):
            _carry_running(old, new)
        inner = new.norm if isinstance(new, ChannelsAt) else new
        names = [f"{type(m).__name__}({found.channels})" for m in (old, inner)]
        replaced.append(Replacement(path, *names, *fate))
        swapped[old] = _with_tail(old, new)
        _place(model, path, swapped[old])
    if not replaced:
        raise NoNormError(f"replace_norms: got {type(model).__name__} without a norm inside")
    return Report(tuple(replaced), tuple(left))


@torch.no_grad()
def _carry_running(old: nn.Module, new: nn.modules.batchnorm._BatchNorm) -> None:
    """Batch norm for batch norm: the running statistics stay too."""
    if isinstance(old, nn.modules.batchnorm._BatchNorm) and old.running_mean is not None:
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            getattr(new, name).copy_(getattr(old, name))
        new.momentum = old.momentum
