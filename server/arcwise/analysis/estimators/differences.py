"""Differences of two populations, from two sets of counts: of means, directions, shares and quantiles.

A difference of two shares is bounded by the sum of an upper bound of one share and an upper bound of the
complement of the other (`bounds`). So its interval holds for every pair of populations. The samples may come
from two mechanisms on one domain.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc, stdtrit

from arcwise.analysis.estimators.bounds import (
    SMOOTHED,
    USUAL,
    Samples,
    covariance,
    difference_interval,
    possible,
)
from arcwise.analysis.estimators.direction import direction, resultant_length
from arcwise.analysis.estimators.mean import average, mean, reaches
from arcwise.analysis.estimators.quantiles import LEVELS, along_circle, cut_at, point, quantile_ends
from arcwise.analysis.estimators.result import Value, all_notes, quantile_name
from arcwise.analysis.estimators.shares import IN_END_ZONE, bin_ends, fitted_shares, joint_root, unit_ends
from arcwise.analysis.estimators.survey import check_enough
from arcwise.analysis.estimators.unbiasing import mean_numbers
from arcwise.analysis.grid import coarse_notes
from arcwise.digits import written
from arcwise.errors import ParameterError
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis.estimators.bounds import Total
    from arcwise.analysis.estimators.quantiles import Steps
    from arcwise.analysis.estimators.survey import Survey
    from arcwise.typing import FloatArray

_WHOSE = {
    "population": "of the populations, not only of the devices that reported",
    "users": "of the devices that reported, not of the populations they were drawn from",
}

_METHOD = "difference of the fitted distributions; bounds that hold for every pair of populations"

_POINTS = 16  # places at which the distribution functions are compared

_ALIKE = 8.0
"""When weights are chosen, all bounds together are treated as about this many independent bounds."""


def mean_difference(first: Survey, second: Survey, *, level: float = 0.95) -> Value:
    """Return the mean of the second population minus that of the first, in the unit of the domains.

    Both surveys are on an `Interval`, have at least two devices each and the same target: the populations, or
    the two sets of users themselves. No device may be in both surveys, since the interval treats the two sets
    of reports as independent.

    If both means are unbiased, the error on each side is the root of the summed squares of the means' errors
    on that side (`mean.reaches`). So the interval is not symmetric for skewed populations (Zou and Donner
    2008). The quantile is Student's with the Welch-Satterthwaite degrees of freedom. If one mean is a range
    of possible values, the result is the range of differences, without a point. Each mean's range then has
    the level ``(1 + level) / 2`` (Bonferroni).
    """
    for name, each in (("first", first), ("second", second)):
        if each.mechanism.domain.circular:
            raise ParameterError(
                f"domain must be an Interval for a difference of means, got {each.mechanism.domain!r}"
            )
        check_enough(name, each)
    notes = first.few or second.few, _WHOSE[second.target]
    if not (_unbiased(first) and _unbiased(second)):
        one, other = (mean(each, level=(1.0 + level) / 2) for each in (first, second))
        assert one.low is not None and one.high is not None  # noqa: S101, PT018 (means have intervals)
        assert other.low is not None and other.high is not None  # noqa: S101, PT018
        return Value(
            None,
            other.low - one.high,
            other.high - one.low,
            "range of possible differences: each mean's range at half the error",
            all_notes(
                notes[0], "one of the means is a range, so no single difference can be estimated", notes[1]
            ),
        )
    both = [(each, mean_numbers(each.mechanism, each.n).values) for each in (first, second)]
    (before, error), (after, other_error) = (average(*each) for each in both)
    domain, other_domain = first.mechanism.domain, second.mechanism.domain
    # In the longer of the two units: the square of a very short or very long unit may not fit a float.
    longer = max(domain.length, other_domain.length)
    squares = [(domain.length * error / longer) ** 2, (other_domain.length * other_error / longer) ** 2]
    parts = (square**2 / (each.devices - 1.0) for square, (each, _) in zip(squares, both, strict=True))
    quantile = float(stdtrit(sum(squares) ** 2 / sum(parts), 0.5 + level / 2))
    below, above = _apart(*(_reaches(*each, quantile) for each in both))
    difference = other_domain.start + other_domain.length * after - (domain.start + domain.length * before)
    source = "empirical likelihood" if second.target == "population" else "the devices' randomness"
    return Value(
        difference,
        difference - below,
        difference + above,
        f"difference of averages of unbiased numbers; errors of both by {source}, added in squares, with "
        "Welch's degrees of freedom",
        all_notes(*notes),
    )


def direction_difference(first: Survey, second: Survey, *, level: float = 0.95) -> Value:
    """Return the mean direction of the second population minus that of the first, in the unit of the domain.

    Both surveys are on a `Circle` and have the same target, and no device may be in both. The value is the
    shorter way round, from minus half the period to half the period, and the interval is unwrapped. The
    interval is a whole period if one of the directions is not determined.

    On each side, the reach is the root of the summed squares of both arcs, as for the errors of means. An arc
    grows faster than its number of standard errors, so the interval tends to be too wide rather than too
    narrow.
    """
    period, notes = _circle(first, second)
    one, other = (direction(each, level=level) for each in (first, second))
    method = "difference of mean directions; both arcs, added in squares"
    if one.value is None or other.value is None:
        return Value(
            None, -period / 2, period / 2, method, all_notes("a direction cannot be estimated", notes)
        )
    apart = (other.value - one.value + period / 2) % period - period / 2
    sides = _sides(one), _sides(other)
    below, above = _apart(*sides)
    if max(*map(sum, sides), below + above) >= period:
        below = above = period / 2
        notes = all_notes("a direction is not determined", notes)
    return Value(apart, apart - below, apart + above, method, notes)


def length_difference(first: Survey, second: Survey, *, level: float = 0.95) -> Value:
    """Return the resultant length of the second population minus that of the first, from -1 to 1.

    Parameters, errors and method are those of `direction_difference`, except if the interval of one of the
    lengths ends at 0 or 1. No length lies beyond, so one length may well be at such an end while the other
    length is at the end of its own interval. On such a side the reaches are added without squares.
    """
    _, notes = _circle(first, second)
    one, other = (resultant_length(each, level=level) for each in (first, second))
    method = "difference of resultant lengths; both intervals, added in squares"
    if one.value is None or other.value is None:
        return Value(None, -1.0, 1.0, method, all_notes("a resultant length cannot be estimated", notes))
    apart = other.value - one.value
    (below_1, above_1), (below_2, above_2) = sides = _sides(one), _sides(other)
    below, above = _apart(*sides)
    if one.high == 1.0 or other.low == 0.0:
        below = below_2 + above_1
    if one.low == 0.0 or other.high == 1.0:
        above = above_2 + below_1
    return Value(apart, max(apart - below, -1.0), min(apart + above, 1.0), method, notes)


def _circle(first: Survey, second: Survey) -> tuple[float, tuple[str, ...]]:
    """Return the period and the notes of both samples, or raise if they are not on the same circle."""
    for each in (first, second):
        if not each.mechanism.kernel.circular:
            raise ParameterError(
                f"domain must be a Circle for a difference of directions, got {each.mechanism.domain!r}"
            )
    one, other = (each.mechanism.domain.length for each in (first, second))
    if one != other:
        raise ParameterError(f"the circles must have the same period, got {one:g} and {other:g}")
    return one, all_notes(first.few or second.few, _WHOSE[second.target])


def _apart(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Return the reach of a difference below and above: the reaches of both values, added in squares."""
    (below_1, above_1), (below_2, above_2) = one, other
    return math.hypot(below_2, above_1), math.hypot(above_2, below_1)


def _sides(value: Value) -> tuple[float, float]:
    """Return how far an interval reaches below and above its value."""
    assert value.value is not None and value.low is not None and value.high is not None  # noqa: S101, PT018
    return value.value - value.low, value.high - value.value


def _unbiased(survey: Survey) -> bool:
    mechanism = survey.mechanism
    if mechanism.end_zones and isinstance(mechanism.kernel, WindowKernel):
        return False
    return not mean_numbers(mechanism, survey.n).bias


def _reaches(survey: Survey, numbers: FloatArray, quantile: float) -> tuple[float, float]:
    """Return how far below and above its average a mean may lie, in the unit of the domain."""
    _, below, above = reaches(survey, numbers, quantile)
    return survey.mechanism.domain.length * below, survey.mechanism.domain.length * above


def share_difference(first: Survey, second: Survey, low: float, high: float, *, level: float = 0.95) -> Value:
    """Return the share of the second population from `low` to `high`, minus that of the first.

    Both surveys are on one domain, and no device may be in both; `low` and `high` are as for `shares.share`.
    """
    ends = [unit_ends(each.mechanism, low, high) for each in (first, second)]
    pairs = [_between(each, *part) for each, part in zip((first, second), ends, strict=True)]
    over, under = _differences(first, second, [pairs], USUAL)[0]
    # With d the difference, the averages have expectations of at least 1 + d and 1 - d.
    least, most = difference_interval(over, under, 2.0, level)
    interval = possible(least - 1.0, most - 1.0, least=-1.0)
    return _told(_fitted(first, second, ends), interval, first, second)


def bin_differences(first: Survey, second: Survey, *, level: float = 0.95) -> dict[str, Value]:
    """Return the differences of the shares of `shares.bins`, by "low:high", each at the level separately."""
    return {
        name: share_difference(first, second, *ends, level=level)
        for name, ends in bin_ends(second.mechanism).items()
    }


def cdf_differences(first: Survey, second: Survey, *, level: float = 0.95) -> dict[str, Value]:
    """Return the second distribution function minus the first at up to 16 places, jointly at the level.

    Both surveys are on the same `Interval`, and no device may be in both. If one of the confidence intervals
    excludes 0, the populations differ at the level. The keys are values of the domain: quantiles of both
    populations together.

    Upper and lower bounds use the number of standard errors that their joint normal law requires, as in
    `shares.cdf_band`. A value between two nodes is seen at both, so the places are nodes of the second
    mechanism.
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
    method = f"{_METHOD}, together at {len(ends)} places"
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

    Both surveys are on one domain, and no device may be in both; each interval has the level separately. A
    circle requires an origin, from which both quantiles are counted upwards; an interval takes none. On a
    circle the differences are those of the distances from the origin, so they lie between plus and minus the
    period.

    An interval for a quantile jumps over places without people, so squares of distances do not add up.
    Instead, the interval holds every difference for which the quantiles are within z_1 and z_2 standard
    errors, with ``z_1^2 + z_2^2 <= c``. It misses on one side only if one squared z or the sum of both
    exceeds c on that side. So c is chosen to make half of the chi-square probability with one degree of
    freedom, plus a quarter of that with two, equal to the level's tail on that side. At level 0.95 the root
    of c is 2.35 standard errors instead of 1.96. If the bounds of both quantiles leave much room
    (`bounds.narrowed_root`), it is 2.10 instead of 1.70.
    """
    circular = second.mechanism.kernel.circular
    if (origin is None) == circular:
        raise ParameterError(
            f"origin must be {'a point on the circle' if circular else 'None on an interval'}, got {origin!r}"
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
    """Return the largest distance from a lower end of one quantile to an upper end of the other."""
    together = high.roots[:, None] ** 2 + low.roots[None] ** 2 < most**2
    return float((high.at[:, None] - low.at[None])[together].max())


def _joint_reach(tail: float) -> float:
    """Return the root of c in `quantile_differences`, for the probability of a miss on one side."""

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
    """Return sums of averages with means of at least 1 plus and 1 minus the difference of two shares.

    `pairs` holds, for each share and each sample, functionals above the share and above the rest. The weights
    are the best ones for `root` standard errors.
    """
    both = Samples([first.bounds, second.bounds], [1.0, 1.0])
    functionals = [
        each for (most_1, rest_1), (most_2, rest_2) in pairs for each in ([rest_1, most_2], [most_1, rest_2])
    ]
    totals = both.totals(functionals, root)
    return list(zip(totals[::2], totals[1::2], strict=True))


def _fitted(first: Survey, second: Survey, ends: Sequence[tuple[float, float]]) -> float | None:
    """Return the difference of two fitted shares, or None if one is unknown; see `fitted_shares`."""
    one, two = (fitted_shares(each, [part])[0] for each, part in zip((first, second), ends, strict=True))
    return None if one is None or two is None else two - one


def _told(value: float | None, ends: tuple[float, float], first: Survey, second: Survey) -> Value:
    """Return a difference, with its interval extended to hold the value."""
    low, high = ends
    if value is not None:  # the value comes from smoother distributions
        low, high = min(low, high, value), max(low, high, value)
    few = first.few or second.few
    coarse = dict.fromkeys(note for each in (first, second) for note in coarse_notes(each.mechanism))
    notes = all_notes(IN_END_ZONE if value is None else "", few, coarse, SMOOTHED)
    return Value(value, low, high, _METHOD, notes)
