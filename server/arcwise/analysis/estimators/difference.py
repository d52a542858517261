"""How far the means, or the mean directions, of two populations lie apart: two sets of counts.

Shares, quantiles and distribution functions: `share_differences`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scipy.special import stdtrit

from arcwise.analysis.estimators.direction import direction, resultant_length
from arcwise.analysis.estimators.inference_target import Users, check_target
from arcwise.analysis.estimators.mean import average, mean, reaches
from arcwise.analysis.estimators.result import Value
from arcwise.analysis.estimators.small_samples import few_note, join
from arcwise.analysis.estimators.unbiasing import mean_numbers
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.threads import one_thread
from arcwise.errors import ParameterError
from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms.circular import CircularMechanism

if TYPE_CHECKING:
    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray


__all__ = ["direction_difference", "length_difference", "mean_difference"]

_WHOSE = {
    "population": "of the populations, not only of the devices that reported",
    "users": "of the devices that reported, not of the populations they were drawn from",
}


@one_thread()
def mean_difference(
    first: tuple[Mechanism, FloatArray],
    second: tuple[Mechanism, FloatArray],
    *,
    level: float = 0.95,
    target: Target = "population",
) -> Value:
    """Return the mean of the second population less that of the first, in the unit of the domains.

    Parameters
    ----------
    first, second
        A mechanism on an `Interval` with its counts, shape (K,), each of at least two reports. The devices of
        one must not be those of the other: the interval takes the two sets of reports as independent.
    level
        Of the interval.
    target
        Whom it speaks about, as in `estimate`: the populations, or the two sets of users themselves.

    Raises
    ------
    ParameterError
        When a domain is a circle, there are too few reports, or the target is unknown.

    Notes
    -----
    Where both means are unbiased: on each side the root of the sum of the squared errors of the two means
    there (`mean.reaches`), so that skewed populations have an interval that is not symmetric (Zou and Donner
    2008). The quantile is Student's with the Welch-Satterthwaite degrees of freedom. Where one
    mean is a range of possible values: the range of differences, each mean at the level ``(1 + level) / 2``
    (Bonferroni), and no point.
    """
    check_target(target)
    for mechanism, counts in (first, second):
        if mechanism.domain.circular:
            raise ParameterError(
                f"domain must be an Interval for a difference of means, got {mechanism.domain!r}"
            )
        if counts.sum() < 2:
            raise ParameterError(f"counts must hold at least 2 reports each, got {counts.sum():g}")
    few = _few(first, second)
    if not (_unbiased(*first) and _unbiased(*second)):
        each = (1.0 + level) / 2
        one, other = (mean(*pair, level=each, users=_users(*pair, target)) for pair in (first, second))
        assert one.low is not None and one.high is not None  # noqa: S101, PT018 (means have intervals)
        assert other.low is not None and other.high is not None  # noqa: S101, PT018
        return Value(
            None,
            other.low - one.high,
            other.high - one.low,
            "range of possible differences: each mean's range at half the error",
            join(few, "one of the means is a range, so no single difference can be told", _WHOSE[target]),
        )
    before, after = _average(*first), _average(*second)
    square = before.square + after.square
    parts = (each.square**2 / (each.reports - 1.0) for each in (before, after))
    quantile = float(stdtrit(square**2 / sum(parts), 0.5 + level / 2))
    below, above = _apart(*(_reaches(*each, quantile, target) for each in (first, second)))
    difference = after.mean - before.mean
    source = "empirical likelihood" if target == "population" else "the devices' randomness"
    return Value(
        difference,
        difference - below,
        difference + above,
        f"difference of averages of unbiased numbers; errors of both by {source}, added in squares, with "
        "Welch's degrees of freedom",
        join(few, _WHOSE[target]),
    )


def direction_difference(
    first: tuple[Mechanism, FloatArray],
    second: tuple[Mechanism, FloatArray],
    *,
    level: float = 0.95,
    target: Target = "population",
) -> Value:
    """Return the mean direction of the second population less that of the first, in the unit of the domain.

    Parameters
    ----------
    first, second
        A mechanism on a `Circle` with its counts, shape (K,), at least one report each. No device is in both.
    level
        Of the interval.
    target
        As in `mean_difference`.

    Returns
    -------
    Value
        The shorter way round, from minus half the period to half the period; the interval is unwrapped. A
        whole period where one of the directions is not determined.

    Raises
    ------
    ParameterError
        When a domain is not a circle, the periods differ, or the target is unknown.

    Notes
    -----
    On each side the root of the sum of the squares of both arcs there, as for means. An arc grows faster than
    its number of standard errors, so this errs to the side of width.
    """
    pair = _circles(first, second, target)
    one, other = (direction(*each, level=level, users=_users(*each, target)) for each in pair)
    period = pair[0][0].domain.length
    note = join(_few(first, second), _WHOSE[target])
    method = "difference of mean directions; both arcs, added in squares"
    if one.value is None or other.value is None:
        return Value(None, -period / 2, period / 2, method, join("a direction cannot be told", note))
    apart = (other.value - one.value + period / 2) % period - period / 2
    sides = _sides(one), _sides(other)
    below, above = _apart(*sides)
    if max(*map(sum, sides), below + above) >= period:
        below = above = period / 2
        note = join("a direction is not determined", note)
    return Value(apart, apart - below, apart + above, method, note)


def length_difference(
    first: tuple[Mechanism, FloatArray],
    second: tuple[Mechanism, FloatArray],
    *,
    level: float = 0.95,
    target: Target = "population",
) -> Value:
    """Return the resultant length of the second population less that of the first, from -1 to 1.

    Parameters, errors and method are those of `direction_difference`, but for ends at 0 or 1: no length is
    beyond, so one may well be there while the other is at its own end, and the reaches are simply added.
    """
    pair = _circles(first, second, target)
    one, other = (resultant_length(*each, level=level, users=_users(*each, target)) for each in pair)
    note = join(_few(first, second), _WHOSE[target])
    method = "difference of resultant lengths; both intervals, added in squares"
    if one.value is None or other.value is None:
        return Value(None, -1.0, 1.0, method, join("a resultant length cannot be told", note))
    apart = other.value - one.value
    (below_1, above_1), (below_2, above_2) = sides = _sides(one), _sides(other)
    below, above = _apart(*sides)
    if one.high == 1.0 or other.low == 0.0:
        below = below_2 + above_1
    if one.low == 0.0 or other.high == 1.0:
        above = above_2 + below_1
    return Value(apart, max(apart - below, -1.0), min(apart + above, 1.0), method, note)


def _circles(
    first: tuple[Mechanism, FloatArray], second: tuple[Mechanism, FloatArray], target: Target
) -> list[tuple[CircularMechanism, FloatArray]]:
    """Return both samples, or raise unless they are of one circle."""
    check_target(target)
    found = []
    for mechanism, counts in (first, second):
        if not isinstance(mechanism, CircularMechanism):
            raise ParameterError(
                f"domain must be a Circle for a difference of directions, got {mechanism.domain!r}"
            )
        found.append((mechanism, counts))
    periods = [each.domain.period for each, _ in found]
    if periods[0] != periods[1]:
        raise ParameterError(f"the circles must have one period, got {periods[0]:g} and {periods[1]:g}")
    return found


def _few(first: tuple[Mechanism, FloatArray], second: tuple[Mechanism, FloatArray]) -> str:
    return few_note(float(min(first[1].sum(), second[1].sum())))


def _apart(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Return how far below and above a difference reaches, from what both reach: squares add up."""
    (below_1, above_1), (below_2, above_2) = one, other
    return math.hypot(below_2, above_1), math.hypot(above_2, below_1)


def _sides(value: Value) -> tuple[float, float]:
    """Return how far an interval reaches below and above its value."""
    assert value.value is not None and value.low is not None and value.high is not None  # noqa: S101, PT018
    return value.value - value.low, value.high - value.value


class _Average(NamedTuple):
    """A mean, in the unit of the domain, the square of its standard error, and the number of reports."""

    mean: float
    square: float
    reports: float


def _unbiased(mechanism: Mechanism, counts: FloatArray) -> bool:
    if mechanism.end_zones and isinstance(mechanism.kernel, WindowKernel):
        return False
    return not mean_numbers(mechanism, float(counts.sum())).bias


def _users(mechanism: Mechanism, counts: FloatArray, target: Target) -> Users | None:
    return Users(fit_held_out(mechanism, counts).probabilities) if target == "users" else None


def _average(mechanism: Mechanism, counts: FloatArray) -> _Average:
    n = float(counts.sum())
    unit, error = average(mechanism.kernel, mean_numbers(mechanism, n).values, counts)
    length = mechanism.domain.length
    low = mechanism.domain.start
    return _Average(low + length * unit, (length * error) ** 2, n)


def _reaches(
    mechanism: Mechanism, counts: FloatArray, quantile: float, target: Target
) -> tuple[float, float]:
    """Return how far below and above its average a mean may lie, in the unit of the domain."""
    numbers = mean_numbers(mechanism, float(counts.sum())).values
    users = _users(mechanism, counts, target)
    _, below, above = reaches(mechanism.kernel, numbers, counts, quantile, users)
    return mechanism.domain.length * below, mechanism.domain.length * above
