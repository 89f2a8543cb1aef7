"""What computed a number: gathered by the process that computes it."""

from __future__ import annotations

import hashlib
import os
import platform
import resource
import subprocess
import sys
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import psutil
import torch

from shared.records.base import sha256_of
from shared.records.run import Energy, Machine, Outcome, Provenance
from shared.training.inputs import data_sha256, needs_sha256
from shared.training.run_context import Computed, Run

PACKAGES = ("torch", "lightning", "numpy", "polars", "safetensors", "triton")
RUN_FILES = ("shared", "papers", "data.dvc", "requirements.lock")
RAPL = Path("/sys/class/powercap/intel-rapl:0/energy_uj")


def gather(
    run: Run, computed: Computed, outcome: Outcome, code: str, started: datetime, energy: Energy
) -> Provenance:
    """The provenance of a run whose files are all written."""
    commit, changes = git_state()
    settings = run.settings
    first_step_at = computed.first_step_at or started.timestamp()
    return Provenance(
        key=run.key,
        outcome=outcome,
        git_commit=commit,
        git_dirty_sha256=changes,
        code_sha256=code,
        settings_sha256=hashlib.sha256(settings.model_dump_json().encode()).hexdigest(),
        data_sha256=data_sha256(settings),
        needs_sha256=needs_sha256(settings),
        versions=versions(),
        kernels=kernels(),
        machine=machine(),
        device=str(run.device),
        threads=torch.get_num_threads(),
        flags={
            "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()),
            "cudnn_benchmark": str(torch.backends.cudnn.benchmark),
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
        },
        started=started,
        wall_seconds=computed.wall_seconds,
        processor_seconds=computed.processor_seconds,
        startup_seconds=max(0.0, first_step_at - psutil.Process().create_time()),
        resumed_at_steps=computed.resumed_at_steps,
        peak_memory_mib=peak_memory_mib(),
        peak_gpu_memory_mib=peak_gpu_memory_mib(),
        energy=energy,
        files={
            str(file.relative_to(run.directory)): sha256_of(file)
            for file in sorted(run.directory.rglob("*"))
            if file.is_file()
        },
    )


def git_state() -> tuple[str | None, str | None]:
    """The commit, and a digest of what differs from it (None for a clean tree or no git).

    Only files that can change a run count: a README does not make its numbers doubtful.
    """
    try:
        commit = _git("rev-parse", "HEAD").decode().strip()
        changes = _git("status", "--porcelain", "--", *RUN_FILES)
        changes += _git("diff", "HEAD", "--", *RUN_FILES)
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return commit, hashlib.sha256(changes).hexdigest() if changes else None


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], check=True, capture_output=True).stdout


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        if package in sys.modules:
            found[package] = version(package)
    return found


def kernels() -> dict[str, int]:
    """Which implementations of the norms' operators ran, and how often.

    The module is looked up, not imported: a run without a norm of ours does not depend on it.
    """
    found = sys.modules.get("shared.kernels")
    return {} if found is None else {" ".join(k): n for k, n in sorted(found.ran().items())}


def machine() -> Machine:
    has_gpu = torch.cuda.is_available()
    return Machine(
        cpu=_cpu_name(),
        cores=os.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        platform=platform.platform(),
        gpu=torch.cuda.get_device_name() if has_gpu else None,
        gpu_driver=_gpu_driver() if has_gpu else None,
    )


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpu_driver() -> str | None:
    file = Path("/proc/driver/nvidia/version")
    return file.read_text(encoding="utf-8").splitlines()[0] if file.exists() else None


def peak_memory_mib() -> float:
    # Linux counts in KiB, macOS in bytes.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def peak_gpu_memory_mib() -> float | None:
    return torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else None


class EnergyMeter:
    """Joules of the CPU package between creation and `read`, where the kernel lets us read them."""

    def __init__(self) -> None:
        self._start = self._counter()

    def read(self) -> Energy:
        end = self._counter()
        if self._start is None or end is None:
            reason = "no counter" if not RAPL.exists() else "counter not readable by this user"
            return Energy(joules=None, source=f"not measured: {RAPL}: {reason}")
        if end < self._start:
            return Energy(joules=None, source=f"not measured: {RAPL} wrapped around")
        return Energy(joules=(end - self._start) / 1e6, source=f"{RAPL} (whole CPU package)")

    @staticmethod
    def _counter() -> int | None:
        try:
            return int(RAPL.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
