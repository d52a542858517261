"""What an estimate is made of: values with intervals, distributions, their JSON. No estimator lives here."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from arcwise.analysis.estimators.notes import Noted, note_lines
from arcwise.digits import written
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

__all__ = ["Band", "Distribution", "Estimate", "Shares", "Value", "quantile_name", "share_name"]


def quantile_name(level: float) -> str:
    """Return the name by which results hold a quantile: "0.5" is the median's."""
    return f"{level:g}"


def share_name(low: float, high: float) -> str:
    """Return "low:high", the name by which results hold the share of the population from one to the other."""
    return f"{low:.15g}:{high:.15g}"


@dataclass(frozen=True)
class Value(Noted):
    """A number with an interval.

    Attributes
    ----------
    value
        The point estimate, in the unit of the domain. None where the reports determine only a range.
    low, high
        The interval at the estimate's level. None where none is offered; `note` says why. Around a direction
        they are unwrapped, ``low <= value <= high``: low may be negative, high may exceed the period, and
        an interval as long as the period is the whole circle.
    method
        How the number and the interval were computed.
    notes
        What a reader must know; `note` is all of it as one text, or "".
    """

    value: float | None
    low: float | None
    high: float | None
    method: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if number is not None:
                if not math.isfinite(number):  # JSON has no NaN, and no estimate is one
                    raise ArithmeticError(f"{name} is {number!r}, not a finite number")
                object.__setattr__(self, name, float(number))

    def contains(self, x: float, *, period: float | None = None) -> bool:
        """Return whether `x` lies in the interval; with `period`, modulo the period.

        Without an interval nothing is claimed, and nothing is contained.
        """
        if self.low is None or self.high is None:
            return False
        if period is None:
            return self.low <= x <= self.high
        return self.high - self.low >= period or (x - self.low) % period <= self.high - self.low

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the five attributes."""
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        return {**numbers, "method": self.method, "note": self.note}

    def __str__(self) -> str:
        point, low, high = self.written()
        if not low:
            return f"{point or 'unknown'} (no interval: {self.note})"
        return f"{point} [{low}, {high}]" if point else f"between {low} and {high}"

    def written(self) -> tuple[str, str, str]:
        """Return value, low and high with the digits that the interval's width asks for; "" for None."""
        numbers = (self.value, self.low, self.high)
        known = iter(written(*(number for number in numbers if number is not None), digits=5))
        point, low, high = ("" if number is None else next(known) for number in numbers)
        return point, low, high


@dataclass(frozen=True)
class Distribution(Noted):
    """A histogram: one bin for each node of the task's grid.

    Attributes
    ----------
    edges
        ``len(probabilities) + 1`` increasing numbers in the unit of the domain. A bin is a node's cell, which
        reaches half way to the neighbours. On an interval the edges run from low to high and the two end
        cells are half as wide as the others (wider for the clamp placement: its end zones). On a circle all
        cells are equally wide and the edges span one period; where a cell straddles 0 they start half a
        cell below 0, so that the first bin is centred on 0. On a lattice a bin reaches half a step to both
        sides of its value, at the ends beyond the domain.
    probabilities
        The share of the population in each bin; sums to 1.
    method, notes
        As in `Value`.
    values
        On a lattice the value of each bin, of which `probabilities` are the shares. None on a continuous
        domain, and for the clamp placement, whose end zones hold several values.
    fitted_mean
        The mean of this histogram, in the unit of the domain. At a small epsilon it errs less than the
        unbiased mean on the whole, but it is biased, towards the middle of the domain, by an amount that
        nobody knows; so it has no interval, and averages of many of them stay biased. None on a circle and
        for the clamp placement.
    """

    edges: tuple[float, ...]
    probabilities: tuple[float, ...]
    method: str
    notes: tuple[str, ...] = ()
    values: tuple[float, ...] | None = None
    fitted_mean: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the attributes that are not None."""
        return {
            "edges": list(self.edges),
            "probabilities": list(self.probabilities),
            "method": self.method,
            "note": self.note,
            **({} if self.values is None else {"values": list(self.values)}),
            **({} if self.fitted_mean is None else {"fitted_mean": self.fitted_mean}),
        }


_VALUES = (
    "mean",
    "variance",
    "standard_deviation",
    "direction",
    "resultant_length",
    "circular_variance",
    "mode",
)
"""The attributes of an estimate that are a single value, in the order in which they are shown."""


@dataclass(frozen=True)
class Band(Noted):
    """A band that holds the distribution function F everywhere at once.

    Attributes
    ----------
    at
        Increasing values in the unit of the domain, at least one.
    low, high
        ``low[i] <= F(at[i]) <= high[i]`` for all i at once. F increases, so from ``at[i]`` up to
        ``at[i+1]`` it is at least ``low[i]`` and at most ``high[i+1]``; below ``at[0]`` at least 0, above the
        last value at most 1.
    method, notes
        As in `Value`.
    """

    at: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    method: str
    notes: tuple[str, ...] = ()

    def bounds(self, x: float) -> tuple[float, float]:
        """Return between which shares F(x) lies."""
        left, right = bisect_right(self.at, x), bisect_left(self.at, x)
        return (self.low[left - 1] if left else 0.0), (self.high[right] if right < len(self.at) else 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the five attributes."""
        numbers = {"at": list(self.at), "low": list(self.low), "high": list(self.high)}
        return {**numbers, "method": self.method, "note": self.note}


class Shares:
    """What has quantiles and shares by name; `quantile` and `share` find one by its numbers."""

    quantiles: Mapping[str, Value]
    shares: Mapping[str, Value]

    def quantile(self, level: float) -> Value:
        """Return the quantile of a level: 0.5 for the median.

        Raises
        ------
        ParameterError
            When there is none; its message lists those that there are.
        """
        return _found(self.quantiles, quantile_name(level), "level must be one of the quantiles'")

    def share(self, low: float, high: float) -> Value:
        """Return the share of the population from `low` to `high`, one of those that were asked for.

        Raises
        ------
        ParameterError
            When it was not asked for; its message lists those that were.
        """
        return _found(self.shares, share_name(low, high), "low and high must be those of `between`")


def _found(values: Mapping[str, Value], name: str, must: str) -> Value:
    try:
        return values[name]
    except KeyError:
        known = ", ".join(values) or "there are none"
        raise ParameterError(f"{must} ({known}), got {name}") from None


@dataclass(frozen=True)
class Estimate(Shares):
    """All that the counts of one task tell about the population.

    Attributes
    ----------
    task, task_id
        The task's name and id.
    n
        How many reports were counted.
    epsilon
        The privacy loss of one report.
    delta
        Its delta: what the certificate says of the integers, as a float; 0 for pure epsilon.
    level
        The level of every interval.
    target
        Whom the numbers speak about.
    domain
        The domain and the unit of its values in words, for people.
    mean, variance, standard_deviation
        On an interval; the variance in the squared unit of the domain.
    direction, resultant_length, circular_variance
        On a circle; circular variance is 1 less the resultant length.
    mode
        Where most of the population is; its interval only when bands were asked for.
    distribution
        The fitted histogram.
    quantiles
        By level ("0.5" is the median), or `quantile(0.5)`. On a circle, which has no lowest value, those
        counted upwards from an origin: with bands or where an origin was given.
    shares
        Of the population, between two values each, by "low:high" (`share` takes the numbers); those that were
        asked for.
    bins
        The shares of equally wide bins, by "low:high", when bands were asked for.
    band
        Around the distribution function of an interval, simultaneous, when bands were asked for.
    unit, description
        Of the values and of the task, for people; None where the task says neither.
    """

    task: str
    task_id: str
    n: int
    epsilon: float
    level: float
    target: str
    domain: str
    delta: float = 0.0
    mean: Value | None = None
    variance: Value | None = None
    standard_deviation: Value | None = None
    direction: Value | None = None
    resultant_length: Value | None = None
    circular_variance: Value | None = None
    mode: Value | None = None
    distribution: Distribution | None = None
    quantiles: Mapping[str, Value] = field(default_factory=dict)
    shares: Mapping[str, Value] = field(default_factory=dict)
    bins: Mapping[str, Value] = field(default_factory=dict)
    band: Band | None = None
    unit: str | None = None
    description: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object; what does not apply to the task is absent, and no number is NaN."""
        head = ("task", "task_id", "n", "epsilon", "level", "target")
        result: dict[str, Any] = {name: getattr(self, name) for name in head}
        if self.delta:
            result["delta"] = self.delta
        if self.unit is not None:
            result["unit"] = self.unit
        for name in (*_VALUES, "distribution"):
            part = getattr(self, name)
            if part is not None:
                result[name] = part.to_dict()
        for name in ("quantiles", "shares", "bins"):
            if values := getattr(self, name):
                result[name] = {key: value.to_dict() for key, value in values.items()}
        if self.band is not None:
            result["band"] = self.band.to_dict()
        return result

    def plot(self) -> Figure:
        """Return the picture as a matplotlib figure: ``estimate.plot().savefig("x.png")``.

        Density and distribution function on an interval, a rose on a circle, with the intervals that there
        are (`arcwise.analysis.plotting.draw_estimate`).

        Raises
        ------
        MissingExtraError
            When matplotlib is not installed: the extra is `plots`.
        """
        from arcwise.analysis.plotting.estimates import SIZES, draw_estimate
        from arcwise.analysis.plotting.style import new_figure

        with new_figure(SIZES["interval" if self.resultant_length is None else "circle"]) as figure:
            draw_estimate(figure, self)
        return figure

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        cells = [
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(str(value))}</td>"
            f"<td>{escape(value.method)}</td></tr>"
            for name, value in self._rows()
        ]
        head, *rest = map(escape, self._head())
        return (
            f"<p>{'<br>'.join([f'<b>{head}</b>', *rest])}</p><table><thead><tr><th></th><th>estimate</th>"
            f"<th>method</th></tr></thead><tbody>{''.join(cells)}</tbody></table>"
            + "".join(f"<p>note: {escape(note)}</p>" for note in self._notes())
        )

    def _rows(self) -> list[tuple[str, Value]]:
        rows: list[tuple[str, Value | None]] = [
            *((name.replace("_", " "), getattr(self, name)) for name in _VALUES),
            *((f"quantile {level}", value) for level, value in self.quantiles.items()),
            *((f"share {bounds}", value) for bounds, value in self.shares.items()),
            *((f"bin {bounds}", value) for bounds, value in self.bins.items()),
        ]
        return [(name, value) for name, value in rows if value is not None]

    def _head(self) -> list[str]:
        loss = f"epsilon {self.epsilon:g}" + (f", delta {self.delta:.3g}" if self.delta else "")
        return [
            f"{self.task}: {self.n:,} report{'s' * (self.n != 1)} at {loss}, values in {self.domain}",
            *([] if self.description is None else [self.description]),
            f"intervals at level {self.level:g}, for {self.target}",
        ]

    def __str__(self) -> str:
        lines = self._head()
        lines += [f"  {name:<18} {value}" for name, value in self._rows()]
        if self.distribution is not None:
            cells, mean = len(self.distribution.probabilities), self.distribution.fitted_mean
            of_it = "" if mean is None else f", their mean {mean:.5g} (biased, no interval)"
            lines.append(f"  {'distribution':<18} {cells} cells{of_it}")
        lines += [f"  note: {note}" for note in self._notes()]
        return "\n".join(lines)

    def _notes(self) -> list[str]:
        """Return the notes of rows with an interval; without one a row tells its note itself."""
        return note_lines([(name, value.notes) for name, value in self._rows() if value.low is not None])
