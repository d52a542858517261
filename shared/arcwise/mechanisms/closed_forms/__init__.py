"""Closed forms of continuous mechanisms on [0, 1] and on circles: what the integer kernels come close to.

`optimal` and `checks` need `math` only, because devices import them; the others import numpy or scipy where
they use it.
"""

from arcwise.mechanisms.closed_forms.optimal import (
    Levels,
    circle_attenuation,
    circle_expected_error,
    half_window,
    interval_expected_error,
    optimal_levels,
)

__all__ = [
    "Levels",
    "circle_attenuation",
    "circle_expected_error",
    "half_window",
    "interval_expected_error",
    "optimal_levels",
]
