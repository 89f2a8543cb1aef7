"""Which papers there are: the folders under papers/ that hold a paper.yaml."""

from __future__ import annotations

from pathlib import Path

from shared.records.base import RecordError

PAPERS = Path("papers")


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
    """All papers, sorted by name."""
    return sorted(path.parent.name for path in root.glob("*/paper.yaml"))
