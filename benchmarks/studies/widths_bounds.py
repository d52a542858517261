"""A lower bound on the width of an interval of a share that covers on every population.

Not a program. An interval that contains a share a with probability 1 - alpha on *every* population does so on
a population Q with this share. If reports of Q look like those of the given population P, the interval has to
contain a on P, too, although P has another share: "a is outside" is a test of Q against P of level alpha. No
such test finds P more often than that of Neyman and Pearson does, with probability beta(a). So under P

- the expected width is at least the integral of 1 - beta(a) over all a (Pratt 1961; Armstrong and Kolesar
  2018), for any method, and
- the median width is at least b - a for any a and b with beta(a) + beta(b) <= 1/2: the interval then contains
  both in half of the surveys.

Both hold for any Q that are tried. The best solve a quadratic program. A device rounds its value to one of
the two nodes around it, so Q may have an atom exactly at a bound of the part, or slightly beyond. Together
with the nodes, these are its places. Nothing here comes from the estimators.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq, linprog

from arcwise.analysis.grid import cell_edges, first_cell
from arcwise.analysis.simulate import node_law

if TYPE_CHECKING:
    from arcwise.analysis.simulate import Population
    from arcwise.mechanisms import Mechanism
    from arcwise.typing import BoolArray, ComplexArray, FloatArray

__all__ = ["Least", "Places", "least_widths", "places_of", "power"]

DISTANCES = (0.1, 0.5, 0.9, 1.3, 1.8, 2.4, 3.2, 4.2)
"""Approximate distances between P and Q, in standard errors."""

BETWEEN = 4
"""Numbers of mixtures of two neighbouring Q, and of the second itself, for the integral."""

_SAME = 1e-9
"""Share of the domain: a place closer than this is at the node."""

_FULL = 1e-4
"""Share of the population: if all but this much is in the part, its share grows no further."""

_TOLD = 0.05
"""Standard errors between two laws, which tests are given in addition to the reports."""

_MOST_STEPS = 80
_TOLERANCE = 1e-3
"""Distance in nats from the optimum at which the program ends: any Q is valid."""


class Places(NamedTuple):
    """Places of the people of a population, for a part of the domain.

    Attributes
    ----------
    nodes
        The nodes that see the people of a place, shape (M, N): the nodes themselves, and the bounds of the
        part.
    rows
        The codes' law for each place, shape (M, K).
    law
        A population of these places with the reports of the given one, shape (M,).
    inside, beyond
        Places in the part, and places in the rest, shape (M,): at a bound people are in the part, or slightly
        beyond it.
    """

    nodes: FloatArray
    rows: FloatArray
    law: FloatArray
    inside: BoolArray
    beyond: BoolArray


class Curve(NamedTuple):
    """Shares upwards, and the largest probability with which an interval can exclude them.

    The first is the largest one that endless reports do not rule out.
    """

    shares: FloatArray
    powers: FloatArray


class Least(NamedTuple):
    """The least width of an interval: expected, median, and with endless reports."""

    mean: float
    median: float
    identified: float


def places_of(mechanism: Mechanism, population: Population, first: float, last: float) -> Places:
    """Return the places for the part from `first` to `last` of the unit domain, on a circle in turns.

    Raises
    ------
    ValueError
        If the part is the whole domain, which leaves nothing to bound.
    """
    kernel = mechanism.kernel
    count = kernel.nodes
    if (first <= _SAME and last >= 1.0 - _SAME) or last - first >= 1.0 - _SAME:
        raise ValueError(f"first and last must leave a part of the domain out, got {first!r} and {last!r}")
    order = (np.arange(count) + first_cell(mechanism)) % count
    if kernel.circular:
        edges = cell_edges(mechanism)
        at = (edges[1:] + edges[:-1]) / 2
        ends = [first, last]
        inside = (at - first + _SAME) % 1.0 <= last - first + 2 * _SAME
        beyond = (at - last + _SAME) % 1.0 <= 1.0 - (last - first) + 2 * _SAME
    else:
        at = mechanism.node_units(np.arange(count, dtype=np.float64))
        ends = [end for end in (first, last) if _SAME < end < 1.0 - _SAME]
        inside = (at >= first - _SAME) & (at <= last + _SAME)
        beyond = ((at <= first + _SAME) & (first > _SAME)) | ((at >= last - _SAME) & (last < 1.0 - _SAME))
    bounds = np.zeros((len(ends), count))
    for row, end in zip(bounds, ends, strict=True):
        turned = (end - at[0]) % 1.0 + at[0] if kernel.circular else end
        low = min(int(np.searchsorted(at, turned, "right")) - 1, count - 1 if kernel.circular else count - 2)
        high = (low + 1) % count
        part = (turned - at[low]) / (at[1] - at[0])
        row[low], row[high] = 1.0 - part, part
    nodes = np.concatenate([np.eye(count), bounds])
    law = np.append(node_law(mechanism, population)[order], np.zeros(len(ends)))
    both = np.ones(len(ends), dtype=bool)
    return Places(
        nodes,
        nodes @ kernel.probabilities(order),
        law,
        np.append(inside, both),
        np.append(beyond, both),
    )


def least_widths(places: Places, n: int, miss: float) -> Least:
    """Return the least width of an interval that misses no population more often than `miss`.

    Parameters
    ----------
    places
        Places of a part of the domain.
    n
        Number of reports.
    miss
        The probability, from 0 to 1/4.
    """
    up, down = (_curve(places, which, n, miss) for which in (places.inside, places.beyond))
    identified = up.shares[0] + down.shares[0] - 1.0
    mean = (1.0 - miss) * identified + sum(
        float(np.diff(side.shares) @ (1.0 - side.powers[1:])) for side in (up, down)
    )
    budget = np.linspace(miss, 0.5 - miss, 65)
    reach = [
        side.shares[np.searchsorted(side.powers, some, "right") - 1]
        for some, side in ((budget, up), (0.5 - budget, down))
    ]
    return Least(float(mean), float((reach[0] + reach[1]).max()) - 1.0, float(identified))


def power(one: FloatArray, other: FloatArray, n: int, level: float) -> float:
    """Return the power of the best test of one law of the reports against another.

    Parameters
    ----------
    one, other
        Laws of a report, shape (K,), positive.
    n
        Number of reports.
    level
        Level of the test.

    Notes
    -----
    The log-likelihood ratio is a sum over independent reports. Gil-Pelaez inversion of its characteristic
    function by the midpoint rule errs by no more than its probability further than 12 deviations away. To
    remove its steps, the test also gets a normal number, with a mean that separates the laws by `_TOLD`. So
    the result is slightly above the power of the reports alone, never below.
    """
    ratio = np.log(other / one)
    means = n * float(one @ ratio), n * float(other @ ratio)
    spread = math.hypot(_TOLD, math.sqrt(n * float(one @ (ratio - one @ ratio) ** 2)))
    ratio, told = ratio / spread, _TOLD / spread
    middle, end = (means[0] - _TOLD**2 / 2) / spread, (means[1] + _TOLD**2 / 2) / spread
    step = math.pi / (12.0 + end - middle)
    count = math.ceil(8.0 / step)
    while True:
        u = step * (np.arange(count) + 0.5)
        waves, shift = np.exp(1j * u[:, None] * ratio), 1j * u * told * _TOLD / 2
        known = np.exp(-((u * told) ** 2) / 2 - 1j * u * middle) / u
        under = (waves @ one) ** n * known * np.exp(-shift)
        over = (waves @ other) ** n * known * np.exp(shift)
        if max(abs(under[-1]), abs(over[-1])) < 1e-7:
            break
        count *= 2

    def above(at: float, moments: ComplexArray) -> float:
        return 0.5 + step / math.pi * float(np.imag(np.exp(-1j * u * at) * moments).sum())

    at = brentq(lambda at: above(at, under) - level, -8.0, 8.0, xtol=1e-9)
    return min(max(above(at, over), level), 1.0)


def _curve(places: Places, which: BoolArray, n: int, miss: float) -> Curve:
    """Return the possible shares of some places, and how well each shows."""
    truth = places.law @ places.rows
    scaled = places.rows * np.sqrt(n / truth)
    program = _Program(scaled @ scaled.T, places.law, which.astype(np.float64))
    laws = [_same_reports(places, which)]
    pull = 1.0
    for distance in DISTANCES:
        for _ in range(12):
            law, apart = program.solved(pull)
            full = law @ which > 1.0 - _FULL
            if 0.8 * distance < apart < 1.25 * distance or (full and apart < distance):
                break
            pull *= min(max(distance / max(apart, 1e-9), 0.05), 20.0)
        laws.append(law)
        if full:
            break
    shares, powers = [float(laws[0] @ which)], [miss]
    for before, after in pairwise(laws):
        # A mixture's reports show less than those of its parts, so each power holds for all shares before it.
        for k in range(1, BETWEEN + 1):
            law = before + k / BETWEEN * (after - before)
            shares.append(float(law @ which))
            powers.append(power(law @ places.rows, truth, n, miss))
    return Curve(np.array(shares), np.maximum.accumulate(powers))


def _same_reports(places: Places, which: BoolArray) -> FloatArray:
    """Return the population with these reports that has the largest share of some places, shape (M,)."""
    found = linprog(-which.astype(np.float64), A_eq=places.nodes.T, b_eq=places.law @ places.nodes)
    if not found.success:
        raise ArithmeticError(f"no population with these reports was found: {found.message}")
    law: FloatArray = np.maximum(found.x, 0.0) / np.maximum(found.x, 0.0).sum()
    return law


class _Program:
    """The largest ``phi . x - (x - g)' H (x - g) / (2 pull)`` over populations x, by an interior point.

    Parameters
    ----------
    information
        H, shape (M, M).
    law
        The given population g.
    phi
        Shape (M,).
    """

    def __init__(self, information: FloatArray, law: FloatArray, phi: FloatArray) -> None:
        self._information, self._law, self._phi = information, law, phi
        self._home = information @ law

    def solved(self, pull: float) -> tuple[FloatArray, float]:
        """Return x, shape (M,), and its distance from g.

        Raises
        ------
        ArithmeticError
            If the program is not solved in `_MOST_STEPS` steps.
        """
        side = self._home + pull * self._phi
        x = 0.9 * self._law + 0.1 / len(self._law)
        z = 1.0 / x
        level = 0.0
        ones = np.ones_like(x)
        for _ in range(_MOST_STEPS):
            lack = side - self._information @ x - level + z
            gap = float(x @ z)
            if gap < _TOLERANCE and np.abs(lack).max() < _TOLERANCE:
                away = x - self._law
                return x / x.sum(), math.sqrt(max(float(away @ self._information @ away), 0.0))
            factor = cho_factor(self._information + np.diag(z / x), lower=True, check_finite=False)
            over = cho_solve(factor, ones, check_finite=False)
            dx = dz = np.zeros_like(x)
            aim: FloatArray | float = 0.0
            more, reach = 0.0, 0.0
            for corrector in (False, True):
                if corrector:
                    ahead = float((x + reach * dx) @ (z + reach * dz))
                    aim = (ahead / gap) ** 3 * gap / len(x) - dx * dz
                right = lack - z + aim / x
                free = cho_solve(factor, right, check_finite=False)
                more = float(free.sum() - (1.0 - x.sum())) / float(over.sum())
                dx = free - more * over
                dz = (aim - z * dx) / x - z
                shrink = max(float((-dx / x).max()), float((-dz / z).max()))
                reach = min(1.0, 0.99 / shrink) if shrink > 0.0 else 1.0
            x, z, level = x + reach * dx, z + reach * dz, level + reach * more
        raise ArithmeticError(f"a population at pull {pull:g} was not found in {_MOST_STEPS} steps")
