"""The sum that all staircase moments come down to: sum over k of e^(-rate k) (k + offset)^power.

It is Lerch's transcendent at a negative order. Every term is positive, so nothing cancels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from arcwise.typing import FloatArray

_EULER_MACLAURIN_BELOW = 0.5
_ORDERS = 12


def gamma_moment(scale: float, power: float) -> float:
    """Return ``scale^power Gamma(power + 1)``, the moment of an exponential number of this mean.

    By logarithms for large powers, where one factor can overflow and the other vanish.
    """
    from scipy import special

    if power <= 20.0:
        return float(np.float64(scale) ** power * special.gamma(power + 1.0))
    return float(np.exp(power * math.log(scale) + special.gammaln(power + 1.0)))


def lerch_sum(rate: float, power: float, offset: ArrayLike, unit: float = 1.0) -> FloatArray:
    """Return ``sum_{k >= 0} e^(-rate k) (unit (k + offset))^power`` for each offset, nearly exact.

    The rate is positive and the power at least 0, with ``0**0`` as 1. Offsets are non-negative, at most a few
    units. `unit` is positive, and stands inside the power so that nothing overflows unless the sum does; then
    the result is infinite.

    From rate 0.5 on the terms are added up until they no longer count. Below, about ``1 / rate`` terms would
    be needed: there the first N are added, and the Euler-Maclaurin formula gives the rest; its integral is an
    incomplete gamma function and its derivatives are Taylor coefficients of
    ``e^(-rate h) (1 + h / (N + offset))^power``. With N = power + 20 each further order gains a factor of 4
    or more.
    """
    from scipy import special

    v = np.asarray(offset, dtype=np.float64)
    total = np.zeros(v.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        if rate >= _EULER_MACLAURIN_BELOW:
            # The tail of the gamma density with this shape, less than 1e-20 of it, bounds what is left out.
            terms = math.ceil(float(special.gammainccinv(power + 1.0, 1e-20)) / rate) + 3
        else:
            terms = math.ceil(power) + 20
        for k in range(terms):
            total += _term(rate, power, unit * (k + v), k)
        if rate < _EULER_MACLAURIN_BELOW:
            total += _tail(rate, power, v, unit, terms)
    # Infinite terms of both signs meet only where the sum itself is beyond a float.
    return np.where(np.isnan(total), np.inf, total)


def _term(rate: float, power: float, x: FloatArray, k: int) -> NDArray[Any]:
    """Return ``e^(-rate k) x^power``; neither factor overflows unless the product does."""
    if power <= 1.0:
        return np.asarray(math.exp(-rate * k) * x**power)
    return np.asarray((x * math.exp(-rate * k / power)) ** power)


def _tail(rate: float, power: float, v: FloatArray, unit: float, start: int) -> NDArray[Any]:
    """Return the sum from k = `start` on by the Euler-Maclaurin formula."""
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
