"""How many digits tell numbers apart that lie close together, such as times in seconds since 1970."""

from __future__ import annotations

import math

__all__ = ["written"]


def written(*numbers: float, digits: int) -> tuple[str, ...]:
    """Return numbers in words that show how far apart they are.

    Parameters
    ----------
    numbers
        Finite.
    digits
        Significant digits of each, more where their range would have fewer than two of them; at most 17.

    Examples
    --------
    >>> written(52.69412, 51.9, 53.5, digits=5)
    ('52.694', '51.9', '53.5')
    >>> written(1e9, 1e9 + 1, digits=5)
    ('1000000000', '1000000001')
    """
    width = max(numbers, default=0.0) - min(numbers, default=0.0)
    largest = max(map(abs, numbers), default=0.0)
    if 0 < width < largest:
        needed = math.ceil(math.log10(largest / width)) + 2
        if needed > digits:  # all before the point too, or they would be written as powers of ten
            digits = min(17, max(needed, math.ceil(math.log10(largest)) if largest < 1e15 else 0))
    return tuple(f"{number:.{digits}g}" for number in numbers)
