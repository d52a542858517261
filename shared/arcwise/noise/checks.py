"""Bounds of the arguments that noise distributions share, each with one message."""

from __future__ import annotations

import math
from typing import Any

from arcwise.checks import as_float, shown
from arcwise.errors import ParameterError

__all__ = [
    "NOISE_EPSILON_MAX",
    "checked_delta",
    "checked_epsilon",
    "checked_integer",
    "checked_level",
    "checked_power",
    "checked_sensitivity",
    "checked_within",
]

NOISE_EPSILON_MAX = 50.0
"""Beyond this e^-epsilon is less than the rounding error of 1; no use of such noise is known."""


def _number(name: str, value: Any) -> float:
    try:
        number = as_float(value)
    except OverflowError:
        raise ParameterError(f"{name} must be finite, got an integer beyond a float") from None
    if number is None:
        raise ParameterError(f"{name} must be a real number, got {shown(value)}")
    return number + 0.0  # -0.0 becomes 0.0


def checked_epsilon(epsilon: Any, *, zero: bool = False) -> float:
    """Return epsilon as a float in (0, 50], or in [0, 50] where `zero` is allowed."""
    number = _number("epsilon", epsilon)
    if not (0.0 < number <= NOISE_EPSILON_MAX or (zero and number == 0.0)):
        least = "at least 0" if zero else "more than 0"
        raise ParameterError(f"epsilon must be {least} and at most {NOISE_EPSILON_MAX:g}, got {number!r}")
    return number


def checked_sensitivity(sensitivity: Any) -> float:
    """Return the sensitivity as a positive finite float."""
    number = _number("sensitivity", sensitivity)
    if not (number > 0.0 and math.isfinite(number)):
        raise ParameterError(f"sensitivity must be positive and finite, got {number!r}")
    return number


def checked_delta(delta: Any, most: float) -> float:
    """Return delta as a float in (0, 1), or in (0, most] where `most` is below 1."""
    number = _number("delta", delta)
    if not 0.0 < number < 1.0 or number > most:
        bound = f"at most {most:g}" if most < 1.0 else "less than 1"
        raise ParameterError(f"delta must be more than 0 and {bound}, got {number!r}")
    return number


def checked_power(power: Any) -> float:
    """Return the exponent of a moment as a positive finite float."""
    number = _number("power", power)
    if not (number > 0.0 and math.isfinite(number)):
        raise ParameterError(f"power must be positive and finite, got {number!r}")
    return number


def checked_level(level: Any) -> float:
    """Return a confidence level as a float in (0, 1)."""
    number = _number("level", level)
    if not 0.0 < number < 1.0:
        raise ParameterError(f"level must be more than 0 and less than 1, got {number!r}")
    return number


def checked_within(name: str, value: Any, low: float, high: float) -> float:
    """Return a number in the closed interval from `low` to `high`."""
    number = _number(name, value)
    if not low <= number <= high:
        raise ParameterError(f"{name} must be from {low:g} to {high:g}, got {number!r}")
    return number


def checked_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return an integer of at least `low` and, if given, at most `high`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ParameterError(f"{name} must be an integer, got {value!r}")
    number = int(value.__index__())
    if number < low or (high is not None and number > high):
        bound = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ParameterError(f"{name} must be {bound}, got {number}")
    return number
