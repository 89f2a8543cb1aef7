"""What one call of Snakemake sets up: the Python of its jobs, and that it is alone."""

from __future__ import annotations

import fcntl
import os
import sys
from io import TextIOWrapper
from pathlib import Path

from shared.records.base import RecordError

_held: list[TextIOWrapper] = []


def use_this_python() -> None:
    """Makes `python` in the jobs the one that runs here, also if no environment was activated."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def hold_lock(path: Path) -> None:
    """Takes the lock and keeps it until this process ends.

    Snakemake's own locks are files, which a killed process leaves behind and a user has to remove.
    The kernel drops this one, also after `kill -9` or a power cut.

    Raises:
        RecordError: another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise RecordError(
            f"another snakemake (process {holder}) is at work in this folder. "
            "Wait until it has finished, or end it."
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    _held.append(file)
