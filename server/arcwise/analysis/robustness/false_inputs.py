"""The effect of lies about the input on estimates, for a given distribution; nothing is fitted.

Let a share k of the devices lie about the input. The law O of all reported values is ``(1-k) F + k G``, with
F the law of the honest values and G the law of the claims, which may be anything. There are two questions.
Which F are possible for a given O? All that nowhere exceed ``O / (1-k)``. And for a given F, how far can
liars move O?
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import brentq

from arcwise.analysis.estimators.quantiles import LEVELS
from arcwise.analysis.grid import cell_edges, to_domain

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

Span: TypeAlias = tuple[float, float]

_ANGLES = 720
"""Number of directions in which the extent of the set of possible moments is computed; a multiple of 4."""

_NOWHERE = 1e-12
"""Resultant lengths below this are regarded as 0."""

_SCANNED = 1024
"""Places at which a function of one variable is computed, and again around the best of these places."""


class Reach(NamedTuple):
    """The ranges of one estimate that lies about the input make possible.

    `value` is the estimate for the given distribution, or None if the reports do not determine it. If a share
    k of these reports are lies, the value of the honest population lies within `honest`. If the given
    distribution is that of the honest population, a share k of liars can put the estimate anywhere within
    `moved`.
    """

    value: float | None
    honest: Span
    moved: Span


class Law:
    """A distribution on [0, 1]: cells with their mass spread evenly, or an atom if a cell has no width.

    The cells start at `left` and end at `right`, in increasing order; their non-negative masses are scaled to
    sum to 1.
    """

    def __init__(self, left: FloatArray, right: FloatArray, mass: FloatArray) -> None:
        self._left, self._width, self._mass = left, right - left, mass / mass.sum()
        self.levels = np.append(0.0, np.cumsum(self._mass))
        self.levels[-1] = 1.0
        cells = self._mass * np.array([left + right, left**2 + left * right + right**2])
        whole = cells / np.array([[2.0], [3.0]])
        self._before = np.concatenate([np.zeros((2, 1)), np.cumsum(whole, axis=1)], axis=1)

    def quantile(self, level: FloatArray | float, *, upper: bool = False) -> FloatArray:
        """Return the lowest quantiles of some levels, or with `upper` the highest ones."""
        cell, part = self._place(level, upper=upper)
        found: FloatArray = self._left[cell] + part * self._width[cell]
        return found

    def moments(self, level: FloatArray | float) -> FloatArray:
        """Return the integrals of Q and of Q^2 from 0 up to the levels, shape (2, ...); Q is the quantile."""
        cell, part = self._place(level)
        left, width = self._left[cell], self._width[cell]
        first = left + part * width / 2
        second = left**2 + part * left * width + (part * width) ** 2 / 3
        found: FloatArray = self._before[:, cell] + part * self._mass[cell] * np.array([first, second])
        return found

    def _place(
        self, level: FloatArray | float, *, upper: bool = False
    ) -> tuple[NDArray[np.intp], FloatArray]:
        ends = self.levels[1:]
        cell = np.searchsorted(ends, level, side="right" if upper else "left").clip(0, len(ends) - 1)
        above, mass = level - self.levels[cell], self._mass[cell]
        return cell, np.clip(np.where(mass > 0, above / np.where(mass > 0, mass, 1.0), 0.0), 0.0, 1.0)


def interval_reach(mechanism: Mechanism, nodes: FloatArray, share: float) -> dict[str, Reach]:
    """Return the reach of lies on an interval for every estimate, by its name, in the unit of the domain.

    A node's mass in `nodes`, shape (N,), is spread evenly over its cell; at the two end nodes it is an atom.
    "any share" and "distribution" hold differences from the given distribution: of any share of the
    population, and in Wasserstein-1. With the clamp placement, reports do not show where people are in the
    end zones. Ranges then include all of a zone, and variance, standard deviation and distribution are left
    out.

    All ranges are attained. Let k be the share of liars, O the given distribution, M the integral of its
    quantile function Q from 0 up to a level, and m and v its mean and variance. Each point first gives the
    range for the honest values if O is the law of all values, and then the range of the estimate if O is the
    law of the honest values:

    - mean: the honest mean is least if the highest values, a share k, are the lies: ``M(1-k) / (1-k)``. It is
      largest if the lowest values are. Liars with claims of mean x move the mean by ``k (x - m)``.
    - the quantile of level t: at the honest population's quantile, the distribution function of O is between
      ``(1-k) t`` and ``(1-k) t + k``. Liars can move the reported quantile to any place between the honest
      quantiles of the levels ``(t-k) / (1-k)`` and ``t / (1-k)``; a level below 0 or above 1 means the end of
      the domain.
    - a share s: the honest share is from ``(s-k) / (1-k)`` to ``s / (1-k)``. Liars can move the reported
      share to between ``(1-k) s`` and ``(1-k) s + k``. Both ranges differ from s by at most k.
    - variance: see `_variances`. Distribution: see `_farthest`; liars move the distribution by up to
      ``k max(m, 1-m)``.
    """
    edges = cell_edges(mechanism)
    clamp = mechanism.end_zones
    # The positions of people within an end zone are unknown; otherwise the end nodes are atoms at the ends.
    lows = _law(edges, nodes, 0.0, edges[-2] if clamp else 1.0)
    highs = _law(edges, nodes, edges[1] if clamp else 0.0, 1.0)
    kept = 1.0 - share

    def placed(value: float | None, honest: Span, moved: Span) -> Reach:
        spans = [
            (to_domain(mechanism.domain, low), to_domain(mechanism.domain, high))
            for low, high in (honest, moved)
        ]
        return Reach(None if value is None else to_domain(mechanism.domain, value), *spans)

    least, most = float(lows.moments(1.0)[0]), float(highs.moments(1.0)[0])
    low_mean = float(lows.moments(kept)[0]) / kept
    high_mean = (most - float(highs.moments(share)[0])) / kept
    found = {
        "mean": placed(None if clamp else least, (low_mean, high_mean), (kept * least, kept * most + share))
    }
    length = mechanism.domain.length
    if not clamp:
        found |= _spreads(_variances(lows, share), length)
    for tau in LEVELS:
        value = float(lows.quantile(tau))
        told = not clamp or lows.levels[1] < tau <= lows.levels[-2]
        honest = float(lows.quantile(kept * tau)), float(highs.quantile(kept * tau + share, upper=True))
        start = float(lows.quantile((tau - share) / kept)) if tau > share else 0.0
        end = float(highs.quantile(tau / kept, upper=True)) if tau < kept else 1.0
        found[f"quantile {tau:g}"] = placed(value if told else None, honest, (start, end))
    found["any share"] = Reach(0.0, (-share, share), (-share, share))
    if not clamp:
        # (1-k) (F - O) = k (O - G): search for F or G, for the one that is the smaller part of O.
        away = share / kept * _farthest(lows, share) if share <= 0.5 else _farthest(lows, kept)
        pushed = share * max(least, 1.0 - least)
        found["distribution"] = Reach(0.0, (0.0, length * away), (0.0, length * pushed))
    return found


def _law(edges: FloatArray, nodes: FloatArray, first: float, last: float) -> Law:
    left, right = edges[:-1].copy(), edges[1:].copy()
    left[0] = right[0] = first
    left[-1] = right[-1] = last
    return Law(left, right, nodes)


def _spreads(variance: Reach, length: float) -> dict[str, Reach]:
    """Return the variance and its square root, in the unit of the domain."""

    def square(span: Span) -> Span:
        low, high = (min(each * length * length, sys.float_info.max) for each in span)
        return low, high

    def root(span: Span) -> Span:
        return length * math.sqrt(span[0]), length * math.sqrt(span[1])

    value, honest, moved = variance
    here = (value or 0.0,) * 2
    return {
        "variance": Reach(square(here)[0], square(honest), square(moved)),
        "standard deviation": Reach(root(here)[0], root(honest), root(moved)),
    }


def _variances(law: Law, share: float) -> Reach:
    """Return the ranges of the variance.

    ``Var = min over t of E (x-t)^2``. The least honest variance is that of the values nearest to some t, a
    share 1-k; these lie between two quantiles. The largest leaves out the values nearest to some t, a share
    k. Maximum over F and minimum over t may be exchanged, because the expression is linear in F and convex in
    t.

    Liars with claims of mean g and variance u change the variance v to ``(1-k) v + k u + k (1-k) (g-m)^2``.
    Here u is from 0 to ``g (1-g)``, and with that maximum the sum is a parabola in g.
    """
    kept = 1.0 - share
    whole = law.moments(1.0)

    def variance(first: FloatArray, second: FloatArray) -> FloatArray:
        found: FloatArray = np.maximum(second - first**2, 0.0)
        return found

    def inner(start: FloatArray) -> FloatArray:
        return variance(*((law.moments(start + kept) - law.moments(start)) / kept))

    def outer(start: FloatArray) -> FloatArray:
        left_out = law.moments(start + share) - law.moments(start)
        return variance(*((whole[:, None] - left_out) / kept))

    honest = -_largest(lambda at: -inner(at), share, law), _largest(outer, kept, law)
    mean, here = float(whole[0]), float(variance(*whole))
    claimed = min(max((1.0 - 2.0 * kept * mean) / (2.0 * share), 0.0), 1.0)
    most = kept * here + share * claimed * (1.0 - claimed) + share * kept * (claimed - mean) ** 2
    return Reach(here, honest, (kept * here, most))


def _farthest(law: Law, cap: float) -> float:
    """Return the largest Wasserstein-1 distance from O of any G that nowhere exceeds O / cap, cap <= 1/2.

    Let g(u) be the mass of G up to the quantile of O of level u. Then g rises from 0 to 1 with a slope of at
    most 1/cap, and the distance is the integral of ``|g(u) - u|`` over dQ(u), with Q the quantile function of
    O. Suppose g crosses u upwards at c, between two places b and d with g(u) = u (or the ends). Replace g on
    [b, d]. If c lies in the lower half, let the new g rise as fast as possible and then stay constant. On the
    left of c it is further from u than any g below u, because ``u / cap - u >= u``; on the right it is at
    least the old g. In the upper half use the mirror image. So the best g crosses u at most once, downwards
    at some p, and there ``|x - Q(p)|`` attains the distance. G then holds the values of O furthest from Q(p):
    the lowest, a share b, and the highest, a share cap - b, with ``p = b / cap``.
    """
    whole = float(law.moments(1.0)[0])

    def distance(low: FloatArray) -> FloatArray:
        middle = low / cap
        place = law.quantile(middle)
        tails = place * (2 * low - cap) - law.moments(low)[0] + whole - law.moments(low + 1.0 - cap)[0]
        everybody = place * (2 * middle - 1.0) + whole - 2 * law.moments(middle)[0]
        found: FloatArray = tails / cap - everybody
        return found

    return max(_largest(distance, cap, law), 0.0)


def _largest(function: Callable[[FloatArray], FloatArray], width: float, law: Law) -> float:
    """Return the largest value on [0, width], from a scan and a finer scan around the best place."""
    inside = law.levels[law.levels < width]
    at = np.unique(np.concatenate([np.linspace(0.0, width, _SCANNED + 1), inside]))
    values = function(at)
    best = int(np.argmax(values))
    near = function(np.linspace(at[max(best - 1, 0)], at[min(best + 1, len(at) - 1)], _SCANNED + 1))
    return float(max(values[best], near.max()))


def circle_reach(mechanism: Mechanism, nodes: FloatArray, share: float) -> dict[str, Reach]:
    """Return the reach of lies on a circle for every estimate, by its name, in the unit of the domain.

    The mass of `nodes`, shape (N,), is assumed to lie on the nodes. The ranges of the direction are unwrapped
    around it; if all directions are possible, they are as long as the period. "any share" and "distribution"
    hold differences from the given distribution: of any arc or other share, and in circular Wasserstein-1.

    Liars, with the share k, move the first moment Z to ``(1-k) Z + k w``, with w any number in the unit disc.
    Its length R moves to between ``(1-k) R - k`` (or 0) and ``(1-k) R + k``. It turns by at most
    ``asin(k / ((1-k) R))``, or to any direction if that is not defined. The honest moment is one of
    `_Moments`. A share moves as in `interval_reach`.

    Let p(x) be the mean distance of the values from x. Claims G have a distance of at most the mean of p over
    G (a norm is convex). So they move the distribution by up to ``k max p``, which claims of a single x
    attain. The honest distribution's distance is ``k / (1-k)`` times the distance of the lies. The latter is
    at most the mean of p over the values with the largest p, a share k. This bound may not be attained; all
    other bounds are attained.
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
    # (1-k) (F - O) = k (O - G): each side has a bound, and the smaller bound holds.
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
    """The first moments of all F that nowhere exceed O / (1-k): a convex set, given by its support function.

    They are ``(Z - k Z_G) / (1-k)``, with Z_G the moment of a part of O with the share k. So the furthest
    moment in the direction t leaves out the values with the smallest cosine with t, a share k.
    """

    def __init__(self, turns: FloatArray, mass: FloatArray, share: float) -> None:
        self._angles, self._mass, self._share = 2 * math.pi * turns, mass, share
        moment = complex(mass @ np.exp(1j * self._angles))
        self.length, self.angle = min(abs(moment), 1.0), math.atan2(moment.imag, moment.real)
        self._moment = moment
        self._supports = self._support(2 * math.pi * np.arange(_ANGLES) / _ANGLES)

    def _support(self, ahead: FloatArray) -> FloatArray:
        """Return how far the set reaches in directions, shape (T,): `ahead` has their angles from Z's."""
        angles = self.angle + ahead
        cosines = np.cos(self._angles[:, None] - angles)
        whole = (self._moment * np.exp(-1j * angles)).real
        reach: FloatArray = (whole + _top(-cosines, self._mass, self._share)) / (1.0 - self._share)
        return reach

    @property
    def longest(self) -> float:
        """The largest length, or at most a hundred thousandth more, since it lies between two directions."""
        return float(self._supports.max()) / math.cos(math.pi / _ANGLES)

    @property
    def shortest(self) -> float:
        """The smallest length, or a little less; 0 unless a direction shows that the set excludes 0."""
        found = -float(self._supports.min())
        return found if found > _NOWHERE else 0.0

    def turned(self) -> Span:
        """Return the largest turns of the direction backwards and ahead, in radians, if the set excludes 0.

        Some moment has an angle from t to t + pi ahead of Z if the set reaches beyond 0 in the direction
        ``t + pi/2``. This holds for t from 0 to the largest turn ahead, and again for t above pi minus the
        largest turn backwards.
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
    """Return the largest totals of values, shape (N, T), over a part `share` of the mass: shape (T,)."""
    order = np.argsort(-values, axis=0)
    sizes = mass[order]
    taken = np.clip(share - (np.cumsum(sizes, axis=0) - sizes), 0.0, sizes)
    totals: FloatArray = (np.take_along_axis(values, order, axis=0) * taken).sum(axis=0)
    return totals
