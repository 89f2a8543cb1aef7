"""The one place where a paper's code is found by its name."""

from __future__ import annotations

import importlib
from typing import Any

from shared.records.base import RecordError
from shared.records.experiment import RunSettings


def entry_module(settings: RunSettings) -> str:
    """The dotted module that holds the code of a run, `papers.PAPER.MODULE`."""
    return f"papers.{settings.key.paper}.{settings.entry.partition(':')[0]}"


def load_entry(settings: RunSettings) -> Any:
    """The class or function that `entry` names.

    Raises:
        RecordError: no such module or name.
    """
    module_name, name = entry_module(settings), settings.entry.partition(":")[2]
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
