"""What a run says of itself: outcome and provenance, written by the process that computed."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from shared.records.base import Record
from shared.records.experiment import RunKey


class Outcome(Record):
    """How a run ended. A run that diverged is a result: its later metrics are missing, not zero."""

    status: Literal["finished", "diverged"]
    step: int = Field(ge=0, description="optimiser steps taken (0 for a measurement)")
    detail: str = ""


class Energy(Record):
    """Energy of the whole machine part that the counter covers, other processes included."""

    joules: float | None
    source: str = Field(description="the counter that was read, or why none could be read")


class Machine(Record):
    cpu: str
    cores: int
    memory_gib: float
    platform: str
    gpu: str | None
    gpu_driver: str | None


class Provenance(Record):
    """Enough to say what computed a number, and whether the same would come out again."""

    key: RunKey
    outcome: Outcome
    git_commit: str | None = Field(description="None outside a git checkout")
    git_dirty_sha256: str | None = Field(description="of `git diff HEAD`; None for a clean tree")
    code_sha256: str = Field(description="of the code that the run imports; see the closure module")
    settings_sha256: str
    data_sha256: str | None = Field(description="of the prepared data's manifest")
    needs_sha256: dict[str, str] = Field(description="artefact name -> sha256 of its weights")
    versions: dict[str, str]
    kernels: dict[str, int] = Field(
        default={},
        description="operator, phase, implementation, type and device -> calls, last process",
    )
    machine: Machine
    device: str
    threads: int
    flags: dict[str, str] = Field(description="determinism, precision and implementation switches")
    started: datetime
    wall_seconds: float = Field(ge=0, description="of computing, over all resumed processes")
    processor_seconds: float = Field(
        ge=0,
        description="on processors, start-up included, over all resumed processes; unlike the wall "
        "time it does not grow when other work shares the machine",
    )
    startup_seconds: float = Field(ge=0, description="process start to first step, last process")
    resumed_at_steps: tuple[int, ...] = ()
    peak_memory_mib: float = Field(ge=0)
    peak_gpu_memory_mib: float | None
    energy: Energy
    files: dict[str, str] = Field(description="file in the run's directory -> sha256")
