"""`python -m shared.data fetch NAME` and `python -m shared.data prepare NAME`."""

from __future__ import annotations

import argparse
import sys

from shared.data.fetch import fetch
from shared.data.prepare import prepare


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m shared.data", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text, names in (
        (
            "fetch",
            "get the raw files and verify them: data/NAME/, results/fetched/NAME.json",
            "a data set of data.dvc",
        ),
        (
            "prepare",
            "make arrays of the raw files, or of another data set: results/prepared/NAME/",
            "a data set of data.dvc, or a derived one",
        ),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("name", metavar="NAME", help=names)
    chosen = parser.parse_args(arguments)
    try:
        {"fetch": fetch, "prepare": prepare}[chosen.command](chosen.name)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
