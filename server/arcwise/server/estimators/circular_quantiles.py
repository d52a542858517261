"""Quantiles on a circle: of the values as they are met going upwards from an origin.

A circle has no lowest value, so quantiles need a place to start. Opposite the mean direction few people are,
so where exactly matters little (Fisher 1993 puts the circular median so); or a given place, such as midnight.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcwise.errors import ParameterError
from arcwise.server.estimators.arcs import arc_cover
from arcwise.server.estimators.few import few_note, join
from arcwise.server.estimators.grid import cell_edges, first_cell, values_of
from arcwise.server.estimators.profile import METHOD, Profile, two_sided_root
from arcwise.server.estimators.quantile_ends import Scale, quantile_ends
from arcwise.server.estimators.quantiles import LEVELS, quantile_note, rounding_reach
from arcwise.server.estimators.result import Value
from arcwise.server.estimators.threads import one_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.mechanisms.base import Mechanism

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["circular_quantiles", "opposite"]

_ROUNDING = 1e-9
"""Of a cell: a smaller part is rounding error."""


def opposite(direction: Value, period: float) -> float | None:
    """Return the place opposite a mean direction, or None where the direction is not determined."""
    if direction.value is None or direction.low is None or direction.high is None:
        return None
    if direction.high - direction.low >= period:
        return None
    return (direction.value + period / 2) % period


def circular_quantiles(
    mechanism: Mechanism,
    counts: FloatArray,
    probabilities: FloatArray,
    origin: float,
    *,
    level: float = 0.95,
    profile: Profile | None = None,
) -> dict[str, Value]:
    """Return the quantiles at `LEVELS` of the values going upwards from an origin, in the domain's unit.

    Parameters
    ----------
    mechanism
        On a `Circle`.
    counts
        Reports per code, shape (K,), at least one report.
    probabilities
        The fitted node distribution, shape (N,): where the point values come from.
    origin
        Where the circle is cut open, modulo the period. The intervals are for the population's quantiles
        counted from this very place.
    level
        Of the intervals.
    profile
        Of these counts, where it is there already.

    Returns
    -------
    dict
        Values in [0, period); an interval may reach below 0 or above the period, ``low <= value <= high``.

    Raises
    ------
    ParameterError
        When the domain is no circle, or the origin not a finite number.
    """
    if not mechanism.kernel.circular:
        raise ParameterError("mechanism must be on a circle; on an interval, quantiles need no origin")
    if not math.isfinite(origin):
        raise ParameterError(f"origin must be a finite number, got {origin!r}")
    period = mechanism.domain.length
    cut = origin / period % 1.0
    values = values_of(mechanism)
    first = 0 if values is None else values.between(cut, 1.0)[0] % values.size
    if values is not None:
        cut = (first - 0.5) / values.size  # just before the first value that is counted
    reach = rounding_reach(mechanism)
    grid = np.linspace(0.0, 1.0, len(probabilities) + 1)
    edges, fitted = cell_edges(mechanism), np.roll(probabilities, -first_cell(mechanism))
    upto = np.array([arc_cover(edges, cut, length) @ fitted for length in grid])
    with one_thread():
        profile = Profile(mechanism, counts) if profile is None else profile
        scale = Scale(grid, np.diff(upto))
        intervals = [_interval(profile, cut, tau, level, scale) for tau in LEVELS]
    common = join(
        few_note(float(counts.sum())),
        f"counted upwards from {origin % period:.6g}",
        profile.note(),
        quantile_note(mechanism),
    )
    result = {}
    for tau, interval in zip(LEVELS, intervals, strict=True):
        unit = float(np.interp(tau, upto, grid))
        if values is not None:
            places = first + _cells(values.size, interval[0], unit, interval[1])
            places -= values.size * (places[1] // values.size)
            low, value, high = mechanism.domain.from_unit(values.units(places)).tolist()
        else:
            value = period * ((cut + unit) % 1.0)
            low = value - period * max(unit - max(interval[0] - reach, 0.0), 0.0)
            high = value + period * max(min(interval[1] + reach, 1.0) - unit, 0.0)
        result[f"{tau:g}"] = Value(value, low, high, METHOD, common)
    return result


def _cells(size: int, low: float, unit: float, high: float) -> NDArray[np.int64]:
    """Return in which cells of a lattice an interval's ends and its point lie, counted from the cut."""
    # As in `quantiles.to_values`: an end at the very edge of two cells does not hold the one outside.
    first = min(math.floor(low * size + _ROUNDING), size - 1)
    point, last = (max(math.ceil(place * size - _ROUNDING) - 1, 0) for place in (unit, high))
    return np.array([min(first, point), point, max(point, last)])


def _interval(profile: Profile, cut: float, tau: float, level: float, scale: Scale) -> tuple[float, float]:
    """Return the ends in turns above the cut."""

    def below(length: float) -> FloatArray:
        return arc_cover(profile.edges, cut, length)

    best = profile.best.probabilities
    grid = np.linspace(0.0, 1.0, len(best) + 1)
    middle = float(np.interp(tau, [float(below(length) @ best) for length in grid], grid))
    limits = ((0.0, 0.0), (1.0, 1.0))
    return quantile_ends(profile, below, tau, two_sided_root(level), scale, middle, limits)
