"""The profile likelihood of counts: how likely they can be made while a share of the population is held.

A share is a linear functional of the node distribution, each cell's mass spread evenly over the cell; the end
nodes of an interval are atoms at its ends. Nothing else is assumed about the population.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcwise.server.estimators.crossing import NEAR, outer_crossing
from arcwise.server.estimators.few import join
from arcwise.server.estimators.gram import fast_gram
from arcwise.server.estimators.grid import MOST_EXACT, cell_edges, first_cell, values_of
from arcwise.server.estimators.likelihood import Likelihood
from arcwise.server.estimators.rows import code_laws

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.mechanisms.base import Mechanism
    from arcwise.server.estimators.likelihood import Maximum, State

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["GAP", "METHOD", "SMOOTHED", "Profile", "Search", "two_sided_root"]

GAP = 0.005
"""Nats to which every likelihood behind an interval is to be certified."""

METHOD = "from the fitted distribution; profile-likelihood interval"
SMOOTHED = "the value is of a smoothed fit, the interval is not"
"""How a quantile or a share is told, and the note that goes with each."""

_COARSE = 128
"""Nodes that are taken of grids of more than `MOST_EXACT`, with hats between them."""

_CODES = 512


def two_sided_root(level: float) -> float:
    """Return the root of the chi-square quantile with 1 degree of freedom: where an interval ends."""
    return NormalDist().inv_cdf(0.5 + level / 2)


class Profile:
    """The largest log-likelihood of counts, free or with the share of a part of the domain held.

    Parameters
    ----------
    mechanism
        With any kernel, on any domain.
    counts
        Shape (K,), at least one report.

    Attributes
    ----------
    edges
        Shape (M+1,), increasing: the cells on the unit domain, in the order of all functionals here. On a
        circle they span 1 and may start a little below 0.
    rows, counts
        Code probabilities of the cells, shape (M, K'), and reports, (K',). Grids of more than 512 nodes are
        thinned to 128, whose rows are mixed with their neighbours' but for the end nodes of an interval;
        their codes are merged to at most 512.
    best
        The free maximum.
    gap
        The largest certified gap of a likelihood so far.
    margin
        How far from its node a cell's mass may in truth be, on the unit domain: half an inner cell, and 0 on
        a lattice, where each value is a node.
    values
        Those of a lattice on which nothing is rounded, or None.
    thinned
        In words, that the grid was thinned, or "".
    """

    def __init__(self, mechanism: Mechanism, counts: FloatArray) -> None:
        kernel = mechanism.kernel
        if kernel.nodes <= MOST_EXACT:
            nodes = (np.arange(kernel.nodes) + first_cell(mechanism)) % kernel.nodes
            self.edges = cell_edges(mechanism)
            self.rows: FloatArray = kernel.probabilities(nodes)
            self.counts = counts
            gram = fast_gram(kernel, nodes)
            self.thinned = ""
        else:
            self.edges, self.rows, self.counts = _thinned(mechanism, counts)
            gram = None
            self.thinned = (
                f"intervals take {_COARSE} of {kernel.nodes} nodes: with very many reports they may miss "
                "what people at single places do"
            )
        self._likelihood = Likelihood(self.rows, self.counts, gram=gram)
        self.best = self._likelihood.maximize(gap=GAP)
        self.gap = self.best.gap
        self.n = float(counts.sum())
        self.values = values_of(mechanism)
        # End cells may be half as wide as inner ones, or wider.
        inner = float(np.diff(self.edges)[len(self.edges) // 2 - 1])
        self.margin = 0.5 * inner if self.values is None else 0.0
        # About the standard error of a share, for first guesses only.
        self.spread = self._likelihood.spreads(self.best.warm)

    def note(self) -> str:
        """Return what a reader of an interval must know of the likelihoods so far, or ""."""
        loose = f"a likelihood is certified to {self.gap:.2g} only: the interval may be too wide"
        return join(loose if self.gap > GAP else "", self.thinned)

    def search(self, bound: float) -> Search:
        """Return a search for where the root of the likelihood-ratio statistic reaches `bound`."""
        return Search(self, bound)

    def root(self, functional: FloatArray, value: float) -> float:
        """Return the root of the likelihood-ratio statistic of ``functional . f = value``, at least 0.

        Parameters
        ----------
        functional
            Shape (M,), entries from 0 to 1.
        value
            Infinite is the root of values that no distribution has.
        """
        return self.search(math.inf).root(functional, value)

    def held(
        self, functional: FloatArray, value: float, start: State, decisive: tuple[float, float]
    ) -> Maximum:
        """Return the maximum with ``functional . f = value``; see `Likelihood.maximize`."""
        return self._likelihood.maximize(
            functional=functional, value=value, gap=GAP, start=start, decisive=decisive
        )

    def share_end(self, functional: FloatArray, level: float, side: int) -> float:
        """Return the end of the interval of ``functional . f``: the lower one for -1, the upper for +1."""
        bound = two_sided_root(level)
        least, most = float(functional.min()), float(functional.max())
        limit = least if side < 0 else most
        middle = float(functional @ self.best.probabilities)
        # Just inside of the largest possible range, where the likelihood is defined.
        inside = limit - side * 1e-4 * (most - least)
        if (inside - middle) * side <= 0:
            return limit
        search = self.search(bound)
        guess = bound * self.spread(functional)
        end = outer_crossing(lambda value: search.root(functional, value), bound, middle, inside, guess)
        return limit if end is None else end


class Search:
    """Roots of the statistic at nearby constraints, each solved from where the one before was.

    Parameters
    ----------
    profile
        Of the counts.
    bound
        Roots near it are certified; of those below and above only that they are, and that is proved.
    """

    def __init__(self, profile: Profile, bound: float) -> None:
        self._profile = profile
        self._warm = profile.best.warm
        best = profile.best.log_likelihood
        self._decisive = (
            (best - 0.5 * (NEAR * bound) ** 2, best - 0.5 * (0.98 * bound) ** 2)
            if math.isfinite(bound)
            else (-math.inf, math.inf)
        )

    def root(self, functional: FloatArray, value: float) -> float:
        """Return the root of the likelihood-ratio statistic of ``functional . f = value``, at least 0."""
        if not functional.min() < value < functional.max():
            return math.inf
        profile = self._profile
        held = profile.held(functional, value, self._warm, self._decisive)
        self._warm = held.warm
        lowest, highest = held.log_likelihood, held.log_likelihood + held.gap
        best = profile.best.log_likelihood
        if highest < self._decisive[0] or lowest > self._decisive[1]:
            return math.sqrt(2 * max(best - lowest, 0.0))  # on a proved side of the bound
        profile.gap = max(profile.gap, held.gap)
        # The certified upper end of the constrained maximum: an unfinished one cannot narrow the interval.
        return math.sqrt(2 * max(best - highest, 0.0))


def _thinned(mechanism: Mechanism, counts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return edges, rows and counts of fewer nodes and codes: a row is a hat's mixture of the nodes' rows."""
    kernel = mechanism.kernel
    every = np.arange(kernel.nodes)
    if kernel.circular:
        spacing = kernel.nodes / _COARSE
        away = np.abs(every - spacing * np.arange(_COARSE)[:, None])
        away = np.minimum(away, kernel.nodes - away)
        unit = float(mechanism.node_units(np.zeros(1))[0]) - 0.5 / _COARSE
        edges = (np.arange(_COARSE + 1) / _COARSE) + unit
    else:
        nodes = np.linspace(0.0, kernel.nodes - 1.0, _COARSE)
        spacing = nodes[1] - nodes[0]
        away = np.abs(every - nodes[:, None])
        edges = cell_edges(mechanism, nodes)
    hats = np.maximum(1.0 - away / spacing, 0.0)
    if not kernel.circular:
        # The end nodes by themselves: spread over half a hat, an atom at an end would be denied.
        fine = cell_edges(mechanism)
        edges[1], edges[-2] = fine[1], fine[-2]
        for end, inner in ((0, 1), (-1, -2)):
            hats[inner] += hats[end]
            hats[inner, end] = 0.0
            hats[end] = every == every[end]
    rows = code_laws(kernel, hats / hats.sum(axis=1, keepdims=True))
    blocks = np.arange(0, kernel.codes, -(-kernel.codes // _CODES))
    return edges, np.add.reduceat(rows, blocks, axis=1), np.add.reduceat(counts, blocks)
