"""Downloads over HTTP that carry on after a break, in this process or the next one."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import requests
from tqdm import tqdm
from urllib3.exceptions import HTTPError as BrokenTransfer

ATTEMPTS = 4
WAIT_SECONDS = 1.0  # before the second attempt; doubled before each further one
CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
CHUNK = 1 << 18


class DownloadError(Exception):
    """A download did not end well. The message says why, and after how many attempts."""


def download(url: str, part: Path) -> None:
    """Downloads to `part`, after the bytes that are already there.

    Whether the bytes are right is for the caller to check. What was received stays in `part`.

    Raises:
        DownloadError: the server refuses, or several attempts failed.
        OSError: `part` cannot be written.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(WAIT_SECONDS * 2 ** (attempt - 1))
        try:
            response = _request(url, part)
        except requests.RequestException as error:
            reason = _reason(error)
            continue
        with response:
            if response.status_code == 416:  # nothing is left to send after what we have
                return
            if response.status_code >= 500 or response.status_code in (408, 429):
                reason = f"the server answered {response.status_code} {response.reason}"
                continue
            if response.status_code not in (200, 206):
                raise DownloadError(f"the server answered {response.status_code} {response.reason}")
            try:
                _receive(response, part)
                return
            except BrokenTransfer as error:
                reason = f"the transfer broke after {part.stat().st_size} bytes ({_reason(error)})"
    raise DownloadError(f"{reason}; {ATTEMPTS} attempts")


def _request(url: str, part: Path) -> requests.Response:
    have = part.stat().st_size if part.exists() else 0
    # No compression on the way: the bytes of the file itself are counted, kept and resumed.
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    return requests.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS))


def _receive(response: requests.Response, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    # 200 is the answer of a server that ignores ranges: it sends the file from its start.
    carry_on = response.status_code == 206 and response.headers.get("Content-Range", "").startswith(
        f"bytes {have}-"
    )
    start = have if carry_on else 0
    length = response.headers.get("Content-Length")
    with (
        part.open("ab" if carry_on else "wb") as file,
        tqdm(
            desc=part.name.removeprefix(".").removesuffix(".part"),
            total=start + int(length) if length else None,
            initial=start,
            unit="B",
            unit_scale=True,
            file=sys.stderr,
            mininterval=0.2 if sys.stderr.isatty() else 10.0,  # a log file gets few lines
        ) as progress,
    ):
        for chunk in response.raw.stream(CHUNK, decode_content=False):
            file.write(chunk)
            progress.update(len(chunk))


def _reason(error: Exception) -> str:
    """The innermost cause: the outer layers only repeat the address."""
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    return str(cause) or type(cause).__name__
