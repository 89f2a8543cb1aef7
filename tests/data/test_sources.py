"""The order of the sources, the mirror folder, DVC and the Debian package."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.data.__main__ import main
from shared.records.dataset import read_registry

from .conftest import REPOSITORY, Server, serve, write_registry

FILES = {"images": bytes(range(256)) * 16, "labels": b"some labels"}
FOLDER = Path("data/tiny")

Register = Callable[..., None]


def source() -> str:
    text: str = json.loads(Path("results/fetched/tiny.json").read_text())["source"]
    return text


def has(files: dict[str, bytes]) -> bool:
    return all((FOLDER / name).read_bytes() == content for name, content in files.items())


@pytest.fixture
def mirror(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = workspace / "mirror"
    folder.mkdir()
    monkeypatch.setenv("RENORM_DATA_MIRROR", str(folder))
    return folder


@pytest.mark.parametrize("place", [".", "tiny"])
@pytest.mark.parametrize("compressed", [False, True])
def test_the_mirror_comes_before_the_address(
    register: Register, server: Server, mirror: Path, place: str, compressed: bool
) -> None:
    register(FILES, urls=serve(server, FILES))
    (mirror / place).mkdir(exist_ok=True)
    for name, content in FILES.items():
        path = mirror / place / (name + ".gz" * compressed)
        path.write_bytes(gzip.compress(content) if compressed else content)
    assert main(["fetch", "tiny"]) == 0
    assert has(FILES)
    assert source() == "RENORM_DATA_MIRROR"
    assert server.requests == []


def test_a_damaged_mirror_is_named_and_passed_over(
    register: Register, server: Server, mirror: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(FILES, urls=serve(server, FILES))
    (mirror / "images").write_bytes(FILES["images"])
    (mirror / "labels").write_bytes(b"some lapels")
    assert main(["fetch", "tiny"]) == 0
    assert has(FILES)
    assert source() == "RENORM_DATA_MIRROR, download"
    assert server.requests == [("labels", None)]
    assert f"{mirror / 'labels'}: got sha256" in capsys.readouterr().err


def test_a_mirror_that_is_no_folder(
    register: Register,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    register(FILES, urls=serve(server, FILES))
    monkeypatch.setenv("RENORM_DATA_MIRROR", "not/there")
    assert main(["fetch", "tiny"]) == 1
    assert "RENORM_DATA_MIRROR: got 'not/there', expected a folder" in capsys.readouterr().err
    assert server.requests == []


def dvc(*arguments: str, cwd: Path | None = None) -> str:
    command = [sys.executable, "-m", "dvc", *arguments]
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that added a data set to DVC and pushed it to a remote beside it."""
    repository = tmp_path_factory.mktemp("store") / "repository"
    folder = repository / FOLDER
    folder.mkdir(parents=True)
    write_registry(repository, FILES, homepage="https://example.org/tiny")
    (repository / ".dvc").mkdir()
    for name in (".dvcignore", ".dvc/config"):
        shutil.copy(REPOSITORY / name, repository / name)
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    (folder / ".images.part").write_bytes(b"not a part of the data set")
    dvc("add", FOLDER.as_posix(), cwd=repository)
    remote = str(repository.parent / "remote")
    dvc("remote", "add", "--default", "--local", "store", remote, cwd=repository)
    dvc("push", FOLDER.as_posix(), cwd=repository)
    return repository


@pytest.fixture
def stored(store: Path, workspace: Path) -> None:
    """The same repository as someone else finds it: without the data and DVC's cache."""
    ignored = shutil.ignore_patterns("data", "cache", "tmp")
    shutil.copytree(store, workspace, ignore=ignored, dirs_exist_ok=True)


def test_dvc_pull_comes_first(stored: None, mirror: Path) -> None:
    registered = read_registry()["tiny"]
    assert registered.dvc_md5 is not None
    assert registered.meta.homepage == "https://example.org/tiny"
    assert main(["fetch", "tiny"]) == 0
    assert has(FILES)
    assert source() == "dvc pull"
    assert sorted(path.name for path in FOLDER.iterdir()) == ["images", "labels"]
    assert "up to date" in dvc("status", "data.dvc")


def test_dvc_does_not_remove_a_users_file(
    stored: None, mirror: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FOLDER.mkdir(parents=True)
    (FOLDER / "notes.txt").write_text("mine")
    for name, content in FILES.items():
        (mirror / name).write_bytes(content)
    assert main(["fetch", "tiny"]) == 0
    assert (FOLDER / "notes.txt").read_text() == "mine"
    assert source() == "RENORM_DATA_MIRROR"
    assert "dvc pull: `dvc pull` failed:" in capsys.readouterr().err


def test_dvc_without_a_remote_is_passed_over(stored: None, mirror: Path) -> None:
    Path(".dvc/config.local").unlink()
    for name, content in FILES.items():
        (mirror / name).write_bytes(content)
    assert main(["fetch", "tiny"]) == 0
    assert source() == "RENORM_DATA_MIRROR"


APT_GET = """#!/bin/sh
# Answers `apt-get ... update` and `apt-get ... download PACKAGE` as on Debian.
for last in "$@"; do :; done
case "$last" in
    update) ;;
    tiny-data) cp "$(dirname "$0")/tiny-data.deb" . ;;
    *) echo "E: Unable to locate package $last" >&2; exit 100 ;;
esac
"""


@pytest.fixture
def debian(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose apt-get knows one package, tiny-data."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("needs dpkg-deb")
    content = workspace / "package"
    (content / "DEBIAN").mkdir(parents=True)
    (content / "DEBIAN/control").write_text(
        "Package: tiny-data\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@example.org>\n"
        "Description: test data\n"
    )
    place = content / "usr/share/datasets/tiny"
    place.mkdir(parents=True)
    for name, raw in FILES.items():
        (place / f"{name}.gz").write_bytes(gzip.compress(raw))
    programs = workspace / "bin"
    programs.mkdir()
    (programs / "apt-get").write_text(APT_GET)
    (programs / "apt-get").chmod(0o755)
    subprocess.run(
        ["dpkg-deb", "--build", str(content), str(programs / "tiny-data.deb")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return programs


def test_a_debian_package_is_the_last_source(register: Register, debian: Path) -> None:
    register(FILES, debian={"package": "tiny-data", "folder": "usr/share/datasets/tiny"})
    assert main(["fetch", "tiny"]) == 0
    assert has(FILES)
    assert source() == "Debian package"


def test_a_package_that_apt_does_not_know(
    register: Register, debian: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(FILES, debian={"package": "unknown", "folder": "usr/share"})
    assert main(["fetch", "tiny"]) == 1
    message = capsys.readouterr().err
    assert "`apt-get download` failed: E: Unable to locate package unknown" in message


def test_a_machine_without_apt(
    register: Register, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    register(FILES, debian={"package": "tiny-data", "folder": "usr/share"})
    monkeypatch.setenv("PATH", "")
    assert main(["fetch", "tiny"]) == 1
    assert "this machine has no apt-get and dpkg-deb" in capsys.readouterr().err
