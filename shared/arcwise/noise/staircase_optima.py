"""The gamma of the staircase distribution that is best for a purpose.

Every function takes epsilon in (0, 50] and returns gamma in [0, 1]; gamma does not depend on the sensitivity.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from arcwise.checks import checked_real
from arcwise.errors import ParameterError
from arcwise.noise.base import checked_epsilon
from arcwise.noise.expectation import Folded, integral
from arcwise.noise.series import lerch_sum

if TYPE_CHECKING:
    from arcwise.noise.expectation import Values


def optimal_gamma(epsilon: float, power: float = 1.0) -> float:
    """Return the gamma with the least ``E|X|^power``.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    power
        Any real number > 0.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the moment out of the range of a float.

    Notes
    -----
    Geng and Viswanath: ``1 / (1 + e^(epsilon/2))`` for power 1 (Theorem 4). For power 2 their Theorem 6 is,
    with b = e^-epsilon and after factoring, ``(((b + b^2) / 2)^(1/3) - b) / (1 - b)``, written here so that
    nothing cancels as epsilon goes to 0. For any other power the cost is ``S(gamma) / D(gamma)`` up to
    constants, S = sum_k b^k (k + gamma)^(power+1) convex and D linear: it is quasi-convex, and the sign of
    ``S' D - S D'`` changes once, from negative at 0 to positive at 1. There gamma is good to about
    1e-15 / epsilon, and what it achieves to much more, since the optimum is flat.

    All tend to 1/2 as epsilon goes to 0 and to 0 as it grows (Theorem 8).
    """
    epsilon, power = checked_epsilon(epsilon), checked_real("power", power, above=0)
    b, above = math.exp(-epsilon), -math.expm1(-epsilon)
    if power == 1.0:
        return 1.0 / (1.0 + math.exp(epsilon / 2.0))
    if power == 2.0:
        return b * math.expm1((2.0 * epsilon + math.log1p(-above / 2.0)) / 3.0) / above
    from scipy import optimize

    if not math.isfinite(float(lerch_sum(epsilon, power + 1.0, 1.0))):
        raise ParameterError(f"power must leave E|X|^power within the range of a float, got {power!r}")

    def slope(gamma: float) -> float:
        value = float(lerch_sum(epsilon, power + 1.0, gamma))
        derivative = (power + 1.0) * float(lerch_sum(epsilon, power, gamma))
        # Divided by the value, so that a large power does not overflow the product.
        return derivative / value * (gamma + b * (1.0 - gamma)) - above

    return float(optimize.brentq(slope, 0.0, 1.0, xtol=1e-300, rtol=1e-15, maxiter=2000))


def gamma_for_loss(epsilon: float, sensitivity: float, loss: Values) -> float:
    """Return the gamma with the least expectation of a loss, a function of ``|x|`` that does not fall.

    Notes
    -----
    With ``G(t) = sum_k b^k loss((k + t) sensitivity)``, ``A(gamma)`` the integral of G up to gamma and b
    times that from there to 1, and D as in `Staircase`, the expectation is A / D up to constants, and its
    slope has the sign of ``G D - A``. That rises with gamma, since G does: from at most 0 at 0 to at least 0
    at 1. Where G is constant, as for a step at a multiple of the sensitivity, every gamma costs the same, and
    the slope is rounding of either sign.
    """
    from scipy import optimize

    epsilon = checked_epsilon(epsilon)
    b, above = math.exp(-epsilon), -math.expm1(-epsilon)
    least = loss(np.zeros(1))  # beside which what is far out may be less than rounding
    folded = Folded(lambda z: loss(z) - least, epsilon, sensitivity)
    whole = integral(folded, [(0.0, sensitivity)]) / sensitivity

    def slope(gamma: float) -> float:
        start = integral(folded, [(0.0, gamma * sensitivity)]) / sensitivity if gamma else 0.0
        value = float(folded(np.array([gamma * sensitivity]))[0])
        return value * (gamma + b * (1.0 - gamma)) - (above * start + b * whole)

    if slope(0.0) >= 0.0:
        return 0.0
    if slope(1.0) <= 0.0:
        return 1.0
    return float(optimize.brentq(slope, 0.0, 1.0, xtol=1e-300, rtol=1e-14, maxiter=2000))


def interval_gamma(epsilon: float, level: float = 0.95) -> float:
    """Return the gamma whose symmetric confidence interval of this level is shortest.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    level
        Between 0 and 1.

    Notes
    -----
    Let the interval end in period k at the position t, both in units of the sensitivity. While t is in the
    upper part of the period, a larger gamma moves the end outwards; while t is in the lower part, inwards.
    The end is nearest where the two meet, t = gamma:

        gamma = b (1 - v) / ((1 - b) v),   v = (1 - level) e^(epsilon k) in (b, 1],

    and the half width is ``(k + gamma) sensitivity``. Soria-Comas and Domingo-Ferrer find the same by a
    numerical search (their Figure 3 and Table 2).
    """
    epsilon = checked_epsilon(epsilon)
    log_s = math.log1p(-checked_real("level", level, above=0, below=1))
    periods = math.floor(-log_s / epsilon)
    gamma = math.exp(-epsilon) * math.expm1(-(log_s + epsilon * periods)) / -math.expm1(-epsilon)
    return min(max(gamma, 0.0), 1.0)


def heuristic_gamma(epsilon: float) -> float:
    """Return ``e^-epsilon / 2``, which depends on no loss (Geng and Viswanath, equation 62).

    It has the right limits, and the probability of noise below ``gamma * sensitivity`` tends to 1/3 as
    epsilon grows.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    """
    return math.exp(-checked_epsilon(epsilon)) / 2.0
