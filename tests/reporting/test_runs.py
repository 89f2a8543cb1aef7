from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.records.base import RecordError
from shared.reporting.cost import cost_rows, energy_notes
from shared.reporting.inputs import read_inputs
from shared.reporting.numbers import duration
from shared.reporting.page import render_page
from shared.reporting.runs import LOG_LINES, log_tail, run_groups, shared_parts

from .conftest import MISSING


@pytest.fixture
def inputs(tree, monkeypatch):
    monkeypatch.chdir(tree)
    return read_inputs("toy", "laptop")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner),
)


def merged(common, rest):
    result = dict(common)
    for key, value in rest.items():
        both = isinstance(value, dict) and isinstance(common.get(key), dict)
        result[key] = merged(common[key], value) if both else value
    return result


@given(st.lists(st.dictionaries(st.sampled_from("xyz"), JSON), max_size=4))
def test_shared_parts_and_the_rest_give_back_every_record(records):
    common, rests = shared_parts(records)
    assert [merged(common, rest) for rest in rests] == records


def test_what_is_equal_is_kept_once():
    common, rests = shared_parts([{"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}])
    assert common == {"a": {"b": 1}}
    assert rests == [{"a": {"c": 2}}, {"a": {"c": 3}}]


def with_kernels(inputs, *kernels):
    """The first runs of `conv` with other kernels, and no runs of it after them."""
    conv = [run for run in inputs.runs if run.key.experiment == "conv" and run.provenance]
    rest = [run for run in inputs.runs if run.key.experiment != "conv"]
    changed = [
        dataclasses.replace(run, provenance=run.provenance.model_copy(update={"kernels": ran}))
        for run, ran in zip(conv, kernels, strict=False)
    ]
    return dataclasses.replace(inputs, runs=(*rest, *changed))


def told(inputs):
    return {group.experiment: group.kernels for group in run_groups(inputs)[0]}["conv"]


def test_runs_of_an_experiment_with_different_kernels_are_told(inputs):
    cpp = {"norm forward cpp float32 cpu": 9}
    mixed = with_kernels(inputs, cpp, {"norm forward native float32 cpu": 7}, cpp, {})
    said = "norm forward float32: cpp on cpu in 2 runs, native on cpu in 1 run"
    assert told(mixed) == (said,)
    assert said in render_page(mixed, [])


def test_runs_with_the_same_kernels_or_none_are_not(inputs):
    cpp = {"norm forward cpp float32 cpu": 9}
    both = cpp | {"norm forward native float32 cpu": 1}
    assert told(with_kernels(inputs, cpp, dict.fromkeys(cpp, 1), {})) == ()
    assert told(with_kernels(inputs, both, both)) == ()


def test_a_log_keeps_its_end_within_lines_and_characters():
    lines = [f"line {i}" for i in range(200)]
    text, note = log_tail(lines, 10_000)
    assert text.splitlines() == lines[-LOG_LINES:]
    assert note == f"last {LOG_LINES} of 200 lines"
    text, note = log_tail(lines, 20)
    assert (text, note) == ("line 198\nline 199", "last 2 of 200 lines")
    assert log_tail(["all"], 100) == ("all", "the whole log")
    assert log_tail([], 100) == ("", "no run.log")


def test_every_planned_run_has_a_row_also_the_missing_one(inputs):
    groups, shared = run_groups(inputs)
    assert sum(len(group.runs) for group in groups) == 150
    experiment, arm, seed = MISSING
    (conv,) = [group for group in groups if group.experiment == experiment]
    (row,) = [run for run in conv.runs if (run.arm, run.seed) == (arm, seed)]
    assert (row.outcome, row.steps, row.log_note) == ("missing", "–", "no run.log")
    assert (conv.finished, conv.diverged, conv.missing) == (37, 2, 1)
    assert json.loads(shared)["versions"]["torch"] == "2.14.1"


def test_shared_provenance_is_not_repeated_in_the_rows(inputs):
    groups, _ = run_groups(inputs)
    for run in groups[0].runs:
        assert "torch" not in run.provenance
        assert "settings_sha256" in run.provenance


def test_more_seeds_plan_more_runs(tree, monkeypatch):
    monkeypatch.chdir(tree)
    inputs = read_inputs("toy", "laptop", seeds=6)
    assert inputs.outcomes("depth").count("missing") == 16
    assert len(inputs.outcomes("conv")) == 40


def test_a_broken_provenance_file_is_named(own_tree):
    file = own_tree / "results/laptop/runs/toy/source/bn/seed-0/provenance.json"
    file.write_text('{"key": 1}', encoding="utf-8")
    with pytest.raises(RecordError, match=r"source/bn/seed-0/provenance\.json:1: key"):
        read_inputs("toy", "laptop")


def test_a_run_that_left_only_a_log_is_missing_and_shows_its_log(own_tree):
    folder = own_tree / "results/laptop/runs/toy/source/bn/seed-0"
    for name in ("provenance.json", "settings.json"):
        (folder / name).unlink()
    groups, _ = run_groups(read_inputs("toy", "laptop"))
    (row,) = [run for group in groups if group.experiment == "source" for run in group.runs]
    assert row.outcome == "missing"
    assert "step 99/100" in row.log


def test_cost_sums_over_experiments(inputs):
    *rows, total = cost_rows(inputs)
    assert [row.name for row in rows] == ["init", "depth", "conv", "source", "adapt"]
    assert total.runs == sum(row.runs for row in rows) == 149
    seconds = sum(run.provenance.processor_seconds for run in inputs.runs if run.provenance)
    assert total.processor == duration(seconds)


def test_cost_says_which_runs_have_no_energy_and_why(inputs):
    *rows, total = cost_rows(inputs)
    assert rows[0].energy == "not measured"
    assert total.energy.endswith("Wh (140 of 149 runs)")
    assert energy_notes(inputs) == [
        "not measured: no counter (9 runs)",
        "intel-rapl:0 (whole CPU package) (140 runs)",
    ]


def test_no_run_costs_nothing(own_tree):
    shutil.rmtree(own_tree / "results/laptop/runs")
    assert cost_rows(read_inputs("toy", "laptop")) == []
