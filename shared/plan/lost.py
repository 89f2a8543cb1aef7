"""Makes Snakemake miss a file that is gone although what was made from it is still there.

Snakemake does not look at missing intermediate files while the final target exists: whoever deletes
the folder of a run would be told that nothing is to be done, beside a page that nothing supports.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from shared.records.base import write_text

STATE = Path(".cache/lost.json")


class LostFiles:
    """Per target a number that grows each time when files that it was made from get lost.

    As a parameter of the rule it makes Snakemake build the target again, once: the number stays
    when the files are back.
    """

    def __init__(self, state: Path = STATE) -> None:
        self._state = state

    def count(self, target: Path, needed: Iterable[Path]) -> int:
        """How often files of `needed` were found missing while `target` existed.

        Example:
            >>> import tempfile
            >>> folder = Path(tempfile.mkdtemp())
            >>> lost, page, run = LostFiles(folder / "state"), folder / "page", folder / "run"
            >>> run.touch(), page.touch()
            (None, None)
            >>> lost.count(page, [run])
            0
            >>> run.unlink()
            >>> lost.count(page, [run]), lost.count(page, [run])
            (1, 1)
            >>> run.touch()
            >>> lost.count(page, [run])
            1
        """
        known = json.loads(self._state.read_text("utf-8")) if self._state.exists() else {}
        times, was_missing = known.get(str(target), (0, False))
        if not target.exists():
            return int(times)
        is_missing = not all(file.exists() for file in needed)
        if is_missing != was_missing:
            known[str(target)] = (times + is_missing, is_missing)
            write_text(self._state, json.dumps(known))
        return int(times + (is_missing and not was_missing))
