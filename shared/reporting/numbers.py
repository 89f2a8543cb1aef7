"""Numbers as text: as many digits as the interval supports, and always with the unit."""

from __future__ import annotations

import math
from decimal import Decimal

from shared.records.claim import Bound

MINUS = "\u2212"
NO_NUMBER = "–"
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def number(value: float | None, half_width: float | None = None) -> str:
    """A number with two digits of its uncertainty, or three significant digits without one.

    Example:
        >>> number(12.3456, 0.21), number(-0.000012), number(1234567.0, 1000.0)
        ('12.35', '−1.20×10⁻⁵', '1.2346×10⁶')
        >>> number(1.357e9, 1.2e14)
        '1.4×10⁹'
    """
    if value is None or math.isnan(value):
        return NO_NUMBER
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value == 0 and not half_width:
        return "0"
    size = _exponent(max(abs(value), half_width or 0.0))
    resolution = _exponent(half_width) - 1 if half_width else size - 2
    if value and size >= 5 and resolution > _exponent(value):
        # The interval is far wider than the number, as that of a ratio can be: not 0.0×10¹⁴.
        size = _exponent(value)
        resolution = size - 1
    if -4 <= size < 5:
        text = f"{value:.{max(0, -resolution)}f}"
        power = ""
    else:
        # Decimal, since 10.0**size is zero beside the smallest floats.
        text = f"{Decimal(value).scaleb(-size):.{min(15, max(0, size - resolution))}f}"
        power = _power(size)
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", MINUS) + power


def half_width(low: float | None, high: float | None) -> float | None:
    """Half the length of an interval; None where an end is open or both ends are one number."""
    if low is None or high is None or not math.isfinite(high - low) or high == low:
        return None
    return (high - low) / 2


def interval(low: float | None, high: float | None) -> str:
    """Both ends with the same digits.

    Example:
        >>> interval(-1.234, 2.345), interval(0.5, None)
        ('−1.2 … 2.3', '0.500 … ∞')
    """
    spread = half_width(low, high)
    left = f"{MINUS}∞" if low is None else number(low, spread)
    right = "∞" if high is None else number(high, spread)
    return f"{left} … {right}"


def plain(value: float) -> str:
    """A number that a person typed, e.g. a bound, as typed.

    Example:
        >>> plain(-0.5), plain(1e-6)
        ('−0.5', '1×10⁻⁶')
    """
    mantissa, _, power = f"{value:g}".partition("e")
    return mantissa.replace("-", MINUS) + (_power(int(power)) if power else "")


def accepted(bound: Bound) -> str:
    """The accepted region.

    Example:
        >>> accepted(Bound(at_least=0.5)), accepted(Bound(at_least=-1, at_most=1))
        ('≥ 0.5', '−1 … 1')
    """
    if bound.at_least is None:
        return f"≤ {plain(bound.at_most)}" if bound.at_most is not None else NO_NUMBER
    if bound.at_most is None:
        return f"≥ {plain(bound.at_least)}"
    return f"{plain(bound.at_least)} … {plain(bound.at_most)}"


def percent(share: float) -> str:
    """A share as a percentage, e.g. the confidence of an interval.

    Example:
        >>> percent(0.95), percent(0.9917)
        ('95 %', '99.2 %')
    """
    return f"{100 * share:.3g} %"


def duration(seconds: float) -> str:
    """A duration in the units that people use.

    Example:
        >>> duration(0.0213), duration(4.26), duration(75), duration(7500)
        ('21 ms', '4.3 s', '1 min 15 s', '2 h 5 min')
    """
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def memory(mib: float) -> str:
    """A size of memory.

    Example:
        >>> memory(512.4), memory(20480.0)
        ('512 MiB', '20.0 GiB')
    """
    return f"{mib:.0f} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


def energy(joules: float) -> str:
    """An energy.

    Example:
        >>> energy(950.0), energy(1_234_000.0)
        ('950 J', '343 Wh')
    """
    return f"{joules:.3g} J" if joules < 3600 else f"{joules / 3600:.3g} Wh"


def count(n: int, singular: str, plural: str = "") -> str:
    """A count with its noun.

    Example:
        >>> count(1, "run"), count(1200, "run"), count(2, "data set")
        ('1 run', '1,200 runs', '2 data sets')
    """
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def _power(exponent: int) -> str:
    return "×10" + str(exponent).translate(_SUPERSCRIPT)


def _exponent(value: float) -> int:
    return math.floor(math.log10(abs(value)))
