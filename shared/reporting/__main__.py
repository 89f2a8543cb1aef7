"""python -m shared.reporting page | notebook | index | benchmark | readme

Each command is imported only when it is asked for, so that the others start without it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from shared.records.base import RecordError
from shared.records.experiment import SCALES


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0, or 1 after a message on standard error."""
    options = _parser().parse_args(arguments)
    try:
        print(_run(options))
    except RecordError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace) -> Path:
    if options.command == "page":
        from shared.reporting.page import write_page

        return write_page(options.paper, options.scale, options.seeds)
    if options.command == "notebook":
        from shared.reporting.notebook import write_notebook

        return write_notebook(options.paper, options.scale, options.seeds)
    if options.command == "index":
        from shared.reporting.index import write_index

        return write_index(options.scale)
    if options.command == "benchmark":
        from shared.reporting.benchmark import write_benchmark

        return write_benchmark()
    from shared.reporting.readme import write_readme

    return write_readme(options.scale, options.snapshot)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m shared.reporting", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in [
        ("page", "write reports/PAPER.html"),
        ("notebook", "write and execute reports/notebooks/PAPER.ipynb"),
        ("index", "write reports/index.html"),
        ("benchmark", "write reports/benchmark.html"),
        ("readme", "rewrite the table of verdicts in README.md"),
    ]:
        command = commands.add_parser(name, help=text)
        if name in ("page", "notebook"):
            command.add_argument("paper", metavar="PAPER")
            command.add_argument("--seeds", type=int, metavar="N", help="can only add to the plan")
        if name != "benchmark":
            command.add_argument("--scale", choices=SCALES, required=True)
        if name == "readme":
            command.add_argument(
                "--snapshot", action="store_true", help="first copy the verdicts to docs/verdicts/"
            )
    return parser


if __name__ == "__main__":
    sys.exit(main())
