"""The text of a run: everything to run.log, and to the console what a person wants to follow."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from shared.records.experiment import RunKey

SECONDS_BETWEEN_LINES = 10.0


class Console:
    """Lines of one run, each with its name and the time since the start."""

    def __init__(self, key: RunKey, log: TextIO) -> None:
        self.key = key
        self._log = log
        self._start = time.monotonic()
        self._last_line = self._start

    def line(self, text: str) -> None:
        """Writes one line to the console and to run.log."""
        print(f"{self.key}  {text}", flush=True)
        self._log.write(f"{time.monotonic() - self._start:8.1f} s  {text}\n")
        self._log.flush()
        self._last_line = time.monotonic()

    def due(self) -> bool:
        """Whether the last line is so old that a person would like another."""
        return time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES


@contextlib.contextmanager
def console(key: RunKey, log_file: Path) -> Iterator[Console]:
    """Opens run.log; Python's warnings and an uncaught error are written to it as well."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("a", encoding="utf-8") as log, contextlib.redirect_stderr(_Tee(log)):
        try:
            yield Console(key, log)
        except BaseException:
            log.write(traceback.format_exc())
            raise


class _Tee:
    """Standard error, copied to a file."""

    def __init__(self, log: TextIO) -> None:
        self._log = log
        self._stderr = sys.stderr

    def write(self, text: str) -> int:
        self._log.write(text)
        return self._stderr.write(text)

    def flush(self) -> None:
        self._log.flush()
        self._stderr.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stderr, name)


def duration(seconds: float) -> str:
    """A duration for people.

    Example:
        >>> duration(75.4), duration(4.26)
        ('1 min 15 s', '4 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
