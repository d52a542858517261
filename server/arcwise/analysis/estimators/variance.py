"""The variance and the standard deviation on an interval: points if the reports allow, otherwise ranges.

``Var(x) = E x^2 - (E x)^2``: both expectations are averages of one number per code (`moment_numbers`), exact
except for the effect of rounding to nodes. A value between nodes h apart is randomly rounded to one of the
two, which keeps its mean and adds ``t (1-t) h^2`` to its square, from 0 to ``h^2 / 4``.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from arcwise.analysis.estimators.empirical import empirical_reach
from arcwise.analysis.estimators.inference_target import FEW, NO_POPULATION, source_of_error, two_sided, whose
from arcwise.analysis.estimators.mean import (
    all_reach,
    average,
    end_units,
    impossible,
    reaches,
    strata_reach,
)
from arcwise.analysis.estimators.result import Value, all_notes
from arcwise.analysis.estimators.unbiasing import Numbers, moment_numbers
from arcwise.analysis.grid import coarse_notes
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from arcwise.analysis.estimators.survey import Survey
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

_LARGEST = 0.25  # the largest variance on the unit interval: half of the population at each end

_BIASED = (
    "no numbers per code estimate the variance without a bias or a huge error, "
    "so no single variance can be estimated"
)

_FEWEST_NODES = 9
"""Fewest nodes for a point estimate: with these, rounding adds at most 1/64 of the largest variance."""


class Spread(NamedTuple):
    """The variance, in the squared unit of the domain, and its square root, in the unit of the domain."""

    variance: Value
    standard_deviation: Value


class _Found(NamedTuple):
    """A variance on the unit interval before it is clipped to the possible range."""

    value: float | None
    low: float
    high: float
    error: float
    method: str
    notes: tuple[str, ...] = ()


def spread(survey: Survey, *, level: float = 0.95) -> Spread:
    """Return the variance and the standard deviation of the population, or of these users.

    With v and w the numbers for x and x^2, bars for averages and e the standard error of vbar,
    ``wbar - vbar^2 + e^2`` is unbiased for the variance of the rounded values (`_rounded`). Rounding adds
    ``h^2/6`` if values are spread evenly between nodes. This is subtracted, and the interval allows for any
    addition from 0 to ``h^2/4``. With fewer than 9 nodes the result is only the interval. All results are
    clipped to [0, length^2/4].

    On a lattice every value is a node, so nothing is subtracted. If the numbers have a bias (`_biased`), and
    for the clamp placement (`_clamp`), the result is the range of possible variances without a point. The
    standard deviation and the ends of its interval are the square roots of these numbers.
    """
    mechanism, users, devices = survey.mechanism, survey.users, survey.devices
    kernel = mechanism.kernel
    samples: list[_Sample] = []
    if devices < 2:
        method = "none: one report does not show its variance"
        found = _Found(
            None, 0.0, _LARGEST, 0.0, method, ("not estimated: the reports allow every possible value",)
        )
    elif mechanism.end_zones and isinstance(kernel, WindowKernel):
        found = _clamp(survey, kernel, two_sided(level, devices))
    else:
        numbers = moment_numbers(mechanism, survey.n)
        samples.append((survey, 1.0, numbers))
        if numbers[0].bias or numbers[1].bias:
            # The error of the square and the error of the mean each get half of the level's error
            # probability.
            found = _biased(survey, two_sided((1.0 + level) / 2, devices), numbers)
        else:
            pair = numbers[0].values, numbers[1].values
            value, below, above, error = _rounded(survey, two_sided(level, devices), pair)
            method = (
                f"averages of unbiased numbers for the value and its square; {source_of_error(survey.users)}"
            )
            found = _unrounded(mechanism, value, (below, above), error, method)
    return _spread(mechanism, samples, found, all_notes(survey.few, coarse_notes(mechanism), whose(users)))


def strata_spread(strata: Sequence[Survey], weights: FloatArray, *, level: float = 0.95) -> Spread | None:
    """Return the spread of a population made of strata, or None with biased numbers or the clamp placement.

    The strata have one mechanism on an `Interval` and at least two reports each; the weights are their parts
    of the population, shape (H,), with the sum 1.

    The variance is computed as in `spread`, from averages over the population of ``w - 2 t v + t^2`` at the
    population's mean t, with the errors of all reports together.
    """
    mechanism = strata[0].mechanism
    pairs = [moment_numbers(mechanism, each.n) for each in strata]
    if any(each.bias for pair in pairs for each in pair) or mechanism.end_zones:
        return None
    means = [average(each, pair[0].values) for pair, each in zip(pairs, strata, strict=True)]
    t = float(weights @ [mean for mean, _ in means])
    square = float(weights**2 @ [error**2 for _, error in means])
    numbers = [second.values - 2 * t * first.values + t * t for first, second in pairs]
    found = [average(stratum, each) for each, stratum in zip(numbers, strata, strict=True)]
    value = square + float(weights @ [mean for mean, _ in found])
    errors = math.hypot(*(weights * [error for _, error in found]))
    sides = [strata_reach(strata, weights, [sign * each for each in numbers], level) for sign in (-1.0, 1.0)]
    more = math.sqrt(2.0) * two_sided(level, math.inf) * square  # from the variability of t^2
    below, above = (math.hypot(side, more) for side in sides)
    few = min(strata, key=lambda each: each.devices).few
    method = (
        f"averages over the strata of unbiased numbers for the value and its square; {source_of_error(None)}"
    )
    told = _unrounded(mechanism, value, (below, above), errors, method)
    samples = list(zip(strata, weights.tolist(), pairs, strict=True))
    return _spread(mechanism, samples, told, all_notes(few, coarse_notes(mechanism)))


_Sample: TypeAlias = "tuple[Survey, float, tuple[Numbers, Numbers]]"
"""A sample, its weight, and the numbers per code for the value and its square."""


def _spread(
    mechanism: Mechanism, samples: Sequence[_Sample], found: _Found, notes: tuple[str, ...]
) -> Spread:
    """Return a result on the unit interval in the unit of the domain."""
    outside = (
        samples and (found.high < 0.0 or found.low > _LARGEST) and _impossible(samples, found.high < 0.0)
    )
    notes = all_notes(NO_POPULATION if outside else "", found.notes, notes)
    unit = _possible(found._replace(notes=notes))
    length = mechanism.domain.length

    def scaled(scale: Callable[[float], float], method: str) -> Value:
        point = None if unit.value is None else scale(unit.value)
        return Value(point, scale(unit.low), scale(unit.high), method, unit.notes)

    def square(each: float) -> float:
        return each * length * length

    squared = Value(
        None, None, None, "none", ("squares of this domain's length exceed the range of a float",)
    )
    if sys.float_info.min < square(1e-9) and square(1.0) <= sys.float_info.max:
        squared = scaled(square, unit.method)
    root = scaled(lambda each: length * math.sqrt(each), f"square root of the variance: {unit.method}")
    return Spread(squared, root)


def _possible(found: _Found) -> _Found:
    """Return the result clipped to the possible variances."""
    value, low, high, error, method, notes = found
    # If chance moved an interval outside the possible range, clipping alone would shrink it to a point. A
    # wider interval is always valid.
    low, high = min(low, _LARGEST - error), max(high, error)
    low, high = (min(max(end, 0.0), _LARGEST) for end in (low, high))
    clipped = ""
    if value is not None and not low <= value <= high:
        clipped = "the unbiased estimate is not a possible variance, so it is clipped"
        value = min(max(value, low), high)
    return _Found(value, low, high, error, method, all_notes(clipped, notes))


def _impossible(samples: Sequence[_Sample], below: bool) -> bool:
    """Return whether honest reports hardly ever have a variance this small (`below`), or this large.

    The variance is the least ``E (x-t)^2`` over t. A small variance is tested at the mean, rounded to
    hundredths. A large variance is tested at t = 1/2, where ``E (x-t)^2`` is at least the variance.
    """
    middle = sum(w * float(each.counts @ v.values) / each.n for each, w, (v, _) in samples)
    t = round(middle, 2) if below else 0.5
    several = [(each, w, u.values - 2 * t * v.values + t * t) for each, w, (v, u) in samples]
    return impossible(several, -1.0 if below else 1.0, trials=101 if below else 1)


def _unrounded(
    mechanism: Mechanism, variance: float, reach: tuple[float, float], error: float, method: str
) -> _Found:
    """Return the variance of the values, given that of the rounded values and its reach below and above."""
    rounding = _rounding(mechanism)
    low, high = variance - reach[0] - rounding, variance + reach[1]
    if not rounding:
        return _Found(variance, low, high, error, method)
    if mechanism.kernel.nodes < _FEWEST_NODES:
        return _Found(
            None,
            low,
            high,
            error,
            f"range of possible variances: {method}, widened by the effect of rounding to nodes",
            ("rounding to few nodes inflates the variance, so no single value can be estimated",),
        )
    method += "; minus two thirds of the most that rounding to nodes adds, which the interval allows for"
    return _Found(variance - rounding * 2 / 3, low, high, error, method)


def _rounding(mechanism: Mechanism) -> float:
    """Return the most that rounding to nodes h apart adds to a variance: ``h^2/4``, or 0 on a lattice."""
    at = mechanism.node_units(np.arange(2.0))
    return float(at[1] - at[0]) ** 2 / 4 if mechanism.rounds else 0.0


def _rounded(
    survey: Survey, quantile: float, pair: tuple[FloatArray, FloatArray]
) -> tuple[float, float, float, float]:
    """Return the unbiased variance of the rounded values, how far below and above it may lie, and its error.

    ``A = wbar - vbar^2`` is too small by e^2 on average, with e the standard error of vbar. A law q of the
    codes has ``V(q) = min_t E_q u_t`` with ``u_t = w - 2 t v + t^2``, which is least at the mean of q. Among
    laws that make the counts likely, the laws with the smallest and the largest V(q) also have the smallest
    and the largest ``E_q u_t`` for some t (`empirical_reach`). t and q are found alternately. The variance of
    vbar^2, ``2 e^4``, is added.
    """
    kernel, counts, users = survey.mechanism.kernel, survey.counts, survey.users
    first, second = pair
    middle, error = average(survey, first, users)

    def numbers(t: float) -> FloatArray:
        return second - 2 * t * first + t * t

    plug_in, square_error = average(survey, numbers(middle))

    def reach(sign: float) -> float:
        t, distance = middle, 0.0
        for _ in range(_TURNS):
            found = empirical_reach(kernel, sign * numbers(t), counts, quantile)
            mean = float(found.law @ first)
            # The average of u_t is A + (middle - t)^2. On the lower side V(q) itself is used, since E_q u_t
            # is never smaller than V(q).
            distance = found.distance + sign * ((middle - t) ** 2 - (mean - t) ** 2 * (sign < 0))
            if (mean - t) ** 2 <= _SETTLED * found.distance:
                break
            t = mean
        if survey.devices < FEW:
            distance = max(distance, quantile * square_error)
        distance = all_reach(survey, sign * numbers(middle), quantile, distance, users)
        return math.sqrt(distance**2 + 2 * (quantile * error**2) ** 2)

    return plug_in + error**2, reach(-1.0), reach(1.0), math.sqrt(square_error**2 + 2 * error**4)


_TURNS, _SETTLED = 4, 1e-3
"""Most iterations of the search for t, and the least relative change of a distance for another iteration."""


def _biased(survey: Survey, quantile: float, numbers: tuple[Numbers, Numbers]) -> _Found:
    """Return the range of variances that biased numbers allow.

    For every t, ``Var(x) = E (x-t)^2 - (E x - t)^2``. With t the estimated mean, the first term is known up
    to the bias and the error of the numbers ``w - 2 t v + t^2``. The second term is between 0 and the square
    of the sum of the mean's bias and error.
    """
    first, second = numbers
    middle, *to_sides = reaches(survey, first.values, quantile)
    t = min(max(middle, 0.0), 1.0)
    numbers_of_square = second.values - 2 * t * first.values + t * t
    square, below, above = reaches(survey, numbers_of_square, quantile)
    bias = second.bias + 2 * t * first.bias
    mean_reach = first.bias + max(to_sides)
    return _Found(
        None,
        square - below - bias - mean_reach**2 - _rounding(survey.mechanism),
        square + above + bias,
        average(survey, numbers_of_square, survey.users)[1],
        "range of possible variances: averages of numbers with a bounded bias, widened by it, by their "
        "errors, and by the effect of rounding to nodes",
        (_BIASED,),
    )


def _clamp(survey: Survey, kernel: WindowKernel, quantile: float) -> _Found:
    """Return the range of variances that the reports of the clamp placement allow.

    The reports determine the law of z, the values moved into [c, 1-d], and the masses f_0 and f_last of the
    end zones, but not the positions of people within the zones (`mean.clamp_units`). The variance is least,
    and equal to that of z, if all people in the zones are at c and 1-d. It is at most ``E (x-t)^2`` for any
    t. For t from c/2 to 1-d/2 this is largest if all people in the zones are at 0 and 1:
    ``E (z-t)^2 + f_0 (t^2 - (c-t)^2) + f_last ((1-t)^2 - (1-d-t)^2)``. The t that minimises this is the mean
    with all people in the zones at 0 and 1, moved into the range from c/2 to 1-d/2. The minimum is the
    largest variance: maximum over x and minimum over t may be exchanged (concave in the law of x, convex in
    t), and a t outside the range can be improved.
    """
    mechanism, users = survey.mechanism, survey.users
    first, second = (each.values for each in moment_numbers(mechanism, survey.n))
    least, least_below, _, least_error = _rounded(survey, quantile, (first, second))
    c, top = mechanism.node_units(np.array([0.0, kernel.nodes - 1.0])).tolist()
    d = 1.0 - top
    start, end = end_units(kernel)
    mean, mean_error = average(survey, first - c * start + d * end, users)
    t = min(max(mean, c / 2), 1.0 - d / 2)
    outwards = (t**2 - (c - t) ** 2) * start + ((1.0 - t) ** 2 - (1.0 - d - t) ** 2) * end
    outermost = second - 2 * t * first + t**2 + outwards
    most, _, most_above = reaches(survey, outermost, quantile)
    low = least - _rounding(mechanism) - least_below
    high = most + mean_error**2 + most_above
    return _Found(
        None,
        low,
        max(high, low),
        max(least_error, average(survey, outermost, users)[1]),
        "range of possible variances: unbiased bounds, each widened by its error",
        ("values in an end zone give the same reports, so no single variance can be estimated",),
    )
