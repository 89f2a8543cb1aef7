"""The derived data sets: what each is made of. Their entries stand here and not in data.dvc.

Runs do not import this module, so a new entry reruns none of them.
"""

from __future__ import annotations

# Name -> name of the prepared data set that `shared/data/derived/<name>.py` makes it of.
DERIVED: dict[str, str] = {
    "fashion_mnist_c": "fashion_mnist",
    "fashion_collages": "fashion_mnist",
}


def derivation_module(name: str) -> str:
    """The module whose `make(source)` gives the arrays of a derived data set.

    Example:
        >>> derivation_module("fashion_mnist_c")
        'shared.data.derived.fashion_mnist_c'
    """
    return f"shared.data.derived.{name}"
