"""How a bound is printed: with a few digits, and never below what holds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

__all__ = ["rounded_up"]


def rounded_up(number: float, digits: int = 6) -> str:
    """Return a non-negative number with at most this many digits, not below its first 15 digits.

    What floats have beyond them is rounding: 3 * 0.1 is 0.3.

    Examples
    --------
    >>> rounded_up(1.0000004), rounded_up(0.1), rounded_up(1.231e-8, 2)
    ('1.00001', '0.1', '1.3e-08')
    """
    if not math.isfinite(number):
        return f"{number:g}"
    above = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(f"{number:.15g}"))
    return f"{float(above):.{digits}g}"
