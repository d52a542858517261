"""The share of the population between two values: a bin, a tail, a point of the CDF, an arc of a circle.

Also a simultaneous band for the whole distribution function of an interval, and bins with intervals.

On a lattice both ends are included: the share from 0 to 59 is P(0 <= X <= 59). On a continuous domain people
exactly at an end are included too, so two adjacent shares both include people exactly at their common end.
The confidence interval holds for every population (`bounds`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Real
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.estimators.bounds import (
    METHOD,
    SMOOTHED,
    USUAL,
    covariance,
    difference_interval,
    possible,
)
from arcwise.analysis.estimators.result import Band, Value, all_notes
from arcwise.analysis.grid import SINGLE_VALUES, arc_cover, cell_edges, coarse_notes, first_cell, values_of
from arcwise.checks import shown
from arcwise.digits import written
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from arcwise.analysis.estimators.survey import Profile
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

IN_END_ZONE = "a bound lies in an end zone, where the reports do not distinguish values"

_POINTS = 32  # points of the band: more points make its steps lower, but take more time

_ALIKE = 8.0
"""When weights are chosen, the bounds of a band are treated as about this many independent bounds."""

_DRAWS = 4096  # number of draws from the joint law of a band's bounds

_FEWEST_BEYOND = 40.0
"""A quantile is estimated from draws if at least this many draws are beyond it.

Otherwise Bonferroni's quantile is used, which loses little.
"""

_BINS = {False: 10, True: 12}  # bins of an interval, and of a circle (30 degrees, two hours)

_NODES_PER_BIN = 6
"""Least nodes per bin: people between two nodes are seen at both, so narrower bins would show little more."""


def checked_between(between: Any) -> list[tuple[float, float]]:
    """Return pairs (low, high) as a list, or raise `ParameterError`.

    Examples
    --------
    >>> checked_between([(10, 30)])
    [(10, 30)]
    >>> checked_between((10, 30))
    Traceback (most recent call last):
    arcwise.errors.ParameterError: between must hold pairs (low, high), such as [(10, 30)]; got (10, 30)
    """
    pairs = list(between) if isinstance(between, Iterable) and not isinstance(between, str) else [between]
    for pair in pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2 or not all(isinstance(x, Real) for x in pair):
            raise ParameterError(
                f"between must hold pairs (low, high), such as [(10, 30)]; got {shown(between)}"
            )
    return pairs


def share(survey: Profile, low: float, high: float, *, level: float = 0.95) -> Value:
    """Return the share of the population with values from `low` to `high`.

    The ends are in the unit of the domain. On an interval ``low < high``, and an end may lie outside the
    domain, where nobody has a value. If `low` is the domain's low end, the share is the distribution function
    at `high`; if `high` is the domain's high end, it is a tail. On a circle it is the share of the arc from
    `low` upwards to `high`: 350 to 10 passes 0, and so does -10 to 10. On a lattice `low` and `high` may be
    the same value.

    Both ends of the confidence interval include people exactly at `low` and `high`. People between two nodes
    are seen at both nodes, so on a continuous domain the confidence interval is wider by the share near `low`
    and `high`. If `low` or `high` lies inside an end zone of the clamp placement, the lower end of the
    confidence interval is for the share without the zone, and the upper end for the share with the zone.
    """
    return shares(survey, [(low, high)], level=level)[0]


def shares(survey: Profile, pairs: Iterable[tuple[float, float]], *, level: float) -> list[Value]:
    """Return the `share` between each of several pairs of ends; this costs less than separate calls."""
    mechanism = survey.mechanism
    ends = [unit_ends(mechanism, *pair) for pair in pairs]
    if not ends:  # bounds need fits of their own, which are skipped if there are no shares
        return []
    bounds, coarse = survey.bounds, coarse_notes(mechanism)
    averages = bounds.averages([each for pair in ends for each in bounds.places.between(*pair)], USUAL)
    found = []
    for value, over, under in zip(fitted_shares(survey, ends), averages[::2], averages[1::2], strict=True):
        lower, upper = possible(*difference_interval(over, under, 1.0, level), least=0.0)
        if value is not None:  # it is from a smoother distribution, perhaps outside the bounds
            lower, upper = min(lower, value), max(upper, value)
        notes = all_notes(survey.few, IN_END_ZONE if value is None else "", coarse, SMOOTHED)
        found.append(Value(value, lower, upper, METHOD, notes))
    return found


def unit_ends(mechanism: Mechanism, low: float, high: float) -> tuple[float, float]:
    """Return the start and the end of a part of the domain on the unit domain, or raise as `share` does."""
    values = values_of(mechanism)
    find = _turns if mechanism.kernel.circular else _units
    first, last = find(mechanism, low, high, single=values is not None)
    if values is not None:
        places = values.between(first, last)
        if places[0] > places[1]:
            raise ParameterError(
                f"low and high must have a value of {mechanism.domain} between them, got {low!r} and {high!r}"
            )
    return first, last


def fitted_shares(survey: Profile, ends: Iterable[tuple[float, float]]) -> list[float | None]:
    """Return the fitted shares between pairs of places on the unit domain; see `unit_ends`.

    A share is None if an end lies in an end zone of the clamp placement.
    """
    mechanism = survey.mechanism
    values, edges = values_of(mechanism), cell_edges(mechanism)
    fitted = np.roll(survey.probabilities, -first_cell(mechanism))
    found: list[float | None] = []
    for first, last in ends:
        if values is not None:
            places = values.between(first, last)
            least, most = (float(values.covered(*places, outer=side) @ fitted) for side in (False, True))
        elif mechanism.kernel.circular:
            least = most = float(arc_cover(edges, first, last - first) @ fitted)
        else:
            least, most = (float(covered(edges, first, last, outer=side) @ fitted) for side in (False, True))
        zone = mechanism.end_zones and most - least > 1e-9
        found.append(None if zone else min(1.0, 0.5 * (least + most)))  # the sum may be rounded up
    return found


def _units(mechanism: Mechanism, low: float, high: float, *, single: bool) -> tuple[float, float]:
    """Return the ends on the unit interval; `single` permits equal ends."""
    domain = mechanism.domain
    if not (low < high or (single and low == high)):
        raise ParameterError(
            f"low and high must satisfy low {'<=' if single else '<'} high, got {low!r} and {high!r}"
        )
    start = domain.start
    return (low - start) / domain.length, (high - start) / domain.length


def _turns(mechanism: Mechanism, low: float, high: float, *, single: bool) -> tuple[float, float]:
    """Return the start and the end of the arc in turns, the end at most a turn further; see `_units`."""
    period = mechanism.domain.length
    if not (math.isfinite(low) and math.isfinite(high)) or (low == high and not single):
        raise ParameterError(f"low and high must be two different finite numbers, got {low!r} and {high!r}")
    length = 1.0 if high - low >= period else (high - low) / period % 1.0
    if not length and not single:
        raise ParameterError(f"low and high must be two points on the circle, got {low!r} and {high!r}")
    return low / period, low / period + length


def covered(edges: FloatArray, first: float, last: float, *, outer: bool) -> FloatArray:
    """Return the part of each cell between two positions; an end cell counts entirely or not at all."""
    left, right = edges[:-1], edges[1:]
    part: FloatArray = np.clip((np.minimum(right, last) - np.maximum(left, first)) / (right - left), 0.0, 1.0)
    for end in (0, -1):
        if 0.0 < part[end] < 1.0:
            part[end] = float(outer)
    return part


def cdf_band(survey: Profile, *, level: float = 0.95) -> Band:
    """Return a band that contains the population's whole distribution function with probability `level`.

    The survey must be on an `Interval`: on a circle a distribution function has no origin. The points of the
    band are quantiles of the fitted distribution.

    The share below each of m places has an upper and a lower bound (`bounds`). All 2 m bounds use the number
    of standard errors that their joint normal law requires, estimated from draws with a fixed seed.
    Distribution functions increase. So between two places the function is at least the lower end at the left
    place, and at most the upper end at the right place. Nothing else is assumed between them.
    """
    mechanism, bounds = survey.mechanism, survey.bounds
    if mechanism.kernel.circular:
        raise ParameterError("mechanism must be on an interval: on a circle no place is the lowest")
    places = bounds.places
    wanted = (np.arange(_POINTS) + 0.5) / _POINTS
    cells = np.unique(np.searchsorted(np.cumsum(survey.probabilities)[:-1], wanted))
    if places.values is None:
        units = places.at[cells]
        pairs = [places.between(0.0, float(unit)) for unit in units]
    else:
        last = places.values.last[cells]
        units = places.values.units(last)
        pairs = [places.values_between(0, int(value)) for value in last]
    design = NormalDist().inv_cdf(1.0 - (1.0 - level) / _ALIKE)
    averages = bounds.averages([each for pair in pairs for each in pair], design)
    root = joint_root(covariance(averages), level)
    uppers = np.array([average.upper(root) for average in averages])
    high, rest = np.clip(uppers, 0.0, 1.0).reshape(-1, 2).T
    lows = np.maximum.accumulate(1.0 - rest)
    highs = np.minimum.accumulate(high[::-1])[::-1]
    return Band(
        tuple(mechanism.domain.from_unit(units).tolist()),
        tuple(np.minimum(lows, highs).tolist()),
        tuple(np.maximum(lows, highs).tolist()),
        f"simultaneous bounds at {len(units)} places, for every population",
        all_notes(survey.few, coarse_notes(mechanism)),
    )


def joint_root(covariances: FloatArray, level: float) -> float:
    """Return the number of standard errors below which jointly normal averages all stay, at a level."""
    if (1.0 - level) * _DRAWS < _FEWEST_BEYOND:
        return NormalDist().inv_cdf(1.0 - (1.0 - level) / len(covariances))
    errors = np.sqrt(np.diag(covariances))
    errors[errors == 0.0] = 1.0
    correlation = covariances / np.outer(errors, errors)
    np.fill_diagonal(correlation, 1.0)  # an average without an error counts as independent
    values, vectors = np.linalg.eigh(correlation)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(values)))
    largest = (draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T).max(axis=1)
    return float(np.quantile(largest, level, method="higher"))


def bins(survey: Profile, *, level: float = 0.95) -> dict[str, Value]:
    """Return the shares of equally wide bins, 10 on an interval or 12 on a circle, by "low:high".

    There are fewer bins if otherwise a bin would have fewer than six nodes; the result is empty if only one
    bin would remain. On a lattice a bin holds values, and both of its ends are included; on a lattice of up
    to 24 values each value has its own bin. Each interval has the level separately.
    """
    ends = bin_ends(survey.mechanism)
    return dict(zip(ends, shares(survey, ends.values(), level=level), strict=True))


def bin_ends(mechanism: Mechanism) -> dict[str, tuple[float, float]]:
    """Return the start and the end of each bin of `bins`, in the unit of the domain, by "low:high"."""
    kernel, domain = mechanism.kernel, mechanism.domain
    values = values_of(mechanism)
    if values is not None:
        number = values.size if values.size <= SINGLE_VALUES else _BINS[kernel.circular]
        parts = np.array_split(np.arange(values.size), number)
        ends = np.array([[part[0], part[-1]] for part in parts])
        pairs = np.asarray(domain.from_unit(values.units(ends))).tolist()
    else:
        number = min(_BINS[kernel.circular], kernel.nodes // _NODES_PER_BIN)
        if number < 2:
            return {}
        edges = np.asarray(domain.from_unit(np.arange(number) / number)).tolist()
        edges.append(edges[0] + domain.length)
        pairs = list(pairwise(edges))
        if not all(low < high for low, high in pairs):
            return {}  # a domain of a few floats, which cannot represent distinct bins
    return {":".join(written(low, high, digits=9)): (low, high) for low, high in pairs}
