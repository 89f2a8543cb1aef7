"""Measures every row on the device that is there and writes the record that the page shows.

Example: python -m shared.norms.benchmark --out results/benchmark/benchmark.json
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from collections import defaultdict
from pathlib import Path

import torch

from shared.kernels.registry import MEASURED, size_class
from shared.norms.benchmark import peers
from shared.norms.benchmark.measure import measure, measure_step
from shared.norms.benchmark.rows import Row, rows
from shared.norms.benchmark.steps import steps
from shared.records.base import write_text
from shared.records.benchmark import PASSED, Benchmark, Line

# Rows that the table of `auto` is made from, and what its key calls them.
KEYS = {
    "layer_norm": "layer_norm",
    "rms_norm": "rms_norm",
    "batch_norm": "batch_norm",
    "group_norm": "group_norm",
    "instance_norm": "group_norm",
    "dyt": "pointwise",
}


def machine(device: str) -> dict[str, str]:
    """Device, driver and versions."""
    facts = {"device": device, "torch": torch.__version__, "python": platform.python_version()}
    if device == "cuda":
        facts |= {"name": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
        driver = Path("/proc/driver/nvidia/version")
        facts["driver"] = driver.read_text().splitlines()[0] if driver.exists() else "unknown"
    else:
        facts |= {"name": _processor(), "threads": str(torch.get_num_threads())}
        facts["clock"] = "processor time of the one thread"
    try:
        facts["triton"] = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        facts["triton"] = "not installed"
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def table(lines: list[Line], chosen: list[Row], device: str) -> list[dict[str, str]]:
    """The measured table of `auto`: the implementation with the least forward + backward time."""
    total: dict[tuple[str, str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    by_label = {(row.operator, row.label): row for row in chosen}
    for line in lines:
        row = by_label.get((line.operator, line.shape))
        if row is None or line.operator not in KEYS or line.phase not in ("forward", "backward"):
            continue
        size = size_class(torch.Size(row.shapes[0]).numel())
        for name, ms in line.milliseconds.items():
            if name.startswith("ours:"):
                key = KEYS[line.operator], size, row.dtype
                total[key][name.removeprefix("ours:")] += ms
    columns = ("operator", "size", "dtype", "device", "implementation")
    return [
        dict(zip(columns, (*key, device, min(times, key=times.__getitem__)), strict=True))
        for key, times in sorted(total.items())
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m shared.norms.benchmark", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/benchmark/benchmark.json"))
    parser.add_argument("--repeats", type=int, default=15, help="measurements of each candidate")
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--compile", action="store_true", help="measure torch.compile too (slow)")
    parser.add_argument("--write-table", action="store_true", help=f"update {MEASURED.name}")
    return parser


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    if options.only and options.write_table:
        parser.error("--write-table needs all rows: leave out --only")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)
    chosen = [r for r in rows(device) if options.only in r.operator]
    lines: list[Line] = []
    for row in chosen:
        print(row.operator, row.label, file=sys.stderr)
        lines += measure(row, options.compile, options.repeats, device)
    for step in steps(device):
        if options.only in step.operator:
            print(step.operator, step.label, file=sys.stderr)
            lines.append(measure_step(step, options.repeats, device))
    missing = [] if device == "cuda" else [f"{r.operator} {r.label}" for r in rows("cuda")]
    found = Benchmark(
        machine=machine(device),
        command=" ".join(["python -m shared.norms.benchmark", *sys.argv[1:]]),
        peers=peers.present(device),
        lines=tuple(lines),
        not_run=tuple(missing),
    )
    write_text(options.out, found.model_dump_json(indent=1) + "\n")
    if options.write_table:
        other = json.loads(MEASURED.read_text()) if MEASURED.exists() else []
        new = [r for r in other if r["device"] != device] + table(lines, chosen, device)
        MEASURED.write_text(json.dumps(new, indent=1) + "\n")
    # A result that is wrong is shown on the page, in place of its time; it deletes no record.
    for line in lines:
        if line.gate != PASSED:
            print(f"{line.operator} {line.shape} {line.phase}: {line.gate}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
