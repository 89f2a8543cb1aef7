"""The effect of each seed, per kind of claim, on the scale on which it is tested."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shared.records.claim import Claim

Array = npt.NDArray[np.float64]

# Effects computed from equal numbers can differ in their last bits; a real spread is far above.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Effect:
    """One effect with one number per seed; a ratio is held as its logarithm."""

    name: str
    per_seed: Array
    rounding: float

    @functools.cached_property
    def spread(self) -> float:
        """Unbiased standard deviation over the seeds; 0 if they differ by rounding only."""
        if np.ptp(self.per_seed) <= self.rounding:
            return 0.0
        return float(self.per_seed.std(ddof=1))

    @functools.cached_property
    def size(self) -> float | None:
        """Mean over spread, Cohen's d_z: the effect in units of its own spread between seeds.

        Source: Lakens (2013), Frontiers in Psychology 4:863, effect sizes for t tests.
        """
        return float(self.per_seed.mean()) / self.spread if self.spread else None


def effects(claim: Claim, numbers: Array) -> list[Effect]:
    """The effects that the claim bounds: several for an ordering, else one.

    - value: x;  gap: x_1 - x_2;  ratio: log x_1 - log x_2;  ordering: x_i - x_{i+1} for each i
    - trend: the least-squares slope, sum_i (x_i - mean x) y_i / sum_i (x_i - mean x)^2

    All arms of an experiment have the seeds 0, 1, ..., so effects are always paired by seed.

    Args:
        numbers: shape (arms, seeds), in the claim's unit, all finite; above 0 for a ratio.
    """
    if claim.kind == "trend":
        return [_slope(claim, numbers)]
    if claim.kind == "value":
        return [_effect(f"arm {claim.arms[0]}", numbers[0], numbers)]
    scaled = np.log(numbers) if claim.kind == "ratio" else numbers
    joint = "over" if claim.kind == "ratio" else "minus"
    return [
        _effect(f"{claim.arms[i]} {joint} {claim.arms[i + 1]}", scaled[i] - scaled[i + 1], scaled)
        for i in range(len(claim.arms) - 1)
    ]


def to_scale(claim: Claim, number: float | None) -> float | None:
    """A bound on the scale of the test: the logarithm for a ratio."""
    return math.log(number) if claim.kind == "ratio" and number is not None else number


def from_scale(claim: Claim, number: float) -> float | None:
    """A number of the test in the claim's terms; None for a limit that the data do not give."""
    if math.isinf(number):
        return None
    return math.exp(number) if claim.kind == "ratio" else number


def _effect(name: str, per_seed: Array, numbers: Array) -> Effect:
    return Effect(name, per_seed, ROUNDING * float(np.abs(numbers).max()))


def _slope(claim: Claim, numbers: Array) -> Effect:
    centred = np.array(claim.x) - np.mean(claim.x)
    weights = (centred / (centred @ centred))[:, None]
    per_seed = (weights * numbers).sum(axis=0)
    return _effect(f"slope over {', '.join(claim.arms)}", per_seed, np.abs(weights).sum() * numbers)
