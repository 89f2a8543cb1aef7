"""What one call of Snakemake sets up for itself and its jobs."""

from __future__ import annotations

import fcntl
import gc
import os
import sys
from io import TextIOWrapper
from pathlib import Path

_held: list[TextIOWrapper] = []


def set_up() -> None:
    """Makes `python` in the jobs the one that runs here, also if no environment was activated."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # The graph of jobs lives as long as the process; looking through it for garbage again and again
    # took a fifth of the time with 1,000 papers.
    gc.set_threshold(100_000, 50, 100)


def hold_lock(path: Path) -> None:
    """Takes the lock and keeps it until this process ends.

    Snakemake's own locks are files, which a killed process leaves behind and a user has to remove.
    The kernel drops this one, also after `kill -9` or a power cut.

    If another process holds it, this one ends with a message.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        sys.exit(
            f"Error: another snakemake (process {holder}) is at work in this folder. "
            "Wait until it has finished, or end it."
        )
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    _held.append(file)
