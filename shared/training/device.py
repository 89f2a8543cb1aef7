"""One GPU per run: several runs on a machine lease GPUs by file locks."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from filelock import FileLock, Timeout

SECONDS_BETWEEN_TRIES = 1.0


@contextlib.contextmanager
def leased_device() -> Iterator[torch.device]:
    """The device to compute on: a GPU that no other run holds, or the CPU if there is no GPU.

    If all GPUs are held by other runs of this user it waits for one, and says so on stderr. Of the
    GPUs that CUDA_VISIBLE_DEVICES names only these are leased; a single one that it names, and the
    choice of Slurm, is taken as it is.
    """
    count = torch.cuda.device_count()
    if count == 0:
        yield torch.device("cpu")
        return
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if "SLURM_JOB_ID" in os.environ or (count == 1 and chosen):
        yield torch.device("cuda", 0)
        return
    gpus = chosen.split(",")[:count] if chosen else [str(index) for index in range(count)]
    lock, gpu = _lease(gpus)
    try:
        # The first use of CUDA comes later, so this choice is in time.
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
        yield torch.device("cuda", 0)
    finally:
        lock.release()


def _lease(gpus: Sequence[str]) -> tuple[FileLock, str]:
    # A lock file of another user could not be opened, hence the user's number in the name.
    folder = Path(tempfile.gettempdir())
    locks = {gpu: FileLock(folder / f"renorm-{os.getuid()}-gpu-{gpu}.lock") for gpu in gpus}
    told = False
    while True:
        for gpu, lock in locks.items():
            with contextlib.suppress(Timeout):
                lock.acquire(blocking=False)
                return lock, gpu
        if not told:
            print(f"all {len(gpus)} GPUs are held by other runs; waiting", file=sys.stderr)
            told = True
        time.sleep(SECONDS_BETWEEN_TRIES)
