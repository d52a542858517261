"""Quantiles of an interval, and of a circle from an origin, with intervals that hold for every population.

The quantile of level tau is the smallest value v with ``F(v) >= tau``, where F is the distribution function.
It is surely above a value t if the share up to t is surely below tau. It is surely at most t if the share
above t is surely at most 1 - tau. Both conditions are upper bounds of shares (`bounds`), which hold for every
population.

A circle has no lowest value, so its quantiles need an origin. By default this is opposite the mean direction:
few people are there, so its exact position matters little (Fisher 1993 places the circular median in this
way). Another origin may be given, such as midnight. On a lattice a quantile is a value, and so are the ends
of its interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from arcwise.analysis.estimators.bounds import METHOD, SMOOTHED, USUAL, narrowed_root
from arcwise.analysis.estimators.result import Value, all_notes, quantile_name
from arcwise.analysis.grid import arc_cover, cell_edges, coarse_notes, first_cell, values_of
from arcwise.checks import real_or_nan, shown
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis.estimators.bounds import AnyAverage, Evidence
    from arcwise.analysis.estimators.survey import Profile
    from arcwise.analysis.grid import Values
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_LEVELS = 20  # of further quantiles: each takes some 10 ms

_TRIALS = 12  # rounds of the search, each with a bound for every end that is not near enough yet

_EQUAL = 0.1
"""Places count as equal if the fitted share between them is below this part of an excess.

The excess is how far the bound at the start of the search is above the fitted share there.
"""

_CHANCE = 5.0
"""Up to this many standard errors, a bound may exceed its target by chance, not for low resolution."""

_ENOUGH = 0.05  # the search ends if it can gain less than this part of the excess,
_NEAR = 1 / 64  # and lies within this part of the nodes

_ONCE = 0.9
"""Part of an end's error probability that is for the first place tried, at which only one end can be wrong.

The other part is for further places where F also equals the level, as in a gap with half of the people before
it.
"""

_STEPS = 10  # approximate number of places with a bound for the steps of one end
_ROUNDING = 1e-9  # part of a cell: smaller parts are rounding errors


def checked_levels(levels: Any) -> tuple[float, ...]:
    """Return the levels of further quantiles in order, each once.

    Raises `ParameterError` unless each is between 0 and 1, with at most six significant digits: its name in
    results has no more.

    Examples
    --------
    >>> checked_levels([0.9, 0.1, 0.5])
    (0.1, 0.5, 0.9)
    """
    found = [real_or_nan(each) for each in levels] if isinstance(levels, Iterable) else [math.nan]
    if not all(0.0 < each < 1.0 and float(quantile_name(each)) == each for each in found):
        raise ParameterError(
            "quantiles must hold numbers between 0 and 1 with at most six significant digits, such as "
            f"(0.1, 0.9); got {shown(levels)}"
        )
    if len(found) > MOST_LEVELS:
        raise ParameterError(f"quantiles must hold at most {MOST_LEVELS} numbers, got {len(found)}")
    return tuple(sorted({*found}))


def quantiles(survey: Profile, *, level: float = 0.95, also: Sequence[float] = ()) -> dict[str, Value]:
    """Return the quantiles at `LEVELS` and those `also` asked for, in the unit of the domain.

    The survey is on an `Interval`.
    """
    mechanism, probabilities = survey.mechanism, survey.probabilities
    domain = mechanism.domain
    common = all_notes(survey.few, coarse_notes(mechanism), SMOOTHED)
    result = {}
    for tau, ends in _intervals(survey, 0.0, level, also):
        unit = point(mechanism, probabilities, tau)
        note = ""
        value: float | None = None
        if mechanism.end_zones and unit in (0.0, 1.0):
            note = "in an end zone, where the reports do not distinguish values"
        else:
            value = float(domain.from_unit(np.float64(unit)))
        # A wider interval is always valid.
        both = ends if value is None else (min(ends[0], unit), max(ends[1], unit))
        first, last = domain.from_unit(np.array(both)).tolist()
        result[quantile_name(tau)] = Value(value, first, last, METHOD, all_notes(note, common))
    return result


def point(mechanism: Mechanism, probabilities: FloatArray, tau: float) -> float:
    """Return the quantile of level `tau` of a node distribution, on the unit interval."""
    values = values_of(mechanism)
    if values is not None:
        cell = min(int(np.searchsorted(np.cumsum(probabilities), tau)), len(probabilities) - 1)
        # In an end zone, which the result marks, the end of the domain represents all of the zone.
        return float(values.units((values.last if cell else values.first)[cell]))
    at_edges = np.cumsum(probabilities)[:-1]  # the distribution function at inner edges
    if tau <= at_edges[0]:
        return 0.0
    if tau > at_edges[-1]:
        return 1.0
    right = int(np.searchsorted(at_edges, tau))
    share = (tau - at_edges[right - 1]) / (at_edges[right] - at_edges[right - 1])
    edges = cell_edges(mechanism)
    return float(edges[right] + share * (edges[right + 1] - edges[right]))


def _intervals(
    survey: Profile, cut: float, level: float, also: Sequence[float]
) -> list[tuple[float, tuple[float, float]]]:
    """Return the intervals of the quantiles at `LEVELS` and `also`, each with its level, in order.

    Further levels are searched one by one, so no interval depends on which others are asked for.
    """
    found: list[tuple[float, tuple[float, float]]] = []
    for levels in (LEVELS, *((tau,) for tau in also if tau not in LEVELS)):
        found += zip(levels, _Line(survey.bounds, cut, levels).intervals(level), strict=True)
    return sorted(found)


def opposite(direction: Value, period: float) -> float | None:
    """Return the place opposite a mean direction, or None if the direction is not determined."""
    if direction.value is None or direction.low is None or direction.high is None:
        return None
    if direction.high - direction.low >= period:
        return None
    return (direction.value + period / 2) % period


def circular_quantiles(
    survey: Profile, origin: float, *, level: float = 0.95, also: Sequence[float] = ()
) -> dict[str, Value]:
    """Return the quantiles at `LEVELS` and `also` of the values upwards from an origin, in the domain's unit.

    The circle is cut open at the origin (modulo the period), and the intervals are for the population's
    quantiles counted from exactly this place. The values lie in [0, period); an interval may extend below 0
    or above the period, with ``low <= value <= high``.
    """
    mechanism, probabilities = survey.mechanism, survey.probabilities
    if not mechanism.kernel.circular:
        raise ParameterError("mechanism must be on a circle; on an interval, quantiles need no origin")
    period = mechanism.domain.length
    values = values_of(mechanism)
    cut = cut_at(mechanism, origin)
    intervals = _intervals(survey, cut, level, also)
    common = all_notes(
        survey.few,
        f"counted upwards from {origin % period:.6g}",
        coarse_notes(mechanism),
        SMOOTHED,
    )
    result = {}
    points = along_circle(mechanism, probabilities, cut, [tau for tau, _ in intervals])
    for unit, (tau, (low, high)) in zip(points, intervals, strict=True):
        if values is not None:  # number of values after the first value counted
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
        result[quantile_name(tau)] = Value(value, least, most, METHOD, common)
    return result


def check_no_origin(origin: float | None) -> None:
    """Raise `ParameterError` if an origin is given for an interval, which has none."""
    if origin is not None:
        raise ParameterError(f"origin must be None on an interval, got {origin!r}")


def cut_at(mechanism: Mechanism, origin: float) -> float:
    """Return where a circle is cut, in turns: at the origin, or on a lattice just before the next value."""
    if not math.isfinite(origin):
        raise ParameterError(f"origin must be a finite number, got {origin!r}")
    cut = origin / mechanism.domain.length % 1.0
    values = values_of(mechanism)
    if values is None:
        return cut
    return (values.between(cut, 1.0)[0] % values.size - 0.5) / values.size


def along_circle(
    mechanism: Mechanism, probabilities: FloatArray, cut: float, levels: Sequence[float] = LEVELS
) -> list[float]:
    """Return the quantiles at some levels of a node distribution, as lengths from a cut, in turns.

    On a lattice the quantiles are values: whole steps from the first value after the cut.
    """
    grid = np.linspace(0.0, 1.0, len(probabilities) + 1)
    edges, fitted = cell_edges(mechanism), np.roll(probabilities, -first_cell(mechanism))
    upto = np.array([arc_cover(edges, cut, length) @ fitted for length in grid])
    units: FloatArray = np.interp(levels, upto, grid)
    values = values_of(mechanism)
    if values is not None:
        units = np.maximum(np.ceil(units * values.size - _ROUNDING) - 1.0, 0.0) / values.size
    return [float(unit) for unit in units]


class _Line:
    """The domain laid out from its low end, or a circle from a cut, with bounds of the distribution function.

    The line starts at `cut` on the unit domain: at 0 on an interval. `levels` are those of the quantiles.
    """

    def __init__(self, bounds: Evidence, cut: float, levels: Sequence[float] = LEVELS) -> None:
        self._bounds, self._cut, self._levels = bounds, cut, levels
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
        self._averages: list[dict[int, AnyAverage]] = [{}, {}]
        self._known: dict[tuple[_End, int], float] = {}

    def intervals(self, level: float) -> list[tuple[float, float]]:
        """Return the interval of the quantile at each level: lengths from the start of the line."""
        ends = self.ends(level)
        for _ in range(_TRIALS):
            asked = {(end.side, index) for end in ends if (index := self._next(end)) is not None}
            if not asked:
                break
            self._ask(asked)
        found = [self._between(end)[0] for end in ends]
        low, high = np.array([[self._low(k) for k in found[::2]], [self._high(k) for k in found[1::2]]])
        # Quantiles increase with the level, so an upper end also holds for all lower levels.
        low, high = np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]
        return list(zip(np.minimum(low, high).tolist(), np.maximum(low, high).tolist(), strict=True))

    def ends(self, level: float) -> list[_End]:
        """Return the lower and the upper end of the quantile at each level, to be searched."""
        upto = self._model[0]
        middles = [min(int(np.searchsorted(upto, tau)), len(upto) - 1) for tau in self._levels]
        # The share up to a place in the middle, and the share beyond it; on a lattice the latter is from the
        # next value on.
        rests = [len(upto) - 1 - each - (self._values is not None) for each in middles]
        self._ask({(0, each) for each in middles} | {(1, each) for each in rests})
        least = NormalDist().inv_cdf(1.0 - _ONCE * (1.0 - level))
        ends = []
        for tau, middle, rest in zip(self._levels, middles, rests, strict=True):
            over, under = self._averages[0][middle], self._averages[1][rest]
            root = max(narrowed_root(over, under, 1.0, level), least)
            ends += [_End(0, middle, tau, root), _End(1, rest, 1.0 - tau, root)]
        return ends

    def _ask(self, asked: Iterable[tuple[int, int]]) -> None:
        """Compute the averages for pairs of a side and an index; the index -1 means no part of the side."""
        new = sorted((side, index) for side, index in set(asked) if index not in self._averages[side])
        averages = self._bounds.averages([self._functional(*each) for each in new], USUAL)
        for (side, index), average in zip(new, averages, strict=True):
            self._averages[side][index] = average

    def _bound(self, end: _End, index: int) -> float:
        """Return the bound at an index already passed to `_ask`."""
        if (end, index) not in self._known:
            self._known[end, index] = self._averages[end.side][index].upper(end.root)
        return self._known[end, index]

    def _between(self, end: _End) -> tuple[int, int]:
        """Return the last index that passes before any fails, or -1, and the first index that fails.

        Bounds vary from place to place. If an end were the furthest place with a bound below the target,
        despite failures before it, chance would select it among many places.
        """
        passed = -1
        for index in sorted(self._averages[end.side]):
            if self._bound(end, index) >= end.target:
                return passed, index
            passed = index
        return passed, len(self._model[end.side])

    def _next(self, end: _End) -> int | None:
        """Return the next index to try for an end, or None if another bound is not worth its cost.

        It is near the place where a straight line from a bound that passes to a bound that fails meets the
        target. If an index failed that could pass by chance, indices that are equal to it in the fit are not
        tried. They would be further chances for a place that should not pass, such as a place in a gap with
        exactly the target's share before it.
        """
        model = self._model[end.side]
        passed, failed = self._between(end)
        excess = 0.0
        if end.middle >= 0:
            excess = abs(self._bound(end, end.middle) - float(model[end.middle]))
        least, below = (float(model[passed]), self._bound(end, passed)) if passed >= 0 else (0.0, 0.0)
        aim, last = end.target - (below - least), failed - 1
        if failed < len(model):
            most, above = float(model[failed]), self._bound(end, failed)
            aim = least + (end.target - below) / (above - below) * (most - least)
            if passed < 0:  # or assume the failed index's distance from bound to fit
                aim = max(end.target - (above - most), 0.5 * (aim + end.target - (above - most)))
            if end.target - most < _CHANCE * math.sqrt(self._averages[end.side][failed].variance):
                equal = int(np.searchsorted(model, most - _EQUAL * excess))
                last = min(last, max(equal - 1, 0 if passed < 0 else -1))
        if last <= passed:
            return None
        gain = float(model[last]) - least
        if passed >= 0 and gain < _ENOUGH * excess and last - passed <= _NEAR * len(model):
            return None
        if not gain:  # the fit gives no position between
            return (passed + last + 1) // 2
        return min(max(int(np.searchsorted(model, aim)) - 1, passed + 1), last)

    def steps(self, end: _End, most: float) -> Steps:
        """Return an end for any number of standard errors, with fine steps up to `most`."""
        side, middle, target, _ = end
        model, averages = self._model[side], self._averages[side]
        excess, error = 0.0, 0.0
        if middle >= 0:
            excess = averages[middle].value - float(model[middle])
            error = math.sqrt(averages[middle].variance)
        wanted = target - excess - error * np.linspace(0.0, most, _STEPS)
        indices = {int(each) for each in np.searchsorted(model, wanted, "right") - 1 if each >= 0}
        self._ask((side, index) for index in indices)
        # The error grows outwards.
        while indices and (index := min(indices)) > 0 and averages[index].roots(target) < most:
            indices.add(index - max(1, (middle - index) // 4))
            self._ask([(side, min(indices))])
        # From outside inwards up to the first failure, so that the error of only one bound counts.
        tried = sorted(index for index in averages if index >= 0 and index <= max(indices, default=-1))
        roots = np.minimum.accumulate(np.array([averages[index].roots(target) for index in tried]))
        place = (self._low, self._high)[side]
        return Steps(np.array([place(-1), *map(place, tried)]), np.append(roots, 0.0))

    def _functional(self, side: int, index: int) -> FloatArray:
        """Return functionals above the share up to a place (side 0), or the share beyond it (side 1)."""
        places = self._bounds.places
        if index < 0:
            return np.zeros((1, len(places.at)))
        if self._values is None:
            return places.between(self._cut, self._cut + float(self._at[side][index]))[side]
        cells = len(self._at[side])
        some = (0, index) if side == 0 else (cells - 1 - index, cells - 1)
        return places.values_between(*self._numbers(*some))[0]

    def _numbers(self, first: int, last: int) -> tuple[int, int]:
        """Return the indices of the first and the last value of some cells of the line."""
        values = cast("Values", self._values)
        if values.size == values.steps:  # a circle: count from the first value after the cut
            return self._first + first, self._first + last
        return int(values.first[first]), int(values.last[last])

    def _low(self, index: int) -> float:
        """Return the lower end, if the share up to the place of this index is below the quantile's level."""
        if self._values is not None:
            cell = min(index + 1, len(self._at[0]) - 1)  # the next cell
            return (self._numbers(cell, cell)[0] - self._first) / self._values.steps
        return float(self._at[0][index]) if index >= 0 else 0.0

    def _high(self, index: int) -> float:
        """Return the upper end, if the share from the place of this index on is small enough."""
        if self._values is not None:
            cell = max(len(self._at[1]) - 2 - index, 0)  # the cell before
            return (self._numbers(cell, cell)[1] - self._first) / self._values.steps
        return float(self._at[1][index]) if index >= 0 else 1.0


class Steps(NamedTuple):
    """One end of a quantile's interval for any number of standard errors: steps, the outermost first.

    `at` holds the ends, as lengths from the start of the line on the unit domain. Each of them is the end for
    numbers of standard errors above its entry in `roots`, up to the entry before; `roots` decreases to 0.
    """

    at: FloatArray
    roots: FloatArray


class Ends(NamedTuple):
    """Both ends of a quantile's interval for any number of standard errors.

    At the level, both ends have `root` standard errors (`bounds.narrowed_root`).
    """

    low: Steps
    high: Steps
    root: float


def quantile_ends(bounds: Evidence, level: float, most: float, *, cut: float = 0.0) -> list[Ends]:
    """Return the ends of the quantiles at `LEVELS` for any number of standard errors.

    The steps are fine up to `most` standard errors. On a circle the line starts at `cut`, in turns.
    """
    line = _Line(bounds, cut, LEVELS)
    ends = line.ends(level)
    return [
        Ends(line.steps(low, most), line.steps(high, most), low.root)
        for low, high in zip(ends[::2], ends[1::2], strict=True)
    ]


class _End(NamedTuple):
    """One end of an interval: the last index on a side of the line with a bound below a target.

    The search starts from the index `middle`; the bound is `root` standard errors above the average.
    """

    side: int
    middle: int
    target: float
    root: float
