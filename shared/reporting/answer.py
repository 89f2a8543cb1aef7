"""The sentence that answers `does the paper's main claim hold here, and how strongly?`.

The words follow from the verdicts of the main claims; nobody writes them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from shared.records.claim import Bound
from shared.records.experiment import Scale
from shared.records.paper import Paper
from shared.records.verdict import ClaimVerdict, Verdict
from shared.reporting.inputs import Judged
from shared.reporting.numbers import accepted, half_width, interval, number, percent

VERDICTS: tuple[Verdict, ...] = ("reproduced", "not_reproduced", "inconclusive", "not_run")
WORDS: dict[Verdict, str] = {
    "reproduced": "reproduced",
    "not_reproduced": "not reproduced",
    "inconclusive": "inconclusive",
    "not_run": "not run",
}


@dataclass(frozen=True)
class Answer:
    """A headline (`Yes.`), the sentence that follows it, and the verdict that gives its colour."""

    headline: str
    sentence: str
    tone: Verdict


def counts(judged: Sequence[Judged]) -> dict[Verdict, int]:
    """How many claims got each verdict; all four keys are there."""
    found = Counter(item.verdict.verdict for item in judged)
    return {verdict: found[verdict] for verdict in VERDICTS}


def answer(paper: Paper, judged: Sequence[Judged], scale: Scale) -> Answer:
    """Whether the main claims hold at this scale, and how strong the weakest evidence is."""
    if scale == "smoke":
        return Answer("No answer.", "The smoke scale only proves that every wire works.", "not_run")
    main = [item for item in judged if item.claim.id in paper.main_claims]
    if not main:
        return Answer("No answer.", "The paper.yaml names no main claims.", "not_run")
    tally = counts(main)
    held, failed, total = tally["reproduced"], tally["not_reproduced"], len(main)
    tone: Verdict
    if held == total:
        headline, tone = "Yes.", "reproduced"
    elif failed == total:
        headline, tone = "No.", "not_reproduced"
    elif 0 < held + failed < total / 2:
        headline, tone = "Mostly undecided.", "inconclusive"
    elif held and failed:
        headline, tone = "In part.", "inconclusive"
    elif held:
        headline, tone = "Yes, as far as decided.", "inconclusive"
    elif failed:
        headline, tone = "No, as far as decided.", "not_reproduced"
    elif tally["inconclusive"]:
        headline, tone = "Undecided.", "inconclusive"
    else:
        headline, tone = "Not run.", "not_run"
    return Answer(headline, f"At {scale} scale, {_tally(main)}.{_weakest(main)}", tone)


def strength(verdict: ClaimVerdict) -> float | None:
    """How far a decided effect lies beyond the bound, in parts of its interval.

    Distance from the estimate to the nearest bound over the distance from the estimate to the end
    of the interval on that side: 1 just decides, 3 leaves two thirds of the way to spare. For a
    ratio all distances are logarithmic. None where no interval decided.
    """
    low, mid, high, bound = verdict.low, verdict.estimate, verdict.high, verdict.bound
    if verdict.verdict not in ("reproduced", "not_reproduced") or mid is None or bound is None:
        return None
    sides = _sides(verdict.verdict, bound, low, mid, high)
    if verdict.kind == "ratio":
        if any(value <= 0 for side in sides for value in side):
            return None
        sides = [(math.log(edge), math.log(end), math.log(at)) for edge, end, at in sides]
    values = [abs(at - edge) / abs(at - end) for edge, end, at in sides if at != end]
    return min(values, default=None)


def evidence(verdict: ClaimVerdict) -> str:
    """The numbers behind a verdict in one line, with unit."""
    if verdict.estimate is None:
        return ""
    spread = half_width(verdict.low, verdict.high)
    text = f"{number(verdict.estimate, spread)} {verdict.unit}".rstrip()
    if verdict.low is not None or verdict.high is not None:
        name = f"{percent(verdict.confidence)} interval " if verdict.confidence else "interval "
        text += f" ({name}{interval(verdict.low, verdict.high)})"
    return f"{text}; accepted {accepted(verdict.bound)}" if verdict.bound else text


def _sides(
    verdict: Verdict, bound: Bound, low: float | None, mid: float, high: float | None
) -> list[tuple[float, float, float]]:
    """(bound, end of the interval on its side, estimate) for each side that decided."""
    pairs: list[tuple[float | None, float | None]]
    if verdict == "reproduced":
        pairs = [(bound.at_least, low), (bound.at_most, high)]
    elif bound.at_least is not None and mid < bound.at_least:
        pairs = [(bound.at_least, high)]
    else:
        pairs = [(bound.at_most, low)]
    return [(edge, end, mid) for edge, end in pairs if edge is not None and end is not None]


def _tally(main: Sequence[Judged]) -> str:
    """The page lists the claims right below, with their verdicts: here they are only counted."""
    if len(main) == 1:
        return f"the main claim is {WORDS[main[0].verdict.verdict]}"
    found = {verdict: many for verdict, many in counts(main).items() if many}
    if len(found) == 1:
        everything = "both" if len(main) == 2 else f"all {len(main)}"
        return f"{everything} main claims are {WORDS[next(iter(found))]}"
    parts = [f"{many} {'is' if many == 1 else 'are'} {WORDS[v]}" for v, many in found.items()]
    return f"of {len(main)} main claims {', '.join(parts[:-1])} and {parts[-1]}"


def _weakest(main: Sequence[Judged]) -> str:
    measured = [value for item in main if (value := strength(item.verdict)) is not None]
    if not measured:
        return ""
    subject = "The narrowest of these decisions" if len(measured) > 1 else "The decision"
    return f" {subject} would stand with an interval {min(measured):.2g} times as wide."
