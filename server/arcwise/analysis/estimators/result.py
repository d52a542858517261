"""The parts of an estimate (values with intervals and notes, distributions) and their JSON; no estimators."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from arcwise.analysis.documents import (
    checked_document,
    head_from_dict,
    head_to_dict,
    words_of_domain,
    words_of_loss,
)
from arcwise.analysis.shown import Shown, short_repr
from arcwise.analysis.tidy import FAMILIES
from arcwise.digits import counted, digits_apart
from arcwise.errors import ParameterError
from arcwise.notebook import Form, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arcwise.domains import Domain
    from arcwise.tasks import Task

Result = TypeVar("Result", bound="Shares")


def quantile_name(level: float) -> str:
    """Return the name of a quantile in results: "0.5" for the median."""
    return f"{level:g}"


def share_name(low: float, high: float) -> str:
    """Return "low:high", the name in results of the share of the population from `low` to `high`."""
    return f"{low:.15g}:{high:.15g}"


_SEVERAL = {name: family for family, name in FAMILIES.items()}
"""First words of the names of rows that belong to a family."""


class Noted:
    """Base of results with a method and notes."""

    method: str
    notes: tuple[str, ...]

    @property
    def note(self) -> str:
        """The notes as one text, or ""."""
        return "; ".join(self.notes)

    def _said(self) -> dict[str, Any]:
        return {"method": self.method, "note": self.note, "notes": list(self.notes)}


def said_in(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return method and notes from the JSON object of a number, a distribution or a band."""
    return {"method": document["method"], "notes": tuple(document["notes"])}


def all_notes(*parts: str | Iterable[str]) -> tuple[str, ...]:
    """Return all notes as one tuple; each argument is a note, several notes, or "" for no note."""
    several = ((each,) if isinstance(each, str) else each for each in parts)
    return tuple(note for each in several for note in each if note)


def note_lines(rows: Sequence[tuple[str, Iterable[str]]]) -> list[str]:
    """Return one line of text for each distinct note, with the names of the rows that have it.

    Examples
    --------
    >>> rows = [("mean", ["few reports"]), ("quantile 0.5", ["smoothed", "few reports"]), ("mode", [])]
    >>> note_lines(rows)
    ['few reports (mean, quantiles)', 'smoothed (quantiles)']
    """
    about: dict[str, dict[str, None]] = {}
    groups = [_SEVERAL.get(name.split(" ")[0], name) for name, _ in rows]
    for group, (_, notes) in zip(groups, rows, strict=True):
        for note in notes:
            about.setdefault(note, {})[group] = None
    everything = set(groups)
    return [
        note if set(names) == everything else f"{note} ({', '.join(names)})" for note, names in about.items()
    ]


def _refuse(self: object, *_others: object) -> NoReturn:
    raise TypeError(
        "arithmetic on a Value would lose its interval: calculate with float(value), value.low and "
        "value.high; compare_samples and compare_reference give differences with an interval"
    )


@dataclass(frozen=True)
class Value(Noted):
    """A number with an interval.

    ``float(value)`` is the number, and a format applies to the number: ``f"{value:.2f}"``. Without a format,
    ``f"{value}"`` is the number with its interval. Arithmetic, rounding and order raise `TypeError`, since
    their results would have no interval.

    Attributes
    ----------
    value
        The point estimate, in the unit of the domain. None if the reports determine only a range of values.
    low, high
        The ends of the interval at the estimate's level. None if there is no interval; `note` says why. On a
        circle the interval runs from low upwards to high, both within the domain. If low exceeds high, it
        passes the origin (`through_origin`). The interval [0, period] is the whole circle.
    method
        How the number and the interval were computed.
    notes
        Remarks that a reader must know; `note` joins them in one text, or "".
    period
        The period of the circle for a place on a circle, otherwise None.
    """

    value: float | None
    low: float | None
    high: float | None
    method: str
    notes: tuple[str, ...] = ()
    period: float | None = None

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if number is not None:
                if not math.isfinite(number):  # JSON has no NaN, and an estimate is never NaN
                    raise ArithmeticError(f"{name} is {number!r}, not a finite number")
                object.__setattr__(self, name, float(number))

    @property
    def through_origin(self) -> bool:
        """Whether the interval passes the origin of a circle: it covers `low` upwards, and 0 to `high`."""
        if self.period is None or self.low is None or self.high is None:
            return False
        return self.low > self.high

    def ends(self) -> tuple[float, float] | None:
        """Return the interval without a jump, ``low <= value <= high``, or None if there is no interval.

        On a circle low may then be negative, or high may exceed the period.
        """
        if self.low is None or self.high is None:
            return None
        if not self.through_origin or self.period is None:
            return self.low, self.high
        if self.value is None or self.value >= self.low:
            return self.low, self.high + self.period
        return self.low - self.period, self.high

    def on_circle(self, period: float) -> Value:
        """Return this place on a circle, with its number and interval moved into the domain."""
        ends = self.low, self.high
        if self.low is not None and self.high is not None:
            if self.high - self.low >= period:
                ends = 0.0, period
            elif self.low < 0.0 or self.high > period or self.value == period:
                ends = _turned(self.low, period), _turned(self.high, period)
        value = None if self.value is None else _turned(self.value, period)
        return replace(self, value=value, low=ends[0], high=ends[1], period=period)

    def contains(self, x: float, *, period: float | None = None) -> bool:
        """Return whether `x` lies in the interval; on a circle, or with `period`, modulo the period.

        Without an interval the answer is always False.
        """
        ends, period = self.ends(), self.period if period is None else period
        if ends is None:
            return False
        low, high = ends
        if period is None:
            return low <= x <= high
        return high - low >= period or (x - low) % period <= high - low

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with value, low, high, method and notes; on a circle also `through_origin`."""
        numbers: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high}
        if self.period is not None:
            numbers["through_origin"] = self.through_origin
        return {**numbers, **self._said()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, period: float | None = None) -> Value:
        """Return the value that `to_dict` wrote; `period` is that of the domain, for places on a circle."""
        value, low, high = (document[name] for name in ("value", "low", "high"))
        period = period if "through_origin" in document else None
        return cls(value, low, high, **said_in(document), period=period)

    def __str__(self) -> str:
        point, low, _ = self.written()
        if not low:
            return f"{point or 'unknown'} (no interval: {self.note})"
        interval = self.interval_words()
        if point:
            return f"{point} [{interval}]"
        return f"between {interval.replace(', ', ' and ').replace(' to ', ' and ')}"

    def __repr__(self) -> str:
        return f"<Value {self}>"

    def __float__(self) -> float:
        if self.value is None:
            raise TypeError(f"there is no single number, only a range: {self}; use .low and .high")
        return self.value

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def written(self) -> tuple[str, str, str]:
        """Return value, low and high with the digits that the interval's width justifies; "" for None."""
        numbers = (self.value, self.low, self.high)
        around = (self.value, *(self.ends() or (self.low, self.high)))
        turn = self.period if self.through_origin and self.period is not None else 0.0  # to move one end
        digits = digits_apart(*(number + turn for number in around if number is not None), digits=5)
        point, low, high = ("" if number is None else f"{number:.{digits}g}" for number in numbers)
        return point, low, high

    def interval_words(self) -> str:
        """Return the interval in words: "51.9, 53.5" or "350 to 10 (through 0)"; "" without an interval."""
        _, low, high = self.written()
        if not low or not high:
            return ""
        return f"{low} to {high} (through 0)" if self.through_origin else f"{low}, {high}"

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _refuse
    __neg__ = __pos__ = __abs__ = __int__ = __round__ = __trunc__ = __floor__ = __ceil__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse


def numbers_of(value: Value | None) -> tuple[float, float, float]:
    """Return value, low and high without a jump; missing numbers are NaN."""
    if value is None:
        return math.nan, math.nan, math.nan
    numbers = (value.value, *(value.ends() or (None, None)))
    point, low, high = (math.nan if number is None else number for number in numbers)
    return point, low, high


def _turned(place: float, period: float) -> float:
    """Return a place on a circle in [0, period); places already inside are unchanged."""
    if 0.0 <= place < period:
        return place
    return min(place % period, math.nextafter(period, 0.0))  # a tiny negative number rounds up to the period


@dataclass(frozen=True)
class Distribution(Noted):
    """A histogram: one bin for each node of the task's grid.

    Attributes
    ----------
    edges
        ``len(probabilities) + 1`` increasing numbers in the unit of the domain. A bin is a node's cell, which
        reaches half way to the neighbours. On an interval the edges run from low to high and the two end
        cells are half as wide as the others (wider for the clamp placement: its end zones). On a circle all
        cells are equally wide and the edges span one period; if a cell straddles 0 they start half a cell
        below 0, so that the first bin is centred on 0. On a lattice a bin extends half a step to both sides
        of its value; the first and the last bin extend beyond the domain.
    probabilities
        The share of the population in each bin; sums to 1.
    method, notes
        As in `Value`.
    values
        On a lattice the value of each bin, to which `probabilities` refer. None on a continuous domain, and
        for the clamp placement, whose end zones hold several values.
    fitted_mean
        The mean of this histogram, in the unit of the domain. At a small epsilon its total error is smaller
        than that of the unbiased mean. But it is biased towards the middle of the domain by an unknown
        amount. So it has no interval, and an average of many fitted means stays biased. None on a circle and
        for the clamp placement.
    modes
        A lower bound of the number of modes of the population: at the level 0.95, the reports rule out every
        distribution with fewer modes. `probabilities` often have more modes, if the reports leave open how
        people are distributed between two values. None in documents of versions that did not count modes.
    resolution
        The width of a bin in charts, in the unit of the domain: the reports do not resolve narrower details.
        None if the bins of `edges` are at least as wide as the finest resolved details, and on a lattice of
        up to 24 values.
    """

    edges: tuple[float, ...]
    probabilities: tuple[float, ...]
    method: str
    notes: tuple[str, ...] = ()
    values: tuple[float, ...] | None = None
    fitted_mean: float | None = None
    modes: int | None = None
    resolution: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the attributes that are not None."""
        numbers = {name: getattr(self, name) for name in ("fitted_mean", "modes", "resolution")}
        return {
            "edges": list(self.edges),
            "probabilities": list(self.probabilities),
            **self._said(),
            **({} if self.values is None else {"values": list(self.values)}),
            **{name: number for name, number in numbers.items() if number is not None},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Distribution:
        """Return the distribution that `to_dict` wrote."""
        values, mean, wide = (document.get(name) for name in ("values", "fitted_mean", "resolution"))
        return cls(
            _floats(document["edges"]),
            _floats(document["probabilities"]),
            **said_in(document),
            values=None if values is None else _floats(values),
            fitted_mean=None if mean is None else float(mean),
            modes=document.get("modes"),
            resolution=None if wide is None else float(wide),
        )

    def __repr__(self) -> str:
        return (
            f"<Distribution of {len(self.probabilities)} cells from {self.edges[0]:g} to {self.edges[-1]:g}>"
        )


@dataclass(frozen=True)
class Band(Noted):
    """A band that holds the whole distribution function F, simultaneously at all values.

    Attributes
    ----------
    at
        Increasing values in the unit of the domain, at least one.
    low, high
        ``low[i] <= F(at[i]) <= high[i]`` for all i together. F increases, so from ``at[i]`` up to ``at[i+1]``
        it is at least ``low[i]`` and at most ``high[i+1]``. Below ``at[0]`` it is at least 0, and above the
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
        """Return a lower and an upper bound of the distribution function at `x`."""
        left, right = bisect_right(self.at, x), bisect_left(self.at, x)
        return (self.low[left - 1] if left else 0.0), (self.high[right] if right < len(self.at) else 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the attributes, and `note`."""
        numbers = {"at": list(self.at), "low": list(self.low), "high": list(self.high)}
        return {**numbers, **self._said()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Band:
        """Return the band that `to_dict` wrote."""
        at, low, high = (_floats(document[name]) for name in ("at", "low", "high"))
        return cls(at, low, high, **said_in(document))

    def __repr__(self) -> str:
        return f"<Band at {len(self.at)} places from {self.at[0]:g} to {self.at[-1]:g}>"


class Shares:
    """Base of results with quantiles and shares by name; `quantile` and `share` find them by numbers."""

    quantiles: Mapping[str, Value]
    shares: Mapping[str, Value]

    def quantile(self, level: float) -> Value:
        """Return the quantile of a level: 0.5 for the median.

        Raises
        ------
        ParameterError
            When there is no such quantile; the message lists the available ones.
        """
        return _found(self.quantiles, quantile_name(level), "level must be one of the quantiles' levels")

    def share(self, low: float, high: float) -> Value:
        """Return the share of the population from `low` to `high`, one of the shares requested by `between`.

        Raises
        ------
        ParameterError
            When this share was not requested; the message lists the requested ones.
        """
        return _found(self.shares, share_name(low, high), "low and high must be a pair of `between`")

    def __repr__(self) -> str:
        return short_repr(self, named_values(self))

    def _text(self, head: Sequence[str], more: Sequence[str]) -> str:
        """Return the head, a line for each value, further lines and the notes."""
        lines = [f"  {name:<18} {value}" for name, value in named_values(self).items()]
        return "\n".join([*head, *lines, *more, *(f"  note: {note}" for note in self._notes())])

    def _table(self, head: Sequence[str], column: str) -> Form:
        """Return the form for notebooks: a heading, a table of values and their methods, and the notes."""
        rows = [(name, str(value), value.method) for name, value in named_values(self).items()]
        return Form(head, [Table(("", column, "method"), rows)], self._notes())

    def _notes(self) -> list[str]:
        """Return the notes of values with an interval; a value without an interval shows its own note."""
        return note_lines(
            [(name, each.notes) for name, each in named_values(self).items() if each.low is not None]
        )


def named_values(result: Shares) -> dict[str, Value]:
    """Return every number with an interval in a result, by its name in words."""
    found = {}
    for name, part in vars(result).items():
        if isinstance(part, Value):
            found[name.replace("_", " ")] = part
        elif name in FAMILIES:
            found |= {f"{FAMILIES[name]} {key}": value for key, value in part.items()}
    return found


def parts_to_dict(result: Shares) -> dict[str, Any]:
    """Return a result's values, families of values and other parts, as JSON objects by name."""
    found = {}
    for name, part in vars(result).items():
        if isinstance(part, Mapping) and part:
            found[name] = {key: value.to_dict() for key, value in part.items()}
        elif hasattr(part, "to_dict"):
            found[name] = part.to_dict()
    return found


def parts_from_dict(
    kind: type[Shares], document: Mapping[str, Any], *, period: float | None = None
) -> dict[str, Any]:
    """Return the values and families of values that `parts_to_dict` wrote for a result of this kind, by name.

    `period` is that of the domain, for places on a circle.
    """
    found: dict[str, Any] = {}
    declared: Any = kind  # some data class
    for each in fields(declared):
        part = document.get(each.name, {})
        if each.type == "Value | None" and each.name in document:
            found[each.name] = Value.from_dict(part, period=period)
        elif each.type == "Mapping[str, Value]":
            found[each.name] = {key: Value.from_dict(value, period=period) for key, value in part.items()}
    return found


def _found(values: Mapping[str, Value], name: str, must: str) -> Value:
    try:
        return values[name]
    except KeyError:
        known = ", ".join(values) or "none in this result"
        raise ParameterError(f"{must} ({known}), got {name}") from None


@dataclass(frozen=True, repr=False)
class Estimate(Shares, Shown):
    """Estimates for one task, from the counts of its reports.

    Attributes
    ----------
    task, task_id
        The task's name and id.
    n
        The number of reports counted.
    epsilon
        The privacy loss of one report.
    delta
        The delta of one report: the certificate's integers as a float; 0 for pure epsilon.
    level
        The level of every interval.
    target
        The population or the users to which the numbers refer.
    domain
        The domain of the values; `domain_words` is its description, with the unit.
    mean, variance, standard_deviation
        On an interval; the variance is in the squared unit of the domain.
    direction, resultant_length, circular_variance
        On a circle; circular variance is 1 minus the resultant length.
    mode
        Where most of the population is; it has an interval only if bands were requested.
    distribution
        The fitted histogram.
    quantiles
        By level ("0.5" is the median); see also `quantile`. A circle has no lowest value, so its quantiles
        are counted upwards from an origin. They are present only if bands or an origin were requested.
    shares
        The requested shares of the population between two values, by "low:high"; see also `share`.
    bins
        The shares of equally wide bins, by "low:high", if bands were requested.
    band
        The simultaneous band for the distribution function of an interval, if bands were requested.
    unit, description
        The unit of the values and the description of the task, for people; None if the task has none.
    devices
        The least number of devices behind the reports, if a device may have sent several; None if each sent
        one report.
    """

    task: str
    task_id: str
    n: int
    epsilon: float
    level: float
    target: str
    domain: Domain
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
    devices: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object; parts that do not apply to the task are absent, and no number is NaN."""
        result = head_to_dict(self, ("task", "task_id", "n", "epsilon", "level", "target"))
        if self.devices is not None:
            result["devices"] = self.devices
        return result | parts_to_dict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Estimate:
        """Return the estimate in a JSON object, from `to_dict` or from a server.

        Raises
        ------
        ParameterError
            When the document is not an estimate.
        """

        def read() -> Estimate:
            head = head_from_dict(document, ("task", "task_id", "n", "epsilon", "level", "target"))
            head["devices"] = document.get("devices")
            parts = parts_from_dict(Estimate, document, period=head["domain"].length)
            for name, kind in (("distribution", Distribution), ("band", Band)):
                parts[name] = kind.from_dict(document[name]) if name in document else None
            return cls(**head, **parts)

        return checked_document("an estimate", read)

    @property
    def domain_words(self) -> str:
        """The domain and the unit of its values in words: "[0, 180] km/h"."""
        return words_of_domain(self.domain, self.unit)

    def _raw(self) -> Estimate:
        if self.distribution is None:
            return self
        return replace(self, distribution=replace(self.distribution, modes=None))

    def _form(self) -> Form:
        return self._table(self._head(), "estimate")

    def _head(self) -> list[str]:
        reports = f"{counted(self.n, 'report')}{of_devices(self.devices)}"
        loss = words_of_loss(self.epsilon, self.delta)
        return [
            f"{self.task}: {reports} at {loss}, values in {self.domain_words}",
            *([] if self.description is None else [self.description]),
            f"intervals at level {self.level:g}, for {self.target}",
        ]

    def __str__(self) -> str:
        more = []
        if self.distribution is not None:
            cells, mean = len(self.distribution.probabilities), self.distribution.fitted_mean
            of_it = "" if mean is None else f", their mean {mean:.5g} (biased, no interval)"
            modes = self.distribution.modes
            at_least = "" if modes is None else f", at least {counted(modes, 'mode')}"
            more.append(f"  {'distribution':<18} {cells} cells{at_least}{of_it}")
        return self._text(self._head(), more)


def of_devices(devices: int | None) -> str:
    """Return the words after a number of reports, given `Estimate.devices`."""
    return "" if devices is None else f" of at least {counted(devices, 'device')}"


def _floats(numbers: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(number) for number in numbers)


_PLACES = ("direction", "mode", "quantiles")
"""Attributes of estimates and of points in a series that are places, if the domain is a circle."""


def wrapped(result: Result, task: Task) -> Result:
    """Return an estimate, or a point of a series, with its places on a circle moved into the domain."""
    if not task.domain.circular:
        return result
    moved: dict[str, Any] = {}
    for name in _PLACES:
        part: Value | Mapping[str, Value] | None = getattr(result, name, None)
        if isinstance(part, Value):
            moved[name] = part.on_circle(task.domain.length)
        elif part:
            moved[name] = {key: value.on_circle(task.domain.length) for key, value in part.items()}
    return replace(result, **moved)  # type: ignore[type-var]
