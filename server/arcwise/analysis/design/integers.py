"""Round a solved table to integer weights with exact ratios, exact sums, and means within half a unit.

HiGHS meets its constraints only to 1e-10 at best. Here each code gets integer bounds, a low level and
``floor(low e^epsilon)`` with a rational lower bound of e^epsilon. Weights are moved into these bounds. Then
each row's sum and mean are repaired by moving weight between two codes that have room, in rational
arithmetic. The remaining bias is at most half a unit of 2**-64 times the distance of two outputs.

The room exists because the table is solved at an epsilon slightly below that of the certificate.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from arcwise.kernels.certificate import UNIT, exp_lower_bound
from arcwise.kernels.rounding import fill_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.typing import FloatArray


def integer_table(
    rows: FloatArray,
    top: FloatArray,
    units: Sequence[float],
    epsilon: float,
    *,
    margin: float,
    unbiased: bool,
    symmetric: bool = True,
) -> tuple[tuple[int, ...], ...] | None:
    """Return integer rows near `rows` that keep epsilon, or None if the bounds leave no room.

    `rows`, shape (N, K), are probabilities that keep ``epsilon (1 - margin)``; the margin leaves room for
    repairs. `top`, shape (K,), holds the largest probability of each code, and `units` the output values on
    the unit interval. If `unbiased`, the mean at node s is ``s / (N-1)``. If `symmetric`, the table must be
    unchanged if the order of both nodes and codes is reversed, and the output values must be symmetric about
    1/2. The integer rows then have the same symmetry.
    """
    nodes = len(rows)
    growth = exp_lower_bound(epsilon)
    # Half of the room is below the low level, and half is above the high level.
    shrink = (1.0 - epsilon * margin / 2) / float(growth) * (1.0 + epsilon * margin)
    low = [max(1, int(p * shrink * 2.0**64)) for p in top.tolist()]
    high = [weight * growth.numerator // growth.denominator for weight in low]
    values = [Fraction(unit) for unit in units]
    result: list[tuple[int, ...]] = [()] * nodes
    for node in range((nodes + 1) // 2 if symmetric else nodes):
        weights = [int(p * 2.0**64) for p in rows[node].tolist()]
        if unbiased:
            repaired = _repair(weights, low, high, values, Fraction(node, nodes - 1))
            if repaired is None:
                return None
        else:
            repaired = fill_row(weights, low, high)
        result[node] = tuple(repaired)
        if symmetric and node != nodes - 1 - node:
            result[nodes - 1 - node] = tuple(reversed(repaired))
    return tuple(result)


def _repair(
    weights: list[int], low: list[int], high: list[int], values: list[Fraction], mean: Fraction
) -> list[int] | None:
    """Return weights within their bounds that have the sum 2**64 and, within half a unit, the mean.

    Two codes a and b get the additional weights alpha and beta, which supply the missing sum and mean:
    ``alpha + beta = sum`` and ``alpha v_a + beta v_b = mean``. Pairs that lie far apart need the smallest
    moves, so they are tried first.
    """
    row = [min(max(weight, least), most) for weight, least, most in zip(weights, low, high, strict=True)]
    total = UNIT - sum(row)
    moment = mean * UNIT - sum((w * v for w, v in zip(row, values, strict=True)), Fraction(0))
    pairs = combinations(range(len(row)), 2)
    for a, b in sorted(pairs, key=lambda pair: values[pair[0]] - values[pair[1]]):
        beta = round((moment - total * values[a]) / (values[b] - values[a]))
        first, second = row[a] + total - beta, row[b] + beta
        if low[a] <= first <= high[a] and low[b] <= second <= high[b]:
            row[a], row[b] = first, second
            return row
    return None


def exact_bias(rows: Sequence[Sequence[int]], units: Sequence[float]) -> float:
    """Return the largest ``|E y - x|`` over the nodes on the unit interval, computed without rounding."""
    values = [Fraction(unit) for unit in units]
    last = len(rows) - 1
    means = (sum((w * v for w, v in zip(row, values, strict=True)), Fraction(0)) / UNIT for row in rows)
    return float(max(abs(mean - Fraction(node, last)) for node, mean in enumerate(means)))


def symmetric_row(weights: Sequence[int]) -> tuple[int, ...]:
    """Return a row in which code j and its mirror image K-j share their weights, except for an odd unit.

    Rounding gives all missing units of a row to one code; half of these units belong to the code's mirror
    image. Bounds that held for both codes still hold, and the sum does not change.
    """
    half = len(weights) // 2
    images = [weights[-j % len(weights)] for j in range(len(weights))]
    pairs = zip(weights, images, strict=True)
    return tuple((weight + image + (j > half)) // 2 for j, (weight, image) in enumerate(pairs))
