"""The sums behind box-shaped shells: a geometric series times a product of linear factors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.noise.base import geometric_rvs
from arcwise.noise.series import lerch_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.typing import FloatArray


def box_sum(epsilon: float, constants: Sequence[Any], slopes: Sequence[float]) -> FloatArray:
    """Return ``sum_{i >= 0} b^i prod_l (c_l + i s_l)`` with ``b = e^-epsilon``.

    The constants c_l are non-negative numbers or arrays of one shape, which is the shape of the result; the
    slopes s_l are positive. There is no loop over i: `binomial_coefficients` writes the product in the basis
    of binomials C(i, k), whose series are ``b^k / (1 - b)^(k+1)``. All coefficients are positive.
    """
    return _summed(epsilon, binomial_coefficients(constants, slopes))


def binomial_coefficients(constants: Sequence[Any], slopes: Sequence[float]) -> list[Any]:
    """Return the a_k with ``prod_l (c_l + i s_l) = sum_k a_k C(i, k)`` for all i.

    One factor at a time: ``i C(i, k) = (k+1) C(i, k+1) + k C(i, k)``.
    """
    coefficients: list[Any] = [1]  # integers stay integers
    for c, s in zip(constants, slopes, strict=True):
        coefficients = _times(coefficients, c, s)
    return coefficients


def excess_box_sum(
    epsilon: float, half_widths: Sequence[float], slopes: Sequence[float], gap: float
) -> float:
    """Return ``sum_{i >= 0} b^i (prod_l (h_l + (gap + i) s_l) - prod_l h_l)``, all in positive terms.

    By ``P h' - H h = (P - H) h' + H u s`` for ``h' = h + u s`` and ``u = gap + i``, P and H the products of
    the h alone.
    """
    excess: list[Any] = [0.0]
    product = 1.0
    for h, s in zip(half_widths, slopes, strict=True):
        excess = _times(excess, h + gap * s, s)
        excess[0] += product * gap * s
        excess[1] += product * s
        product *= h
    return float(_summed(epsilon, excess))


def offset_sum(
    epsilon: float, power: float, offset: float, others: Sequence[float], unit: float = 1.0
) -> float:
    """Return ``sum_i b^i (unit (i + offset))^power prod_l (i + others_l)`` for offsets from 0 to 1.

    From epsilon 0.5 on by adding up. Below, the other factors are expanded around `offset`; the many i that
    count then are large against the differences, so that nothing cancels.
    """
    if epsilon >= 0.5:
        from scipy import special

        degree = power + len(others)
        i = np.arange(math.ceil(float(special.gammainccinv(degree + 1.0, 1e-20)) / epsilon) + 3, dtype=float)
        terms = (unit * (i + offset) * np.exp(-epsilon * i / power)) ** power
        for other in others:
            terms *= i + other
        return float(terms.sum())
    expanded = np.polynomial.polynomial.polyfromroots([offset - other for other in others])
    return math.fsum(
        a * unit**-k * float(lerch_sum(epsilon, power + k, offset, unit)) for k, a in enumerate(expanded)
    )


def box_index(
    epsilon: float,
    core: Sequence[float],
    slopes: Sequence[float],
    count: int,
    generator: np.random.Generator,
) -> FloatArray:
    """Return indices, whole floats, with probabilities in proportion to ``b^i prod_l (z_l + i s_l)``.

    In the basis of binomials that is a mixture, over k with positive weights, of k plus k + 1 geometric
    numbers.
    """
    ratio = 1.0 / math.expm1(epsilon)
    coefficients = binomial_coefficients(core, slopes)
    weights = np.cumsum([a * ratio**k for k, a in enumerate(coefficients)])
    k = np.searchsorted(weights[:-1], generator.random(count) * weights[-1], side="right")
    index: FloatArray = k + geometric_rvs(epsilon, count, generator)
    for order in range(1, len(coefficients)):
        more = np.flatnonzero(k >= order)
        index[more] += geometric_rvs(epsilon, more.size, generator)
    return index


def _times(coefficients: list[Any], c: Any, s: float) -> list[Any]:
    longer = [(c + s * k) * a for k, a in enumerate(coefficients)] + [0]
    for k, a in enumerate(coefficients):
        longer[k + 1] = longer[k + 1] + s * (k + 1) * a
    return longer


def _summed(epsilon: float, coefficients: list[Any]) -> FloatArray:
    ratio = 1.0 / math.expm1(epsilon)  # b / (1 - b)
    return np.asarray(sum(a * ratio**k for k, a in enumerate(coefficients)) / -math.expm1(-epsilon))
