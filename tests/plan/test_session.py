"""The lock of the workflow, which cannot outlive its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shared.plan.session import set_up

CODE = "from pathlib import Path; from shared.plan.session import hold_lock; "
TAKE = CODE + "hold_lock(Path({path!r})); print('taken', flush=True); import time; time.sleep(60)"


def take(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", TAKE.format(path=str(path))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_second_process_is_told_who_holds_the_lock(tmp_path):
    first = take(tmp_path / "lock")
    assert first.stdout is not None
    assert first.stdout.readline() == "taken\n"
    second = take(tmp_path / "lock")
    _, message = second.communicate()
    assert second.returncode == 1
    assert f"another snakemake (process {first.pid}) is at work in this folder" in message
    first.kill()
    first.communicate()


def test_a_killed_process_leaves_no_lock(tmp_path):
    for _ in range(2):
        process = take(tmp_path / "lock")
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        process.kill()
        process.communicate()


def test_jobs_find_this_python(monkeypatch):
    monkeypatch.setenv("PATH", "/bin")
    set_up()
    assert os.environ["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
