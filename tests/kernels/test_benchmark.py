"""The benchmark: no number without the gate, every lost line shown."""

from __future__ import annotations

import dataclasses

from shared.kernels.benchmark.__main__ import machine, table
from shared.kernels.benchmark.measure import Measured, gate, interleaved, measure
from shared.kernels.benchmark.report import html, lost_to, markdown, summary
from shared.kernels.benchmark.rows import Row, rows

SMALL = (8, 16)


def small(operator: str) -> Row:
    row = next(r for r in rows("cpu") if r.operator == operator)
    return dataclasses.replace(row, shape=SMALL if len(row.shape) == 2 else (4, 8, 3, 3))


def test_every_kind_of_row_passes_the_gate() -> None:
    for operator in ("layer_norm", "rms_norm", "dyt", "batch_norm", "group_norm"):
        row = small(operator)
        assert gate(row, row.ours("native"), "cpu") == "passed"


def test_a_wrong_operator_gets_no_number() -> None:
    right = small("layer_norm")
    wrong = dataclasses.replace(right, ours=lambda impl: lambda *a: right.ours(impl)(*a) * 1.01)
    (only,) = measure(wrong, ["native"], compiled=False, repeats=1, device="cpu")
    assert only.milliseconds == {} and "result 0 is off by" in only.gate
    assert "no number" in markdown({"device": "cpu"}, [only])


def test_all_phases_are_measured_beside_torch() -> None:
    results = measure(small("rms_norm"), ["native"], compiled=False, repeats=2, device="cpu")
    assert [m.phase for m in results] == ["forward", "backward", "double_backward"]
    assert all({"ours:native", "torch"} <= set(m.milliseconds) for m in results)
    assert results[0].floor_ms is not None and results[2].floor_ms is None


def test_candidates_take_turns() -> None:
    order: list[str] = []
    runs = {n: lambda n=n: order.append(n) for n in ("a", "b")}
    interleaved(runs, 3, "cpu")
    assert order == ["a", "b"] * 4  # the first of each warms up


def test_lost_lines_are_shown_and_the_table_takes_the_fastest() -> None:
    won = Measured(
        "layer_norm", "8x16 float32", "forward", {"ours:native": 1.0, "torch": 1.02}, 0.5, "passed"
    )
    lost = won._replace(milliseconds={"ours:native": 2.0, "ours:triton": 1.5, "torch": 1.0})
    assert lost_to(won) == [] and lost_to(lost) == ["torch"]
    page = html({"device": "cpu"}, [won, lost])
    assert page.count("class=lost") == 1 and "GPU: not run" in page
    assert summary([won, lost])[-1] == "1 of 2 lines lost to a peer by more than 5 %"
    (row,) = table([lost], {"8x16 float32": 128}, "cuda")
    assert row["implementation"] == "triton" and row["size"] == "small"


def test_the_report_states_the_machine() -> None:
    assert {"device", "torch", "python", "name", "triton"} <= set(machine("cpu"))
