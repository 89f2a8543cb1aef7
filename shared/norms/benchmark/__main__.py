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

from shared.kernels import measured
from shared.kernels.registry import size_class, usual
from shared.norms.benchmark import peers
from shared.norms.benchmark.measure import PASSED, Line, measure, measure_step
from shared.norms.benchmark.rows import Row, rows
from shared.norms.benchmark.steps import steps

TABLE = Path(measured.__file__)
MARGIN = 1.05  # what the usual implementation may lose: less is noise, and would change results
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


Key = tuple[str, str, str, str, str]


def table(lines: list[Line], chosen: list[Row], device: str) -> dict[Key, str]:
    """What `auto` is to run: where another implementation is faster than the usual one, that."""
    total: dict[Key, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    by_label = {(row.operator, row.label): row for row in chosen}
    for line in lines:
        row = by_label.get((line["operator"], line["shape"]))
        if row is None or row.operator not in KEYS:
            continue
        size = size_class(torch.Size(row.shapes[0]).numel())
        key = KEYS[row.operator], size, row.dtype, device, line["phase"]
        for name, ms in line["milliseconds"].items():
            total[key][name] += ms
    found = {}
    for key, times in sorted(total.items()):
        own = {n.removeprefix("ours:"): t for n, t in times.items() if n.startswith("ours:")}
        own.pop("auto", None)
        default = usual("pointwise" if key[0] == "pointwise" else "norm", device)
        fastest = min(own, key=own.__getitem__, default=default)
        if own and own[fastest] * MARGIN < own[default]:
            found[key] = fastest
    return found


def table_text(text: str, entries: dict[Key, str]) -> str:
    """The text of `measured.py` with other entries."""
    start = text.index("FASTEST")
    head = text[start : text.index("= {", start)]
    quoted = [
        "    ({}): {},\n".format(", ".join(f'"{part}"' for part in key), f'"{value}"')
        for key, value in sorted(entries.items())
    ]
    body = "\n" + "".join(quoted) if quoted else ""
    return f"{text[:start]}{head}= {{{body}}}\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m shared.norms.benchmark", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/benchmark/benchmark.json"))
    parser.add_argument("--repeats", type=int, default=15, help="measurements of each candidate")
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--compile", action="store_true", help="measure torch.compile too (slow)")
    parser.add_argument("--write-table", action="store_true", help=f"update {TABLE.name}")
    return parser


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    if options.only and options.write_table:
        parser.error("--write-table needs all rows: leave out --only")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)
    all_rows, all_steps = rows(device), steps(device)
    chosen = [r for r in all_rows if options.only in r.operator]
    chosen_steps = [s for s in all_steps if options.only in s.operator]
    if not chosen and not chosen_steps:
        names = sorted({r.operator for r in all_rows} | {s.operator for s in all_steps})
        parser.error(f"--only: got {options.only!r}, expected part of one of {', '.join(names)}")
    lines: list[Line] = []
    for row in chosen:
        print(row.operator, row.label, file=sys.stderr)
        lines += measure(row, options.compile, options.repeats, device)
    for step in chosen_steps:
        print(step.operator, step.label, file=sys.stderr)
        lines.append(measure_step(step, options.repeats, device))
    missing = [] if device == "cuda" else [f"{r.operator} {r.label}" for r in rows("cuda")]
    found = {
        "machine": machine(device),
        "command": " ".join(["python -m shared.norms.benchmark", *sys.argv[1:]]),
        "peers": peers.present(device),
        "lines": lines,
        "not_run": missing,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if options.write_table:
        kept = {key: value for key, value in measured.FASTEST.items() if key[3] != device}
        TABLE.write_text(table_text(TABLE.read_text(), kept | table(lines, chosen, device)))
    # A result that is wrong is shown on the page, in place of its time; it deletes no record.
    for line in lines:
        if line["gate"] != PASSED:
            print(*(line[k] for k in ("operator", "shape", "phase", "gate")), file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
