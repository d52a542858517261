"""What lies about the input can do to estimates on an interval, for a given distribution; nothing is fitted.

Of a share k of liars about the input the law O of all reported values is ``(1-k) F + k G``: F of the honest
values, G of the claims, which may be anything. There are two questions. Given O, which F are possible: all
that nowhere exceed ``O / (1-k)``. And given F, how far can O be moved. On circles:
`false_inputs_circle`.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from arcwise.analysis.estimators.quantiles import LEVELS
from arcwise.analysis.grid import cell_edges, to_domain

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

Span: TypeAlias = tuple[float, float]

_SCANNED = 1024
"""Places at which a function of one number is computed, and again between the neighbours of the best."""


class Reach(NamedTuple):
    """Where lies about the input can put one estimate.

    value
        Of the distribution as it is given; None where the reports do not tell it.
    honest
        Between which numbers the honest population's lies, if that share of these reports are lies.
    moved
        Between which numbers such liars can put the estimate, if the distribution is the honest one.
    """

    value: float | None
    honest: Span
    moved: Span


class Law:
    """A distribution on [0, 1]: cells with their mass spread evenly, an atom where a cell has no width.

    The cells start at `left` and end at `right`, in increasing order; their non-negative masses are scaled to
    the sum 1.
    """

    def __init__(self, left: FloatArray, right: FloatArray, mass: FloatArray) -> None:
        self._left, self._width, self._mass = left, right - left, mass / mass.sum()
        self.levels = np.append(0.0, np.cumsum(self._mass))
        self.levels[-1] = 1.0
        cells = self._mass * np.array([left + right, left**2 + left * right + right**2])
        whole = cells / np.array([[2.0], [3.0]])
        self._before = np.concatenate([np.zeros((2, 1)), np.cumsum(whole, axis=1)], axis=1)

    def quantile(self, level: FloatArray | float, *, upper: bool = False) -> FloatArray:
        """Return the quantiles of some levels: the lowest, or the highest where mass leaves a gap."""
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
    """Return the reach of lies about the input for every estimate, by its name, in the unit of the domain.

    A node's mass in `nodes`, shape (N,), is spread evenly over its cell; at the two end nodes it is an atom.
    "any share" and "distribution" hold differences from the given distribution: of any share of the
    population, and in Wasserstein-1. The clamp placement does not show where in the end zones people are:
    there the ranges take in all of them, and spread and distribution are left out.

    All ranges are attained. With k the share of liars, O the given distribution, M the integral of its
    quantile function Q, m and v its mean and variance:

    - mean: the k lowest or the k highest values are the lies, so ``M(1-k) / (1-k)`` is the least; liars move
      it by ``k (x - m)``.
    - a quantile t: ``O`` lies between ``(1-k) t`` and ``(1-k) t + k`` there; liars put it between the
      quantiles ``(t-k) / (1-k)`` and ``t / (1-k)``.
    - a share s: from ``(s-k) / (1-k)`` to ``s / (1-k)``; liars put it between ``(1-k) s`` and
      ``(1-k) s + k``. Both are differences of k at most.
    - variance: `_variances`. Distribution: `_farthest`; liars move it by ``k max(m, 1-m)``.
    """
    edges = cell_edges(mechanism)
    clamp = mechanism.end_zones
    # Where in an end zone people are is not told; otherwise the end nodes are atoms at the ends.
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
        # (1-k) (F - O) = k (O - G): of F and G that one is sought which is the smaller part of O.
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
    """Return the variances.

    With ``Var = min over t of E (x-t)^2``: the least honest one leaves out all but the 1-k nearest to some t,
    which are those between two quantiles; the largest leaves out the k nearest to some t (the order of the
    largest F and the least t does not matter: linear in F, convex in t).

    Liars whose claims have the mean g and the variance u make it ``(1-k) v + k u + k (1-k) (g-m)^2``. u is
    from 0 to ``g (1-g)``, and with that the sum is a parabola in g.
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
    """Return the largest Wasserstein-1 distance from O of a G that nowhere exceeds O / cap, cap up to a half.

    Notes
    -----
    At the level u of O let g(u) be what G has up to there: g rises from 0 to 1 with a slope of at most
    1/cap, and the distance is the integral of ``|g(u) - u|`` over dQ. Where g crosses u upwards at c, between
    two places b and d where g(u) = u (or the ends), it is replaced on [b, d]. When c lies in the lower half,
    rise as fast as possible and then stay: on the left of c that is further from u than any g below it,
    because ``u / cap - u >= u``; on the right it is at least g. In the upper half the mirror image. So the
    best g crosses u at most once, downwards at some p, and there ``|x - Q(p)|`` shows the distance: G holds
    what is furthest from Q(p), the b lowest and the cap - b highest of O, with ``p = b / cap``.
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
    """Return the largest value on [0, width]: scanned, and again around the best."""
    inside = law.levels[law.levels < width]
    at = np.unique(np.concatenate([np.linspace(0.0, width, _SCANNED + 1), inside]))
    values = function(at)
    best = int(np.argmax(values))
    near = function(np.linspace(at[max(best - 1, 0)], at[min(best + 1, len(at) - 1)], _SCANNED + 1))
    return float(max(values[best], near.max()))
