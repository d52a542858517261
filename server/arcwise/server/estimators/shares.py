"""The share of the population between two values of an interval: a bin, a tail, a point of the CDF.

The interval is a profile likelihood's: the shares for which some distribution is likely enough. Nothing is
assumed about the shape of the distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.server.estimators.few import few_note, join
from arcwise.server.estimators.grid import cell_edges, coarse_note
from arcwise.server.estimators.profile import Profile
from arcwise.server.estimators.quantiles import rounding_reach
from arcwise.server.estimators.result import Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.mechanisms.base import Mechanism

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["share"]


def share(
    mechanism: Mechanism,
    counts: FloatArray,
    probabilities: FloatArray,
    low: float,
    high: float,
    *,
    level: float = 0.95,
    profile: Profile | None = None,
) -> Value:
    """Return the share of the population with values from `low` to `high`.

    Parameters
    ----------
    mechanism
        On an `Interval`.
    counts
        Reports per code, shape (K,), at least one report.
    probabilities
        The fitted node distribution, shape (N,): where the point value comes from.
    low, high
        In the unit of the domain, ``low < high``; what lies outside the domain is empty. From the domain's
        low end this is the distribution function at `high`; up to its high end a tail.
    level
        Of the interval.
    profile
        Of these counts, where it is there already.

    Raises
    ------
    ParameterError
        When the domain is a circle, or the bounds are not in order.

    Notes
    -----
    Where a bound falls inside an end cell (for "clamp": an end zone), where in it the mass lies is not told:
    the lower end of the interval counts the cell out, the upper end in. On grids of fewer than 64 nodes the
    bounds are moved by 1.5 nodes, inwards for the lower end and outwards for the upper one, because rounding
    to nodes moves values by up to that.
    """
    domain = mechanism.domain
    if not isinstance(domain, Interval):
        raise ParameterError(f"domain must be an Interval for a share between two values, got {domain!r}")
    if not low < high:
        raise ParameterError(f"low and high must satisfy low < high, got {low!r} and {high!r}")
    first, last = ((bound - domain.low) / domain.length for bound in (low, high))
    edges = cell_edges(mechanism)
    reach = rounding_reach(mechanism)
    with threadpool_limits(limits=1, user_api="blas"):
        profile = Profile(mechanism, counts) if profile is None else profile
        inner = covered(profile.edges, first + reach * (first > 0), last - reach * (last < 1), outer=False)
        outer = covered(profile.edges, first - reach, last + reach, outer=True)
        lower, upper = profile.share_end(inner, level, -1), profile.share_end(outer, level, +1)
    least, most = (float(covered(edges, first, last, outer=side) @ probabilities) for side in (False, True))
    value = None if mechanism.placement == "clamp" and most - least > 1e-9 else 0.5 * (least + most)
    if value is not None:  # it comes from a smoother distribution than the most likely one
        lower, upper = min(lower, value), max(upper, value)
    notes = join(
        few_note(float(counts.sum())),
        "a bound lies in an end zone, where the reports do not tell values apart" if value is None else "",
        "the bounds are moved by 1.5 nodes: rounding to nodes moves values by up to that" if reach else "",
        coarse_note(mechanism),
        "the value is of a smoothed fit, the interval is not",
    )
    return Value(value, lower, upper, "from the fitted distribution; profile-likelihood interval", notes)


def covered(edges: FloatArray, first: float, last: float, *, outer: bool) -> FloatArray:
    """Return which part of each cell lies between two positions; end cells count as a whole or not at all."""
    left, right = edges[:-1], edges[1:]
    part: FloatArray = np.clip((np.minimum(right, last) - np.maximum(left, first)) / (right - left), 0.0, 1.0)
    for end in (0, -1):
        if 0.0 < part[end] < 1.0:
            part[end] = float(outer)
    return part
