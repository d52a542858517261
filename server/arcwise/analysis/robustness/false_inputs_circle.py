"""What lies about the input can do to the estimates of a circle; as in `false_inputs`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from arcwise.analysis.robustness.false_inputs import Reach, Span

if TYPE_CHECKING:
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

_ANGLES = 720
"""Directions in which the set of possible moments is measured; a multiple of 4."""

_NOWHERE = 1e-12
"""Resultant lengths below this are 0."""


def circle_reach(mechanism: Mechanism, nodes: FloatArray, share: float) -> dict[str, Reach]:
    """Return the reach of lies about the input for every estimate, by its name, in the unit of the domain.

    The mass of `nodes`, shape (N,), is taken as lying on the nodes. A direction's spans are unwrapped around
    it, and as long as the period where all directions are possible. "any share" and "distribution" hold
    differences from the given distribution: of any arc or other share, and in circular Wasserstein-1.

    Liars, with the share k, move the first moment Z to ``(1-k) Z + k w``, w any number of the unit disc: its
    length R to between ``(1-k) R - k`` (or 0) and ``(1-k) R + k``, and they turn it by at most
    ``asin(k / ((1-k) R))``, or anywhere. The honest moment is one of `_Moments`. A share moves as in
    `false_inputs`.

    With p(x) the mean distance of the values to x, claims G have a distance of at most the mean of p over G
    (a norm is convex), so ``k max p`` is how far they move the distribution, attained by a single x. The
    honest distribution's distance is ``k / (1-k)`` times the distance of the lies, at most the mean of p over
    the k of the values with the largest p. This distance is a bound that need not be attained; all others are
    attained.
    """
    period, kept = mechanism.domain.length, 1.0 - share
    mass = nodes / nodes.sum()
    turns = mechanism.node_units(np.arange(len(mass), dtype=np.float64))
    moments = _Moments(turns, mass, share)
    length = moments.length
    shortest = moments.shortest
    span = shortest, min(moments.longest, 1.0)
    span_moved = max(kept * length - share, 0.0), min(kept * length + share, 1.0)
    pull = share / (kept * length) if length else math.inf
    turn = math.asin(pull) if pull < 1 else math.pi
    value: float | None = None
    honest: Span = (0.0, period)
    moved: Span = (0.0, period)
    if length > _NOWHERE:
        value = moments.angle / (2 * math.pi) % 1.0 * period
        back, ahead = moments.turned() if shortest > 0 else (math.pi, math.pi)
        honest = value - back / (2 * math.pi) * period, value + ahead / (2 * math.pi) * period
        moved = value - turn / (2 * math.pi) * period, value + turn / (2 * math.pi) * period
    places = np.concatenate([turns, turns + 0.5])  # p is linear between these
    apart = np.abs(places[:, None] - turns) % 1.0
    distances = np.minimum(apart, 1.0 - apart) @ mass
    at_nodes = distances[: len(turns), None]
    # (1-k) (F - O) = k (O - G): from either side; what either bounds is a bound.
    away = min(float(_top(at_nodes, mass, each)[0]) for each in (share, kept)) / kept
    return {
        "direction": Reach(value, honest, moved),
        "resultant length": Reach(length, span, span_moved),
        "circular variance": Reach(1.0 - length, _rest(span), _rest(span_moved)),
        "any share": Reach(0.0, (-share, share), (-share, share)),
        "distribution": Reach(0.0, (0.0, period * away), (0.0, period * share * float(distances.max()))),
    }


def _rest(span: Span) -> Span:
    return 1.0 - span[1], 1.0 - span[0]


class _Moments:
    """The first moments of all F that nowhere exceed O / (1-k): a convex set, by its support function.

    They are ``(Z - k Z_G) / (1-k)`` for a k Z_G that a part k of O has, so in the direction t the furthest
    leaves out the k whose cosine with t is the smallest.
    """

    def __init__(self, turns: FloatArray, mass: FloatArray, share: float) -> None:
        self._angles, self._mass, self._share = 2 * math.pi * turns, mass, share
        moment = complex(mass @ np.exp(1j * self._angles))
        self.length, self.angle = min(abs(moment), 1.0), math.atan2(moment.imag, moment.real)
        self._moment = moment
        self._supports = self._support(2 * math.pi * np.arange(_ANGLES) / _ANGLES)

    def _support(self, ahead: FloatArray) -> FloatArray:
        """Return how far the set reaches in directions, shape (T,): angles from that of Z."""
        angles = self.angle + ahead
        cosines = np.cos(self._angles[:, None] - angles)
        whole = (self._moment * np.exp(-1j * angles)).real
        reach: FloatArray = (whole + _top(-cosines, self._mass, self._share)) / (1.0 - self._share)
        return reach

    @property
    def longest(self) -> float:
        """The largest length, or at most a hundred thousandth more: it lies between two directions."""
        return float(self._supports.max()) / math.cos(math.pi / _ANGLES)

    @property
    def shortest(self) -> float:
        """The smallest length, or a little less; 0 where no direction shows that 0 is outside of the set."""
        found = -float(self._supports.min())
        return found if found > _NOWHERE else 0.0

    def turned(self) -> Span:
        """Return how far at most the direction is turned backwards and ahead, in radians; 0 is not in it.

        Some moment has an angle from t to t + pi ahead of Z if the set reaches beyond 0 in the direction
        t + pi/2. It does so for t from 0 to the largest turn ahead, and again from pi less that backwards.
        """
        quarter, half = _ANGLES // 4, _ANGLES // 2
        across = self._supports[(np.arange(half + 1) + quarter) % _ANGLES]
        beyond = np.flatnonzero(across[1:-1] < 0) + 1
        step = 2 * math.pi / _ANGLES

        def crossing(inside: int, outside: int) -> float:
            if across[inside] <= 0:
                return inside * step
            ends = inside * step, outside * step
            return float(brentq(lambda t: self._support(np.array([t + math.pi / 2]))[0], *ends))

        first, last = int(beyond[0]), int(beyond[-1])
        return math.pi - crossing(last + 1, last), crossing(first - 1, first)


def _top(values: FloatArray, mass: FloatArray, share: float) -> FloatArray:
    """Return the largest totals of values over a part `share` of the mass, shape (T,), of values (N, T)."""
    order = np.argsort(-values, axis=0)
    sizes = mass[order]
    taken = np.clip(share - (np.cumsum(sizes, axis=0) - sizes), 0.0, sizes)
    totals: FloatArray = (np.take_along_axis(values, order, axis=0) * taken).sum(axis=0)
    return totals
