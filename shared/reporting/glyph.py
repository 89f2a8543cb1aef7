"""The small drawing of a verdict: the interval, the estimate, the seeds and the accepted region."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup, escape

from shared.records.verdict import ClaimVerdict
from shared.reporting.numbers import accepted, number, plain

WIDTH, HEIGHT, LEFT, RIGHT = 220.0, 46.0, 8.0, 212.0
MIDDLE = 16.0
LOG_FROM_RATIO = 50.0


@dataclass(frozen=True)
class _Axis:
    """Maps an effect to a horizontal position; logarithmic where the values span decades."""

    low: float
    high: float
    log: bool

    @classmethod
    def over(cls, values: list[float], ratio: bool) -> _Axis:
        log = min(values) > 0 and (ratio or max(values) / min(values) > LOG_FROM_RATIO)
        ends = [math.log(value) if log else value for value in (min(values), max(values))]
        margin = 0.12 * (ends[1] - ends[0]) or 0.5 * abs(ends[0]) or 1.0
        return cls(ends[0] - margin, ends[1] + margin, log)

    def at(self, value: float) -> float:
        """The position, held inside the drawing."""
        if self.log:
            value = math.log(value) if value > 0 else -math.inf
        share = (value - self.low) / (self.high - self.low)
        return LEFT + (RIGHT - LEFT) * min(1.0, max(0.0, share))


def glyph(verdict: ClaimVerdict) -> Markup:
    """Inline SVG, coloured by the classes of the page; empty where nothing was measured."""
    bound, mid = verdict.bound, verdict.estimate
    if bound is None or mid is None or not math.isfinite(mid):
        return Markup("")
    edges = [edge for edge in (bound.at_least, bound.at_most) if edge is not None]
    ends = [end for end in (verdict.low, verdict.high) if end is not None and math.isfinite(end)]
    seeds = [value for value in verdict.per_seed if math.isfinite(value)]
    axis = _Axis.over([*edges, *ends, *seeds, mid], verdict.kind == "ratio")
    parts = [
        _region(axis, bound.at_least, bound.at_most),
        f'<line class="g-axis" x1="{LEFT}" x2="{RIGHT}" y1="32" y2="32"/>',
        *(_seed(axis, value) for value in seeds),
        _whiskers(axis, verdict.low, verdict.high),
        f'<circle class="g-estimate" cx="{axis.at(mid):.1f}" cy="{MIDDLE}" r="4.5"/>',
        *(_edge(axis, edge, plain(edge)) for edge in edges),
    ]
    label = (
        f"Estimate {number(mid)}, interval {number(verdict.low)} to {number(verdict.high)}, "
        f"accepted region {accepted(bound)}{', logarithmic axis' if axis.log else ''}"
    )
    return Markup(
        f'<svg class="glyph {verdict.verdict}" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" '
        f'role="img" aria-label="{escape(label)}"><title>{escape(label)}</title>'
        f"{''.join(parts)}</svg>"
    )


def _region(axis: _Axis, at_least: float | None, at_most: float | None) -> str:
    left = LEFT if at_least is None else axis.at(at_least)
    right = RIGHT if at_most is None else axis.at(at_most)
    return f'<rect class="g-region" x="{left:.1f}" y="0" width="{right - left:.1f}" height="32"/>'


def _seed(axis: _Axis, value: float) -> str:
    at = axis.at(value)
    return f'<line class="g-seed" x1="{at:.1f}" x2="{at:.1f}" y1="25" y2="31"/>'


def _whiskers(axis: _Axis, low: float | None, high: float | None) -> str:
    """The interval; an open end runs to the edge of the drawing and has no whisker."""
    if low is None and high is None:
        return ""
    left = LEFT if low is None else axis.at(low)
    right = RIGHT if high is None else axis.at(high)
    ends = [at for end, at in ((low, left), (high, right)) if end is not None]
    line = f'<line class="g-line" x1="{left:.1f}" x2="{right:.1f}" y1="{MIDDLE}" y2="{MIDDLE}"/>'
    return line + "".join(
        f'<line class="g-line" x1="{at:.1f}" x2="{at:.1f}" y1="{MIDDLE - 5}" y2="{MIDDLE + 5}"/>'
        for at in ends
    )


def _edge(axis: _Axis, value: float, text: str) -> str:
    at = axis.at(value)
    anchor = "start" if at < 40 else "end" if at > WIDTH - 40 else "middle"
    return (
        f'<line class="g-bound" x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="35"/>'
        f'<text x="{at:.1f}" y="45" text-anchor="{anchor}">{escape(text)}</text>'
    )
