"""Compiles C++ of this package once a machine, with the machine's own compiler.

The result lies in the user's cache, under a name that tells source, compiler and processor apart.
Python code names the digest of the source that it belongs to: what a result depends on is read
from Python code alone, so an edit of the C++ must show there.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch
from filelock import FileLock

# Without contraction a product is rounded wherever it stands: a w - mean(a w) of one element is 0,
# and results do not depend on whether the processor has fused operations.
FLAGS = ["-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared"]
FLAGS += ["-fopenmp"] if sys.platform == "linux" else []
COMMON = Path(__file__).with_name("source")  # headers of every operator
# What the C++ calls the types of elements.
DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.float64: 3}


def compiler() -> str | None:
    """The C++ compiler: $CXX, or the first of c++, g++ and clang++ that is installed."""
    names = [os.environ["CXX"]] if "CXX" in os.environ else ["c++", "g++", "clang++"]
    return next((path for name in names if (path := shutil.which(name))), None)


def _cache() -> Path:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "renorm"
    except RuntimeError:
        raise OSError("there is no home directory: set XDG_CACHE_HOME") from None


def _processor() -> str:
    """What `-march=native` may look at."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    told = ("flags", "model name", "Features", "CPU implementer", "CPU part")
    return "\n".join([platform.machine(), *sorted({s for s in lines if s.startswith(told)})])


def digest(folder: Path) -> str:
    """SHA-256 of the C++ in a folder and of the headers of every operator."""
    files = [f for d in (folder, COMMON) for f in sorted(d.iterdir()) if f.suffix in (".cpp", ".h")]
    return hashlib.sha256(b"\0".join(f.read_bytes() for f in files)).hexdigest()


@cache
def load(source: Path, sha256: str) -> ctypes.CDLL:
    """The library made from `source`; compiled at the first call on this machine.

    Args:
        source: The file to compile; the headers beside it and in `COMMON` belong to it.
        sha256: Of all of them, by name.

    Raises:
        ValueError: The source has another digest.
        OSError: There is no compiler, it failed, or the cache cannot be written.
    """
    found = digest(source.parent)
    if found != sha256:
        raise ValueError(
            f"{source.name}: got files of digest {found}, expected {sha256}: write the new digest "
            "into the Python module beside it, so that results of the old text count as old"
        )
    cxx = compiler()
    if cxx is None:
        raise OSError("no C++ compiler was found: install g++ or clang++, or set CXX")
    version = subprocess.run([cxx, "--version"], capture_output=True, check=False).stdout
    parts = (sha256.encode(), " ".join(FLAGS).encode(), version, _processor().encode())
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]
    library = _cache() / f"{source.stem}-{key}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        # Processes that start together compile once.
        with FileLock(library.with_suffix(".lock")):
            if not library.exists():
                _compile(cxx, source, library)
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise OSError(f"{error}: delete {library}, and it is compiled again") from None


def obstacle(source: Path, sha256: str, device: str) -> str | None:
    """Why the kernels of `source` cannot run on this type of device; None where they can."""
    if device != "cpu":
        return "its kernels are for a CPU"
    try:
        load(source, sha256)
    except OSError as error:
        return str(error)
    return None


def _compile(cxx: str, source: Path, library: Path) -> None:
    part = library.with_suffix(".part")
    command = [cxx, *FLAGS, f"-I{COMMON}", str(source), "-o", str(part)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)} failed:\n{done.stderr}")
    with part.open("rb") as file:  # a power cut must not leave half a library under the final name
        os.fsync(file.fileno())
    part.replace(library)
