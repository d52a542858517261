"""Numbers and tasks in words, as pages show them, with the digits of `Value.written`."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.analysis.estimators.result import Value, note_lines
from arcwise.analysis.tidy import in_unit
from arcwise.digits import counted, duration, rounded_up, written
from arcwise.domains import Circle
from arcwise.tasks.words import caps_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from arcwise.analysis.estimators.result import Shares
    from arcwise.tasks import Task


class Figure(NamedTuple):
    """A number as pages show it.

    `name` is its name in `tidy_rows`, such as "mean" or "quantile 0.5", and `label` its name for people.
    `value`, `low` and `high` are as `Value.written` gives them, "" for None, and `interval` as
    `Value.interval_words` gives it. `through` says whether the interval passes the origin of a circle, and
    `everywhere` whether it is the whole circle, in which case the reports do not determine the value. `unit`
    is "" for a number without a unit.
    """

    name: str
    label: str
    value: str
    low: str
    high: str
    interval: str
    through: bool
    everywhere: bool
    unit: str
    method: str
    note: str


_FIRST = ("mean", "standard_deviation")
"""The values that come first; all other values keep their order."""

_LABELS = {"direction": "mean direction"}
"""Labels of values that differ from their field names."""

_MEANINGS = {
    "standard deviation": "how far values typically are from the mean",
    "resultant length": "1 if all directions are the same, 0 if they cancel each other",
    "circular variance": "1 minus the resultant length",
    "mode": "where most of the population is",
    "median": "half of the values are below",
}


def figures_of(result: Shares, unit: str | None) -> list[Figure]:
    """Return every number that has an interval in an estimate, a point of a series or a comparison."""
    return [_figure(name, value, unit) for name, value in _values(result)]


def _values(result: Shares) -> list[tuple[str, Value]]:
    """Return the values of a result by their names in `tidy_rows`, without the values of `cdf`."""
    found = [(name, part) for name, part in vars(result).items() if isinstance(part, Value)]
    found.sort(key=lambda pair: pair[0] not in _FIRST)
    for family in ("quantile", "share", "bin"):
        found += [(f"{family} {key}", value) for key, value in getattr(result, f"{family}s", {}).items()]
    return found


def _label(name: str) -> str:
    return _LABELS.get(name, name.replace("_", " "))


def headline_of(figures: Iterable[Figure]) -> Figure | None:
    """Return the main number of a task: its mean or its mean direction."""
    return next((figure for figure in figures if figure.name in ("mean", "direction")), None)


def notes_of(result: Shares) -> list[str]:
    """Return the notes on the numbers with an interval, each note once."""
    return note_lines(
        [(_label(name), value.notes) for name, value in _values(result) if value.low is not None]
    )


def origin_words(quantiles: Mapping[str, Value], unit: str | None) -> str:
    """Return the words that say where quantiles of a circle are counted from; "" on an interval."""
    notes = (note for value in quantiles.values() for note in value.notes)
    found = next((note for note in notes if note.startswith("counted upwards from ")), "")
    return found and found + spaced(unit)


def range_words(document: Mapping[str, Any]) -> str:
    """Return the epochs of an estimate in words; "" for all epochs."""
    epochs = document.get("epochs")
    if not epochs:
        return ""
    start, end = epochs["start"], epochs["end"]
    if start is None:
        return f"epochs before {end}" if end else ""
    return f"epochs from {start} to {end}, the last not included" if end else f"epochs from {start} on"


def _figure(name: str, value: Value, unit: str | None) -> Figure:
    point, low, high = value.written()
    ends = value.ends()
    everywhere = value.period is not None and ends is not None and ends[1] - ends[0] >= value.period
    return Figure(
        name,
        _label_with_key(name, value, unit),
        point,
        low,
        high,
        value.interval_words(),
        value.through_origin,
        everywhere,
        (in_unit(name, unit) or "").replace("^2", "\N{SUPERSCRIPT TWO}"),
        value.method,
        value.note,
    )


def _label_with_key(name: str, value: Value, unit: str | None) -> str:
    family, _, key = name.partition(" ")
    if not key:
        return _label(name)
    if family == "quantile":
        is_median = float(key) == 0.5 and value.period is None
        return "median" if is_median else f"quantile {_percent(float(key))}"
    low, _, high = key.partition(":")
    words = f"{low} to {high}" if low != high else low
    return words + spaced(unit, " ")


def _percent(share: float) -> str:
    return f"{100 * share:.6g}\N{NO-BREAK SPACE}%"


def asked_words(task: Task) -> dict[str, Any]:
    """Return a task in words, for templates; takes up to some milliseconds for a large table.

    `description` and `unit` are "" where the task has none. `release` says when an epoch is shown and until
    when batches are accepted, and is "" where the server's settings decide. `readers` maps each kind of
    reader to the guarantee against it, if the task makes a promise to readers of released counts.
    `certificate` is the statement that was proved. `ratio` is the exact largest ratio of two weights and
    `delta` the exact delta, both as fractions; `ratio` is "" if the certificate has no ratio, and `delta` is
    "" for pure epsilon.
    """
    mechanism = task.mechanism
    certificate = mechanism.certificate()
    ratio = certificate.ratio
    kernel = mechanism.kernel
    return {
        "name": task.name,
        "id": task.id,
        "description": task.description or "",
        "unit": task.unit or "",
        "domain": values_words(task),
        "circular": task.domain.circular,
        "epsilon": rounded_up(task.epsilon),
        "goal": task.goal,
        "privacy": task.privacy_words,
        "caps": caps_words(task.caps, "report"),
        "epoch": duration_words(task.epoch_seconds),
        "mechanism": f"{mechanism.name} {mechanism.version}, {kernel.nodes} nodes, {kernel.codes} codes",
        "readers": {} if task.central is None else task.readers,
        "release": task.release_words,
        "certificate": str(certificate),
        "ratio": "" if ratio is None else f"{ratio.numerator} / {ratio.denominator}",
        "delta": f"{certificate.delta} / 2^64" if certificate.delta else "",
    }


def values_words(task: Task) -> str:
    """Return the values that a task asks for, worded to follow "values": "from 0 to 120 min"."""
    domain, unit = task.domain, spaced(task.unit, " ")
    if isinstance(domain, Circle):
        words = f"on a circle of {domain.length:.15g}{unit}"
    else:
        words = f"from {domain.low:.15g} to {domain.high:.15g}{unit}"
    return words if domain.step is None else f"{words} in steps of {domain.step:.15g}"


def spaced(unit: str | None, space: str = "\N{NO-BREAK SPACE}") -> str:
    """Return a unit as it follows a number: after a space, except for degrees."""
    return "" if not unit else unit if unit == "\N{DEGREE SIGN}" else space + unit


def duration_words(seconds: float) -> str:
    """Return a length of time as a whole number of the largest possible unit, up to weeks."""
    weeks, rest = divmod(seconds, 604_800)
    return counted(int(weeks), "week") if weeks and not rest else duration(seconds)


def _thousands(number: float) -> str:
    return f"{number:,}"


def _time(seconds: float | None) -> str:
    """Return Unix seconds as a time in UTC."""
    if seconds is None:
        return ""
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M} UTC"


def _brief(number: float) -> str:
    return written(number, digits=3)[0]


def _rounded(number: int) -> str:
    """Return a number of reports, rounded up to the digits that a plan justifies."""
    step = 10 ** max(len(str(number)) - 3, 0)
    return f"{-(-number // step) * step:,}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _meaning(label: str) -> str:
    return _MEANINGS.get(label, "")


FILTERS = {
    "thousands": _thousands,
    "percent": _percent,
    "time": _time,
    "meaning": _meaning,
    "brief": _brief,
    "rounded": _rounded,
    "sentence": _sentence,
    "spaced": spaced,
}
"""Filters of the templates."""
