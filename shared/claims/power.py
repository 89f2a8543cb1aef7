"""How many seeds would decide a claim, if the truth is what was observed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import special  # type: ignore[import-untyped]  # scipy.stats takes a second to import

MISS = 0.2  # 80 % power
MOST_SEEDS = 1000

# Level of a test and its chance to miss -> the number of seeds, or None if there is none.
SeedsFor = Callable[[float, float], int | None]


def t_power(distance: float, spread: float, seeds: int, level: float) -> float:
    """Probability that a one-sided t test sees a mean at `distance` on the right side of a bound.

    P(T > t(1 - level; n - 1)), T noncentral t with n - 1 degrees of freedom and noncentrality
    distance * sqrt(n) / spread.

    Args:
        distance: from the bound to the true mean, above 0.
        spread: true standard deviation between seeds, above 0.

    Source: the definition of the noncentral t distribution (Johnson and Kotz, as given in the
    MATLAB documentation, "Noncentral t Distribution").

    Example:
        >>> round(t_power(distance=1.0, spread=0.5, seeds=5, level=0.04), 3)
        0.96
    """
    critical = special.stdtrit(seeds - 1, 1 - level)
    return float(1 - special.nctdtr(seeds - 1, distance * math.sqrt(seeds) / spread, critical))


def seeds_for_mean(
    distance: float, spread: float, level: float, more_than: int, miss: float = MISS
) -> int | None:
    """Fewest seeds, more than `more_than`, with which the t test misses at most `miss`.

    None if that takes more than `MOST_SEEDS`, or if there is no distance or no spread.
    """
    if distance <= 0 or spread <= 0:
        return None
    # The normal test needs fewer seeds than the t test, so it rules out hopeless cases cheaply.
    normal = (special.ndtri(1 - level) + special.ndtri(1 - miss)) * spread / distance
    few, enough = more_than, MOST_SEEDS
    if normal**2 > MOST_SEEDS or t_power(distance, spread, enough, level) < 1 - miss:
        return None
    while enough - few > 1:
        middle = (few + enough) // 2
        if t_power(distance, spread, middle, level) >= 1 - miss:
            enough = middle
        else:
            few = middle
    return enough


@functools.lru_cache(maxsize=1024)
def seeds_for_rate(
    rate: float, bound: float, level: float, more_than: int, miss: float = MISS
) -> int | None:
    """Fewest seeds with which the exact binomial test puts a true `rate` on its side of `bound`.

    With n seeds the test at `level` needs the fewest successes k with P(X >= k | bound) <= level;
    its power is P(X >= k | rate). None if no n up to `MOST_SEEDS` misses at most `miss`.

    Example:
        >>> seeds_for_rate(rate=0.95, bound=0.475, level=0.04, more_than=5)
        8
    """
    if rate == bound:
        return None
    if rate < bound:  # failures are the successes of the mirrored question
        rate, bound = 1 - rate, 1 - bound
    n = np.arange(more_than + 1, MOST_SEEDS + 1)
    fewest = np.ceil(special.bdtrik(1 - level, n, bound)) + 1
    power = special.bdtrc(fewest - 1, n, rate)
    enough = np.flatnonzero(power >= 1 - miss)
    return int(n[enough[0]]) if len(enough) else None


def seeds_to_decide(
    tests: Sequence[tuple[float, SeedsFor]],
    alpha: float,
    against: float,
) -> int | None:
    """Seeds with which a claim of several tests would be decided with 80 % power.

    Args:
        tests: one for each side of the bound of each effect: how far the estimate is inside that
            side (negative: outside), and the number of seeds as a function of level and miss.
        alpha: level of the tests that must all agree for `reproduced`.
        against: level of the tests of which one is enough for `not_reproduced`.
    """
    if all(distance > 0 for distance, _ in tests):
        # All must agree, so they share the chance to miss.
        needed = [seeds(alpha, MISS / len(tests)) for _, seeds in tests]
        return None if None in needed else max(n for n in needed if n is not None)
    needed = [seeds(against, MISS) for distance, seeds in tests if distance < 0]
    return min((n for n in needed if n is not None), default=None)
