"""Quantiles of an interval: from the fitted distribution, with profile-likelihood intervals.

t is in the interval of the quantile of level tau unless the reports speak against ``F(t) = tau``: unless the
largest likelihood under that constraint is lower than the largest of all by half the chi-square quantile.
Cells' mass is spread uniformly over the cell; the end nodes are atoms at the ends. On a lattice a quantile is
a value, the smallest v with ``F(v) >= tau``, and an end of its interval is the value whose cell it lies in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcwise.server.estimators.few import few_note, join
from arcwise.server.estimators.grid import cell_edges, coarse_note, values_of
from arcwise.server.estimators.profile import METHOD, SMOOTHED, Profile, two_sided_root
from arcwise.server.estimators.quantile_ends import Scale, quantile_ends, signed_root
from arcwise.server.estimators.result import Value
from arcwise.server.estimators.threads import one_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.mechanisms.base import Mechanism
    from arcwise.server.estimators.grid import Values

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = [
    "LEVELS",
    "functional",
    "point",
    "quantile_interval",
    "quantile_note",
    "quantiles",
    "rounding_reach",
    "to_values",
]

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

_FINE = 64
"""Nodes from which what rounding to them does to quantiles is neglected."""


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
    with one_thread():
        profile = Profile(mechanism, counts) if profile is None else profile
        scale = Scale(cell_edges(mechanism), probabilities)
        intervals = [quantile_interval(profile, tau, level, scale=scale) for tau in LEVELS]
    domain = mechanism.domain
    reach = rounding_reach(mechanism)
    result = {}
    # In falling importance; a gap counts against the constraint, so it can only widen an interval.
    common = join(
        profile.note(),
        few_note(float(counts.sum())),
        quantile_note(mechanism),
    )
    for tau, interval in zip(LEVELS, intervals, strict=True):
        low, high = max(interval[0] - reach, 0.0), min(interval[1] + reach, 1.0)
        unit = point(mechanism, probabilities, tau)
        if profile.values is not None:
            low, high = to_values(profile.values, profile.edges, low, high)
        note = ""
        value: float | None = None
        if mechanism.placement == "clamp" and unit in (0.0, 1.0):
            note = "in an end zone, where the reports do not tell values apart"
        else:
            value = float(domain.from_unit(np.float64(unit)))
            # The point comes from a smoother distribution than the most likely one; wider is never wrong.
            low, high = min(low, unit), max(high, unit)
        ends = domain.from_unit(np.array([low, high]))
        result[f"{tau:g}"] = Value(value, float(ends[0]), float(ends[1]), METHOD, join(note, common))
    return result


def quantile_note(mechanism: Mechanism) -> str:
    """Return what a reader of any quantile of this mechanism must know."""
    return join(
        "each end is moved out by 1.5 nodes: rounding to nodes moves quantiles by up to that"
        if rounding_reach(mechanism)
        else "",
        coarse_note(mechanism),
        SMOOTHED,
    )


def rounding_reach(mechanism: Mechanism) -> float:
    """Return how far rounding values to nodes can move a quantile, on the unit interval; 0 for fine grids.

    A value goes to one of the two nodes around it. So all values up to node s go to nodes up to s, and what
    goes there are values below node s+1: a quantile of the rounded values at node s is one of the values
    between the nodes s-1 and s+1. The profile finds it somewhere in the cell of s, half a node to each side.
    """
    if mechanism.kernel.nodes >= _FINE or not mechanism.rounds:
        return 0.0
    at = mechanism.node_units(np.arange(2.0))
    return 1.5 * float(at[1] - at[0])


def to_values(values: Values, edges: FloatArray, low: float, high: float) -> tuple[float, float]:
    """Return the values of a lattice in whose cells two ends lie, on the unit interval."""
    # An end at the very edge of two cells is where the one outside was tried and refused.
    first = min(int(np.searchsorted(edges, low, "right")), len(values.first)) - 1
    last = max(int(np.searchsorted(edges, high, "left")) - 1, 0)
    return float(values.units(values.first[first])), float(values.units(values.last[last]))


def point(mechanism: Mechanism, probabilities: FloatArray, tau: float) -> float:
    """Return the quantile of level `tau` of a node distribution, on the unit interval."""
    values = values_of(mechanism)
    if values is not None:
        cell = min(int(np.searchsorted(np.cumsum(probabilities), tau)), len(probabilities) - 1)
        # In an end zone, which is told, the end of the domain stands for all of it.
        return float(values.units((values.last if cell else values.first)[cell]))
    at_edges = np.cumsum(probabilities)[:-1]  # F at the inner edges of the cells
    if tau <= at_edges[0]:
        return 0.0
    if tau > at_edges[-1]:
        return 1.0
    right = int(np.searchsorted(at_edges, tau))
    share = (tau - at_edges[right - 1]) / (at_edges[right] - at_edges[right - 1])
    edges = cell_edges(mechanism)
    return float(edges[right] + share * (edges[right + 1] - edges[right]))


def functional(edges: FloatArray, unit: float) -> FloatArray:
    """Return the share of each cell's mass that lies at or below `unit`, between the two end cells."""
    below: FloatArray = np.clip((unit - edges[:-1]) / np.diff(edges), 0.0, 1.0)
    below[0], below[-1] = 1.0, 0.0
    return below


def quantile_interval(
    profile: Profile, tau: float, level: float, *, scale: Scale | None = None
) -> tuple[float, float]:
    """Return the interval of the quantile of level `tau` on the unit interval.

    Where within an end cell the mass lies is not told apart: an end that falls there takes in the cell.

    Parameters
    ----------
    profile
        Of an `Interval`.
    tau
        Between 0 and 1.
    level
        Of the interval.
    scale
        Of a distribution that is about that of the counts; the profile's own best unless given.
    """
    bound = two_sided_root(level)
    edges, best = profile.edges, profile.best.probabilities
    scale = Scale(edges, best) if scale is None else scale
    first, last = float(edges[1]), float(edges[-2])
    unclipped = float(np.interp(tau, np.cumsum(best)[:-1], edges[1:-1]))
    middle = min(max(unclipped, first), last)

    def below(unit: float) -> FloatArray:
        return functional(edges, unit)

    # At an end cell's edge: the quantile may lie in the end cell, away from it.
    at_middle = signed_root(profile, below(middle), tau) if middle in (first, last) else 0.0
    limits = ((first, 0.0), (last, 1.0))
    return quantile_ends(profile, below, tau, bound, scale, middle, limits, at_middle=at_middle)
