"""Bounds of epsilon and delta, which noise distributions share."""

from __future__ import annotations

from arcwise.checks import checked_real

NOISE_EPSILON_MAX = 50.0
"""Beyond this e^-epsilon is less than the rounding error of 1; no use of such noise is known."""


def checked_epsilon(epsilon: object, *, zero: bool = False) -> float:
    """Return epsilon as a float in (0, 50], or in [0, 50] where `zero` is allowed."""
    if zero:
        return checked_real("epsilon", epsilon, least=0, most=NOISE_EPSILON_MAX)
    return checked_real("epsilon", epsilon, above=0, most=NOISE_EPSILON_MAX)


def checked_delta(delta: object, most: float) -> float:
    """Return delta as a float in (0, 1), or in (0, most] where `most` is below 1."""
    if most < 1:
        return checked_real("delta", delta, above=0, most=most)
    return checked_real("delta", delta, above=0, below=1)
