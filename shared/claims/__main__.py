"""Commands: `collect` the runs of a paper into one table, and `judge` its claims."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from shared.claims.collect import collect
from shared.claims.judge import judge
from shared.claims.looks import append_looks, read_ledger
from shared.records.base import RecordError, write_json
from shared.records.catalog import paper_file
from shared.records.experiment import SCALES, Scale, read_experiments
from shared.records.metrics import read_metrics, write_metrics
from shared.records.paper import read_paper

RESULTS = Path("results")


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; 0 if it worked, 1 with a message on stderr if a file is at fault."""
    parser = argparse.ArgumentParser(prog="python -m shared.claims", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in [
        ("collect", "results/SCALE/runs/PAPER -> results/SCALE/metrics/PAPER.parquet"),
        ("judge", "results/SCALE/metrics/PAPER.parquet -> results/SCALE/verdicts/PAPER.json"),
    ]:
        options = commands.add_parser(name, help=text, description=text)
        options.add_argument("paper", help="name of a folder in papers/")
        options.add_argument("--scale", required=True, choices=SCALES)
        options.add_argument("--seeds", type=_positive, help="judge at least this many seeds")
    chosen = parser.parse_args(arguments)
    command = _collect if chosen.command == "collect" else _judge
    try:
        command(chosen.paper, chosen.scale, chosen.seeds)
    except RecordError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _collect(name: str, scale: Scale, wanted_seeds: int | None) -> None:
    experiments = read_experiments(paper_file(name))
    table = collect(name, experiments, scale, wanted_seeds, RESULTS)
    path = RESULTS / scale / "metrics" / f"{name}.parquet"
    write_metrics(path, table)
    print(f"{path}: {len(table)} rows")


def _judge(name: str, scale: Scale, wanted_seeds: int | None) -> None:
    paper = read_paper(name)
    table = RESULTS / scale / "metrics" / f"{name}.parquet"
    if not table.exists():
        raise RecordError(
            f"{table}: no such file. Make it: python -m shared.claims collect {name} "
            f"--scale {scale}"
        )
    ledger_path = RESULTS / scale / "looks" / f"{name}.jsonl"
    ledger = read_ledger(ledger_path)
    verdicts, new = judge(name, paper, read_metrics(table), scale, wanted_seeds, ledger)
    # First the ledger: if this process dies between the two, no look is forgotten.
    append_looks(ledger_path, new)
    path = RESULTS / scale / "verdicts" / f"{name}.json"
    write_json(path, verdicts)
    counted = Counter(claim.verdict for claim in verdicts.claims)
    print(f"{path}: {', '.join(f'{n} {verdict}' for verdict, n in sorted(counted.items()))}")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {number}, expected at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
