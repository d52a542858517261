"""The least worst-case variance of all published mechanisms, for comparison with designed ones.

Zhao et al. (IEEE IoT Journal 2020) mix PM-SUB with three outputs (HM-TP), as Wang et al. (ICDE 2019) mix PM
with Duchi's mechanism (HM). `best_mixture` varies all three parameters of such a mixture: the share of PM,
its s, and the a of the three outputs. Every unbiased mechanism of this package is a member of this family, or
worse than some member, except randomised response, which `best_published_variance` compares separately.

Let beta be the share of PM and tau = beta s. For a given a, the worst case is convex in beta and tau. The
variance at any input is linear in beta except for ``beta c(tau/beta)``, the perspective of a convex function
c. A maximum of convex functions is convex. So every stationary point is a minimum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.finite import (
    duchi_worst_variance,
    randomized_response_nodes,
    randomized_response_worst_variance,
)
from arcwise.mechanisms.closed_forms.piecewise import piecewise_parameter


class Mixture(NamedTuple):
    """A mixture: with the probability `share` PM with this s, otherwise three outputs with this a."""

    share: float
    s: float
    a: float
    worst_variance: float
    """The largest variance over all inputs in [0, 1]."""


def best_mixture(epsilon: float) -> Mixture:
    """Return the mixture of a PM and three outputs that has the least worst-case variance on [0, 1].

    The best a is at an end of [0, E/(E+2)]: 0, which is Duchi's mechanism, below epsilon = 2.03, and E/(E+2)
    above. (This was found by a search over a, which a test repeats.) At a = 0 the variance is a parabola in t
    that opens up or down depending on the share. In both cases its largest value is linear in the share. So
    the best is Duchi's mechanism alone, or the share 1/(1 + kappa) that makes the variance constant, kappa =
    (s+1)/G.
    """
    epsilon = check_epsilon(epsilon)
    flat, capped = _with_duchi(epsilon), mixture_at(epsilon, 1 / (1 + 2 * math.exp(-epsilon)))
    return min(flat, capped, key=lambda mixture: mixture.worst_variance)


def best_published_variance(epsilon: float) -> float:
    """Return the least worst-case variance on [0, 1] of all published unbiased mechanisms.

    These are Duchi's, PM, PM-SUB, PM-OPT, PTT, HM, three outputs and mixtures of them, and randomised
    response on its best grid.
    """
    nodes = randomized_response_nodes(epsilon)
    return min(best_mixture(epsilon).worst_variance, randomized_response_worst_variance(epsilon, nodes))


def mixture_at(epsilon: float, a: float) -> Mixture:
    """Return the best mixture for this a > 0.

    If a > 0, the worst t is unique, so the worst case is smooth in the share and s. Its derivatives are those
    of the variance at the worst t. Both derivatives are increasing, and their roots are bracketed.
    """
    from scipy.optimize import brentq

    growth = math.expm1(epsilon)
    low = math.exp(-epsilon)
    fall = 1 - a * low
    end = (4 * low + growth**2 * low**3 * a) / ((growth * low) ** 2 * fall)  # V of three outputs at t = 1
    slope = ((1 + low) / fall) ** 2 * a / (growth * low)

    def worst(share: float, s: float) -> tuple[float, float, float]:
        """Return 1 - t at the worst t, and both variances there."""
        kappa, c = _of_piecewise(s, growth)
        square = share * kappa - (1 - share)  # the variance is a parabola in y = 1 - t
        linear = -2 * share * kappa + (1 - share) * (2 - slope)
        y = min(1.0, -linear / (2 * square)) if square < 0 < linear else 0.0
        return y, kappa * (1 - y) ** 2 + c, end + y * (2 - y - slope)

    def in_s(s: float, t: float) -> float:
        e = growth + 1
        return 3 * growth * t**2 + 2 * s + 3 + e - 4 * e / s**2 - 2 * e**2 / s**3

    lowest = piecewise_parameter(epsilon, "pm-opt")  # the best s where the worst t is 1
    highest = brentq(in_s, lowest, 2 * lowest + 2, args=(0.0,), xtol=1e-13 * lowest)

    def best_s(share: float) -> float:
        def derivative(s: float) -> float:
            return in_s(s, 1 - worst(share, s)[0])

        if derivative(lowest) >= 0:
            return lowest
        return float(brentq(derivative, lowest, highest, xtol=1e-13 * lowest))

    def in_share(share: float) -> float:
        _, of_piecewise, of_three = worst(share, best_s(share))
        return of_piecewise - of_three

    share = 0.0 if in_share(0.0) >= 0 else 1.0
    if share and in_share(1.0) > 0:
        share = float(brentq(in_share, 0.0, 1.0, xtol=1e-14))
    s = best_s(share)
    _, of_piecewise, of_three = worst(share, s)
    return Mixture(share, s, a, (share * of_piecewise + (1 - share) * of_three) / 4)


def _of_piecewise(s: float, growth: float) -> tuple[float, float]:
    """Return kappa and c: the variance of PM for an input t in [-1, 1] is ``c + kappa t^2``."""
    return (s + 1) / growth, (s + growth + 1) * ((s + 1) ** 3 + growth) / (3 * (s * growth) ** 2)


def _with_duchi(epsilon: float) -> Mixture:
    """Return the better of Duchi's mechanism alone and the best mixture with a constant variance.

    Let c be the variance of PM at t = 0, and D that of Duchi's mechanism there. The constant is (c + kappa D)
    / (1 + kappa).
    """
    from scipy.optimize import minimize_scalar

    growth, alone = math.expm1(epsilon), 4 * duchi_worst_variance(epsilon)

    def constant(s: float) -> float:
        kappa, c = _of_piecewise(s, growth)
        return (c + kappa * alone) / (1 + kappa)

    lowest = piecewise_parameter(epsilon, "pm-opt")
    found = minimize_scalar(
        constant, bounds=(lowest / 4, 4 * lowest), method="bounded", options={"xatol": 1e-9}
    )
    s, best = float(found.x), float(found.fun)
    if best >= alone:
        return Mixture(0.0, s, 0.0, alone / 4)
    return Mixture(growth / (growth + s + 1), s, 0.0, best / 4)
