"""Series that occur in the moments of staircases on the line and of box-shaped shells."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.noise.base import geometric_rvs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from arcwise.typing import FloatArray

_EULER_MACLAURIN_BELOW = 0.5
_ORDERS = 12


def gamma_moment(scale: float, power: float) -> float:
    """Return ``scale^power Gamma(power + 1)``, the moment of an exponential number with the mean `scale`.

    Large powers use logarithms, because one factor can overflow and the other vanish.
    """
    from scipy import special

    if power <= 20.0:
        return float(np.float64(scale) ** power * special.gamma(power + 1.0))
    return float(np.exp(power * math.log(scale) + special.gammaln(power + 1.0)))


def lerch_sum(rate: float, power: float, offset: ArrayLike, unit: float = 1.0) -> FloatArray:
    """Return ``sum_{k >= 0} e^(-rate k) (unit (k + offset))^power`` for each offset, nearly exactly.

    The sum is Lerch's transcendent at a negative order. Every term is positive, so nothing cancels. The rate
    is positive and the power at least 0, with ``0**0`` as 1. Offsets are non-negative, at most a few units.
    `unit` is positive. It is inside the power, so that no term overflows unless the sum does. If the sum
    overflows, the result is infinite.

    From rate 0.5 on, terms are added up until they are negligible. At a smaller rate, this would take about
    ``1 / rate`` terms. So only the first N terms are added, and the Euler-Maclaurin formula gives the sum of
    the remaining terms. Its integral is an incomplete gamma function, and its derivatives are Taylor
    coefficients of ``e^(-rate h) (1 + h / (N + offset))^power``. With N = power + 20 each further order
    reduces the error by a factor of 4 or more.
    """
    from scipy import special

    v = np.asarray(offset, dtype=np.float64)
    total = np.zeros(v.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        if rate >= _EULER_MACLAURIN_BELOW:
            # The tail of the gamma density with this shape bounds the omitted terms; it is a share below
            # 1e-20.
            terms = math.ceil(float(special.gammainccinv(power + 1.0, 1e-20)) / rate) + 3
        else:
            terms = math.ceil(power) + 20
        for k in range(terms):
            total += _term(rate, power, unit * (k + v), k)
        if rate < _EULER_MACLAURIN_BELOW:
            total += _tail(rate, power, v, unit, terms)
    # Infinite terms of both signs only occur together if the sum itself exceeds the range of a float.
    return np.where(np.isnan(total), np.inf, total)


def _term(rate: float, power: float, x: FloatArray, k: int) -> NDArray[Any]:
    """Return ``e^(-rate k) x^power``; neither factor overflows unless the product does."""
    if power <= 1.0:
        return np.asarray(math.exp(-rate * k) * x**power)
    return np.asarray((x * math.exp(-rate * k / power)) ** power)


def _tail(rate: float, power: float, v: FloatArray, unit: float, start: int) -> NDArray[Any]:
    """Return the sum from k = `start` on, by the Euler-Maclaurin formula."""
    from scipy import special

    x = start + v
    first = _term(rate, power, unit * x, start)
    exponential = [1.0]
    binomial = [np.ones(v.shape)]
    for n in range(1, 2 * _ORDERS):
        exponential.append(exponential[-1] * -rate / n)
        binomial.append(binomial[-1] * ((power - n + 1) / n) / x)
    scale = gamma_moment(unit / rate, power) / rate
    result = np.exp(rate * v) * special.gammaincc(power + 1.0, rate * x) * scale + first / 2
    numbers = special.bernoulli(2 * _ORDERS)
    for j in range(1, _ORDERS + 1):
        order = 2 * j - 1
        taylor = sum(exponential[i] * binomial[order - i] for i in range(order + 1))
        result = result - numbers[2 * j] / (2 * j) * taylor * first
    return np.asarray(result)


def box_sum(epsilon: float, constants: Sequence[Any], slopes: Sequence[float]) -> FloatArray:
    """Return ``sum_{i >= 0} b^i prod_l (c_l + i s_l)`` with ``b = e^-epsilon``.

    The constants c_l are non-negative numbers or arrays of one shape, which is the shape of the result; the
    slopes s_l are positive. There is no loop over i. `binomial_coefficients` writes the product in the basis
    of binomials C(i, k), and their series are ``b^k / (1 - b)^(k+1)``. All coefficients are positive.
    """
    return _summed(epsilon, binomial_coefficients(constants, slopes))


def binomial_coefficients(constants: Sequence[Any], slopes: Sequence[float]) -> list[Any]:
    """Return the a_k with ``prod_l (c_l + i s_l) = sum_k a_k C(i, k)`` for all i.

    The function handles one factor at a time, with ``i C(i, k) = (k+1) C(i, k+1) + k C(i, k)``.
    """
    coefficients: list[Any] = [1]  # integers stay integers
    for c, s in zip(constants, slopes, strict=True):
        coefficients = _times(coefficients, c, s)
    return coefficients


def excess_box_sum(
    epsilon: float, half_widths: Sequence[float], slopes: Sequence[float], gap: float
) -> float:
    """Return ``sum_{i >= 0} b^i (prod_l (h_l + (gap + i) s_l) - prod_l h_l)``, all in positive terms.

    The function uses ``P h' - H h = (P - H) h' + H u s`` for ``h' = h + u s`` and ``u = gap + i``. P is the
    product of all h' so far, and H is the product of all h so far.
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
    """Return ``sum_{i >= 0} b^i (unit (i + offset))^power prod_l (i + others_l)`` for offsets from 0 to 1.

    Here ``b = e^-epsilon``. From epsilon 0.5 on, the terms are added up. At a smaller epsilon, the other
    factors are expanded around `offset`. Then many i count, and most of them are large compared with the
    differences between `others` and `offset`, so nothing cancels.
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
    """Return random indices i, whole floats, with probabilities proportional to ``b^i prod_l (z_l + i s_l)``.

    In the basis of binomials this is a mixture over k with positive weights. For each k, the index is k plus
    the sum of k + 1 geometric numbers.
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
