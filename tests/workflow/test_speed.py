"""Bounds on CPU time, wide enough for a busy machine; `dag_benchmark` measures."""

from __future__ import annotations

import resource

from tests.workflow.dag_benchmark import EXPERIMENT
from tests.workflow.synthetic import build, snakemake


def cpu_seconds(root, *arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert snakemake(root, *arguments).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_graph_of_a_hundred_papers(tmp_path):
    build(tmp_path, {f"paper{number}": EXPERIMENT for number in range(100)})
    assert cpu_seconds(tmp_path, "--dry-run", "--quiet") < 8


def test_nothing_to_be_done_for_150_runs(tmp_path):
    build(tmp_path, {"alpha": {"seeds": 75}})
    assert snakemake(tmp_path, "reports/alpha.html").returncode == 0
    assert cpu_seconds(tmp_path, "reports/alpha.html") < 5
