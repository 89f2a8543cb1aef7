"""One line on the console for each finished job, in place of Snakemake's block for each event.

The log file under .snakemake/log keeps Snakemake's full text.
"""

from __future__ import annotations

import logging
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent

HIDDEN_EVENTS = (LogEvent.JOB_STARTED, LogEvent.JOB_FINISHED, LogEvent.SHELLCMD)
HIDDEN_TEXTS = ("Select jobs to execute...",)


class JobLines(logging.Handler):
    """Counts jobs and hands everything that is not about a normal job to the handler it replaces.

    Args:
        inner: Snakemake's handler of the console.
    """

    def __init__(self, inner: logging.Handler) -> None:
        super().__init__(inner.level)
        self._inner = inner
        self._running: dict[int, str] = {}
        self._last_finished = ""
        self._failed: dict[str, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        job: Any = record.__dict__
        if event == LogEvent.JOB_INFO:
            self._running[job["jobid"]] = job["rule_msg"] or job["rule_name"]
        elif event == LogEvent.JOB_FINISHED:
            self._last_finished = self._running.pop(job["job_id"], "")
        elif event == LogEvent.PROGRESS:
            self._say(self._progress(job["done"], job["total"]))
        elif event == LogEvent.JOB_ERROR:
            name = self._running.pop(job["jobid"], job["rule_name"])
            self._failed[name] = list(job["log"])
        if event not in (*HIDDEN_EVENTS, LogEvent.JOB_INFO, LogEvent.PROGRESS) and (
            record.msg not in HIDDEN_TEXTS
        ):
            self._inner.handle(record)

    def report_failures(self) -> None:
        """Lists the failed jobs with their logs, which the lines of other jobs may have hidden."""
        for name, logs in self._failed.items():
            self._say(f"failed: {name}: see {', '.join(logs)}", "ERROR")

    def _progress(self, done: int, total: int) -> str:
        failed = len(self._failed)
        left = total - done - failed - len(self._running)
        counts = f"{done} of {total} done, {len(self._running)} running, {left} left"
        return f"[{counts}{f', {failed} failed' if failed else ''}] {self._last_finished}"

    def _say(self, text: str, level: str = "INFO") -> None:
        levels = logging.getLevelNamesMapping()
        self._inner.handle(
            logging.makeLogRecord({"msg": text, "levelname": level, "levelno": levels[level]})
        )


def shorten(logger: logging.Logger) -> None:
    """Replaces Snakemake's handler of the console, unless a logger plugin has taken its place."""
    for handler in logger.handlers:
        if handler.name == "DefaultStreamHandler":
            logger.removeHandler(handler)
            logger.addHandler(JobLines(handler))


def report_failures(logger: logging.Logger) -> None:
    """See `JobLines.report_failures`."""
    for handler in logger.handlers:
        if isinstance(handler, JobLines):
            handler.report_failures()
