"""The benchmark: no number without the gate, every lost line shown."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
import torch

from shared.norms.benchmark.__main__ import machine, main, table, table_text
from shared.norms.benchmark.measure import (
    PASSED,
    gate,
    interleaved,
    kept_mib,
    measure,
    measure_step,
)
from shared.norms.benchmark.peers import present
from shared.norms.benchmark.rows import Row, rows
from shared.norms.benchmark.steps import Step, bottleneck_shapes, steps
from shared.records import benchmark as record
from shared.records.base import read_record

ROWS = {row.operator: row for row in reversed(rows("cpu"))}


def small(operator: str) -> Row:
    """The operator's last row, on a shape that takes no time."""
    row = ROWS[operator]
    first = row.shapes[0]
    tiny = (4, 8, 3, 3) if len(first) == 4 else (8, 16)

    def shrink(shape: tuple[int, ...]) -> tuple[int, ...]:
        if shape == first:
            return tiny
        return tuple(tiny[1] if n == first[1] else n for n in shape)

    if "weight_standardisation" in operator:
        return dataclasses.replace(row, shapes=((4, 3, 3, 3), (8, 4, 1, 1)))
    return dataclasses.replace(row, shapes=tuple(shrink(s) for s in row.shapes))


@pytest.mark.parametrize("operator", ROWS)
def test_every_kind_of_row_passes_the_gate(operator: str) -> None:
    row = dataclasses.replace(small(operator), dtype="float32")
    assert row.ours
    for function in row.ours.values():
        assert gate(row, function, "cpu") == PASSED


def test_the_table_has_every_operator_of_the_targets() -> None:
    wanted = {"layer_norm", "rms_norm", "add_rms_norm", "group_norm", "group_norm+silu"}
    wanted |= {"instance_norm", "adain", "batch_norm", "batch_norm+residual+silu", "spade"}
    wanted |= {"dyt", "derf", "weight_standardisation", "scaled_weight_standardisation"}
    for device in ("cpu", "cuda"):
        assert {r.operator for r in rows(device)} == wanted
        assert {r.dtype for r in rows(device)} == {"float32", "bfloat16"}
        assert {s.operator for s in steps(device)} == {"agc", "spectral_norm"}


def test_a_wrong_operator_gets_no_number() -> None:
    right = small("layer_norm")
    ours = {"native": lambda *a: right.ours["native"](*a) * 1.01}
    wrong = dataclasses.replace(right, dtype="float32", ours=ours)
    (only,) = measure(wrong, compiled=False, repeats=1, device="cpu")
    assert only["milliseconds"] == {} and "native: result 0 is off by" in only["gate"]


def test_a_wrong_step_gets_no_number() -> None:
    def make(factor: float):  # type: ignore[no-untyped-def]
        return lambda device, dtype: lambda: [torch.full((2,), factor, dtype=dtype)]

    line = measure_step(Step("clip", "toy", {"ours:native": make(1.1), "torch": make(1)}), 1, "cpu")
    assert line["milliseconds"] == {} and "result 0 is off by" in line["gate"]
    right = Step("clip", "toy", {"ours:native": make(1), "torch": make(1)})
    assert set(measure_step(right, 1, "cpu")["milliseconds"]) == {"ours:native", "torch"}


def test_all_phases_are_measured_beside_torch() -> None:
    row = dataclasses.replace(small("rms_norm"), dtype="float32")
    lines = measure(row, compiled=False, repeats=2, device="cpu")
    assert [m["phase"] for m in lines] == ["forward", "backward", "double_backward"]
    assert all({"ours:auto", "ours:native", "torch"} <= set(m["milliseconds"]) for m in lines)
    assert lines[0]["floor_ms"] is not None and lines[2]["floor_ms"] is None
    assert lines[0]["kept_mib"].keys() == lines[0]["milliseconds"].keys()


def test_memory_is_what_the_backward_needs_beside_the_inputs() -> None:
    x = torch.randn(2**18, requires_grad=True)
    assert kept_mib(lambda t: t * 2, [x]) == 0
    assert kept_mib(lambda t: t.sin().exp().cos(), [x]) == 1.0  # what exp gave


def test_candidates_take_turns() -> None:
    order: list[str] = []
    runs = {n: lambda n=n: order.append(n) for n in ("a", "b")}
    interleaved(runs, 3, "cpu")
    assert order == ["a", "b"] * 4  # the first of each warms up


def test_the_table_of_auto_names_what_is_faster_than_the_usual() -> None:
    row = dataclasses.replace(small("layer_norm"), dtype="float32")
    line = {"operator": "layer_norm", "shape": row.label, "gate": PASSED, "floor_ms": None}
    times = {"ours:auto": 0.1, "ours:native": 2.0, "ours:triton": 1.5, "torch": 1.0}
    noise = times | {"ours:triton": 1.95}
    lines = [
        line | {"phase": "forward", "milliseconds": times},
        line | {"phase": "backward", "milliseconds": noise},
    ]
    found = table(lines, [row], "cuda")
    assert found == {("layer_norm", "small", "float32", "cuda", "forward"): "triton"}


def test_the_table_is_python_that_reads_back() -> None:
    entries = {("norm", "small", "float32", "cpu", "forward"): "native"}
    empty = '"""Text."""\n\nFASTEST: dict[str, str] = {}\n'
    for text in (empty, table_text(empty, {**entries, ("a",): "b"})):
        names: dict[str, object] = {}
        exec(table_text(text, entries), names)
        assert names["FASTEST"] == entries
    assert table_text(text, {}) == empty


def test_what_is_written_is_the_record_that_the_page_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "new" / "benchmark.json"
    tiny = dataclasses.replace(small("rms_norm"), dtype="float32")
    monkeypatch.setattr("shared.norms.benchmark.__main__.rows", lambda device: [tiny])
    arguments = ["benchmark", "--out", str(out), "--only", "rms", "--repeats", "1"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert main() == 0
    written = out.read_bytes()
    monkeypatch.setattr(sys, "argv", [*arguments[:4], "nothing"])
    with pytest.raises(SystemExit):
        main()
    assert out.read_bytes() == written
    found = read_record(out, record.Benchmark)
    assert [line.phase for line in found.lines] == ["forward", "backward", "double_backward"]
    assert all(line.gate == record.PASSED and line.ours > 0 for line in found.lines)


def test_shapes_of_a_bottleneck_net() -> None:
    """ResNet-50 has 53 convolutions with 23.5 million weights."""
    shapes = bottleneck_shapes((3, 4, 6, 3))
    assert len(shapes) == 53
    assert sum(torch.Size(s).numel() for s in shapes) == 23_454_912


def test_the_record_states_the_machine_and_who_took_part() -> None:
    assert {"device", "torch", "python", "name", "triton"} <= set(machine("cpu"))
    assert present("cpu")["liger"] == "needs a GPU"
