from __future__ import annotations

import re

import pytest

from shared.records.claim import Bound
from shared.records.verdict import ClaimVerdict
from shared.reporting.glyph import LEFT, RIGHT, WIDTH, glyph


def claim(kind="gap", **values):
    values = {"verdict": "reproduced", **values}
    return ClaimVerdict(id="c", reason="", kind=kind, **values)


def places(svg, tag, css, name):
    found = re.findall(rf'<{tag} class="{css}"[^>]* {name}="([-\d.]+)"', svg)
    return [float(value) for value in found]


def test_the_drawing_keeps_the_order_of_the_numbers():
    svg = glyph(claim(estimate=1.0, low=0.5, high=1.5, bound=Bound(at_most=2.0), per_seed=(0.7,)))
    (left, *_), (estimate,) = (
        places(svg, "line", "g-line", "x1"),
        places(svg, "circle", "g-estimate", "cx"),
    )
    right = max(places(svg, "line", "g-line", "x2"))
    (bound,) = places(svg, "line", "g-bound", "x1")
    assert LEFT < left < estimate < right < bound < RIGHT
    assert places(svg, "rect", "g-region", "x") == [LEFT]
    assert left < places(svg, "line", "g-seed", "x1")[0] < estimate


def test_an_equivalence_has_two_bounds_and_the_region_between():
    svg = glyph(claim(estimate=0.1, low=-0.2, high=0.4, bound=Bound(at_least=-1, at_most=1)))
    low, high = places(svg, "line", "g-bound", "x1")
    (x,), (width,) = (places(svg, "rect", "g-region", name) for name in ("x", "width"))
    assert (x, x + width) == pytest.approx((low, high), abs=0.11)


def test_values_over_decades_get_a_logarithmic_axis():
    svg = glyph(claim("exact", estimate=1e-12, bound=Bound(at_most=1e-6)))
    assert "logarithmic" in svg
    assert places(svg, "circle", "g-estimate", "cx")[0] < WIDTH / 3
    assert "1×10⁻⁶" in svg


def test_an_open_end_has_no_whisker():
    svg = glyph(claim(estimate=1.0, low=0.5, bound=Bound(at_least=0.0)))
    assert len(places(svg, "line", "g-line", "x1")) == 2


def test_nothing_is_drawn_without_a_number():
    assert glyph(claim(verdict="not_run")) == ""
    assert glyph(claim(estimate=1.0)) == ""


def test_people_who_cannot_see_it_hear_the_numbers():
    svg = glyph(claim(estimate=1.0, low=0.5, high=1.5, bound=Bound(at_most=2.0)))
    assert 'aria-label="Estimate 1.00, interval 0.500 to 1.50, accepted region ≤ 2"' in svg
