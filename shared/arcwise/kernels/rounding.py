"""Rounding of probabilities to integer weights with exact sums and bounded ratios.

Rounding each weight by itself leaves rows that do not sum to 2**64, and ratios above e^epsilon. Here the sums
are made exact first. Then each code gets bounds for all rows, [low, floor(low * e^epsilon)], where low is the
code's least weight. Weights are moved into these bounds, and the rest of each row goes to codes with room.
"""

from __future__ import annotations

import math
from operator import sub
from typing import TYPE_CHECKING, Any

from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT, exp_lower_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


def integer_rows(probabilities: ArrayLike, epsilon: float) -> tuple[tuple[int, ...], ...]:
    """Return integer rows near these probabilities with an exact ratio of at most e^epsilon.

    The probabilities have the shape (N, K) and are positive. Up to rounding, their rows sum to 1 and the
    ratios within a column are at most e^epsilon. Raises `ParameterError` if the probabilities violate this so
    far that no rows within the bounds sum to 2**64.
    """
    rows = nearest_rows(probabilities)
    growth = exp_lower_bound(epsilon)
    low = [max(1, min(column)) for column in zip(*rows, strict=True)]
    high = [weight * growth.numerator // growth.denominator for weight in low]
    return tuple(tuple(fill_row(row, low, high)) for row in rows)


def integer_row(probabilities: ArrayLike, epsilon: float) -> tuple[int, ...]:
    """Return the integer row of a circulant kernel near these probabilities, shape (K,).

    This works like `integer_rows`, but with the same bounds for every code, because a turned row gives every
    code every weight.
    """
    import numpy as np

    (row,) = nearest_rows(np.asarray(probabilities)[None])
    growth = exp_lower_bound(epsilon)
    low = max(1, min(row))
    high = low * growth.numerator // growth.denominator
    return tuple(fill_row(row, [low] * len(row), [high] * len(row)))


def nearest_rows(probabilities: ArrayLike) -> tuple[tuple[int, ...], ...]:
    """Return integer rows near these probabilities, without a bound on ratios; zeros stay zeros.

    This is for (epsilon, delta) mechanisms: their certificate states the exact delta of the resulting
    integers.
    """
    rows = _scaled(probabilities)
    # The room is in proportion to the weight, so the rest of a row goes to its largest weight.
    return tuple(tuple(fill_row(row, [0] * len(row), [2 * weight for weight in row])) for row in rows)


def fill_row(row: Sequence[int], low: Sequence[int], high: Sequence[int]) -> list[int]:
    """Return the row with every weight moved into [low, high] and a sum of exactly 2**64.

    The difference from 2**64 goes to the codes with the smallest relative change. Raises `ParameterError` if
    the bounds leave no room for the sum.
    """
    weights = list(map(min, map(max, row, low), high))
    missing = UNIT - sum(weights)
    step, more, less = (1, high, weights) if missing > 0 else (-1, weights, low)
    room = list(map(sub, more, less))
    change = list(map(min, room, weights))
    # Nearly always the first code has enough room, and no sorting is needed.
    first = change.index(max(change))
    if room[first] >= abs(missing):
        order = [first]
    else:
        order = sorted(range(len(weights)), key=change.__getitem__, reverse=True)
    for code in order:
        part = min(abs(missing), room[code])
        weights[code] += step * part
        missing -= step * part
    if missing:
        raise ParameterError(
            "probabilities must have rows that sum to 1 and ratios within e^epsilon: "
            f"the bounds of the codes leave a row {missing / UNIT:g} away from the sum 1"
        )
    return weights


def _scaled(probabilities: ArrayLike) -> list[list[int]]:
    import numpy as np

    array = np.asarray(probabilities, dtype=np.float64)
    if array.ndim != 2 or not array.size or not (np.isfinite(array).all() and array.min() >= 0.0):
        raise ParameterError("probabilities must be an array of rows of finite non-negative numbers")
    worst: Any = np.abs(array.sum(axis=1) - 1.0).max()
    if worst > 1e-9:
        raise ParameterError(f"probabilities must sum to 1 in every row, got a row that is {worst:g} away")
    # A float times a power of two is exact, and so is rounding it to an integer. It is rounded up: one unit
    # missing from a code's least weight would take e^epsilon units from its largest.
    return [[math.ceil(p) for p in row] for row in (array * 2.0**64).tolist()]
