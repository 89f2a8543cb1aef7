"""A repository in a temporary folder, upstream files, and a web server on the loopback."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, without a mirror, a proxy or waits between attempts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RENORM_DATA_MIRROR", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("shared.data.download.WAIT_SECONDS", 0.0)
    return tmp_path


def write_registry(
    folder: Path,
    files: dict[str, bytes],
    *,
    urls: dict[str, str] | None = None,
    name: str = "tiny",
    format: str = "idx",
    **more: Any,
) -> None:
    """Writes a data.dvc with one data set of the given files."""
    entries = [
        {
            "name": file,
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content),
            "url": (urls or {}).get(file, ""),
        }
        for file, content in files.items()
    ]
    meta = {"format": format, "licence": "MIT", "homepage": "", "files": entries, **more}
    out = {"path": f"data/{name}", "desc": "a test", "meta": meta}
    (folder / "data.dvc").write_text(yaml.safe_dump({"outs": [out]}))


@pytest.fixture
def register(workspace: Path) -> Callable[..., None]:
    """`write_registry` in the working directory."""
    return functools.partial(write_registry, workspace)


def idx(array: np.ndarray) -> bytes:
    """An IDX file of unsigned bytes."""
    sizes = np.array(array.shape, ">u4").tobytes()
    return bytes((0, 0, 8, array.ndim)) + sizes + array.astype(np.uint8).tobytes()


def idx_set(seed: int = 0) -> dict[str, bytes]:
    """The four files of a data set like MNIST: 20 and 10 images of 6x5, 5 classes."""
    rng = np.random.default_rng(seed)
    files = {}
    for prefix, count in (("train", 20), ("t10k", 10)):
        images = rng.integers(0, 256, (count, 6, 5))
        files[f"{prefix}-images-idx3-ubyte"] = idx(images)
        files[f"{prefix}-labels-idx1-ubyte"] = idx(np.arange(count) % 5)
    return files


def tar_gz(members: dict[str, bytes], extra: tuple[tarfile.TarInfo, ...] = ()) -> bytes:
    """A tar.gz archive of plain files, after `extra` members without content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for info in extra:
            tar.addfile(info)
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def cifar_records(labels: list[np.ndarray], images: np.ndarray) -> bytes:
    columns = [label.astype(np.uint8)[:, None] for label in labels]
    return np.concatenate([*columns, images.reshape(len(images), -1)], axis=1).tobytes()


class Server:
    """Serves `files`; `script` says how to treat the next requests: the default is well.

    `break`: half of the bytes, then the connection ends. `whole`: ranges are ignored. `slow`: half
    of the bytes, then a wait until `go_on` is set. A number is a status.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.script: list[str | int] = []
        self.requests: list[tuple[str, str | None]] = []
        self.go_on = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/{name}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        name, wanted = handler.path[1:], handler.headers["Range"]
        self.requests.append((name, wanted))
        how = self.script.pop(0) if self.script else "well"
        if isinstance(how, int) or name not in self.files:
            handler.send_error(how if isinstance(how, int) else 404)
            return
        content = self.files[name]
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        if start >= len(content) and wanted and how != "whole":
            handler.send_error(416)
            return
        if wanted and how != "whole":
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            content = content[start:]
        else:
            handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        half = len(content) // 2
        handler.wfile.write(content[:half])
        handler.wfile.flush()
        if how == "slow":
            self.go_on.wait(30)
        if how != "break":
            handler.wfile.write(content[half:])

    def close(self) -> None:
        self.go_on.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def serve(server: Server, files: dict[str, bytes], *, compressed: bool = False) -> dict[str, str]:
    """Puts the files on the server; gives the address of each."""
    suffix = ".gz" if compressed else ""
    for name, content in files.items():
        server.files[name + suffix] = gzip.compress(content) if compressed else content
    return {name: server.url(name + suffix) for name in files}


def start(*arguments: str) -> subprocess.Popen[str]:
    """`python -m shared.data ARGUMENTS` in the current folder, as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "shared.data", *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stderr=subprocess.PIPE,
        text=True,
    )


def cifar_set(folder: str, labels: list[int], files: dict[str, int]) -> dict[str, bytes]:
    """An archive of CIFAR's binary version: `labels` are numbers of classes, `files` of records."""
    rng = np.random.default_rng(0)
    members = {}
    for file, count in files.items():
        images = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        members[f"{folder}/{file}"] = cifar_records(
            [rng.integers(0, high, count) for high in labels], images
        )
    classes = "\n".join(f"class_{number}" for number in range(labels[-1])) + "\n\n"
    meta = "batches.meta.txt" if len(labels) == 1 else "fine_label_names.txt"
    members[f"{folder}/{meta}"] = classes.encode()
    return members


def cifar10() -> dict[str, bytes]:
    """The files in a small cifar-10-binary.tar.gz."""
    files = {f"data_batch_{number}.bin": 3 for number in range(1, 6)} | {"test_batch.bin": 4}
    return cifar_set("cifar-10-batches-bin", [10], files)


def cifar100() -> dict[str, bytes]:
    """The files in a small cifar-100-binary.tar.gz."""
    return cifar_set("cifar-100-binary", [20, 100], {"train.bin": 8, "test.bin": 4})
