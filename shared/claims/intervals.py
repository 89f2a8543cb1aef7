"""Confidence intervals. `level` is the error rate of each end, so both ends have 1 - 2 * level.

An interval lies inside a region exactly if the two one-sided tests at `level` say so (Schuirmann,
1987, as described in the documentation of SAS PROC TTEST, "TOST Equivalence Test").
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special  # type: ignore[import-untyped]  # scipy.stats takes a second to import


class Interval(NamedTuple):
    """An estimate with its limits; infinite limits mean that the data say nothing."""

    estimate: float
    low: float
    high: float


def t_interval(effects: npt.NDArray[np.float64], level: float, rounding: float = 0.0) -> Interval:
    """Student's t interval for the mean of independent effects, one per seed.

    mean ± t(1 - level; n - 1) * sd / sqrt(n), with sd the unbiased one.

    Args:
        effects: one number per seed, at least two.
        level: error rate of each end.
        rounding: effects that differ by no more than this are the same number. Without any spread
            the limits are infinite: a width of zero says that the seeds did not matter, not that
            the mean is known.

    Raises:
        ValueError: fewer than two effects.

    Source: Student (1908); with differences between two arms that share a seed it is the paired
    t test.

    Example:
        >>> low_high = t_interval(np.array([1.0, 2.0, 3.0]), level=0.025)
        >>> [round(limit, 3) for limit in low_high]
        [2.0, -0.484, 4.484]
    """
    n = len(effects)
    if n < 2:
        raise ValueError(f"got {n} effect(s), expected at least 2: one number has no spread")
    mean = float(effects.mean())
    if np.ptp(effects) <= rounding:
        return Interval(mean, -math.inf, math.inf)
    half = float(special.stdtrit(n - 1, 1 - level) * effects.std(ddof=1) / math.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def clopper_pearson(successes: int, runs: int, level: float) -> Interval:
    """The exact interval for the success rate of independent runs.

    low is the quantile `level` of Beta(k, n - k + 1), or 0 if k = 0; high is the quantile
    1 - `level` of Beta(k + 1, n - k), or 1 if k = n.

    Args:
        successes: k, from 0 to `runs`.
        runs: n, at least 1.
        level: error rate of each end.

    Raises:
        ValueError: counts outside these limits.

    Source: Clopper and Pearson (1934), Biometrika 26, 404-413, in the form with Beta quantiles.

    Example:
        >>> rate = clopper_pearson(8, 8, level=0.05)
        >>> round(rate.low, 4), rate.high  # the lower limit is 0.05 ** (1 / 8)
        (0.6877, 1.0)
    """
    if not 0 <= successes <= runs or runs < 1:
        raise ValueError(f"got {successes} of {runs} runs, expected 0 <= successes <= runs >= 1")
    failures = runs - successes
    low = float(special.betaincinv(successes, failures + 1, level)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, failures, 1 - level)) if failures else 1.0
    return Interval(successes / runs, low, high)
