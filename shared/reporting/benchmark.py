"""reports/benchmark.html: the norms beside their peers, lost lines included."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from shared.records.base import read_record, write_text
from shared.records.benchmark import PASSED, Benchmark, Line
from shared.reporting.templates import render

RECORD = Path("results/benchmark/benchmark.json")
PAGE = Path("reports/benchmark.html")
HEAD = ("operator", "shape", "phase", "ours ms", "torch ms", "ours / torch", "ours / floor", "lost")


class Target(NamedTuple):
    """A ratio that must not exceed a bound, with its value on every row that has it."""

    text: str
    at_most: float
    found: dict[str, float]

    @property
    def missed(self) -> dict[str, float]:
        """The rows on which it does not hold."""
        return {row: value for row, value in self.found.items() if value > self.at_most}


def write_benchmark() -> Path:
    """Renders the record of the last benchmark and returns the page's path.

    Raises:
        RecordError: there is no record, or it is broken.
    """
    benchmark = read_record(RECORD, Benchmark)
    text = render(
        "benchmark.html",
        benchmark=benchmark,
        passed=PASSED,
        head=HEAD,
        rows=[(line, cells(line)) for line in benchmark.lines],
        lost=[line for line in benchmark.lines if is_lost(line)],
        targets=targets(benchmark.lines),
        details=[detail(line) for line in benchmark.lines if line.gate == PASSED],
    )
    write_text(PAGE, text)
    return PAGE


def is_lost(line: Line) -> bool:
    """Whether a peer was faster, or the gate closed."""
    return line.gate != PASSED or bool(line.lost_to)


def cells(line: Line) -> list[str]:
    """One line of the table; without numbers where the result was wrong."""
    names = [line.operator, line.shape, line.phase]
    if line.gate != PASSED:
        return [*names, f"no number: {line.gate}", "", "", "", ""]
    floor = f"{line.ours / line.floor_ms:.1f}" if line.floor_ms else ""
    times = [f"{line.ours:.3f}", f"{line.milliseconds['torch']:.3f}", f"{line.ratio:.2f}"]
    return [*names, *times, floor, ", ".join(line.lost_to)]


def detail(line: Line) -> tuple[str, str, str]:
    """Name of the line, all candidates' times, and the memory that they keep."""
    times = [f"{name} {ms:.3f}" for name, ms in line.milliseconds.items()]
    times += [f"{name} with launches {ms:.3f}" for name, ms in line.wall_milliseconds.items()]
    kept = [f"{name} {mib:.2f}" for name, mib in line.kept_mib.items()]
    return f"{line.operator} {line.shape} {line.phase}", ", ".join(times), ", ".join(kept)


def targets(lines: tuple[Line, ...]) -> list[Target]:
    """The ratios for a CPU that were aimed at, and what was found.

    A row without a double backward, or an RMS norm without a layer norm beside it, has none.
    """
    by_row: dict[tuple[str, str], dict[str, Line]] = {}
    for line in lines:
        if line.gate == PASSED:
            by_row.setdefault((line.operator, line.shape), {})[line.phase] = line
    double, rms = {}, {}
    for (operator, shape), phases in by_row.items():
        if "double_backward" in phases:
            once = phases["forward"].ours + phases["backward"].ours
            double[f"{operator} {shape}"] = phases["double_backward"].ours / once
        layer = by_row.get(("layer_norm", shape))
        if operator == "rms_norm" and layer:
            ours = sum(phases[p].ours for p in ("forward", "backward"))
            torch = sum(layer[p].milliseconds["torch"] for p in ("forward", "backward"))
            rms[shape] = ours / torch
    all_lines = {
        f"{line.operator} {line.shape} {line.phase}": line.ratio
        for line in lines
        if line.gate == PASSED
    }
    return [
        Target("time of a line / torch's own", 1.05, all_lines),
        Target("RMS norm, forward + backward / torch's layer norm", 1.3, rms),
        Target("double backward / (forward + backward)", 5.0, double),
    ]


def markdown(benchmark: Benchmark) -> str:
    """The same table for a document: `docs/performance/` keeps one of each device."""
    facts = [f"- {name}: {value}" for name, value in benchmark.machine.items()]
    facts += [f"- peer {name}: {value}" for name, value in benchmark.peers.items()]
    rows = [f"| {' | '.join(cells(line))} |" for line in benchmark.lines]
    head = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    return "\n".join([*facts, "", *head, *rows]) + "\n"
