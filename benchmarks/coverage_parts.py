"""What `coverage.py` asks of one survey: intervals beside what is true, in parts that cost about alike.

Not a program. A part takes a case, the counts of a survey and a level, and returns for each (estimate, item)
whether the interval covers and how wide it is, and the largest certified gap of a likelihood inside.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from truths import Case, Range, inside

from arcwise.mechanisms.circular import CircularMechanism
from arcwise.server.estimators.band import bins, cdf_band
from arcwise.server.estimators.circular_quantiles import circular_quantiles
from arcwise.server.estimators.direction import direction, resultant_length
from arcwise.server.estimators.distribution import fit_held_out
from arcwise.server.estimators.mean import mean
from arcwise.server.estimators.profile import Profile
from arcwise.server.estimators.quantiles import quantiles
from arcwise.server.estimators.shares import share
from arcwise.server.estimators.variance import spread

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from arcwise.server.estimators import Value

    FloatArray: TypeAlias = NDArray[np.float64]

    Found: TypeAlias = dict[tuple[str, str], tuple[bool, float]]

__all__ = ["ARCS", "ORIGIN", "PARTS", "SHARES"]

SHARES = (0.05, 0.1, 0.25, 0.3, 0.5, 0.7, 0.9)
"""Places of the distribution function: in the peaks and between them, in thin tails, near atoms."""

ARCS = ((0.9, 0.1), (0.2, 0.45), (0.53, 0.56))
"""Of a circle: over its zero, a wide and a narrow one."""

ORIGIN = 0.51
"""From where quantiles of circles are counted: no record lies there."""

_SMALLEST = 1e-9
"""Of a resultant length that shows a direction: that of the records' rounding does not."""


def moments(one: Case, counts: FloatArray, level: float) -> tuple[Found, float]:
    """Mean and variance on an interval; direction and resultant length on a circle."""
    mechanism, truth = one.mechanism, one.truth
    if not isinstance(mechanism, CircularMechanism):
        both = spread(mechanism, counts, level=level)
        return {
            ("mean", ""): _covers(mean(mechanism, counts, level=level), truth.mean),
            ("variance", ""): _covers(both.variance, truth.variance),
            ("standard deviation", ""): _covers(both.standard_deviation, math.sqrt(truth.variance)),
        }, 0.0
    heading = direction(mechanism, counts, level=level)
    length = abs(truth.moment)
    modulus = resultant_length(mechanism, counts, level=level)
    found: Found = {("resultant length", ""): _covers(modulus, length)}
    if length < _SMALLEST:
        width = _width(heading)
        found["whole circle", ""] = width >= 1.0, width
    else:
        angle = math.atan2(truth.moment.imag, truth.moment.real) / (2 * math.pi)
        found["direction", ""] = heading.contains(angle, period=1.0), _width(heading)
    return found, 0.0


def profile(one: Case, counts: FloatArray, level: float) -> tuple[Found, float]:
    """Quantiles and points of the distribution function, or arcs of a circle."""
    mechanism, truth = one.mechanism, one.truth
    fitted = fit_held_out(mechanism, counts).probabilities
    both = Profile(mechanism, counts)
    found: Found = {}
    if isinstance(mechanism, CircularMechanism):
        told = circular_quantiles(mechanism, counts, fitted, ORIGIN, level=level, profile=both)
        for tau, value in told.items():
            where = truth.quantile_above(ORIGIN, float(tau))
            covers = any(value.contains(x, period=1.0) for x in where)
            found["quantiles of circles", tau] = covers, _width(value)
        for low, high in ARCS:
            value = share(mechanism, counts, fitted, low, high, level=level, profile=both)
            found["arcs", f"{low:g}:{high:g}"] = _covers(value, truth.arc(low, high))
        return found, both.gap
    for tau, value in quantiles(mechanism, counts, fitted, level=level, profile=both).items():
        found["quantiles", tau] = _covers(value, truth.quantile(float(tau)))
    for place in SHARES:
        value = share(mechanism, counts, fitted, 0.0, place, level=level, profile=both)
        found["distribution function", f"{place:g}"] = _covers(value, truth.share(0.0, place))
    return found, both.gap


def bands(one: Case, counts: FloatArray, level: float) -> tuple[Found, float]:
    """Bins, and the band that holds the whole distribution function of an interval."""
    mechanism, truth = one.mechanism, one.truth
    fitted = fit_held_out(mechanism, counts).probabilities
    both = Profile(mechanism, counts)
    told = bins(mechanism, counts, fitted, level=level, profile=both)
    found: Found = {}
    name = "bins of circles" if mechanism.kernel.circular else "bins"
    for k, (bounds, value) in enumerate(told.items()):
        found[name, bounds] = _covers(value, truth.share(k / len(told), (k + 1) / len(told)))
    if not mechanism.kernel.circular:
        band = cdf_band(mechanism, counts, fitted, level=level, profile=both)
        # The band's steps stand at its places: where it holds F there, it holds F everywhere.
        at = [truth.share(0.0, place) for place in band.at]
        holds = all(
            low <= true.high and true.low <= high
            for low, high, true in zip(band.low, band.high, at, strict=True)
        )
        found["simultaneous band", ""] = holds, sum(band.high) / len(at) - sum(band.low) / len(at)
    return found, both.gap


class Part(NamedTuple):
    """How a survey is made, on which domains, how often, and how many of them at a time."""

    survey: Callable[[Case, FloatArray, float], tuple[Found, float]]
    circular: tuple[bool, ...]
    repeats: int
    block: int


PARTS = {
    "moments": Part(moments, (False, True), 2000, 100),
    "profile": Part(profile, (False, True), 500, 5),
    "bands": Part(bands, (False, True), 500, 5),
}


def _width(value: Value) -> float:
    return math.nan if value.low is None or value.high is None else value.high - value.low


def _covers(value: Value, truth: Range | float) -> tuple[bool, float]:
    return inside(value, truth), _width(value)
