"""What counts as a number wherever arcwise is given one, and how a value is shown that does not."""

from __future__ import annotations

from numbers import Real

__all__ = ["as_float", "shown"]


def as_float(value: object) -> float | None:
    """Return a real number as a float, which may be infinite or NaN; None for anything else.

    A bool is not a number here. Neither is a numpy duration, which is an integer to Python, nor a number that
    cannot say what it is.

    Raises
    ------
    OverflowError
        When the number is too large for a float.

    Examples
    --------
    >>> as_float(7), as_float("7"), as_float(True)
    (7.0, None, None)
    """
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        if getattr(getattr(value, "dtype", None), "kind", "f") not in "fiu":
            return None
        return float(value)
    except OverflowError:
        raise
    except Exception:  # it is somebody's class, and may raise anything
        return None


def shown(value: object) -> str:
    """Return ``repr(value)`` for a message, or the name of the type of a value that cannot be shown.

    Examples
    --------
    >>> shown("7"), shown([10**5000])
    ("'7'", 'a list')
    """
    try:
        return repr(value)
    except Exception:  # such as an integer of too many digits, in a list
        return f"a {type(value).__name__}"
