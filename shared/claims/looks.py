"""Looks at the data: each one spends a part of alpha, and all of them are remembered.

Adding seeds until a claim is reproduced would find some effect in any noise. So every number of
seeds at which a claim is tested is a look, and the looks share alpha. The shares are fixed in
advance as a function of the number of the look, which is the idea of an alpha spending function:
neither how many looks there will be nor when needs to be known (DeMets and Lan, 1994, Statistics
in Medicine 13, 1341-1352). Other than Lan and DeMets, who use the correlation between looks, the
shares are simply added up (Boole's inequality), which holds for any kind of test and dependence:

    P(any false verdict) <= sum of the shares <= alpha
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from shared.records.base import RecordError, write_text
from shared.records.claim import Claim
from shared.records.verdict import Look

# What the verdict depends on. The statement, the source and the reasons are text.
TEST = {
    "kind", "experiment", "arms", "metric", "split", "at", "unit", "x", "success", "bound", "alpha",
}  # fmt: skip


def alpha_of_look(alpha: float, look: int) -> float:
    """The share of `alpha` that a look may spend: 0.8 for the first, then 0.2 * 2^-(look - 1).

    Args:
        alpha: error rate of all looks together.
        look: 1, 2, ...

    Example:
        >>> [alpha_of_look(1.0, look) for look in (1, 2, 3)]
        [0.8, 0.1, 0.05]
    """
    return alpha * (0.8 if look == 1 else 0.2 * 2.0 ** -(look - 1))


def look_number(ledger: Iterable[Look], seeds: int) -> int:
    """The number of the look with this many seeds: that of an earlier one, or the next number.

    Args:
        ledger: the looks at one claim. Those that spent nothing made no test with an error rate
            and do not count.
    """
    tested = list(dict.fromkeys(look.seeds for look in ledger if look.alpha > 0))
    return tested.index(seeds) + 1 if seeds in tested else len(tested) + 1


def next_look_number(ledger: Iterable[Look]) -> int:
    """The number of the look that more seeds would be; see `look_number`."""
    return look_number(ledger, seeds=0)


def claim_sha256(claim: Claim) -> str:
    """Digest of the test of a claim; its text does not enter."""
    return _sha256(claim.model_dump(mode="json", include=TEST))


def metrics_sha256(judged: object) -> str:
    """Digest of the judged numbers, any nesting of lists, strings and numbers."""
    return _sha256(judged)


def warnings(looks: Sequence[Look], claim_digest: str) -> tuple[str, ...]:
    """What a reader must know of the looks at one claim, today's included.

    Args:
        claim_digest: `claim_sha256` of today's claim.
    """
    found = []
    if any(look.claim_sha256 != claim_digest for look in looks):
        found.append("the test was changed after data were seen")
    same = [look for look in looks if look.claim_sha256 == claim_digest]
    for number in sorted({look.seeds for look in same}):
        versions = {look.metrics_sha256 for look in same if look.seeds == number}
        if len(versions) > 1:
            found.append(
                f"the look with {number} seeds was repeated with other numbers: its runs were "
                f"computed {len(versions)} times, and no alpha was spent for the repetition"
            )
    return tuple(found)


def why_too_few(ledger: Iterable[Look], seeds: int) -> str:
    """Why this many seeds cannot be judged after the looks at one claim; "" if they can.

    With a free choice among the numbers of seeds that were looked at, the best one would be chosen.
    """
    most = max((look.seeds for look in ledger if look.alpha > 0), default=0)
    if most <= seeds:
        return ""
    return (
        f"{most} seeds were looked at before and only {seeds} are judged now; judge them all: run "
        f"`snakemake --config seeds={most}`"
    )


def read_ledger(path: Path) -> tuple[Look, ...]:
    """All looks at the claims of a paper, oldest first; none if there is no file yet.

    Raises:
        RecordError: a damaged line. The file is the memory of the judge, so none is skipped.
    """
    if not path.exists():
        return ()
    looks = []
    for number, line in enumerate(path.read_bytes().removesuffix(b"\n").split(b"\n"), start=1):
        try:
            looks.append(Look.model_validate_json(line))
        except ValidationError as error:
            raise RecordError(
                f"{path}:{number}: damaged look: got {line[:80]!r}, expected one JSON object a "
                f"line ({error.errors()[0]['msg']}). Restore the file from a copy; without it the "
                "judge forgets how often the data were looked at."
            ) from None
    return tuple(looks)


def append_looks(path: Path, new: Sequence[Look]) -> None:
    """Adds looks to the ledger; a reader sees all of them or none."""
    if new:
        looks = [*read_ledger(path), *new]
        write_text(path, "".join(look.model_dump_json() + "\n" for look in looks))


def _sha256(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
