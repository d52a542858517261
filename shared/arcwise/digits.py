"""Numbers as text: with enough digits to distinguish close numbers, rounded up or down, or with a noun."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where needed.

    Examples
    --------
    >>> counted(1, "report"), counted(1_200, "report")
    ('1 report', '1,200 reports')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a duration as text, in the largest unit up to days in which the duration is a whole number.

    Examples
    --------
    >>> duration(172_800), duration(3_600), duration(90), duration(0.5)
    ('2 days', '1 hour', '90 seconds', '0.5 seconds')
    """
    for unit, length in _UNITS:
        if seconds >= length and seconds % length == 0:
            return counted(int(seconds // length), unit)
    return counted(int(seconds), "second") if seconds == int(seconds) else f"{seconds:g} seconds"


def written(*numbers: float, digits: int) -> tuple[str, ...]:
    """Return finite numbers as text with enough digits to show how far apart they are.

    Each number has `digits` significant digits. All have more, up to 17, if the difference between the
    largest and the smallest number would otherwise show in fewer than two digits.

    Examples
    --------
    >>> written(52.69412, 51.9, 53.5, digits=5)
    ('52.694', '51.9', '53.5')
    >>> written(1e9, 1e9 + 1, digits=5)
    ('1000000000', '1000000001')
    """
    digits = digits_apart(*numbers, digits=digits)
    return tuple(f"{number:.{digits}g}" for number in numbers)


def digits_apart(*numbers: float, digits: int) -> int:
    """Return the number of significant digits that `written` uses for these numbers."""
    width = max(numbers, default=0.0) - min(numbers, default=0.0)
    largest = max(map(abs, numbers), default=0.0)
    if 0 < width < largest:
        needed = math.ceil(math.log10(largest / width)) + 2
        if needed > digits:  # also all digits before the point, to avoid powers of ten
            digits = min(17, max(needed, math.ceil(math.log10(largest)) if largest < 1e15 else 0))
    return digits


def rounded_up(number: float, digits: int = 6) -> str:
    """Return a non-negative number as text, rounded up to at most `digits` significant digits.

    The number is first rounded to 15 digits, because later digits are rounding errors of floats: 3 * 0.1 is
    then 0.3.

    Examples
    --------
    >>> rounded_up(1.0000004), rounded_up(0.1), rounded_up(1.231e-8, 2)
    ('1.00001', '0.1', '1.3e-08')
    """
    return _rounded(number, digits, ROUND_CEILING)


def rounded_down(number: float, digits: int = 6) -> str:
    """Return a non-negative number as text, rounded down to `digits` digits after rounding it to 15 digits.

    Examples
    --------
    >>> rounded_down(1.0000006), rounded_down(0.1), rounded_down(1.239e-8, 2)
    ('1', '0.1', '1.2e-08')
    """
    return _rounded(number, digits, ROUND_FLOOR)


def _rounded(number: float, digits: int, rounding: str) -> str:
    if not math.isfinite(number):
        return f"{number:g}"
    found = Context(prec=digits, rounding=rounding).create_decimal(Decimal(f"{number:.15g}"))
    return f"{float(found):.{digits}g}"
