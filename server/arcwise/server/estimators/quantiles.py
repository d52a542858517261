"""Quantiles of an interval: from the fitted distribution, with profile-likelihood intervals.

t is in the interval of the quantile of level tau unless the reports speak against ``F(t) = tau``: unless the
largest likelihood under that constraint is lower than the largest of all by half the chi-square quantile.
Cells' mass is spread uniformly over the cell; the end nodes are atoms at the ends.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

from arcwise.server.estimators.few import few_note, join
from arcwise.server.estimators.grid import cell_edges, coarse_note
from arcwise.server.estimators.likelihood import maximize
from arcwise.server.estimators.result import Value
from arcwise.server.estimators.rows import code_laws

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.mechanisms.base import Mechanism

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["LEVELS", "Profile", "point", "quantiles", "rounding_reach"]

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

_GAP = 0.005
"""Nats to which every likelihood behind an interval is to be certified."""

_FINE = 64
"""Nodes from which what rounding to them does to quantiles is neglected."""

_NODES = 128
_CODES = 512


def quantiles(
    mechanism: Mechanism,
    counts: FloatArray,
    probabilities: FloatArray,
    *,
    level: float = 0.95,
    profile: Profile | None = None,
) -> dict[str, Value]:
    """Return the quantiles at `LEVELS`, in the unit of the domain.

    Parameters
    ----------
    mechanism
        On an `Interval`.
    counts
        Reports per code, shape (K,), at least one report.
    probabilities
        The fitted node distribution, shape (N,): where the point values come from.
    level
        Of the intervals.
    profile
        Of these counts, where it is there already.
    """
    # Hundreds of products of small matrices: threads would wait for one another, and take the other cores
    # from whoever collects reports meanwhile.
    with threadpool_limits(limits=1, user_api="blas"):
        profile = Profile(mechanism, counts) if profile is None else profile
        intervals = [profile.interval(tau, level) for tau in LEVELS]
    domain = mechanism.domain
    reach = rounding_reach(mechanism)
    result = {}
    # In falling importance; a gap counts against the constraint, so it can only widen an interval.
    loose = f"a likelihood is certified to {profile.gap:.2g} only: the interval may be too wide"
    common = join(
        loose if profile.gap > _GAP else "",
        few_note(float(counts.sum())),
        "each end is moved out by 1.5 nodes: rounding to nodes moves quantiles by up to that"
        if reach
        else "",
        coarse_note(mechanism),
        "the value is of a smoothed fit, the interval is not",
    )
    for tau, interval in zip(LEVELS, intervals, strict=True):
        low, high = max(interval[0] - reach, 0.0), min(interval[1] + reach, 1.0)
        unit = point(mechanism, probabilities, tau)
        note = ""
        value: float | None = None
        if mechanism.placement == "clamp" and unit in (0.0, 1.0):
            note = "in an end zone, where the reports do not tell values apart"
        else:
            value = float(domain.from_unit(np.float64(unit)))
            # The point comes from a smoother distribution than the most likely one; wider is never wrong.
            low, high = min(low, unit), max(high, unit)
        ends = domain.from_unit(np.array([low, high]))
        method = "from the fitted distribution; profile-likelihood interval"
        result[f"{tau:g}"] = Value(value, float(ends[0]), float(ends[1]), method, join(note, common))
    return result


def rounding_reach(mechanism: Mechanism) -> float:
    """Return how far rounding values to nodes can move a quantile, on the unit interval; 0 for fine grids.

    A value goes to one of the two nodes around it. So all values up to node s go to nodes up to s, and what
    goes there are values below node s+1: a quantile of the rounded values at node s is one of the values
    between the nodes s-1 and s+1. The profile finds it somewhere in the cell of s, half a node to each side.
    """
    at = mechanism.node_units(np.arange(2.0))
    return 1.5 * float(at[1] - at[0]) if mechanism.kernel.nodes < _FINE else 0.0


def point(mechanism: Mechanism, probabilities: FloatArray, tau: float) -> float:
    """Return the quantile of level `tau` of a node distribution, on the unit interval."""
    at_edges = np.cumsum(probabilities)[:-1]  # F at the inner edges of the cells
    if tau <= at_edges[0]:
        return 0.0
    if tau > at_edges[-1]:
        return 1.0
    right = int(np.searchsorted(at_edges, tau))
    share = (tau - at_edges[right - 1]) / (at_edges[right] - at_edges[right - 1])
    edges = cell_edges(mechanism)
    return float(edges[right] + share * (edges[right + 1] - edges[right]))


class Profile:
    """The largest log-likelihood given a point of the distribution function.

    More than 128 nodes are replaced by 128, each a mixture of the nodes within its reach, nearer ones more: a
    code that some node gives weight has weight in some mixture. More than 512 codes are added up in blocks.
    Both cost a little width; where reports are nearly exact, atoms are known to 128 nodes and no finer.
    """

    def __init__(self, mechanism: Mechanism, counts: FloatArray) -> None:
        kernel = mechanism.kernel
        nodes = np.linspace(0.0, kernel.nodes - 1.0, min(kernel.nodes, _NODES))
        self.edges = cell_edges(mechanism, nodes)
        spacing = nodes[1] - nodes[0]
        shares = np.maximum(1.0 - np.abs(np.arange(kernel.nodes) - nodes[:, None]) / spacing, 0.0)
        rows = code_laws(kernel, shares / shares.sum(axis=1, keepdims=True))
        blocks = np.arange(0, kernel.codes, -(-kernel.codes // _CODES))
        self.rows: FloatArray = np.add.reduceat(rows, blocks, axis=1)
        self.counts: FloatArray = np.add.reduceat(counts, blocks)
        # To which ends of intervals are found, then moved outwards by it: well below their width.
        self.resolution = min(1e-3, max(1e-5, 0.05 / math.sqrt(counts.sum())))
        self.best = maximize(self.rows, self.counts, gap=_GAP)
        self.gap = self.best.gap  # the largest so far

    def functional(self, unit: float) -> FloatArray:
        """Return the share of each cell's mass that lies at or below `unit`, between the two end cells."""
        below: FloatArray = np.clip((unit - self.edges[:-1]) / np.diff(self.edges), 0.0, 1.0)
        below[0], below[-1] = 1.0, 0.0
        return below

    def signed_root(self, unit: float, tau: float) -> float:
        """Return the signed root of the likelihood-ratio statistic of ``F(unit) = tau``.

        It is negative below the quantile and increases in `unit`: if some F has ``F(t) = tau``, then at any
        t' between t and the quantile of the best fit a mixture of the two has ``F(t') = tau``, and no lower
        likelihood than F.
        """
        functional = self.functional(unit)
        root = self.root(functional, tau)
        return root if float(functional @ self.best.probabilities) > tau else -root

    def root(self, functional: FloatArray, value: float) -> float:
        """Return the root of the likelihood-ratio statistic of ``functional . f = value``, at least 0."""
        held = maximize(self.rows, self.counts, functional=functional, value=value, gap=_GAP)
        self.gap = max(self.gap, held.gap)
        # The certified upper end of the constrained maximum: an unfinished one cannot narrow the interval.
        return math.sqrt(2 * max(self.best.log_likelihood - held.log_likelihood - held.gap, 0.0))

    def interval(self, tau: float, level: float) -> tuple[float, float]:
        """Return the interval of the quantile of level `tau` on the unit interval.

        Where within an end cell the mass lies is not told apart: an end that falls there takes in the cell.
        """
        bound = NormalDist().inv_cdf(0.5 + level / 2)  # its square is the chi-square quantile, 1 degree
        first, last = float(self.edges[1]), float(self.edges[-2])
        middle = min(max(self._quantile(tau), first), last)
        known = {middle: 0.0}
        known |= {end: self.signed_root(end, tau) for end in (first, last)}

        def crossing(target: float, low: float, high: float) -> float:
            def excess(unit: float) -> float:
                if unit not in known:
                    known[unit] = self.signed_root(unit, tau)
                return known[unit] - target

            return float(brentq(excess, low, high, xtol=self.resolution))

        if known[first] >= -bound:
            low = 0.0
        elif known[last] <= -bound:
            low = last
        else:
            low = crossing(-bound, first, middle) - self.resolution
        if known[last] <= bound:
            high = 1.0
        elif known[first] >= bound:
            high = first
        else:
            high = crossing(bound, middle, last) + self.resolution
        return max(low, 0.0), min(high, 1.0)

    def _quantile(self, tau: float) -> float:
        """Return where the most likely distribution function reaches `tau`."""
        at_edges = np.cumsum(self.best.probabilities)[:-1]
        return float(np.interp(tau, at_edges, self.edges[1:-1]))
