"""Downloads: breaks, ranges, refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shared.data.__main__ import main
from shared.data.download import ATTEMPTS, DownloadError, download

from .conftest import Server, serve

CONTENT = bytes(range(256)) * 64
HALF = len(CONTENT) // 2


@pytest.fixture
def part(workspace: Path, server: Server) -> Path:
    server.files["file"] = CONTENT
    return workspace / ".file.part"


def test_a_broken_transfer_is_carried_on(part: Path, server: Server) -> None:
    server.script = ["break", "break"]
    download(server.url("file"), part)
    assert part.read_bytes() == CONTENT
    ranges = [None, f"bytes={HALF}-", f"bytes={HALF + HALF // 2}-"]
    assert server.requests == [("file", wanted) for wanted in ranges]


def test_a_server_that_ignores_ranges_sends_the_whole_file(part: Path, server: Server) -> None:
    server.script = ["break", "whole"]
    download(server.url("file"), part)
    assert part.read_bytes() == CONTENT
    assert server.requests[1] == ("file", f"bytes={HALF}-")


def test_a_complete_part_is_taken_as_it_is(part: Path, server: Server) -> None:
    part.write_bytes(CONTENT)
    download(server.url("file"), part)
    assert part.read_bytes() == CONTENT


def test_a_server_that_always_breaks(part: Path, server: Server) -> None:
    server.script = ["break"] * ATTEMPTS
    with pytest.raises(DownloadError, match=f"the transfer broke after .*; {ATTEMPTS} attempts"):
        download(server.url("file"), part)
    assert part.read_bytes() == CONTENT[: part.stat().st_size]


@pytest.mark.parametrize("status", [404, 403])
def test_a_refusal_is_not_repeated(part: Path, server: Server, status: int) -> None:
    server.script = [status]
    with pytest.raises(DownloadError, match=f"the server answered {status}"):
        download(server.url("file"), part)
    assert len(server.requests) == 1
    assert not part.exists()


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_in_trouble_is_asked_again(part: Path, server: Server, status: int) -> None:
    server.script = [status, status]
    download(server.url("file"), part)
    assert part.read_bytes() == CONTENT
    server.script = [status] * ATTEMPTS
    part.unlink()
    with pytest.raises(DownloadError, match=f"the server answered {status} .*; {ATTEMPTS} attempt"):
        download(server.url("file"), part)


def test_a_server_that_falls_silent(
    part: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.data.download.READ_SECONDS", 0.1)
    monkeypatch.setattr("shared.data.download.CHUNK", 1024)
    server.script = ["slow"]
    download(server.url("file"), part)
    assert part.read_bytes() == CONTENT
    assert server.requests == [("file", None), ("file", f"bytes={HALF}-")]


def test_an_address_that_is_none(part: Path) -> None:
    with pytest.raises(DownloadError, match="No scheme supplied"):
        download("not-an-address", part)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("old", [b"x" * HALF, b"x" * 2 * len(CONTENT)], ids=["shorter", "longer"])
def test_the_part_of_another_file_is_thrown_away(
    register: Callable[..., None], server: Server, old: bytes, compressed: bool
) -> None:
    register({"file": CONTENT}, urls=serve(server, {"file": CONTENT}, compressed=compressed))
    folder = Path("data/tiny")
    folder.mkdir(parents=True)
    (folder / ".file.part").write_bytes(old)
    assert main(["fetch", "tiny"]) == 0
    assert [wanted for _, wanted in server.requests] == [f"bytes={len(old)}-", None]
    assert (folder / "file").read_bytes() == CONTENT
    assert [path.name for path in folder.iterdir()] == ["file"]
