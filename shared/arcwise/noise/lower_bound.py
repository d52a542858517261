"""What no (epsilon, delta)-DP additive noise can be below, for the loss ``|x|^power``."""

from __future__ import annotations

import math

import numpy as np

from arcwise.checks import checked_real
from arcwise.errors import ParameterError
from arcwise.noise.base import checked_delta, checked_epsilon

_BLOCK = 2**20
_MOST_TERMS = 2**28


def approximate_lower_bound(
    epsilon: float, delta: float, sensitivity: float = 1.0, *, power: float = 1.0
) -> float:
    """Return a lower bound of ``E|X|^power`` over all (epsilon, delta)-DP additive noise on the line.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    delta
        More than 0, at most 1/2.
    sensitivity
        Positive; the bound is in its unit, to the given power.
    power
        Any real number > 0.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or so small that the sum below has more than 2**28 terms.

    Notes
    -----
    Let X be such noise, symmetric without loss of generality (averaging with its mirror image keeps both
    privacy and cost), in units of the sensitivity, ``G_k = P(X >= k)``. Then ``G_0 >= 1/2``, and privacy for
    the half line from k gives ``G_k <= e^epsilon G_(k+1) + delta``. By induction

        G_k >= g_k = max(0, 1/2 - a (1 + b + ... + b^(k-1))),   b = e^-epsilon,   a = (1-b)/2 + b delta,

    and the cost is at least ``2 sum_{k >= 1} (k^power - (k-1)^power) g_k``. This is "Tight analysis of
    privacy and utility tradeoff in approximate differential privacy" (Geng, Ding, Guo, Kumar; Theorems 4 and
    5), which assumes an integer n with ``a (1 + ... + b^(n-1)) = 1/2`` and is the same number then. The
    argument above needs no such n: what is left of the half mass stands at the last point, so that the bound
    holds, continuously, at every epsilon and delta.
    """
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta, 0.5)
    sensitivity = checked_real("sensitivity", sensitivity, above=0)
    power = checked_real("power", power, above=0)
    b, above = math.exp(-epsilon), -math.expm1(-epsilon)
    # g_k = b (a b^(k-1) - delta) / (1 - b), positive for k - 1 < log(a / delta) / epsilon. The logarithm is
    # that of 1 + (1 - b) (1 - 2 delta) / (2 delta).
    length = math.log1p(above * (1.0 - 2.0 * delta) / (2.0 * delta)) / epsilon
    terms = math.ceil(length)
    if terms > _MOST_TERMS:
        raise ParameterError(
            f"epsilon and delta must not need more than {_MOST_TERMS} terms, got {epsilon!r} and {delta!r}"
        )
    total = 0.0
    for start in range(1, terms + 1, _BLOCK):
        k = np.arange(start, min(start + _BLOCK, terms + 1), dtype=np.float64)
        # delta (e^(epsilon (length - (k - 1))) - 1), so that nothing cancels where g_k is near 0.
        g = b * delta * np.expm1(np.maximum(epsilon * (length - (k - 1.0)), 0.0)) / above
        # k^power - (k-1)^power, without the difference of near numbers.
        steps = (sensitivity * k) ** power * -np.expm1(power * np.log1p(-1.0 / np.maximum(k, 2.0)))
        steps = np.where(k == 1.0, sensitivity**power, steps)
        total += float(np.dot(steps, g))
    return 2.0 * total
