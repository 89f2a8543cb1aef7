"""A pure number has the unit `1`, which no sentence prints."""

from __future__ import annotations

import pytest

from shared.claims.reasons import unit
from shared.records.claim import Claim


def claim(kind, unit, **more):
    arms = ("a", "b") if kind in ("gap", "trend", "ratio") else ("a",)
    return Claim(
        id="c",
        statement="s",
        source={"where": "Table 1", "verified": True},
        kind=kind,
        experiment="e",
        arms=arms,
        metric="m",
        unit=unit,
        bound={"at_most": 1},
        bound_reason="r",
        **more,
    )


@pytest.mark.parametrize(
    ("kind", "metric_unit", "more", "printed"),
    [
        ("value", "1", {}, ""),
        ("value", "nats", {}, "nats"),
        ("exact", "1", {}, ""),
        ("gap", "percent", {}, "percentage points"),
        ("trend", "1", {"x": (1, 2)}, "per unit of x"),
        ("trend", "percent", {"x": (1, 2)}, "percentage points per unit of x"),
        ("ratio", "step", {}, "times"),
        ("rate", "1", {"success": {"at_least": 1}}, "share of runs"),
    ],
)
def test_printed_unit(kind, metric_unit, more, printed):
    assert unit(claim(kind, metric_unit, **more)) == printed
