"""One GPU per run: several runs on a machine lease GPUs by file locks."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from filelock import FileLock, Timeout


@contextlib.contextmanager
def leased_device() -> Iterator[torch.device]:
    """The device to compute on: a GPU that no other run holds, or the CPU if there is no GPU.

    Under Slurm the scheduler has already chosen, and its choice is taken.

    Raises:
        RuntimeError: there are GPUs and all are held by other runs.
    """
    count = torch.cuda.device_count()
    if count == 0:
        yield torch.device("cpu")
        return
    if "SLURM_JOB_ID" in os.environ or (count == 1 and os.environ.get("CUDA_VISIBLE_DEVICES")):
        yield torch.device("cuda", 0)
        return
    for index in range(count):
        lock = FileLock(Path(tempfile.gettempdir()) / f"renorm-gpu-{index}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        try:
            # The first use of CUDA comes later, so this choice is in time.
            os.environ["CUDA_VISIBLE_DEVICES"] = str(index)
            yield torch.device("cuda", 0)
        finally:
            lock.release()
        return
    raise RuntimeError(
        f"all {count} GPUs are held by other runs. Start fewer runs at once: "
        f"snakemake --resources gpu={count}, or wait."
    )
