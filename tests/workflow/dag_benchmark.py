"""Time to build the graph of jobs against the number of papers.

python -m tests.workflow.dag_benchmark 9 100 1000
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.workflow.synthetic import build, snakemake

# With four runs (two arms, two seeds), collect, judge, notebook and page: eight jobs a paper.
EXPERIMENT = {"seeds": 2}


def seconds_to_plan(root: Path, *arguments: str) -> float:
    """Wall time of `snakemake --dry-run`, the start of Python included."""
    start = time.perf_counter()
    result = snakemake(root, "--dry-run", "--quiet", *arguments)
    if result.returncode:
        raise RuntimeError(result.stderr)
    return time.perf_counter() - start


def main(counts: list[int]) -> None:
    print("papers  jobs   first call (s)  later call (s)")
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            build(root, {f"paper{number:04d}": EXPERIMENT for number in range(count)})
            first, later = seconds_to_plan(root), seconds_to_plan(root)
        print(f"{count:6d}  {8 * count + 2:5d}  {first:14.2f}  {later:14.2f}", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [9, 100, 1000])
