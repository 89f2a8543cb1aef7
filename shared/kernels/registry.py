"""What an operator is, which implementations it has, how one is chosen, and what ran.

Every operator family has the same contract: three functions (forward, backward, double backward)
in up to three implementations.

- `reference`: the definition, in equation order and in float64 whatever the input's type;
- `native`: torch's own fused kernels, guarded where these lose accuracy;
- `triton`: kernels of this package, on a CUDA device or under Triton's interpreter.

`auto` picks by the measured table (`measured.json`). An explicit choice that cannot run raises.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

CHOICES = ("auto", "reference", "native", "triton")
MEASURED = Path(__file__).with_name("measured.json")


class Implementation(NamedTuple):
    """The three functions of one implementation of an operator."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    double_backward: Callable[..., Any]


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


@cache
def measured() -> dict[tuple[str, str, str, str], str]:
    """The measured table: (operator, size class, dtype, device type) -> fastest implementation."""
    rows = json.loads(MEASURED.read_text()) if MEASURED.exists() else []
    keys = ("operator", "size", "dtype", "device")
    return {tuple(row[k] for k in keys): row["implementation"] for row in rows}


def runs_triton(device: str) -> bool:
    """Whether Triton kernels run on this type of device (CUDA; any under the interpreter)."""
    return device == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"


@cache
def _resolve(
    name: str, choice: str, dtype: torch.dtype, device: str, size: str, variant: str
) -> tuple[str, str]:
    """(implementation, dtype's name); cached, since it is asked at every call of every op."""
    operator, kind = OPERATORS[name], str(dtype).removeprefix("torch.")
    if choice == "auto":
        return measured().get((variant or name, size, kind, device), "native"), kind
    if choice not in operator.implementations:
        known = ", ".join(("auto", *operator.implementations))
        raise ValueError(f"{name}: got implementation {choice!r}, expected one of {known}")
    if choice == "triton" and not runs_triton(device):
        raise RuntimeError(
            f"{name}: implementation 'triton' was asked for a tensor on {device}, expected a "
            "CUDA device (or TRITON_INTERPRET=1 before the start): use 'auto' or 'native'"
        )
    return choice, kind


def resolve(name: str, choice: str, x: torch.Tensor, variant: str = "") -> tuple[str, str]:
    """What `choice` means for the tensor `x`: the implementation, and the name of x's type.

    Args:
        name: Operator.
        choice: `auto` or an implementation's name.
        x: The tensor that decides device, dtype and size.
        variant: What the measured table distinguishes within the operator.

    Raises:
        ValueError: The choice is no implementation of the operator.
        RuntimeError: The implementation was asked for and cannot run here.
    """
    if choice == "auto" and _forced:
        choice = _forced[-1]
    return _resolve(name, choice, x.dtype, x.device.type, size_class(x.numel()), variant)


def run(
    name: str, phase: str, choice: str, x: torch.Tensor, variant: str = ""
) -> Callable[..., Any]:
    """The function of one phase (`forward`, `backward`, `double_backward`); records that it ran."""
    chosen, kind = resolve(name, choice, x, variant)
    _ran[Ran(name, phase, chosen, kind, x.device.type)] += 1
    function: Callable[..., Any] = getattr(OPERATORS[name].implementations[chosen], phase)
    return function
