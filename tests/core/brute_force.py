"""Properties of rows, computed without the library's own formulas: e^epsilon, ratios, delta, laws."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from arcwise.domains import Circle
from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.kernels import Kernel
    from arcwise.mechanisms import Mechanism
    from arcwise.typing import FloatArray


@cache
def exp_bounds(epsilon: float) -> tuple[Fraction, Fraction]:
    """Return rational numbers below and above e^epsilon that agree in 99 digits; both are 1 at 0.

    `Decimal.exp` is correctly rounded to nearest, so the neighbours of its result enclose the true value. The
    argument is the smaller of the float and the decimal that the float prints as.
    """
    if epsilon == 0:
        return Fraction(1), Fraction(1)
    with localcontext() as context:
        context.prec = 100
        power = min(Decimal(epsilon), Decimal(repr(epsilon))).exp()
        return Fraction(power.next_minus()), Fraction(power.next_plus())


def largest_ratio(kernel: Kernel) -> Fraction | None:
    """Return the largest ratio of two weights of one code over all pairs of rows; None where one is 0."""
    columns = [*zip(*(kernel.row(node) for node in range(kernel.nodes)), strict=True)]
    if min(map(min, columns)) == 0:
        return None
    return max(Fraction(max(column), min(column)) for column in columns)


def largest_delta(kernel: Kernel, epsilon: float, pairs: Iterable[tuple[int, int]] | None = None) -> int:
    """Return the largest hockey-stick divergence over pairs of rows (all by default), in units."""
    over, under = exp_bounds(epsilon)[0].as_integer_ratio()
    rows = [kernel.row(node) for node in range(kernel.nodes)]
    most = max(
        sum(max(a * under - b * over, 0) for a, b in zip(rows[s], rows[t], strict=True))
        for s, t in pairs or product(range(kernel.nodes), repeat=2)
    )
    return -(-most // under)


def law(mechanism: Mechanism, value: float, position: float | None = None) -> FloatArray:
    """Return the probabilities of the codes for a value: two integer rows, mixed by the fraction.

    The mechanism chooses the two nodes around the value, unless its position among them is given.
    """
    kernel = mechanism.kernel
    if position is None:
        position = mechanism.position(mechanism.domain.to_unit(value))
    node = math.floor(position)
    fraction = position - node
    lower = np.array([weight / UNIT for weight in kernel.row(node % kernel.nodes)])
    upper = np.array([weight / UNIT for weight in kernel.row((node + (fraction > 0)) % kernel.nodes)])
    return (1 - fraction) * lower + fraction * upper


def distances(mechanism: Mechanism, value: float) -> FloatArray:
    """Return the distance from each decoded code to the value, in the unit of the domain."""
    gap = np.abs(mechanism.values - value)
    if isinstance(mechanism.domain, Circle):
        gap = gap % mechanism.domain.period
        gap = np.minimum(gap, mechanism.domain.period - gap)
    return gap
