"""Collecting runs, and both commands on a small repository."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml

from shared.claims.__main__ import main
from shared.claims.collect import collect
from shared.records.base import RecordError, read_record, write_json
from shared.records.experiment import RunKey, RunSettings, resolve
from shared.records.metrics import read_metrics, write_metrics
from shared.records.results import planned_runs
from shared.records.verdict import PaperVerdicts
from tests.claims.cases import bad, good, make_claim, make_paper, make_provenance, run_rows

VERDICTS = "results/laptop/verdicts/p.json"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A paper with two arms of five seeds; three arms of its runs lie in results/."""
    monkeypatch.chdir(tmp_path)
    write_paper(tmp_path, make_claim("gap"))
    write_runs(tmp_path, good("ordering"), range(5))
    return tmp_path


def write_paper(root, *claims):
    paper = make_paper(*claims, seeds=5).model_dump(mode="json")
    del paper["experiments"]["e"]["grid"]
    (root / "papers" / "p").mkdir(parents=True, exist_ok=True)
    (root / "papers" / "p" / "paper.yaml").write_text(yaml.safe_dump(paper, sort_keys=False))


def write_runs(root, numbers, seeds):
    for arm, values in numbers.items():
        for seed in seeds:
            key = RunKey(scale="laptop", paper="p", experiment="e", arm=arm, seed=seed)
            path = key.directory(root / "results") / "metrics.parquet"
            write_metrics(path, run_rows(arm, seed, [values[seed]]))
            settings = resolve(make_paper(seeds=5).experiments, key)
            write_json(path.with_name("settings.json"), settings)
            seal(key, path.parent)


def seal(key, directory):
    """Says in provenance.json what the files are, as a run does at its end."""
    write_json(directory / "provenance.json", make_provenance(key, directory))


def command(*arguments):
    return main([arguments[0], "p", "--scale", "laptop", *arguments[1:]])


def verdict():
    return read_record(Path(VERDICTS), PaperVerdicts).claims[0]


def test_planned_runs_follow_the_paper(repository):
    keys = list(planned_runs("p", make_paper(seeds=2).experiments, "laptop", 3))
    assert [(key.arm, key.seed) for key in keys] == [(a, s) for a in "abc" for s in range(3)]


def test_the_table_has_the_order_of_the_plan(repository):
    metrics = collect("p", make_paper(seeds=5).experiments, "laptop")
    runs = metrics.select("arm", "seed").unique(maintain_order=True).rows()
    assert runs == [(a, s) for a in "abc" for s in range(5)]
    assert len(metrics) == 2 * 15


def test_pilots_and_further_seeds_are_not_collected(repository):
    write_runs(repository, {"a": [1.0] * 2000}, [7, 1000])
    assert set(collect("p", make_paper(seeds=5).experiments, "laptop")["seed"]) == set(range(5))


def test_a_scale_without_runs_is_an_empty_table():
    assert len(collect("p", make_paper().experiments, "full")) == 0


def test_runs_with_other_settings_than_planned_get_no_verdict(repository):
    path = repository / "results/laptop/runs/p/e/b/seed-3/settings.json"
    planned = read_record(path, RunSettings)
    write_json(path, planned.model_copy(update={"settings": {"lr": 0.5}}))
    seal(planned.key, path.parent)
    assert command("collect") == command("judge") == 0
    assert verdict().verdict == "not_run"
    assert "1 of its runs used settings other than those of paper.yaml" in verdict().reason
    assert verdict().looks == ()
    write_json(path, planned)
    seal(planned.key, path.parent)
    assert command("collect") == command("judge") == 0
    assert verdict().verdict == "reproduced"


@pytest.mark.parametrize("name", ["metrics.parquet", "settings.json"])
def test_a_file_that_was_changed_after_the_run_is_an_error(repository, name):
    path = repository / "results/laptop/runs/p/e/b/seed-3" / name
    if name == "settings.json":
        path.write_text(path.read_text() + "\n")
    else:
        write_metrics(path, run_rows("b", 3, [1.0]))
    with pytest.raises(RecordError, match=rf"seed-3/{name}: was changed after the run had ended"):
        collect("p", make_paper(seeds=5).experiments, "laptop")


def test_a_missing_run_is_named(repository):
    (repository / "results/laptop/runs/p/e/b/seed-3/metrics.parquet").unlink()
    (repository / "results/laptop/runs/p/e/c/seed-1/metrics.parquet").unlink()
    with pytest.raises(RecordError, match=r"run p/e/b/seed-3 \(2 of 15 planned runs .* --seed 3"):
        collect("p", make_paper(seeds=5).experiments, "laptop")


def test_a_run_with_rows_of_another_is_an_error(repository):
    path = repository / "results/laptop/runs/p/e/b/seed-3/metrics.parquet"
    write_metrics(path, run_rows("b", 2, [1.0]))
    seal(RunKey(scale="laptop", paper="p", experiment="e", arm="b", seed=3), path.parent)
    with pytest.raises(RecordError, match=r"got rows of \[\('e', 'b', 2\)\], expected those of"):
        collect("p", make_paper(seeds=5).experiments, "laptop")


def test_collect_and_judge(repository, capsys):
    assert command("collect") == 0
    assert command("judge") == 0
    assert verdict().verdict == "reproduced"
    assert "p.json: 1 reproduced" in capsys.readouterr().out
    content = json.loads((repository / VERDICTS).read_text())
    assert content.keys() == {"paper", "scale", "claims"}
    assert {"id", "verdict", "reason"} <= content["claims"][0].keys()


def test_judging_again_writes_the_same_bytes(repository):
    command("collect")
    command("judge")
    files = [repository / VERDICTS, repository / "results/laptop/looks/p.jsonl"]
    before = [file.read_bytes() for file in files]
    (repository / VERDICTS).unlink()
    assert command("judge") == 0
    assert [file.read_bytes() for file in files] == before


def test_more_seeds_are_a_second_look(repository):
    command("collect")
    command("judge")
    write_runs(repository, good("ordering"), range(5, 8))
    assert command("collect", "--seeds", "8") == 0
    assert command("judge", "--seeds", "8") == 0
    assert [look.seeds for look in verdict().looks] == [5, 8]
    assert verdict().confidence == pytest.approx(0.99)
    assert (repository / "results/laptop/looks/p.jsonl").read_text().count("\n") == 2


def test_seeds_can_only_add(repository):
    assert command("collect", "--seeds", "2") == 0
    assert command("judge", "--seeds", "2") == 0
    assert verdict().seeds == 5


def test_a_bound_that_was_moved_after_the_verdict_is_told(repository):
    write_runs(repository, bad("gap"), range(5))
    command("collect")
    command("judge")
    assert verdict().verdict == "not_reproduced"
    write_paper(repository, make_claim("gap", bound={"at_least": -20.0}))
    command("judge")
    assert verdict().verdict == "reproduced"
    assert "the test was changed after data were seen" in verdict().warnings


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("no table", "python -m shared.claims collect p --scale laptop"),
        ("no paper", "got paper 'p', expected one of"),
        ("table", "not a metrics table"),
        ("ledger", "p.jsonl:1: damaged look"),
        ("runs", "no metrics.parquet of run p/e/a/seed-0"),
    ],
)
def test_faults_end_in_one_message(repository, capsys, damage, message):
    command("collect")
    command("judge")
    before = (repository / VERDICTS).read_bytes()
    files = {
        "no table": "results/laptop/metrics/p.parquet",
        "no paper": "papers/p/paper.yaml",
        "table": "results/laptop/metrics/p.parquet",
        "ledger": "results/laptop/looks/p.jsonl",
        "runs": "results/laptop/runs/p/e/a/seed-0/metrics.parquet",
    }
    if damage in ("table", "ledger"):
        (repository / files[damage]).write_text("nonsense\n")
    else:
        (repository / files[damage]).unlink()
    capsys.readouterr()
    assert command("collect" if damage == "runs" else "judge") == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert (repository / VERDICTS).read_bytes() == before


@pytest.mark.parametrize("arguments", [["--seeds", "0"], ["--scale", "huge"], ["--other"]])
def test_wrong_usage_is_exit_code_2(arguments):
    with pytest.raises(SystemExit) as stop:
        command("judge", *arguments)
    assert stop.value.code == 2


def test_the_collected_table_can_be_read_back(repository):
    command("collect")
    path = repository / "results/laptop/metrics/p.parquet"
    assert read_metrics(path).filter(pl.col("metric") == "error")["value"].len() == 15


def test_the_commands_start_without_heavy_imports():
    code = (
        "import sys, shared.claims.__main__;"
        "print({'torch', 'scipy.stats', 'altair'} & sys.modules.keys())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()", result.stderr
