"""The commands that a user types: targets, messages, failures, kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.workflow.synthetic import SNAKEMAKE, build, snakemake, write

LEFT = "results/laptop/runs/alpha/toy/left/seed-0"


def edit(root: Path, old: str, new: str) -> None:
    file = root / "papers/alpha/measurements.py"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_one_report_comes_with_its_notebook_and_nothing_of_other_papers(tmp_path):
    build(tmp_path, {"alpha": {"seeds": 1}, "beta": {}})
    write(tmp_path / "papers/beta/paper.yaml", "not: [a paper")
    write(tmp_path / "papers/beta/measurements.py", "not python")
    result = snakemake(tmp_path, "reports/alpha.html")
    assert result.returncode == 0, result.stderr
    made = sorted(str(p.relative_to(tmp_path)) for p in (tmp_path / "reports").glob("**/*.*ml"))
    assert made == ["reports/alpha.html"]
    assert (tmp_path / "reports/notebooks/alpha.ipynb").exists()


def test_snakemake_alone_makes_all_reports_and_the_index(built):
    made = sorted(path.name for path in (built / "reports").glob("*.html"))
    assert made == ["alpha.html", "beta.html", "index.html"]


def test_the_console_shows_one_line_per_job(tmp_path):
    build(tmp_path, {"alpha": {"seeds": 2}})
    lines = snakemake(tmp_path, "reports/alpha.html").stderr.splitlines()
    progress = [line for line in lines if line.startswith("[")]
    assert len(progress) == 8
    assert progress[-1] == "[8 of 8 done, 0 running, 0 left] page alpha"
    assert len(lines) < 8 + 25
    assert not any("{" in line for line in lines)


def test_a_dry_run_says_why(built):
    result = snakemake(built, "reports/alpha.html", "--dry-run", "--forcerun", "judge")
    assert "Reason: Forced execution" in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reports/alpa.html",), "got paper 'alpa', expected one of alpha, beta"),
        (("--config", "scale=tiny"), "scale: got 'tiny'"),
        (("--config", "sede=3"), "sede: unknown key"),
        (
            ("--config", "overrides={alpha.to.data.x: 1}"),
            "got experiment 'to', expected one of toy",
        ),
        (("--config", "overrides={alpa.toy.data.x: 1}"), "got paper 'alpa', expected one of"),
        (("results/laptop/runs/alpha/toy/up/seed-0/metrics.parquet",), "got arm 'up'"),
    ],
)
def test_a_mistake_gives_one_message_and_no_traceback(built, arguments, message):
    result = snakemake(built, *arguments, "--dry-run")
    assert result.returncode == 1
    assert [line for line in result.stderr.splitlines() if message in line], result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("paper.yaml", "kind: value", "kind: vale", "papers/alpha/paper.yaml:18: claims.0.kind"),
        ("paper.yaml", "dataset: first", "dataset: nine", "got data set 'nine', expected one of"),
        ("paper.yaml", "entry: measurements", "entry: other", "no module papers.alpha.other"),
        ("measurements.py", "RATE", "= RATE", "papers/alpha/measurements.py:4: not Python"),
        ("figures.py", "def", "dif", "papers/alpha/figures.py:1: not Python"),
    ],
)
def test_a_fault_in_a_file_is_told_before_anything_runs(tmp_path, file, old, new, message):
    build(tmp_path, {"alpha": {"data": {"dataset": "first"}}})
    text = (tmp_path / "papers/alpha" / file).read_text()
    assert old in text
    write(tmp_path / "papers/alpha" / file, text.replace(old, new))
    result = snakemake(tmp_path)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith(f"Error: {message}"), result.stderr
    assert not (tmp_path / "results").exists()


def test_a_failed_run_keeps_its_log_and_stops_no_other(project):
    edit(project, "BROKEN = ()", 'BROKEN = ("left",)')
    result = snakemake(project)
    assert result.returncode == 1
    assert (project / LEFT / "run.log").read_text() == "started\n"
    assert not (project / LEFT / "metrics.parquet").exists()
    assert result.stderr.count("] run alpha/toy/right/") == 3
    assert f"failed: run alpha/toy/left/seed-0: see {LEFT}/run.log" in result.stderr
    assert "this arm is broken" in result.stderr
    edit(project, 'BROKEN = ("left",)', "BROKEN = ()")
    assert snakemake(project).returncode == 0


def test_a_needed_run_comes_first(tmp_path):
    second = {
        "title": "Toy",
        "kind": "measurement",
        "entry": "measurements:measure",
        "arms": {"late": {}},
        "seeds": 1,
        "scales": {"laptop": None},
        "needs": {"source": {"experiment": "toy", "arm": "left"}},
    }
    build(tmp_path, {"alpha": {"seeds": 1}})
    content = yaml.safe_load((tmp_path / "papers/alpha/paper.yaml").read_text())
    content["experiments"] = {"after": second} | content["experiments"]
    write(tmp_path / "papers/alpha/paper.yaml", yaml.safe_dump(content))
    late = "results/laptop/runs/alpha/after/late/seed-0"
    result = snakemake(tmp_path, f"{late}/metrics.parquet")
    assert result.stderr.index("] run alpha/toy/left") < result.stderr.index("] run alpha/after")
    assert not (tmp_path / LEFT.replace("left", "right")).exists()
    (tmp_path / LEFT / "provenance.json").write_text("other weights")
    again = snakemake(tmp_path, f"{late}/metrics.parquet", "--dry-run")
    assert "run alpha/after/late/seed-0" in again.stdout


def test_after_kill_9_the_same_command_carries_on(tmp_path):
    build(tmp_path, {"alpha": {"seeds": 1}})
    finished = tmp_path / LEFT.replace("left", "right") / "metrics.parquet"
    assert snakemake(tmp_path, str(finished.relative_to(tmp_path))).returncode == 0
    before = finished.stat().st_mtime_ns
    first = subprocess.Popen(
        [SNAKEMAKE, "reports/alpha.html"],
        cwd=tmp_path,
        env=os.environ | {"SECONDS_OF_A_RUN": "60"},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: (tmp_path / LEFT / "metrics.parquet").exists())
    second = snakemake(tmp_path, "reports/alpha.html")
    assert second.returncode == 1
    assert f"another snakemake (process {first.pid}) is at work in this folder" in second.stderr
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    result = snakemake(tmp_path, "reports/alpha.html")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / LEFT / "provenance.json").exists()
    assert finished.stat().st_mtime_ns == before


def wait_for(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_lint_finds_nothing(built):
    result = snakemake(built, "--lint")
    assert result.returncode == 0, result.stderr
    assert "Congratulations" in result.stdout + result.stderr
