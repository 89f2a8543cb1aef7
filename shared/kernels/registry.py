"""What an operator is, which implementations it has, how one is chosen, and what ran.

Every operator family has the same contract: three functions (forward, backward, double backward)
in up to four implementations.

- `reference`: the definition, in equation order and in float64 whatever the input's type;
- `native`: torch's own fused kernels, guarded where these lose accuracy;
- `cpp`: kernels of this package for a CPU, compiled by the machine's own compiler;
- `triton`: kernels of this package, on a CUDA device or under Triton's interpreter.

`auto` picks by the measured table (`measured.py`), and says so where what is fastest cannot run.
An explicit choice that cannot run raises.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from shared.kernels.measured import FASTEST

if TYPE_CHECKING:
    from collections.abc import Iterator

CHOICES = ("auto", "reference", "native", "cpp", "triton")


def _none(device: str) -> str | None:
    return None


class Implementation(NamedTuple):
    """The three functions of one implementation.

    `obstacle` says why it cannot run on a type of device. `as_given`: it takes tensors as the op
    gets them and returns results in their shapes, instead of (N, C, S).
    """

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    double_backward: Callable[..., Any]
    obstacle: Callable[[str], str | None] = _none
    as_given: bool = False


@dataclass(frozen=True)
class Operator:
    """One operator family: what it computes, where that comes from, and who can compute it."""

    name: str
    equation: str
    source: str
    implementations: Mapping[str, Implementation]


class Ran(NamedTuple):
    """Key of the record of what ran."""

    operator: str
    phase: str
    implementation: str
    dtype: str
    device: str


OPERATORS: dict[str, Operator] = {}
_ran: Counter[Ran] = Counter()
_forced: list[str] = []


def register(operator: Operator) -> Operator:
    """Adds an operator to the registry.

    Raises:
        ValueError: An operator of that name exists.
    """
    if operator.name in OPERATORS:
        raise ValueError(f"operator {operator.name!r} is registered already: choose another name")
    OPERATORS[operator.name] = operator
    return operator


def ran() -> dict[Ran, int]:
    """How often each implementation ran since the last `forget_ran()`, for a run's provenance."""
    return dict(_ran)


def record(key: Ran) -> None:
    """Counts one run."""
    _ran[key] += 1


def forget_ran() -> None:
    """Starts the record of what ran anew."""
    _ran.clear()


@contextmanager
def implementation(choice: str) -> Iterator[None]:
    """Within the block `auto` means `choice`; explicit choices stay as they are.

    Example:
        >>> from shared.kernels import norm
        >>> with implementation("reference"):
        ...     norm(torch.tensor([[0.0, 2.0]]), groups=1, eps=0.0).tolist()
        [[-1.0, 1.0]]
    """
    if choice not in CHOICES:
        raise ValueError(f"got implementation {choice!r}, expected one of {', '.join(CHOICES)}")
    _forced.append(choice)
    try:
        yield
    finally:
        _forced.pop()


def size_class(numel: int) -> str:
    """Class of a tensor's size in the measured table: small, medium or large (elements)."""
    return "small" if numel < 2**15 else "medium" if numel < 2**20 else "large"


def usual(operator: str, device: str) -> str:
    """What `auto` runs where the measured table is silent: `cpp` on a CPU, else `native`."""
    has_cpp = "cpp" in OPERATORS[operator].implementations
    return "cpp" if device == "cpu" and has_cpp else "native"


def without_triton(device: str) -> str | None:
    """Why Triton's kernels cannot run on this type of device; None where they can."""
    if device == "cuda" or os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return "it needs a CUDA device, or TRITON_INTERPRET=1 before the start"


@cache
def _resolve(
    name: str,
    phase: str,
    choice: str,
    dtype: torch.dtype,
    where: torch.device,
    size: str,
    variant: str,
) -> Ran:
    """What runs; cached, since it is asked at every call of every op."""
    operator, kind, device = OPERATORS[name], str(dtype).removeprefix("torch."), where.type
    if choice == "auto":
        choice = _fastest(operator, (variant or name, size, kind, device, phase))
    if choice not in operator.implementations:
        known = ", ".join(("auto", *operator.implementations))
        raise ValueError(f"{name}: got implementation {choice!r}, expected one of {known}")
    obstacle = operator.implementations[choice].obstacle(device)
    if obstacle is not None:
        raise RuntimeError(
            f"{name}: implementation {choice!r} was asked for a tensor on {device}, where it "
            f"cannot run: {obstacle}. Use 'auto' or 'native'"
        )
    return Ran(name, phase, choice, kind, device)


def _fastest(operator: Operator, key: tuple[str, str, str, str, str]) -> str:
    """The measured table's choice, where it can run."""
    device = key[3]
    chosen = FASTEST.get(key, usual(operator.name, device))
    obstacle = operator.implementations[chosen].obstacle(device)
    if obstacle is None:
        return chosen
    warnings.warn(
        f"{operator.name}: 'native' runs instead of the faster {chosen!r}: {obstacle}", stacklevel=2
    )
    return "native"


def resolve(name: str, phase: str, choice: str, x: torch.Tensor, variant: str = "") -> Ran:
    """What `choice` means for the tensor `x`: the key of the record when it runs.

    Args:
        name: Operator.
        phase: `forward`, `backward` or `double_backward`.
        choice: `auto` or an implementation's name.
        x: The tensor that decides device, dtype and size.
        variant: What the measured table distinguishes within the operator.

    Raises:
        ValueError: The choice is no implementation of the operator.
        RuntimeError: The implementation was asked for and cannot run here.
    """
    if choice == "auto" and _forced:
        choice = _forced[-1]
    return _resolve(name, phase, choice, x.dtype, x.device, size_class(x.numel()), variant)


def run(
    name: str, phase: str, choice: str, x: torch.Tensor, variant: str = ""
) -> tuple[Callable[..., Any], bool]:
    """The function of one phase, and whether it takes tensors as they are given; records it."""
    key = resolve(name, phase, choice, x, variant)
    record(key)
    implementation = OPERATORS[name].implementations[key.implementation]
    return getattr(implementation, phase), implementation.as_given
