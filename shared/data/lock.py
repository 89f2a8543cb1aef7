"""One process at a time: others wait, and a killed one leaves nothing to clean up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def alone(file: Path, task: str) -> Iterator[None]:
    """Holds a lock on `file` while the block runs; says so on stderr if it has to wait."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        print(f"{task}: another process is at it; waiting", file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
