"""Fetch: what ends up in data/NAME, and the one message where that fails."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.data.__main__ import main

from .conftest import Server, serve, start

FILES = {"images": bytes(range(256)) * 4096, "labels": b"some labels"}
FOLDER = Path("data/tiny")
RECEIPT = Path("results/fetched/tiny.json")

Register = Callable[..., None]


def is_whole(files: dict[str, bytes] = FILES) -> bool:
    """Exactly the right files and nothing else: no temporary file is left."""
    there = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    return there == files


def failure(capsys: pytest.CaptureFixture[str]) -> str:
    """Runs a fetch that must fail; gives its last message."""
    assert main(["fetch", "tiny"]) == 1
    assert not RECEIPT.exists()
    return capsys.readouterr().err


@pytest.mark.parametrize("compressed", [False, True])
def test_a_download_is_verified_and_recorded(
    register: Register, server: Server, compressed: bool
) -> None:
    register(FILES, urls=serve(server, FILES, compressed=compressed))
    assert main(["fetch", "tiny"]) == 0
    assert is_whole()
    receipt = json.loads(RECEIPT.read_text())
    assert receipt["source"] == "download"
    assert receipt["licence"] == "MIT"
    assert sorted(receipt["files"]) == ["images", "labels"]


def test_what_is_there_is_not_fetched_again(register: Register, server: Server) -> None:
    register(FILES, urls=serve(server, FILES))
    assert main(["fetch", "tiny"]) == 0
    before = (RECEIPT.read_bytes(), (FOLDER / "images").stat().st_mtime_ns, len(server.requests))
    assert main(["fetch", "tiny"]) == 0
    after = (RECEIPT.read_bytes(), (FOLDER / "images").stat().st_mtime_ns, len(server.requests))
    assert after == before


def test_only_missing_files_are_fetched(register: Register, server: Server) -> None:
    register(FILES, urls=serve(server, FILES))
    FOLDER.mkdir(parents=True)
    (FOLDER / "images").write_bytes(FILES["images"])
    assert main(["fetch", "tiny"]) == 0
    assert server.requests == [("labels", None)]


def test_files_that_were_put_there_by_hand(register: Register) -> None:
    register(FILES)
    FOLDER.mkdir(parents=True)
    for name, content in FILES.items():
        (FOLDER / name).write_bytes(content)
    assert main(["fetch", "tiny"]) == 0
    assert json.loads(RECEIPT.read_text())["source"] == "already there"


def test_a_stale_receipt_is_replaced(register: Register, server: Server) -> None:
    register(FILES, urls=serve(server, FILES))
    RECEIPT.parent.mkdir(parents=True)
    RECEIPT.write_text("{}")
    assert main(["fetch", "tiny"]) == 0
    assert json.loads(RECEIPT.read_text())["dataset"] == "tiny"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda content: b"x" + content[1:], "expected " + "{sha256}"),
        (lambda content: content[:-1], "got 1048575 bytes, expected 1048576"),
        (lambda content: content + b"x", "bytes, expected 1048576"),
        (lambda content: b"<html>not the file</html>", "got 25 bytes, expected 1048576"),
    ],
    ids=["one byte", "short", "long", "another file"],
)
def test_wrong_bytes_are_never_put_into_place(
    register: Register,
    server: Server,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[bytes], bytes],
    said: str,
) -> None:
    register(FILES, urls=serve(server, {**FILES, "images": damage(FILES["images"])}))
    message = failure(capsys)
    expected = hashlib.sha256(FILES["images"]).hexdigest()
    assert said.format(sha256=expected) in message
    assert f"images  1048576 bytes  sha256 {expected}" in message
    assert "RENORM_DATA_MIRROR" in message
    assert not (FOLDER / "images").exists()
    assert list(FOLDER.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [FILES["images"], gzip.compress(FILES["images"])[:-9], gzip.compress(FILES["images"])[:200]],
    ids=["not compressed", "no checksum", "cut off"],
)
def test_a_broken_gzip_file_is_named(
    register: Register, server: Server, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    register(FILES, urls=serve(server, FILES, compressed=True))
    server.files["images.gz"] = content
    assert "not a whole gzip file" in failure(capsys)
    assert list(FOLDER.iterdir()) == []


def test_a_gzip_bomb_is_not_unpacked(
    register: Register,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    register({"labels": FILES["labels"]})
    (workspace / "mirror").mkdir()
    (workspace / "mirror/labels.gz").write_bytes(gzip.compress(bytes(64 << 20)))
    monkeypatch.setenv("RENORM_DATA_MIRROR", "mirror")
    assert "got 1048576 bytes, expected 11" in failure(capsys)


def test_an_existing_wrong_file_is_the_users(
    register: Register, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    register(FILES, urls=serve(server, FILES))
    FOLDER.mkdir(parents=True)
    (FOLDER / "labels").write_bytes(b"my own labels")
    message = failure(capsys)
    assert message.startswith("data/tiny/labels: got 13 bytes, expected 11. Restore it, or delete")
    assert (FOLDER / "labels").read_bytes() == b"my own labels"
    assert server.requests == []


def test_a_link_that_leads_nowhere_is_not_replaced(
    register: Register, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    register(FILES, urls=serve(server, FILES))
    FOLDER.mkdir(parents=True)
    (FOLDER / "labels").symlink_to("elsewhere")
    assert "a link that leads nowhere" in failure(capsys)
    assert (FOLDER / "labels").is_symlink()


def test_good_files_survive_a_failure(
    register: Register, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = serve(server, FILES)
    register(FILES, urls=urls)
    del server.files["labels"]
    failure(capsys)
    before = (FOLDER / "images").stat().st_mtime_ns
    serve(server, FILES)
    assert main(["fetch", "tiny"]) == 0
    assert (FOLDER / "images").stat().st_mtime_ns == before
    assert is_whole()


@pytest.mark.parametrize("full", [".images.part", ".images.tmp"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(
    register: Register, server: Server, capsys: pytest.CaptureFixture[str], full: str
) -> None:
    register(FILES, urls=serve(server, FILES, compressed=True))
    FOLDER.mkdir(parents=True)
    (FOLDER / "labels").write_bytes(FILES["labels"])
    (FOLDER / full).symlink_to("/dev/full")  # every write there says: no space left
    message = failure(capsys)
    assert "the disk that holds data/tiny has not enough room" in message
    assert "Make room and run" in message
    assert not (FOLDER / "images").exists()
    assert (FOLDER / "labels").read_bytes() == FILES["labels"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(
    register: Register, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    register(FILES, urls=serve(server, FILES))
    FOLDER.mkdir(parents=True)
    FOLDER.chmod(0o555)
    assert "Permission denied" in failure(capsys)


def test_a_file_in_the_place_of_the_folder(
    register: Register, capsys: pytest.CaptureFixture[str]
) -> None:
    register(FILES)
    Path("data").mkdir()
    FOLDER.write_text("a file")
    assert "data/tiny: File exists" in failure(capsys)


def test_no_network(register: Register, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/images"
    register(FILES, urls={"images": url, "labels": url})
    message = failure(capsys)
    assert "Connection refused; 4 attempts" in message
    assert "dvc pull: data.dvc has no md5" in message
    assert "RENORM_DATA_MIRROR: not set" in message
    assert "Debian package: no Debian package holds this data set" in message


def test_a_data_set_that_may_not_be_downloaded(
    register: Register, capsys: pytest.CaptureFixture[str]
) -> None:
    register(FILES, manual="Register at https://example.org and download the archive.")
    message = failure(capsys)
    assert "What to do: Register at https://example.org" in message


@pytest.mark.parametrize("name", ["unknown", "../tiny", "/etc/passwd"])
def test_an_unknown_name(register: Register, capsys: pytest.CaptureFixture[str], name: str) -> None:
    register(FILES)
    assert main(["fetch", name]) == 1
    assert f"got data set {name!r}, expected one of tiny" in capsys.readouterr().err
    assert not Path("data").exists()


@pytest.mark.parametrize("file", ["../images", "/tmp/images", ".images.part", "a/b", "a\n"])
def test_a_file_name_cannot_lead_elsewhere(
    register: Register, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    register({file: b"content"})
    assert "data.dvc:" in failure(capsys)
    assert not Path("data").exists()


def test_failures_show_no_traceback(register: Register) -> None:
    register(FILES)
    process = start("fetch", "tiny")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert errors.rstrip().splitlines()[-1].startswith("  labels  11 bytes  sha256")


def test_a_killed_fetch_is_carried_on(register: Register, server: Server) -> None:
    register(FILES, urls=serve(server, FILES))
    server.script = ["slow"]
    process = start("fetch", "tiny")
    part, half = FOLDER / ".images.part", len(FILES["images"]) // 2
    deadline = time.monotonic() + 30
    while not (part.exists() and part.stat().st_size >= half):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (FOLDER / "images").exists()
    assert not RECEIPT.exists()
    assert main(["fetch", "tiny"]) == 0
    assert server.requests == [("images", None), ("images", f"bytes={half}-"), ("labels", None)]
    assert is_whole()


def test_two_processes_share_the_work(register: Register, server: Server) -> None:
    register(FILES, urls=serve(server, FILES))
    server.script = ["slow"]
    first = start("fetch", "tiny")
    while not server.requests:
        time.sleep(0.01)
    second = start("fetch", "tiny")
    assert second.stderr is not None
    assert "another process is at it" in second.stderr.readline()
    server.go_on.set()
    for process in (first, second):
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert server.requests == [("images", None), ("labels", None)]
    assert is_whole()
