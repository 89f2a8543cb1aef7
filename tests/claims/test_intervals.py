"""Intervals against textbook numbers and scipy.stats."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from shared.claims.intervals import clopper_pearson, t_interval


def test_t_interval_of_students_sleep_data():
    """Student (1908), ten paired differences: mean 1.58, t = 4.06, 95 % interval 0.70 to 2.46."""
    hours = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    interval = t_interval(hours, level=0.025)
    assert interval.estimate == pytest.approx(1.58)
    assert (interval.low, interval.high) == pytest.approx((0.7001142, 2.4598858), abs=1e-6)


@pytest.mark.parametrize("n", [2, 3, 5, 30])
@pytest.mark.parametrize("level", [0.04, 0.005])
def test_t_interval_agrees_with_scipy(n, level):
    effects = np.random.default_rng(n).normal(size=n)
    expected = stats.ttest_1samp(effects, 0).confidence_interval(1 - 2 * level)
    interval = t_interval(effects, level)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_without_spread_the_mean_is_not_known():
    interval = t_interval(np.array([0.1 + 0.2, 0.3, 0.3]), level=0.05, rounding=1e-12)
    assert (interval.low, interval.high) == (-math.inf, math.inf)


def test_one_effect_has_no_interval():
    with pytest.raises(ValueError, match=r"got 1 effect\(s\), expected at least 2"):
        t_interval(np.array([1.0]), level=0.05)


def test_clopper_pearson_at_the_ends():
    """All succeed: the lower limit is level^(1/n), and 1 - level^(1/n) if none does."""
    assert clopper_pearson(8, 8, 0.05) == pytest.approx((1.0, 0.05 ** (1 / 8), 1.0))
    assert clopper_pearson(0, 8, 0.05) == pytest.approx((0.0, 0.0, 1 - 0.05 ** (1 / 8)))


def test_clopper_pearson_known_value():
    """10 successes in 20 trials at 95 %: 0.2720 to 0.7280."""
    interval = clopper_pearson(10, 20, 0.025)
    assert (interval.low, interval.high) == pytest.approx((0.2720, 0.7280), abs=5e-5)


@pytest.mark.parametrize(("successes", "runs"), [(0, 5), (1, 5), (3, 8), (8, 8), (50, 97)])
@pytest.mark.parametrize("level", [0.04, 0.0025])
def test_clopper_pearson_agrees_with_scipy(successes, runs, level):
    expected = stats.binomtest(successes, runs).proportion_ci(1 - 2 * level, method="exact")
    interval = clopper_pearson(successes, runs, level)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("successes", "runs"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(successes, runs):
    with pytest.raises(ValueError, match="expected 0 <= successes <= runs >= 1"):
        clopper_pearson(successes, runs, 0.05)
