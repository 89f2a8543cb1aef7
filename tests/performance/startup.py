"""Where the time goes before the first step: `python -m tests.performance.startup`.

Each line is a fresh process, warm (the first round is thrown away); medians of wall seconds.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

IMPORTS = {
    "python": "pass",
    "torch": "import torch",
    "Lightning as it comes": "import lightning.pytorch",
    "Lightning as we import it": "import shared.training.lightning",
    "all that a training imports": "import shared.training.run, shared.training.fit",
}
RUN = ["fixup", "depth_sweep", "fixup-10", "--seed", "1000", "--set", "trainer.max_steps=2"]
PROVENANCE = Path("results/laptop/runs/fixup/depth_sweep/fixup-10/seed-1000/provenance.json")


def seconds_of(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def main(rounds: int = 5) -> None:
    times: dict[str, list[float]] = {name: [] for name in [*IMPORTS, "process start to first step"]}
    for _ in range(rounds + 1):
        for name, code in IMPORTS.items():
            times[name].append(seconds_of(["-c", code]))
        seconds_of(["-m", "shared.training.run", *RUN])
        startup = json.loads(PROVENANCE.read_text(encoding="utf-8"))["startup_seconds"]
        times["process start to first step"].append(startup)
    print("| process | seconds |\n|---|---|")
    for name, values in times.items():
        print(f"| {name} | {statistics.median(values[1:]):.2f} |")


if __name__ == "__main__":
    main()
