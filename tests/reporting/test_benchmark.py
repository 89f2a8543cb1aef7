"""The page of the benchmark: lost lines, targets, and what was not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.records.base import RecordError
from shared.records.benchmark import PASSED, Benchmark, Line
from shared.reporting.benchmark import RECORD, markdown, targets, write_benchmark


def line(phase: str, ours: float, torch: float, operator: str = "layer_norm") -> Line:
    return Line(
        operator=operator,
        shape="8x16 float32",
        phase=phase,
        gate=PASSED,
        milliseconds={"ours:auto": ours, "ours:native": ours / 2, "torch": torch},
        floor_ms=0.5,
    )


WRONG = Line(
    operator="dyt", shape="8x16", phase="all", gate="off by 1", milliseconds={}, floor_ms=None
)
BENCHMARK = Benchmark(
    machine={"device": "cpu", "torch": "2"},
    command="python -m shared.norms.benchmark",
    peers={"quack": "needs a GPU"},
    lines=(line("forward", 1.0, 1.02), line("backward", 2.0, 1.0), WRONG),
    not_run=("layer_norm 32768x256 bfloat16",),
)


def test_the_page_shows_lost_lines_and_what_was_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    RECORD.parent.mkdir(parents=True)
    RECORD.write_text(BENCHMARK.model_dump_json(), "utf-8")
    html = write_benchmark().read_text("utf-8")
    assert "2 of 3 lines are lost" in html and html.count('class="lost"') == 2
    assert "no number: off by 1" in html
    assert "layer_norm 32768x256 bfloat16: not run" in html and "quack: needs a GPU" in html
    assert 'src="http' not in html and 'href="http' not in html


def test_without_a_record_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecordError, match="no such file"):
        write_benchmark()


def test_lost_means_more_than_five_percent() -> None:
    assert line("forward", 1.0, 0.96).lost_to == []
    assert line("forward", 1.0, 0.94).lost_to == ["torch"]


def test_targets_name_the_rows_that_miss_them() -> None:
    rms = [line(p, 1.0, 5.0, "rms_norm") for p in ("forward", "backward")]
    layer = [line("forward", 1.0, 0.5), line("backward", 1.0, 0.5)]
    double = line("double_backward", 11.0, 50.0)
    every, ratio, twice = targets((*layer, double, *rms))
    assert set(every.missed) == {f"layer_norm 8x16 float32 {p}" for p in ("forward", "backward")}
    assert ratio.found == {"8x16 float32": 2.0} and ratio.missed
    assert twice.missed == {"layer_norm 8x16 float32": 5.5}


def test_markdown_has_a_row_for_every_line() -> None:
    text = markdown(BENCHMARK)
    assert "| layer_norm | 8x16 float32 | backward | 2.000 | 1.000 | 2.00 | 4.0 | torch |" in text
    assert text.count("\n| ") == 4 and "peer quack: needs a GPU" in text
