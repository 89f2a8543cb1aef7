"""Which papers there are: the folders under papers/ that hold a paper.yaml."""

from __future__ import annotations

import re
from pathlib import Path

from shared.records.base import RecordError

PAPERS = Path("papers")
NAME = re.compile(r"[a-z][a-z0-9_]*")


def paper_file(name: str, root: Path = PAPERS) -> Path:
    """The paper.yaml of a paper by its name.

    Raises:
        RecordError: no such paper; lists those that exist.
    """
    path = root / name / "paper.yaml"
    if not path.is_file():
        raise RecordError(
            f"got paper {name!r}, expected one of {', '.join(paper_names(root)) or '(none)'}. "
            f"A paper is a folder {root}/NAME with a paper.yaml."
        )
    return path


def paper_names(root: Path = PAPERS) -> list[str]:
    """All papers, sorted by name.

    Raises:
        RecordError: a folder whose name cannot be that of a Python package, or of the list's page.
    """
    names = sorted(path.parent.name for path in root.glob("*/paper.yaml"))
    if bad := [name for name in names if not NAME.fullmatch(name) or name == "index"]:
        raise RecordError(
            f"{root / bad[0]}: got a paper named {bad[0]!r}, expected lower-case letters, digits "
            "and _, with a letter first, and not `index`. Rename the folder."
        )
    return names
