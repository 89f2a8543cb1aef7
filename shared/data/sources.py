"""The places that raw files come from, in the order in which they are tried.

A source puts those of the missing files that it has into the data set's folder, each one verified.
If it does not have them all it raises `SourceError` with the reason, and the next one is tried.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from shared.data.download import DownloadError, download
from shared.data.registry import DataError
from shared.data.verified import WrongFileError, adopt, is_compressed, place
from shared.records.dataset import Dataset, RawFile

MIRROR = "RENORM_DATA_MIRROR"
SUBPROCESS_SECONDS = 3600


class SourceError(Exception):
    """A source did not give all missing files. The message says why."""


class NotApplicableError(SourceError):
    """A source that was not set up, or does not have this data set: nothing went wrong."""


def from_dvc(dataset: Dataset, missing: Sequence[RawFile], folder: Path) -> None:
    """`dvc pull`, where the data set has an md5 and a default remote is configured."""
    if dataset.dvc_md5 is None:
        raise NotApplicableError("data.dvc has no md5 for this data set")
    dvc = [sys.executable, "-m", "dvc"]
    try:
        remote = _run("dvc config", [*dvc, "config", "core.remote"]).strip()
    except SourceError as error:  # e.g. a copy of the repository without git
        raise NotApplicableError(str(error)) from None
    if not remote:
        raise NotApplicableError("no default DVC remote is configured")
    # Without --force DVC refuses to replace or remove a file that it has no copy of.
    _run("dvc pull", [*dvc, "pull", folder.as_posix()])


def from_mirror(dataset: Dataset, missing: Sequence[RawFile], folder: Path) -> None:
    """Files NAME or NAME.gz in the folder named by RENORM_DATA_MIRROR, or in its folder DATASET.

    Raises:
        DataError: the variable is set, but to something that is not a folder.
    """
    setting = os.environ.get(MIRROR)
    if not setting:
        raise NotApplicableError("not set")
    mirror = Path(setting)
    if not mirror.is_dir():
        raise DataError(f"{MIRROR}: got {setting!r}, expected a folder. Correct or unset it.")
    _copy_all([mirror / dataset.name, mirror], missing, folder)


def from_url(dataset: Dataset, missing: Sequence[RawFile], folder: Path) -> None:
    """The address of each file in data.dvc."""
    for file in missing:
        if not file.url:
            raise NotApplicableError(f"{file.name} has no address in data.dvc")
        try:
            _download(file, folder)
        except (DownloadError, WrongFileError) as error:
            # The other files come from the same place, so they are not tried.
            raise SourceError(f"{file.url}: {error}") from None


def from_debian(dataset: Dataset, missing: Sequence[RawFile], folder: Path) -> None:
    """The files of a Debian package, which is unpacked and not installed: no root is needed."""
    debian = dataset.meta.debian
    if debian is None:
        raise NotApplicableError("no Debian package holds this data set")
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise NotApplicableError("this machine has no apt-get and dpkg-deb")
    with tempfile.TemporaryDirectory(prefix="renorm-") as temporary:
        root = Path(temporary).resolve()
        # Own package lists: the machine's may be empty or old, and only root can renew them.
        (root / "lists/partial").mkdir(parents=True)
        (root / "cache/archives/partial").mkdir(parents=True)
        apt = ["apt-get", "-qq", "-o", f"Dir::State::Lists={root}/lists"]
        apt += ["-o", f"Dir::Cache={root}/cache", "-o", "Acquire::Retries=1"]
        apt += ["-o", "Acquire::http::Timeout=20", "-o", "APT::Sandbox::User="]
        _run("apt-get update", [*apt, "update"], cwd=root)
        _run("apt-get download", [*apt, "download", debian.package], cwd=root)
        packages = list(root.glob("*.deb"))
        if len(packages) != 1:
            raise SourceError(f"apt-get download gave {len(packages)} packages, expected one")
        _run("dpkg-deb", ["dpkg-deb", "-x", str(packages[0]), str(root / "unpacked")])
        _copy_all([root / "unpacked" / debian.folder], missing, folder)


Source = Callable[[Dataset, Sequence[RawFile], Path], None]

SOURCES: dict[str, Source] = {
    "dvc pull": from_dvc,
    MIRROR: from_mirror,
    "download": from_url,
    "Debian package": from_debian,
}


def _copy_all(places: Sequence[Path], missing: Sequence[RawFile], folder: Path) -> None:
    faults = []
    for file in missing:
        candidates = [place / name for place in places for name in (file.name, f"{file.name}.gz")]
        found = next((path for path in candidates if path.is_file()), None)
        if found is None:
            faults.append(f"no {file.name} or {file.name}.gz in {' or '.join(map(str, places))}")
        elif not os.access(found, os.R_OK):
            faults.append(f"{found}: not readable")
        else:
            try:
                adopt(found, file, folder, compressed=is_compressed(found.name, file))
            except WrongFileError as error:
                faults.append(f"{found}: {error}")
    if faults:
        raise SourceError("; ".join(faults))


def _download(file: RawFile, folder: Path) -> None:
    part = folder / f".{file.name}.part"
    resumed = part.exists()
    download(file.url, part)
    try:
        if is_compressed(file.url, file):
            adopt(part, file, folder, compressed=True)
        else:
            place(part, file, folder)
        part.unlink(missing_ok=True)
    except WrongFileError:
        part.unlink(missing_ok=True)
        if not resumed:
            raise
        # The first part came from an earlier download, perhaps of another file: once more, whole.
        _download(file, folder)


def _run(name: str, command: Sequence[str], cwd: Path | None = None) -> str:
    """The standard output of a command, which a message calls `name`."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SUBPROCESS_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"`{name}` took over {SUBPROCESS_SECONDS} s") from None
    if done.returncode != 0:
        reason = " ".join(done.stderr.split()) or "no message"
        raise SourceError(f"`{name}` failed: {reason}")
    return done.stdout
