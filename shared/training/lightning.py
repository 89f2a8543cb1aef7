"""Lightning, imported in half the time (measured in docs/adr/0003-lightning-without-its-probes.md).

Lightning imports torchmetrics, and torchmetrics imports torchvision, scipy.signal and others as
soon as they are installed, for metrics that no run of ours computes. While Lightning is being
imported, those packages are reported to it as not installed. Afterwards everybody can import them
as usual. Cost: the image and audio metrics of torchmetrics are not available inside a run.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from typing import Any

import lightning_utilities.core.imports as probes

NOT_NEEDED = frozenset({"matplotlib", "pandas", "PIL", "scipy", "torchvision", "transformers"})


@contextlib.contextmanager
def _reported_as_missing(names: frozenset[str]) -> Iterator[None]:
    originals: dict[str, Any] = {
        name: getattr(probes, name)
        for name in ("_version", "package_available", "module_available")
    }

    def version(name: str) -> str:
        if name in names:
            raise PackageNotFoundError(name)
        return str(originals["_version"](name))

    def available(probe: str) -> Any:
        return lambda name: name.split(".")[0] not in names and originals[probe](name)

    replacements = {
        "_version": version,
        "package_available": available("package_available"),
        "module_available": available("module_available"),
    }
    for name, function in replacements.items():
        setattr(probes, name, function)
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(probes, name, function)


# Lightning 2.6 calls a name that torch 2.14 deprecates; nothing in a run can be done about it.
warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)

with _reported_as_missing(NOT_NEEDED - sys.modules.keys()):
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.core.optimizer import LightningOptimizer
    from lightning.pytorch.utilities.model_helpers import is_overridden

__all__ = ["Callback", "LightningModule", "LightningOptimizer", "Trainer", "is_overridden"]
