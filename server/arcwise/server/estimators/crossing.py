"""Where a rising function reaches a bound: in few evaluations, and never short of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NEAR", "outer_crossing"]

NEAR = 1.06
"""How far beyond the bound, as a factor, the function may be where the search ends."""

_BRACKET = 0.06
"""The last bracket's share of the distance at which the search ends too: where the function jumps."""

_MOST = 60


def outer_crossing(
    function: Callable[[float], float],
    bound: float,
    middle: float,
    limit: float,
    guess: float,
    *,
    at_middle: float = 0.0,
) -> float | None:
    """Return a place between `middle` and `limit`, at or a little beyond where the function reaches `bound`.

    Parameters
    ----------
    function
        Increases from `middle` to `limit`, steps and flat stretches allowed; may be infinite, below zero too:
        next to the middle, rounding may turn a sign.
    bound
        Above `at_middle`.
    middle, limit
        In either order.
    guess
        How far from the middle the bound might be reached; positive.
    at_middle
        The function at `middle`.

    Returns
    -------
    float or None
        None when the function stays below the bound, the limit included. The function is at least `bound` at
        the place, and there it is at most 1.06 times that or, where it rises in steps, the place is at most
        6 % further from the middle than necessary.

    Notes
    -----
    False position on a function that is nearly a straight line between jumps; where that does not halve the
    bracket twice in a row, its middle.
    """
    span = abs(limit - middle)
    side = math.copysign(1.0, limit - middle)
    aim = 0.5 * (1.0 + NEAR) * bound
    inner, inner_value = 0.0, at_middle  # distances from the middle
    outer, outer_value = span, math.inf
    distance, reached = min(guess, span), False
    for trial in range(_MOST):
        value = function(limit if distance == span else middle + side * distance)
        before = outer - inner
        if value >= bound:
            outer, outer_value, reached = distance, value, True
        else:
            inner, inner_value = distance, value
            if inner == span:
                return None
        if reached and (outer_value <= NEAR * bound or outer - inner <= _BRACKET * outer + 1e-9 * span):
            break
        if not reached:  # along the line through the middle, but neither timidly nor madly far
            stretch = aim / max(value, 1e-9) if at_middle == 0.0 else 2.0
            distance = min(span, distance * min(max(stretch, 1.15 if trial == 0 else 1.5), 3.0))
            continue
        share = 0.5
        if math.isfinite(outer_value - inner_value) and not (trial > 3 and outer - inner > 0.5 * before):
            share = min(max((aim - inner_value) / (outer_value - inner_value), 0.15), 0.85)
        distance = inner + share * (outer - inner)
    return limit if outer == span else middle + side * outer
