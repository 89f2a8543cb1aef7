"""Numbers of seeds against power that is computed or simulated in another way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from shared.claims.power import (
    MOST_SEEDS,
    seeds_for_mean,
    seeds_for_rate,
    seeds_to_decide,
    t_power,
)


def test_t_power_agrees_with_simulation():
    random = np.random.default_rng(0)
    effects = 1.0 + 1.5 * random.standard_normal((40_000, 9))
    t = effects.mean(axis=1) / effects.std(axis=1, ddof=1) * 3
    simulated = np.mean(t > stats.t.ppf(0.96, 8))
    assert t_power(1.0, 1.5, 9, 0.04) == pytest.approx(simulated, abs=3 * 0.5 / 200)


def test_t_power_agrees_with_scipy():
    expected = stats.nct.sf(stats.t.ppf(0.95, 35), 35, 0.4 * 6)
    assert t_power(0.4, 1.0, 36, 0.05) == pytest.approx(expected)


@pytest.mark.parametrize("distance", [0.2, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("level", [0.04, 0.005])
def test_seeds_for_mean_is_the_fewest(distance, level):
    n = seeds_for_mean(distance, 1.0, level, more_than=2)
    powers = [t_power(distance, 1.0, k, level) for k in range(3, n + 1)]
    assert powers[-1] >= 0.8
    assert all(power < 0.8 for power in powers[:-1])


def test_seeds_for_mean_is_more_than_there_are():
    assert seeds_for_mean(10.0, 1.0, 0.04, more_than=7) == 8


@pytest.mark.parametrize("distance", [0.0, 1e-9, 0.05])
def test_an_effect_at_the_bound_is_never_decided(distance):
    assert seeds_for_mean(distance, 1.0, 0.04, more_than=5) is None


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("bound", [0.2, 0.5, 0.9])
def test_seeds_for_rate_is_the_fewest(rate, bound):
    def power(n: int) -> float:
        k = np.arange(n + 1)
        if rate > bound:
            accepted = stats.binom.sf(k - 1, n, bound) <= 0.005
        else:
            accepted = stats.binom.cdf(k, n, bound) <= 0.005
        return float(stats.binom.pmf(k, n, rate)[accepted].sum())

    n = seeds_for_rate(rate, bound, 0.005, more_than=4)
    expected = next((k for k in range(5, MOST_SEEDS + 1) if power(k) >= 0.8), None)
    assert n == expected


def test_a_rate_at_the_bound_is_never_decided():
    assert seeds_for_rate(0.5, 0.5, 0.04, more_than=8) is None
    assert seeds_for_rate(0.505, 0.5, 0.04, more_than=8) is None


@pytest.mark.parametrize("bound", [0.0, 1.0])
def test_a_rate_cannot_be_shown_to_be_beyond_the_ends(bound):
    assert seeds_for_rate(0.5, bound, 0.04, more_than=8) is None


def test_several_tests_share_the_chance_to_miss_and_the_slowest_counts():
    def seeds(level: float, miss: float) -> int:
        return round(1 / (level * miss))

    assert seeds_to_decide([(1.0, seeds), (2.0, seeds)], alpha=0.05, against=0.01) == 200
    assert seeds_to_decide([(1.0, seeds), (-2.0, seeds)], alpha=0.05, against=0.01) == 500
    assert seeds_to_decide([(1.0, seeds), (0.0, seeds)], alpha=0.05, against=0.01) is None
    assert seeds_to_decide([(1.0, lambda *_: None), (1.0, seeds)], 0.05, 0.01) is None
