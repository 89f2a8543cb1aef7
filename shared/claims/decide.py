"""The verdict rule: intervals against the accepted region."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shared.claims.intervals import Interval
from shared.records.verdict import Verdict


class Region(NamedTuple):
    """The accepted effects, on the scale of the test. An open side is None."""

    at_least: float | None
    at_most: float | None

    @property
    def sides(self) -> int:
        """1, or 2 for an equivalence."""
        return (self.at_least is not None) + (self.at_most is not None)

    def inside(self, interval: Interval) -> float:
        """How far the interval stays inside the region; not above 0 if it does not."""
        low = math.inf if self.at_least is None else interval.low - self.at_least
        high = math.inf if self.at_most is None else self.at_most - interval.high
        return min(low, high)

    def distances(self, effect: float) -> list[tuple[float, float]]:
        """Per side: how far an effect is inside that side (negative: outside), and its bound."""
        low = [] if self.at_least is None else [(effect - self.at_least, self.at_least)]
        high = [] if self.at_most is None else [(self.at_most - effect, self.at_most)]
        return low + high

    def outside(self, interval: Interval) -> float:
        """How far the interval stays outside the region; not above 0 if it does not."""
        low = -math.inf if self.at_least is None else self.at_least - interval.high
        high = -math.inf if self.at_most is None else interval.low - self.at_most
        return max(low, high)


class Decision(NamedTuple):
    """A verdict with the interval that gave it: effect number `effect` at error rate `level`."""

    verdict: Verdict
    effect: int
    interval: Interval
    level: float


def level_against(alpha: float, effects: int, sides: int) -> float:
    """Error rate of each test that can end in `not_reproduced`.

    `reproduced` needs every test to agree, so each may use the whole of alpha. `not_reproduced`
    needs only one of the effects x sides tests, so they share alpha (Bonferroni).
    """
    return alpha / (effects * sides)


def decide(
    intervals: Sequence[Callable[[float], Interval]], region: Region, alpha: float
) -> Decision:
    """Compares the interval of every effect with the accepted region.

    - reproduced: each interval at level alpha lies inside. Every part of the claim is tested at
      alpha and all must hold, an intersection-union test, so no correction is needed (Berger,
      1982, as described in the documentation of R's `hypothesize::intersection_test`). With two
      sides this is the test of equivalence by two one-sided tests.
    - not_reproduced: some interval at `level_against` lies outside.
    - inconclusive: an interval crosses a bound.

    With one effect and one side both use the same interval. Each false verdict has a probability
    of at most alpha.

    Args:
        intervals: per effect, the interval as a function of the error rate of each end.
        region: on the scale of the intervals.
        alpha: error rate of this look.

    Returns:
        The decision of the effect that decides: the one that stays least inside, or if not
        reproduced the one that lies farthest outside.
    """
    against = level_against(alpha, len(intervals), region.sides)
    narrow = [interval(alpha) for interval in intervals]
    wide = narrow if against == alpha else [interval(against) for interval in intervals]
    weakest = min(range(len(narrow)), key=lambda i: region.inside(narrow[i]))
    farthest = max(range(len(wide)), key=lambda i: region.outside(wide[i]))
    if region.inside(narrow[weakest]) > 0:
        return Decision("reproduced", weakest, narrow[weakest], alpha)
    if region.outside(wide[farthest]) > 0:
        return Decision("not_reproduced", farthest, wide[farthest], against)
    return Decision("inconclusive", weakest, wide[weakest], against)
