"""Several releases: Renyi divergences of a dominating pair, added up, and a group of one device's reports.

The largest delta over all pairs, as a function of E, is convex and falling, so it is the curve of one pair of
laws that dominates all pairs (Zhu, Dong and Wang, 2022, proposition 8), and pairs compose. The curve is the
same in both directions, and the Renyi divergence of the order alpha is given by

    e^((alpha - 1) R) = 1 + alpha (alpha - 1) integral from 1 of (E^(alpha - 2) + E^(-alpha - 1)) delta(E) dE.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.central_privacy.inversion import ROUNDOFF, log_chernoff

if TYPE_CHECKING:
    from arcwise.analysis.central_privacy.blanket import Blanket
    from arcwise.typing import FloatArray

_ORDERS = np.unique(np.concatenate((1 + 2.0 ** np.arange(-4, 1, 0.25), np.geomspace(2, 2e6, 320))))
"""The orders whose divergences are added up; the best one for a delta gives the epsilon."""

_POINTS, _POINTS_OF_PAIRS = 160, 80
"""Of the curve between which it is straight; fewer where pairs of nodes are looked at for each."""

_POINTS_APART = 0.01
_LEAST_LOG_DELTA = -120.0
_TRIES = 4
"""Pairs of nodes that are looked at for a point of the curve, where the kernel has few."""


def renyi_divergences(blanket: Blanket, n: int, local: float) -> FloatArray:
    """Return upper bounds of the Renyi divergences of one release, one for each of `_ORDERS`.

    `n` is the number of reports that the bounds may rely on. `local` is an epsilon from which on delta is 0;
    the kernel must have no delta of its own.
    """
    tries = _TRIES if blanket.small() else 0
    low, high = 0.0, local
    while high - low > _POINTS_APART * high:  # where the curve is negligible: points beyond serve nobody
        middle = (low + high) / 2
        if log_chernoff(*blanket.dominating(math.exp(middle)), n) - math.log(n) < _LEAST_LOG_DELTA:
            high = middle
        else:
            low = middle
    epsilons = np.linspace(0, high, _POINTS_OF_PAIRS if tries else _POINTS)
    curve = np.exp([min(0.0, blanket.log_delta(epsilon, n, tries)) for epsilon in epsilons.tolist()])
    curve = np.minimum.accumulate(curve)
    divergences = np.full(_ORDERS.size, np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        for place, order in enumerate(_ORDERS.tolist()):
            grown = _integral(epsilons, curve, order - 1) + _integral(epsilons, curve, -order)
            grown += curve[-1] * (_power(order - 1, high, local) + _power(-order, high, local))
            total = order * (order - 1) * grown
            if math.isfinite(total):
                divergences[place] = math.log1p(total) / (order - 1)
    bounded: FloatArray = np.minimum(divergences, local)
    return bounded


def _power(exponent: float, low: float, high: float) -> float:
    """Return the integral of ``e^(exponent x)`` over [low, high]."""
    if high <= low:
        return 0.0
    return float(np.exp(exponent * low) * np.expm1(exponent * (high - low)) / exponent)


def _integral(epsilons: FloatArray, curve: FloatArray, power: float) -> float:
    """Return an upper bound of the integral of ``e^(power x) delta(e^x)``, from chords of delta."""
    width = float(epsilons[1] - epsilons[0])
    span = math.expm1(width)
    # over a cell that begins at 0: of e^(power x), and of that times the falling part of the chord
    whole = np.expm1(power * width) / power
    more = np.expm1((power + 1) * width) / (power + 1) if power != -1 else width
    falling = (math.exp(width) * whole - more) / span
    cells = np.exp(power * epsilons[:-1])
    total = float(cells @ (curve[1:] * whole + (curve[:-1] - curve[1:]) * falling))
    return total * (1 + 64 * ROUNDOFF / width)


def log_delta_of_renyi(divergences: FloatArray, epsilon: float) -> float:
    """Return the logarithm of the delta that these divergences give (Canonne, Kamath and Steinke, 2020)."""
    found = (_ORDERS - 1) * (divergences - epsilon + np.log1p(-1 / _ORDERS)) - np.log(_ORDERS)
    return float(np.min(found[np.isfinite(found)], initial=0.0))
