"""How far shares, quantiles and distribution functions of two populations lie apart, whatever they are.

A difference of two shares is bounded by the sum of an upper bound of one share and one of the complement of
the other (`bounds`, `totals`), so its interval holds for every pair of populations. The samples may be of
two mechanisms on one domain.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc

from arcwise.analysis.estimators.band import bin_ends, joint_root
from arcwise.analysis.estimators.bounds import (
    SMOOTHED,
    USUAL,
    covariance,
    difference_interval,
    possible,
)
from arcwise.analysis.estimators.notes import all_notes
from arcwise.analysis.estimators.quantiles import LEVELS, along_circle, cut_at, point, quantile_ends
from arcwise.analysis.estimators.result import Value, quantile_name
from arcwise.analysis.estimators.shares import IN_END_ZONE, fitted_shares, unit_ends
from arcwise.analysis.estimators.totals import Samples
from arcwise.analysis.grid import coarse_notes
from arcwise.digits import written
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis.estimators.quantiles import Steps
    from arcwise.analysis.estimators.survey import Survey
    from arcwise.analysis.estimators.totals import Total
    from arcwise.typing import FloatArray

_METHOD = "difference of the fitted distributions; bounds that hold for every pair of populations"

_POINTS = 16
"""At which the distribution functions are compared."""

_ALIKE = 8.0
"""About as many bounds that do not depend on one another as all of these: what their weights are made for."""


def share_difference(first: Survey, second: Survey, low: float, high: float, *, level: float = 0.95) -> Value:
    """Return the share of the second population from `low` to `high`, minus that of the first.

    Both surveys are on one domain and have no device in common; `low` and `high` are as for `shares.share`.
    """
    ends = [unit_ends(each.mechanism, low, high) for each in (first, second)]
    pairs = [_between(each, *part) for each, part in zip((first, second), ends, strict=True)]
    over, under = _differences(first, second, [pairs], USUAL)[0]
    # With d the difference, their means are at least 1 + d and 1 - d.
    least, most = difference_interval(over, under, 2.0, level)
    interval = possible(least - 1.0, most - 1.0, least=-1.0)
    return _told(_fitted(first, second, ends), interval, first, second)


def bin_differences(first: Survey, second: Survey, *, level: float = 0.95) -> dict[str, Value]:
    """Return the differences of the shares of `band.bins`, by "low:high", each at the level by itself."""
    return {
        name: share_difference(first, second, *ends, level=level)
        for name, ends in bin_ends(second.mechanism).items()
    }


def cdf_differences(first: Survey, second: Survey, *, level: float = 0.95) -> dict[str, Value]:
    """Return the second distribution function minus the first at up to 16 places, at the level all at once.

    Both surveys are on one interval and have no device in common. Where one of the intervals is without 0,
    the populations differ at the level. The keys are values of the domain: quantiles of both populations
    together.

    Upper and lower bounds use the number of standard errors that their joint normal law requires, as in
    `band.cdf_band`. A place between nodes is seen at both, so the places are nodes of the second mechanism.
    """
    mechanism = second.mechanism
    if mechanism.kernel.circular:
        raise ParameterError("mechanism must be on an interval: on a circle no place is the lowest")
    places = second.bounds.places
    model = 0.5 * second.bounds.fitted
    at = places.at if places.values is None else places.values.units(places.values.last)
    other = np.array([share or 0.0 for share in fitted_shares(first, [(0.0, float(x)) for x in at])])
    upto = np.cumsum(model) + 0.5 * other
    wanted = (np.arange(_POINTS) + 0.5) / _POINTS
    cells = np.unique(np.minimum(np.searchsorted(upto, wanted), len(at) - 2))
    ends = at[cells]
    pairs = [[_between(each, 0.0, float(x)) for each in (first, second)] for x in ends]
    design = NormalDist().inv_cdf(1.0 - (1.0 - level) / _ALIKE)
    totals = _differences(first, second, pairs, design)
    root = joint_root(covariance([each for pair in totals for each in pair]), level)
    names = written(*np.asarray(mechanism.domain.from_unit(ends)).tolist(), digits=9)
    method = f"{_METHOD}, at {len(ends)} places at once"
    found = {}
    for name, x, (over, under) in zip(names, ends.tolist(), totals, strict=True):
        value = _fitted(first, second, [(0.0, x)] * 2)
        interval = possible(1.0 - under.upper(root), over.upper(root) - 1.0, least=-1.0)
        found[name] = replace(_told(value, interval, first, second), method=method)
    return found


def quantile_differences(
    first: Survey, second: Survey, *, level: float = 0.95, origin: float | None = None
) -> dict[str, Value]:
    """Return the quantiles of the second population minus those of the first, in the unit of the domain.

    Both surveys are on one domain and have no device in common; each interval has the level by itself. A
    circle, and only a circle, needs an origin from which both are counted upwards. The differences are those
    of the distances from it, so they lie between plus and minus the period.

    An interval for a quantile leaps where nobody is, so squares of distances do not add up. Instead, both
    quantiles are at once within z_1 and z_2 standard errors with ``z_1^2 + z_2^2 <= c``, and the interval
    holds all differences that this allows. It misses on one side only if one z by itself or both squares
    exceed c on that side: c is where half of the chi-square probability with one degree of freedom and a
    quarter of that with two are the level's tail on that side. At level 0.95 that is 2.35 standard errors in
    place of 1.96; and where both quantiles have wide room between their bounds, 2.10 in place of 1.70.
    """
    circular = second.mechanism.kernel.circular
    if (origin is None) == circular:
        raise ParameterError(
            f"origin must be {'a place of the circle' if circular else 'None on an interval'}, got {origin!r}"
        )
    normal = NormalDist()
    widest = _joint_reach((1.0 - level) / 2)
    lengths, found = [], []
    for each in (first, second):
        cut = 0.0 if origin is None else cut_at(each.mechanism, origin)
        lengths.append(
            [point(each.mechanism, each.probabilities, tau) for tau in LEVELS]
            if origin is None
            else along_circle(each.mechanism, each.probabilities, cut)
        )
        found.append(quantile_ends(each.bounds, level, widest, cut=cut))
    length = second.mechanism.domain.length
    result = {}
    for tau, *pair, one, two in zip(LEVELS, *lengths, *found, strict=True):
        most = _joint_reach(1.0 - normal.cdf(max(one.root, two.root)))
        low, high = -_furthest_apart(one.high, two.low, most), _furthest_apart(two.high, one.low, most)
        apart = pair[1] - pair[0]
        low, high = min(low, high, apart), max(low, high, apart)
        zones = [each for each in (first, second) if each.mechanism.end_zones]
        known = not (zones and {*pair} & {0.0, 1.0})
        result[quantile_name(tau)] = _told(
            length * apart if known else None, (length * low, length * high), first, second
        )
    return result


def _furthest_apart(high: Steps, low: Steps, most: float) -> float:
    """Return the largest distance of an upper end of one quantile from a lower end of another."""
    together = high.roots[:, None] ** 2 + low.roots[None] ** 2 < most**2
    return float((high.at[:, None] - low.at[None])[together].max())


def _joint_reach(tail: float) -> float:
    """Return the root of the c of `quantile_differences`, for the probability of a miss on one side."""

    def excess(square: float) -> float:
        return float(0.5 * chdtrc(1, square) + 0.25 * chdtrc(2, square)) - tail

    return math.sqrt(brentq(excess, 0.0, 100.0))


def _between(sample: Survey, first: float, last: float) -> tuple[FloatArray, FloatArray]:
    return sample.bounds.places.between(first, last)


def _differences(
    first: Survey,
    second: Survey,
    pairs: list[list[tuple[FloatArray, FloatArray]]],
    root: float,
) -> list[tuple[Total, Total]]:
    """Return sums of averages whose means are at least 1 plus and 1 minus the difference of two shares.

    `pairs` holds, for each share and each sample, functionals above it and above the rest. The weights are
    the best ones for `root` standard errors.
    """
    both = Samples([first.bounds, second.bounds], [1.0, 1.0])
    functionals = [
        each for (most_1, rest_1), (most_2, rest_2) in pairs for each in ([rest_1, most_2], [most_1, rest_2])
    ]
    totals = both.totals(functionals, root)
    return list(zip(totals[::2], totals[1::2], strict=True))


def _fitted(first: Survey, second: Survey, ends: Sequence[tuple[float, float]]) -> float | None:
    """Return the difference of two fitted shares, None where one is not known; see `fitted_shares`."""
    one, two = (fitted_shares(each, [part])[0] for each, part in zip((first, second), ends, strict=True))
    return None if one is None or two is None else two - one


def _told(value: float | None, ends: tuple[float, float], first: Survey, second: Survey) -> Value:
    """Return a difference, its interval made to hold the value."""
    low, high = ends
    if value is not None:  # it comes from smoother distributions
        low, high = min(low, high, value), max(low, high, value)
    few = first.few or second.few
    coarse = dict.fromkeys(note for each in (first, second) for note in coarse_notes(each.mechanism))
    notes = all_notes(IN_END_ZONE if value is None else "", few, coarse, SMOOTHED)
    return Value(value, low, high, _METHOD, notes)
