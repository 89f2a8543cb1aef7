"""Files that are put into place only after their size and sha256 were checked."""

from __future__ import annotations

import errno
import gzip
import io
import os
import shutil
import zlib
from pathlib import Path

from shared.records.base import sha256_of
from shared.records.dataset import RawFile

CHUNK = 1 << 20


class WrongFileError(Exception):
    """Bytes that are not those of the registry. The message says what was got and expected."""


def check(path: Path, file: RawFile) -> None:
    """Compares the bytes at `path` with the registry.

    Raises:
        WrongFileError: another size or another sha256.
    """
    size = path.stat().st_size
    if size != file.size:
        raise WrongFileError(f"got {size} bytes, expected {file.size}")
    digest = sha256_of(path)
    if digest != file.sha256:
        raise WrongFileError(f"got sha256 {digest}, expected {file.sha256}")


def place(temporary: Path, file: RawFile, folder: Path) -> None:
    """Moves a complete temporary file to its name in `folder` if its bytes are right.

    Raises:
        WrongFileError: they are not; the temporary file stays where it is.
    """
    check(temporary, file)
    with temporary.open("rb") as written:
        os.fsync(written.fileno())
    temporary.replace(folder / file.name)
    _sync_folder(folder)


def adopt(source: Path, file: RawFile, folder: Path, *, compressed: bool) -> None:
    """Copies a file from elsewhere to its name in `folder`, and decompresses it on the way.

    Raises:
        WrongFileError: it is not gzip, or not the bytes of the registry.
    """
    temporary = folder / f".{file.name}.tmp"
    try:
        with (
            gzip.open(source) if compressed else source.open("rb") as reader,
            temporary.open("wb") as writer,
        ):
            _copy(reader, writer, file)
        place(temporary, file, folder)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise WrongFileError(f"not a whole gzip file: {error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def is_compressed(source: str, file: RawFile) -> bool:
    """Whether a file or address holds the canonical file in gzip's format.

    Example:
        >>> labels = RawFile(name="labels", sha256="0" * 64, size=3)
        >>> is_compressed("https://example.org/labels.gz", labels)
        True
        >>> archive = RawFile(name="set.tar.gz", sha256="0" * 64, size=3)
        >>> is_compressed("https://example.org/set.tar.gz", archive)
        False
    """
    return source.endswith(".gz") and not file.name.endswith(".gz")


def describe(error: OSError, folder: Path) -> str:
    """One sentence on a failed write, with the remedy."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(folder).free / 2**20
        return (
            f"the disk that holds {folder} has not enough room ({free:.0f} MiB are free). Make "
            "room and run the same command again; no good file was changed."
        )
    return f"{error.filename or folder}: {error.strerror or error}. Correct this and run again."


def _copy(reader: io.BufferedIOBase, writer: io.BufferedIOBase, file: RawFile) -> None:
    """Copies, but never much more than the expected size: a gzip file may unpack to anything."""
    written = 0
    while written <= file.size and (chunk := reader.read(CHUNK)):
        written += writer.write(chunk)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
