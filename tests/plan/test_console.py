"""The lines that a person follows."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from shared.plan.console import report_failures, shorten


class Kept(logging.Handler):
    """Stands for Snakemake's handler of the console."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "DefaultStreamHandler"
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def console():
    logger = logging.getLogger("test of the console")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    kept = Kept()
    logger.addHandler(kept)
    shorten(logger)
    yield logger, kept
    logger.handlers.clear()


def start(logger: logging.Logger, jobid: int, name: str) -> None:
    extra: dict[str, Any] = {"jobid": jobid, "rule_msg": name, "rule_name": "run"}
    logger.info("a block of ten lines", extra={"event": LogEvent.JOB_INFO} | extra)


def finish(logger: logging.Logger, jobid: int, done: int, total: int) -> None:
    logger.info("Finished", extra={"event": LogEvent.JOB_FINISHED, "job_id": jobid})
    logger.info("", extra={"event": LogEvent.PROGRESS, "done": done, "total": total})


def fail(logger: logging.Logger, jobid: int, log: str) -> None:
    extra: dict[str, Any] = {"jobid": jobid, "rule_name": "run", "log": [log]}
    logger.error("Error in rule run", extra={"event": LogEvent.JOB_ERROR} | extra)


def test_a_finished_job_is_one_line(console):
    logger, kept = console
    logger.info("Select jobs to execute...")
    logger.info("Execute 2 jobs...", extra={"event": LogEvent.JOB_STARTED})
    start(logger, 1, "run a/seed-0")
    start(logger, 2, "run a/seed-1")
    finish(logger, 2, 1, 5)
    assert kept.texts == ["[1 of 5 done, 1 running, 3 left] run a/seed-1"]


def test_other_messages_are_passed_on(console):
    logger, kept = console
    logger.info("Nothing to be done")
    logger.warning("Careful", extra={"event": LogEvent.ERROR})
    assert kept.texts == ["Nothing to be done", "Careful"]


def test_a_failed_job_is_shown_counted_and_listed_at_the_end(console):
    logger, kept = console
    start(logger, 1, "run a/seed-0")
    start(logger, 2, "run a/seed-1")
    fail(logger, 1, "a/run.log")
    finish(logger, 2, 1, 4)
    report_failures(logger)
    assert kept.texts == [
        "Error in rule run",
        "[1 of 4 done, 0 running, 2 left, 1 failed] run a/seed-1",
        "failed: run a/seed-0: see a/run.log",
    ]


def test_a_logger_plugin_keeps_its_place():
    logger = logging.Logger("plugin")
    plugin = logging.NullHandler()
    logger.addHandler(plugin)
    shorten(logger)
    report_failures(logger)
    assert logger.handlers == [plugin]
