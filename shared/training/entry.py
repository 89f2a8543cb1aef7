"""The one place where a paper's code is found by its name."""

from __future__ import annotations

import importlib
from typing import Any

from shared.records.base import RecordError
from shared.records.experiment import SWAP, RunSettings


def swap_norms(module: Any, settings: RunSettings) -> str:
    """Swaps the norms of a paper's module for those of `settings.norm`; says what it did.

    By its name, so that a run without a swap does not depend on the code of all norms. An arm
    without a norm stays as it is, and the log says so: the command line swaps in all arms.
    """
    norms = importlib.import_module(SWAP)
    try:
        report = norms.replace_norms(module, settings.norm)
    except norms.NoNormError as error:
        return f"norm {settings.norm}: nothing was swapped: {error}"
    return str(report)


def load_entry(settings: RunSettings) -> Any:
    """The class or function that `entry` names.

    Raises:
        RecordError: no such module or name.
    """
    module_name, name = settings.module, settings.entry.partition(":")[2]
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise RecordError(
            f"papers/{settings.key.paper}/paper.yaml: {settings.key.experiment}.entry: got "
            f"{settings.entry!r}, but there is no module {module_name}"
        ) from None
    if not hasattr(module, name):
        raise RecordError(
            f"papers/{settings.key.paper}/paper.yaml: {settings.key.experiment}.entry: got "
            f"{settings.entry!r}, but {module_name} has no {name!r}"
        )
    return getattr(module, name)
