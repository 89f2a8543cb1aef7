"""Measures every row on the device that is there and writes a report.

Example: python -m shared.kernels.benchmark --out results/benchmark
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

from shared.kernels.benchmark.measure import Measured, measure
from shared.kernels.benchmark.report import html, markdown
from shared.kernels.benchmark.rows import rows
from shared.kernels.registry import MEASURED, size_class


def machine(device: str) -> dict[str, str]:
    """Device, driver and versions, for the head of the report."""
    facts = {"device": device, "torch": torch.__version__, "python": platform.python_version()}
    if device == "cuda":
        facts["name"] = torch.cuda.get_device_name()
        facts["cuda"] = str(torch.version.cuda)
    else:
        facts["name"] = _processor()
        facts["threads"] = str(torch.get_num_threads())
        facts["clock"] = "time of one thread"
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


def table(results: list[Measured], numels: dict[str, int], device: str) -> list[dict[str, str]]:
    """The measured table of `auto`: the implementation with the least forward + backward time."""
    total: dict[tuple[str, str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for m in results:
        if m.phase in ("forward", "backward"):
            # Instance norm is group norm with a group for each channel; DyT is `pointwise`.
            names = {"instance_norm": "group_norm", "dyt": "pointwise"}
            dtype = m.label.split(" ")[1]
            key = names.get(m.operator, m.operator), size_class(numels[m.label]), dtype
            for name, ms in m.milliseconds.items():
                if name.startswith("ours:"):
                    total[key][name.removeprefix("ours:")] += ms
    return [
        {
            "operator": operator,
            "size": size,
            "dtype": dtype,
            "device": device,
            "implementation": min(times, key=lambda i: times[i]),
        }
        for (operator, size, dtype), times in sorted(total.items())
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m shared.kernels.benchmark", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/benchmark"))
    parser.add_argument("--repeats", type=int, default=15, help="measurements of each candidate")
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--compile", action="store_true", help="measure torch.compile too (slow)")
    parser.add_argument("--write-table", action="store_true", help=f"update {MEASURED.name}")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)
    impls = ["native", "triton"] if device == "cuda" else ["native"]
    chosen = [r for r in rows(device) if options.only in r.operator]
    results: list[Measured] = []
    for row in chosen:
        print(row.operator, row.label, file=sys.stderr)
        results += measure(row, impls, options.compile, options.repeats, device)
    facts = machine(device)
    options.out.mkdir(parents=True, exist_ok=True)
    data = {"machine": facts, "rows": [m._asdict() for m in results]}
    (options.out / "benchmark.json").write_text(json.dumps(data, indent=1) + "\n")
    (options.out / "benchmark.md").write_text(markdown(facts, results))
    (options.out / "benchmark.html").write_text(html(facts, results))
    if options.write_table:
        numels = {r.label: torch.Size(r.shape).numel() for r in chosen}
        other = json.loads(MEASURED.read_text()) if MEASURED.exists() else []
        kept = [r for r in other if r["device"] != device]
        new = kept + table(results, numels, device)
        MEASURED.write_text(json.dumps(new, indent=1) + "\n")
    return 1 if any(m.gate != "passed" for m in results) else 0


if __name__ == "__main__":
    raise SystemExit(main())
