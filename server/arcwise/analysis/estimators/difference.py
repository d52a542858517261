"""How far the means, or the mean directions, of two populations lie apart: two sets of counts.

Shares, quantiles and distribution functions: `share_differences`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scipy.special import stdtrit

from arcwise.analysis.estimators.direction import direction, resultant_length
from arcwise.analysis.estimators.mean import average, mean, reaches
from arcwise.analysis.estimators.notes import all_notes
from arcwise.analysis.estimators.result import Value
from arcwise.analysis.estimators.survey import check_enough
from arcwise.analysis.estimators.unbiasing import mean_numbers
from arcwise.errors import ParameterError
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from arcwise.analysis.estimators.survey import Survey

_WHOSE = {
    "population": "of the populations, not only of the devices that reported",
    "users": "of the devices that reported, not of the populations they were drawn from",
}


def mean_difference(first: Survey, second: Survey, *, level: float = 0.95) -> Value:
    """Return the mean of the second population minus that of the first, in the unit of the domains.

    Both surveys are on an `Interval`, have at least two devices each and share one target: the populations,
    or the two sets of users themselves. The devices of one must not be those of the other, since the interval
    takes the two sets of reports as independent.

    Where both means are unbiased, the error on each side is the root of the sum of the squared errors of the
    two means there (`mean.reaches`), so skewed populations have an interval that is not symmetric (Zou and
    Donner 2008). The quantile is Student's with the Welch-Satterthwaite degrees of freedom. Where one mean is
    a range of possible values, the result is the range of differences, with each mean at the level
    ``(1 + level) / 2`` (Bonferroni), and has no point.
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
    before, after = _average(first), _average(second)
    # In the longer of the two units: the square of a very short or a very long one is no float.
    longer = max(each.mechanism.domain.length for each in (first, second))
    squares = [(each.error / longer) ** 2 for each in (before, after)]
    parts = (square**2 / (each.reports - 1.0) for square, each in zip(squares, (before, after), strict=True))
    quantile = float(stdtrit(sum(squares) ** 2 / sum(parts), 0.5 + level / 2))
    below, above = _apart(*(_reaches(each, quantile) for each in (first, second)))
    difference = after.mean - before.mean
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

    Both surveys are on a `Circle`, have one target and no device in common. The value is the shorter way
    round, from minus half the period to half the period, and the interval is unwrapped. The interval is a
    whole period where one of the directions is not determined.

    On each side the error is the root of the sum of the squares of both arcs there, as for means. An arc
    grows faster than its number of standard errors, so the interval is rather too wide than too narrow.
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
    """Return the resultant length of the second population less that of the first, from -1 to 1.

    Parameters, errors and method are those of `direction_difference`, but for ends at 0 or 1: no length is
    beyond, so one may well be there while the other is at its own end, and the reaches are simply added.
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
    """Return the period and the notes of both samples, or raise unless they are of one circle."""
    for each in (first, second):
        if not each.mechanism.kernel.circular:
            raise ParameterError(
                f"domain must be a Circle for a difference of directions, got {each.mechanism.domain!r}"
            )
    one, other = (each.mechanism.domain.length for each in (first, second))
    if one != other:
        raise ParameterError(f"the circles must have one period, got {one:g} and {other:g}")
    return one, all_notes(first.few or second.few, _WHOSE[second.target])


def _apart(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Return how far below and above a difference reaches, from what both reach: squares add up."""
    (below_1, above_1), (below_2, above_2) = one, other
    return math.hypot(below_2, above_1), math.hypot(above_2, below_1)


def _sides(value: Value) -> tuple[float, float]:
    """Return how far an interval reaches below and above its value."""
    assert value.value is not None and value.low is not None and value.high is not None  # noqa: S101, PT018
    return value.value - value.low, value.high - value.value


class _Average(NamedTuple):
    """A mean and its standard error, in the unit of the domain, and the number of reports."""

    mean: float
    error: float
    reports: float


def _unbiased(survey: Survey) -> bool:
    mechanism = survey.mechanism
    if mechanism.end_zones and isinstance(mechanism.kernel, WindowKernel):
        return False
    return not mean_numbers(mechanism, survey.n).bias


def _average(survey: Survey) -> _Average:
    mechanism = survey.mechanism
    unit, error = average(survey, mean_numbers(mechanism, survey.n).values)
    length = mechanism.domain.length
    low = mechanism.domain.start
    return _Average(low + length * unit, length * error, survey.devices)


def _reaches(survey: Survey, quantile: float) -> tuple[float, float]:
    """Return how far below and above its average a mean may lie, in the unit of the domain."""
    _, below, above = reaches(survey, mean_numbers(survey.mechanism, survey.n).values, quantile)
    return survey.mechanism.domain.length * below, survey.mechanism.domain.length * above
