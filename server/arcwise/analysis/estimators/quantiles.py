"""Quantiles of an interval, and of a circle from an origin, with intervals that hold for every population.

The quantile of level tau is the smallest value v with ``F(v) >= tau``. It is above t where the share up to t
is surely below tau, and at t or below where the share above t is surely at most 1 - tau: two upper bounds of
shares (`bounds`), which hold for every population.

A circle has no lowest value, so its quantiles need a place to start. Opposite the mean direction few people
are, so where exactly matters little (Fisher 1993 puts the circular median so); or a given place, such as
midnight. On a lattice a quantile is a value, and so are the ends of its interval.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import numpy as np

from arcwise.analysis.estimators.arcs import arc_cover
from arcwise.analysis.estimators.bounds import METHOD, SMOOTHED, USUAL, Bounds, Evidence, narrowed_root
from arcwise.analysis.estimators.grid import cell_edges, coarse_note, first_cell, values_of
from arcwise.analysis.estimators.result import Value
from arcwise.analysis.estimators.small_samples import few_note, join
from arcwise.analysis.threads import one_thread
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from arcwise.analysis.estimators.bounds import AnyAverage
    from arcwise.analysis.estimators.grid import Values
    from arcwise.mechanisms.base import Mechanism

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = [
    "LEVELS",
    "Ends",
    "Steps",
    "along_circle",
    "circular_quantiles",
    "cut_at",
    "opposite",
    "point",
    "quantile_ends",
    "quantiles",
]

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

_TRIALS = 6
"""Places at which a bound is computed for one end, at most."""

_STEPS = 10
"""Places at which a bound is computed for the steps of one end, about."""

_ROUNDING = 1e-9
"""Of a cell: a smaller part is rounding error."""


def quantiles(
    mechanism: Mechanism,
    counts: FloatArray,
    probabilities: FloatArray,
    *,
    level: float = 0.95,
    bounds: Evidence | None = None,
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
    bounds
        Of these counts, where they are there already.
    """
    with one_thread():
        bounds = Bounds(mechanism, counts) if bounds is None else bounds
        line = _Line(bounds, 0.0)
        intervals = line.intervals(level)
    domain = mechanism.domain
    common = join(few_note(float(counts.sum())), coarse_note(mechanism), SMOOTHED)
    result = {}
    for tau, ends in zip(LEVELS, intervals, strict=True):
        unit = point(mechanism, probabilities, tau)
        note = ""
        value: float | None = None
        if mechanism.placement == "clamp" and unit in (0.0, 1.0):
            note = "in an end zone, where the reports do not tell values apart"
        else:
            value = float(domain.from_unit(np.float64(unit)))
        # Wider is never wrong.
        both = ends if value is None else (min(ends[0], unit), max(ends[1], unit))
        first, last = domain.from_unit(np.array(both)).tolist()
        result[f"{tau:g}"] = Value(value, first, last, METHOD, join(note, common))
    return result


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
    bounds: Evidence | None = None,
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
    bounds
        Of these counts, where they are there already.

    Returns
    -------
    dict
        Values in [0, period); an interval may reach below 0 or above the period, ``low <= value <= high``.

    Raises
    ------
    ParameterError
        When the domain is not a circle, or the origin not a finite number.
    """
    if not mechanism.kernel.circular:
        raise ParameterError("mechanism must be on a circle; on an interval, quantiles need no origin")
    period = mechanism.domain.length
    values = values_of(mechanism)
    cut = cut_at(mechanism, origin)
    with one_thread():
        bounds = Bounds(mechanism, counts) if bounds is None else bounds
        line = _Line(bounds, cut)
        intervals = line.intervals(level)
    common = join(
        few_note(float(counts.sum())),
        f"counted upwards from {origin % period:.6g}",
        coarse_note(mechanism),
        SMOOTHED,
    )
    result = {}
    points = along_circle(mechanism, probabilities, cut)
    for tau, unit, (low, high) in zip(LEVELS, points, intervals, strict=True):
        if values is not None:  # in values above the first one that is counted
            number = round(unit * values.size)
            ends = round(low * values.size), round(high * values.size)
            places = round(cut * values.size + 0.5) + np.array(
                [min(ends[0], number), number, max(ends[1], number)]
            )
            places -= values.size * (places[1] // values.size)
            least, value, most = mechanism.domain.from_unit(values.units(places)).tolist()
        else:
            value = period * ((cut + unit) % 1.0)
            least = value - period * max(unit - low, 0.0)
            most = value + period * max(high - unit, 0.0)
        result[f"{tau:g}"] = Value(value, least, most, METHOD, common)
    return result


def cut_at(mechanism: Mechanism, origin: float) -> float:
    """Return where a circle is cut open, in turns: at the origin, or just before the first value after it.

    Raises
    ------
    ParameterError
        When the origin is not a finite number.
    """
    if not math.isfinite(origin):
        raise ParameterError(f"origin must be a finite number, got {origin!r}")
    cut = origin / mechanism.domain.length % 1.0
    values = values_of(mechanism)
    if values is None:
        return cut
    return (values.between(cut, 1.0)[0] % values.size - 0.5) / values.size


def along_circle(mechanism: Mechanism, probabilities: FloatArray, cut: float) -> list[float]:
    """Return the quantiles at `LEVELS` of a node distribution, as lengths from a cut, in turns.

    On a lattice they are values: whole steps from the first one after the cut.
    """
    grid = np.linspace(0.0, 1.0, len(probabilities) + 1)
    edges, fitted = cell_edges(mechanism), np.roll(probabilities, -first_cell(mechanism))
    upto = np.array([arc_cover(edges, cut, length) @ fitted for length in grid])
    units: FloatArray = np.interp(LEVELS, upto, grid)
    values = values_of(mechanism)
    if values is not None:
        units = np.maximum(np.ceil(units * values.size - _ROUNDING) - 1.0, 0.0) / values.size
    return [float(unit) for unit in units]


class _Line:
    """The domain laid out from its low end, or a circle from a cut: where bounds of F can be asked for.

    Parameters
    ----------
    bounds
        Of the counts.
    cut
        Where the line starts, on the unit domain: 0 on an interval.
    """

    def __init__(self, bounds: Evidence, cut: float) -> None:
        self._bounds, self._cut = bounds, cut
        places = bounds.places
        self._values = places.values
        along = (places.at - cut) % 1.0 if places.circular else places.at
        order = np.argsort(along)
        along, mass = along[order], bounds.fitted[order]
        upto = np.cumsum(mass)
        if places.values is not None:
            self._first = int(places.values.first[order[0]])
        self._at = [along, along[::-1]]
        self._model = [upto, np.cumsum(mass[::-1])]

    def intervals(self, level: float) -> list[tuple[float, float]]:
        """Return the interval of the quantile at each of `LEVELS`: lengths from the start of the line."""
        low, high = np.array([self.ends(tau, level) for tau in LEVELS]).T
        # Quantiles increase with the level, so what one cannot exceed, no lower one can.
        low, high = np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]
        return list(zip(np.minimum(low, high).tolist(), np.maximum(low, high).tolist(), strict=True))

    def ends(self, tau: float, level: float) -> tuple[float, float]:
        """Return the interval of the quantile of level tau: lengths from the start of the line."""
        bounds = self._bounds
        indices, sides, root = self.middle(tau, level)
        found = []
        for side, (average, target) in enumerate(zip(sides, (tau, 1.0 - tau), strict=True)):
            model = self._model[side]
            excess = average.upper(root) - float(model[indices[side]]) if indices[side] >= 0 else 0.0

            def bound(i: int, side: int = side) -> float:
                return bounds.average(self._functional(side, i), USUAL).upper(root)

            found.append(_furthest(bound, model, target, excess, 0.2 * abs(excess)))
        return self._low(found[0]), self._high(found[1])

    def middle(self, tau: float, level: float) -> tuple[tuple[int, int], list[AnyAverage], float]:
        """Return what is known at about the quantile of level tau.

        Returns
        -------
        tuple
            Indices of the share up to a place there and that beyond it, their averages, and how many standard
            errors their bounds take at the level.
        """
        upto = self._model[0]
        middle = min(int(np.searchsorted(upto, tau)), len(upto) - 1)
        # The share up to a place in the middle and that beyond it: on a lattice, from the next value on.
        indices = middle, len(upto) - 1 - middle - (self._values is not None)
        over, under = (self._bounds.average(self._functional(i, at), USUAL) for i, at in enumerate(indices))
        return indices, [over, under], narrowed_root(over, under, 1.0, level)

    def steps(self, side: int, tau: float, most: float) -> Steps:
        """Return an end of the quantile of level tau: the lower one (side 0) or the upper one (side 1)."""
        model, target = self._model[side], (tau, 1.0 - tau)[side]
        found: dict[int, float] = {}

        def tried(index: int) -> float:
            if index not in found:
                found[index] = self._bounds.average(self._functional(side, index), USUAL).roots(target)
            return found[index]

        middle = min(int(np.searchsorted(model, target)), len(model) - 1)
        average = self._bounds.average(self._functional(side, middle), USUAL)
        excess, error = average.value - float(model[middle]), math.sqrt(average.variance)
        for up in np.linspace(0.0, most, _STEPS) * error:
            index = int(np.searchsorted(model, target - excess - up, "right")) - 1
            if index < 0:
                break
            tried(index)
        while found and (index := min(found)) > 0 and tried(index) < most:  # the error grows outwards
            tried(index - max(1, (middle - index) // 4))
        # From outside inwards up to the first that fails: it takes the error of no more than one bound.
        indices = sorted(found)
        roots = np.minimum.accumulate(np.array([found[index] for index in indices]))
        end = (self._low, self._high)[side]
        return Steps(np.array([end(-1), *map(end, indices)]), np.append(roots, 0.0))

    def _functional(self, side: int, index: int) -> FloatArray:
        """Return functionals above the share up to a place (side 0), or above that beyond it (side 1)."""
        places = self._bounds.places
        if index < 0:
            return np.zeros((1, len(places.at)))
        if self._values is None:
            return places.between(self._cut, self._cut + float(self._at[side][index]))[side]
        cells = len(self._at[side])
        some = (0, index) if side == 0 else (cells - 1 - index, cells - 1)
        return places.values_between(*self._numbers(*some))[0]

    def _numbers(self, first: int, last: int) -> tuple[int, int]:
        """Return the numbers of the first and the last value of some cells of the line."""
        values = cast("Values", self._values)
        if values.size == values.steps:  # a circle, from the first value that is counted
            return self._first + first, self._first + last
        return int(values.first[first]), int(values.last[last])

    def _low(self, index: int) -> float:
        """Return the lower end, where the share up to a place of this index is below the quantile's level."""
        if self._values is not None:
            return (self._numbers(index + 1, index + 1)[0] - self._first) / self._values.steps
        return float(self._at[0][index]) if index >= 0 else 0.0

    def _high(self, index: int) -> float:
        """Return the upper end, where the share from a place of this index on is small enough."""
        if self._values is not None:
            cell = max(len(self._at[1]) - 2 - index, 0)  # the one before
            return (self._numbers(cell, cell)[1] - self._first) / self._values.steps
        return float(self._at[1][index]) if index >= 0 else 1.0


class Steps(NamedTuple):
    """One end of a quantile's interval for any number of standard errors: steps, the outermost first.

    Attributes
    ----------
    at
        Ends of the interval, lengths from the start of the line, on the unit domain.
    roots
        Each is the end for more than so many standard errors, decreasing to 0: up to the one before it.
    """

    at: FloatArray
    roots: FloatArray


class Ends(NamedTuple):
    """Both ends of a quantile's interval for any number of standard errors.

    Attributes
    ----------
    low, high
        The ends.
    root
        How many standard errors both take at the level (`bounds.narrowed_root`).
    """

    low: Steps
    high: Steps
    root: float


def quantile_ends(bounds: Evidence, level: float, most: float, *, cut: float = 0.0) -> list[Ends]:
    """Return the ends of the quantiles at `LEVELS` for any number of standard errors.

    Parameters
    ----------
    bounds
        Of the counts.
    level
        Of the intervals.
    most
        Standard errors up to which the steps are to be fine.
    cut
        Where the line starts on a circle, in turns.
    """
    with one_thread():
        line = _Line(bounds, cut)
        return [
            Ends(line.steps(0, tau, most), line.steps(1, tau, most), line.middle(tau, level)[2])
            for tau in LEVELS
        ]


def _furthest(
    bound: Callable[[int], float], model: FloatArray, target: float, excess: float, enough: float
) -> int:
    """Return the last index at which a bound is below a target, as far as it is found; -1 for none.

    Parameters
    ----------
    bound
        Of an index; about the model and an excess that changes slowly.
    model
        Increasing.
    target, excess
        The target, and a first guess of the excess.
    enough
        How much the model may change from the index returned to one where the bound is not below.
    """
    passed, failed = -1, len(model)
    for _ in range(_TRIALS):
        if failed - passed <= 1:
            break
        wanted = model < target - excess
        guess = int(np.flatnonzero(wanted)[-1]) if wanted.any() else -1
        index = min(max(guess, passed + 1), failed - 1)
        if passed >= 0 and failed < len(model):  # not too near to either side
            part = (failed - passed) // 4
            index = min(max(index, passed + part, passed + 1), failed - part, failed - 1)
        value = bound(index)
        excess = value - float(model[index])
        if value < target:
            passed = index
        else:
            failed = index
        if passed >= 0 and float(model[min(failed, len(model) - 1)] - model[passed]) < enough:
            break
    return passed
