"""The closed forms of the optimal 3-piece mechanism: levels, half window, expected errors.

It is the *continuous* mechanism of "Optimal Piecewise-based Mechanism for Collecting Bounded Numerical Data
under Local Differential Privacy" (Zheng, Mishra, Hu) on the unit interval and on a circle. It has the density
p inside a window of half width C around the input, and q elsewhere, p = q e^epsilon. The kernels are integer
versions of this mechanism and take their window from this file. The functions take and return scalars. They
use only `math`, because devices import this file.

Levels. The error at the worst input (an end of the interval, or any point of the circle) is least where
C = (1-q) / (2 q (e^epsilon - 1)) and

    (q + k) (1 - q)^k = q^(k+1) (e^epsilon - 1)^k

for the loss ``|y-x|^k``. For k = 1 this gives p = e^(epsilon/2), q = e^(-epsilon/2), and the worst case
``E|y-x| = 1 / (1 + e^(epsilon/2))`` on the unit interval.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from arcwise.checks import checked_integer, checked_real
from arcwise.kernels.certificate import check_epsilon


class Levels(NamedTuple):
    """The densities of the optimal mechanism and its window, on a domain of length 1.

    Attributes
    ----------
    p, q
        Densities inside and outside the window.
    half_window
        Half of the window's width, C.

    Examples
    --------
    >>> p, q, half_window = optimal_levels(1.0)
    >>> round(p, 4), round(q, 4), round(2 * half_window * p + (1 - 2 * half_window) * q, 12)
    (1.6487, 0.6065, 1.0)
    """

    p: float
    q: float
    half_window: float


def half_window(epsilon: float) -> float:
    """Return C(epsilon) = 1 / (2 (1 + e^(epsilon/2))) on a domain of length 1, optimal for ``|y-x|``.

    The paper writes (e^(epsilon/2) - 1) / (2 (e^epsilon - 1)). That is the same number, but 0/0 as epsilon
    goes to 0. On a circle of period T multiply by T.

    Parameters
    ----------
    epsilon
        Privacy of a report, above 0.

    Examples
    --------
    >>> round(half_window(1.0), 6)
    0.18877
    """
    return 0.5 / (1.0 + math.exp(check_epsilon(epsilon) / 2))


def distribution_width(epsilon: float) -> float:
    """Return the width of a circle's window for estimating a distribution, as a share of the circle.

    A window of width w shrinks the k-th harmonic by a factor proportional to ``sin(pi k w) / k``: if ``k w``
    is a whole number, the window hides the harmonic. The optimal window for a distance has the width 2C. This
    is close to 1/2 at a small epsilon and to 1/4 at epsilon 2. So it almost hides the second or the fourth
    harmonic, which many distributions have.

    Up to epsilon 1 the width is 3/8, far from hiding any of the first seven harmonics. At larger epsilon, it
    is 0.6 times 2C, moved to the nearest ``2 / (2j+1)`` for a whole j. A window of this width is half-way
    between hiding the harmonic j and hiding the harmonic j+1. If 0.6 times 2C is below 1/25, where harmonics
    hardly matter, the width is the smaller of 2C and 1/25. The rule is not from a theorem;
    `benchmarks/studies/accuracy.py` measures its accuracy.

    Examples
    --------
    >>> distribution_width(0.25), distribution_width(2.0) == 2 / 13
    (0.375, True)
    """
    width = 2.0 * half_window(epsilon)
    if width >= _WIDEST:
        return _WIDEST
    narrower = 0.6 * width
    if narrower < _NARROWEST:
        return min(width, _NARROWEST)
    return 2.0 / (2 * round(1.0 / narrower - 0.5) + 1)


_WIDEST = 3 / 8
_NARROWEST = 1 / 25


def optimal_levels(epsilon: float, power: float = 1.0) -> Levels:
    """Return the levels and the half window that minimise the worst-case ``E|y-x|^power``.

    The same numbers serve the interval [0, 1] and the circle of circumference 1.

    Parameters
    ----------
    epsilon
        From 0.01 to 20.
    power
        k >= 1, the exponent of the loss.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Examples
    --------
    >>> optimal_levels(1.0, power=2.0).half_window > optimal_levels(1.0).half_window
    True
    """
    epsilon = check_epsilon(epsilon)
    power = checked_real("power", power, least=1)
    if power == 1.0:
        return Levels(math.exp(epsilon / 2), math.exp(-epsilon / 2), half_window(epsilon))
    growth = math.expm1(epsilon)

    def gap(s: float) -> float:
        # log of (left side / right side) at q = 1 - s; increasing in s.
        q = 1.0 - s
        return math.log(q + power) + power * math.log(s / growth) - (power + 1) * math.log(q)

    # The root lies strictly inside (0, 1): gap goes to -inf at 0 and to +inf at 1.
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if gap(middle) < 0:
            low = middle
        else:
            high = middle
    s = 0.5 * (low + high)
    q = 1.0 - s
    if q < 1e-3:
        # 1 - s has lost digits: iterate q = ((q + k) ((1 - q) / growth)^k)^(1/(k+1)), a contraction here.
        # Logarithms are used, because growth^-k is below the range of a float from k = 36 on at epsilon 20.
        for _ in range(60):
            logarithm = math.log(q + power) + power * (math.log1p(-q) - math.log(growth))
            q = math.exp(logarithm / (power + 1.0))
    return Levels(q * (1.0 + growth), q, (1.0 - q) / (2.0 * q * growth))


def interval_expected_error(
    x: float, epsilon: float, power: float = 1.0, *, optimal_for: float | None = None
) -> float:
    """Return ``E|y - x|^power`` of the optimal 3-piece mechanism on [0, 1] for the input x.

    The window is centred on x and pushed inside at the ends ("clamp"). The worst inputs are 0 and 1.

    Parameters
    ----------
    x
        In [0, 1].
    epsilon
        From 0.01 to 20.
    power
        Exponent of the error, at least 1.
    optimal_for
        Exponent of the loss that the mechanism's levels are optimal for; by default `power`.

    Notes
    -----
    With k the power, the error is ``q * int_0^1 |y-x|^k dy + (p - q) * int_window |y-x|^k dy``. Both
    integrals are elementary.

    Examples
    --------
    >>> round(interval_expected_error(0.0, 1.0), 6)  # 1 / (1 + e^(1/2))
    0.377541
    """
    x = checked_real("x", x, least=0, most=1)
    power = checked_real("power", power, least=1)
    p, q, c = optimal_levels(epsilon, power if optimal_for is None else optimal_for)
    start = min(max(x - c, 0.0), 1.0 - 2.0 * c)
    k = power + 1.0
    everywhere = (x**k + (1.0 - x) ** k) / k
    window = (_signed_power(start + 2.0 * c - x, k) - _signed_power(start - x, k)) / k
    return float(q * everywhere + (p - q) * window)


def interval_mean(x: float, epsilon: float, power: float = 1.0) -> float:
    """Return the mean output ``E[y|x]`` of the optimal 3-piece mechanism for an input x in [0, 1].

    `power` is the exponent, at least 1, of the loss that the mechanism is optimal for.

    The mean is ``1/2 + 2 C (p - q) (centre - 1/2)``, where the window's centre is x, moved into the range
    from C to 1 - C. For the default power the factor is ``2 C (p - q) = 1 - e^(-epsilon/2)``. The mechanism
    is biased towards 1/2, and all x within C of an end have the same mean: no function of a report is
    unbiased there. For inputs from C to 1 - C (an inset domain), the mean is linear and can be inverted, as
    the Piecewise Mechanism does.
    """
    x = checked_real("x", x, least=0, most=1)
    p, q, c = optimal_levels(epsilon, power)
    return 0.5 + 2.0 * c * (p - q) * (min(max(x, c), 1.0 - c) - 0.5)


def circle_expected_error(
    epsilon: float, power: float = 1.0, *, period: float = 1.0, optimal_for: float | None = None
) -> float:
    """Return ``E d(y, x)^power`` of circular OPM, the same for every input.

    ``d(y, x) = min(|y-x|, period - |y-x|)`` is the circular distance, in the unit of `period`.

    Parameters
    ----------
    epsilon
        From 0.01 to 20.
    power
        Exponent of the error, at least 1.
    period
        Circumference of the circle.
    optimal_for
        Exponent of the loss that the mechanism's levels are optimal for; by default `power`.

    Examples
    --------
    >>> round(circle_expected_error(1.0, period=360), 3)
    67.957
    """
    power = checked_real("power", power, least=1)
    p, q, c = optimal_levels(epsilon, power if optimal_for is None else optimal_for)
    k = power + 1.0
    return float(period**power * 2.0 * (q * 0.5**k + (p - q) * c**k) / k)


def circle_attenuation(epsilon: float, order: int = 1, *, optimal_for: float = 1.0) -> float:
    """Return rho_k, the factor by which circular OPM shrinks the k-th trigonometric moment.

    ``E exp(i k y) = rho_k exp(i k x)`` with ``rho_k = (p - q) sin(2 pi k C) / (pi k)`` for levels and half
    window on a circle of circumference 1. For the default levels that is
    ``2 sinh(epsilon/2) sin(2 pi k C) / (pi k)``. It vanishes for some orders (k = 3 at epsilon = 2 ln 2), so
    check that it is not 0 before dividing by it.

    Parameters
    ----------
    epsilon
        Privacy of a report, above 0.
    order
        k, at least 1.
    optimal_for
        The power of the error for which the levels are optimal: 1 for ``|y-x|``, 2 for its square.

    Examples
    --------
    >>> round(circle_attenuation(1.0), 6)
    0.307491
    """
    order = checked_integer("order", order, 1)
    p, q, c = optimal_levels(epsilon, optimal_for)
    return (p - q) * math.sin(2.0 * math.pi * order * c) / (math.pi * order)


def _signed_power(z: float, k: float) -> float:
    return math.copysign(abs(z) ** k, z)
