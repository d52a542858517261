"""Labels of an axis: their positions, their texts, and the room that a text needs."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arcwise.analysis.charts.model import Axis

Mark = tuple[float, str]
"""A place on an axis and its label."""

_NARROW, _WIDE = frozenset(" .,:;|!'`ijl()[]{}I\""), frozenset("mMWw%@—→…")
_SIGNS = frozenset("+<=>~^#&\N{MINUS SIGN}\N{MULTIPLICATION SIGN}±≤≥ε")
_EM = {"narrow": 0.47, "plain": 0.64, "capital": 0.84, "wide": 1.05}
"""Widths of letters of DejaVu Sans in ems; it is wider than most typefaces."""
_GAP = 8.0
_ROW = 19.0
"""Gaps between labels side by side, and between labels above each other, in units of the drawing."""
_STEPS = (1, 2, 5)
_MOST = 9
_PLAIN = (1e-3, 1e6)
"""The least and the largest magnitude that is written without a power of ten."""
_LONG = 8
"""Most letters of a label; instead of longer labels, distances from the first label are written."""
_MINUS, _TIMES_TEN = "\N{MINUS SIGN}", " \N{MULTIPLICATION SIGN} 10"
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def text_width(text: str, size: float) -> float:
    """Return the width of a text at a size, or a little more."""
    return size * sum(_letter(letter) for letter in text)


def _letter(letter: str) -> float:
    if letter in _WIDE or letter > "\u2e7f":  # ideographs, emoji
        return _EM["wide"]
    if letter in _NARROW:
        return _EM["narrow"]
    return _EM["capital" if letter.isupper() or letter in _SIGNS else "plain"]


def fitted(text: str, width: float, size: float) -> str:
    """Return a text, cut off with an ellipsis if it is wider than `width`."""
    if text_width(text, size) <= width:
        return text
    room, kept = width - text_width("…", size), 0
    for letter in text:
        room -= size * _letter(letter)
        if room < 0:
            break
        kept += 1
    return text[:kept].rstrip() + "…"


def wrapped_lines(text: str, width: float, size: float, most: int = 3) -> list[str]:
    """Return a text in lines of at most `width`, cut off after `most` lines."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and (text_width(longer, size) <= width or len(lines) == most):
            lines[-1] = longer
        else:
            lines.append(word)
    return [fitted(line, width, size) for line in lines]


def fraction(x: float, low: float, high: float) -> float:
    """Return the position of x from low to high, clipped to 0 to 1, without overflow for any floats."""
    power = -math.frexp(max(abs(low), abs(high)))[1] - 1
    x, low, high = (math.ldexp(min(max(each, low), high), power) for each in (x, low, high))
    return (x - low) / (high - low)


def apart(
    marks: Sequence[Mark], places: Sequence[float], size: float, total: float
) -> Iterator[tuple[float, str]]:
    """Yield the positions of labels: centred on their places or moved into 0 to `total`, without overlap."""
    end = -math.inf
    for (_, text), place in zip(marks, places, strict=True):
        half = text_width(text, size) / 2
        middle = min(max(place, half + 1), total - half - 1)
        if middle - half >= end + _GAP / 2:
            yield middle, text
            end = middle + half


def axis_marks(axis: Axis, room: float, size: float, *, upright: bool = False) -> tuple[list[Mark], str]:
    """Return the labels of an axis, and the text to add to the axis's own label, or "".

    `room` is the length of the axis and `size` that of its texts, both in units of the drawing. The labels of
    an `upright` axis are above each other.
    """
    if axis.kind == "given":
        return list(axis.marks), ""
    if axis.kind == "time":
        return _times(axis.low, axis.high, room, size), ""
    return _numbers(axis, room, size, upright=upright)


def _numbers(axis: Axis, room: float, size: float, *, upright: bool) -> tuple[list[Mark], str]:
    low, high = Decimal(axis.low), Decimal(axis.high)
    span = high - low
    found: tuple[list[Mark], str] = [], ""
    for step in _number_steps(span, axis.period):
        first = (low / step).to_integral_value("ROUND_CEILING")
        last = (high / step).to_integral_value("ROUND_FLOOR")
        count = int(last - first) + 1
        distance = room * float(step / span)
        if count > _MOST or (upright and distance < _ROW):
            continue
        found = _written([(first + place) * step for place in range(count)], axis.period)
        if upright or max((text_width(text, size) for _, text in found[0]), default=0.0) + _GAP <= distance:
            break
    return found


def _number_steps(span: Decimal, period: float | None) -> Iterator[Decimal]:
    """Yield distances between labels that are easy to read, in increasing order."""
    if period is not None and period in {24.0, 360.0}:
        parts = (1, 3, 6, 12) if period == 24.0 else (5, 10, 15, 30, 45, 90, 180)
        yield from (Decimal(part) for part in parts if 2 * part <= span)
    power = span.adjusted() - 2
    for exponent in range(power, power + 4):
        yield from (Decimal(step).scaleb(exponent) for step in _STEPS)


def _written(places: Sequence[Decimal], period: float | None) -> tuple[list[Mark], str]:
    """Return labels in plain digits: of the numbers divided by a power of ten, or minus the first label."""
    largest = max((abs(place) for place in places), default=Decimal(0))
    power, base, added = 0, Decimal(0), ""
    if largest and not Decimal(_PLAIN[0]) <= largest < Decimal(_PLAIN[1]):
        power = largest.adjusted() // 3 * 3
        added = _TIMES_TEN + str(power).translate(_SUPERSCRIPT)
    shown = [place if period is None else place % Decimal(period) for place in places]
    shown = [place + Decimal(period) if period is not None and place < 0 else place for place in shown]
    if len(places) > 1 and max(len(_plain(place, power)) for place in shown) > _LONG:
        base, sign = shown[0], _MINUS if shown[0] < 0 else ""
        gap = abs(places[1] - places[0]) * len(places)
        power = gap.adjusted() // 3 * 3 if not Decimal(_PLAIN[0]) <= gap < Decimal(_PLAIN[1]) else 0
        factor = _TIMES_TEN + str(power).translate(_SUPERSCRIPT) if power else ""
        added = f"{factor}, from {sign}{_short(abs(base))} on"
    marks = [(float(place), _plain(label - base, power)) for place, label in zip(places, shown, strict=True)]
    return marks, added


def _short(number: Decimal) -> str:
    digits = _plain(number, 0)
    return digits if len(digits) <= 2 * _LONG else str(number.normalize())


def _plain(number: Decimal, power: int) -> str:
    text = f"{number.scaleb(-power).normalize():f}"
    whole, point, rest = text.removeprefix("-").partition(".")
    grouped = f"{int(whole):,}" if len(whole) > 4 else whole
    return (_MINUS if number < 0 else "") + grouped + point + rest


_MINUTES = (1, 5, 15, 30, 60, 180, 360, 720, *(1440 * days for days in (1, 2, 7, 14)))
_SECONDS = (1, 5, 15, 30, *(60 * minutes for minutes in _MINUTES))
_MONTHS = (1, 2, 3, 6, *(12 * years for years in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)))
_DAY, _MINUTE = 86_400, 60
_NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_YEAR = 9999


def _times(low: float, high: float, room: float, size: float) -> list[Mark]:
    found: list[Mark] = []
    for step in (*_SECONDS, *(-months for months in _MONTHS)):
        if (high - low) / (step if step > 0 else -step * 30 * _DAY) > 2 * _MOST:
            continue
        found = list(_dates(low, high, step))
        widths = [text_width(text, size) for _, text in found]
        places = [room * fraction(at, low, high) for at, _ in found]
        gaps = [b - a for a, b in pairwise(places)]
        if len(found) <= _MOST and min(gaps, default=room) >= max(widths, default=0.0) + _GAP:
            break
    return found


def _dates(low: float, high: float, step: int) -> Iterator[Mark]:
    """Yield the times that are multiples of a step, in seconds, or in months if the step is negative."""
    if step > 0:
        since = 3 * _DAY * (step % (7 * _DAY) == 0)  # weeks begin on Mondays
        at = math.ceil((low + since) / step) * step - since
        while at <= high:
            time = _EPOCH + timedelta(seconds=at)
            text = f"{time.day} {_NAMES[time.month - 1]}"
            if at % _DAY:
                text = f"{time:%H:%M:%S}" if step < _MINUTE else f"{time:%H:%M}"
            yield float(at), text
            at += step
        return
    start = _EPOCH + timedelta(seconds=low)
    month = -(-(12 * start.year + start.month - 1) // -step) * -step
    while month // 12 <= _LAST_YEAR:
        time = datetime(month // 12, month % 12 + 1, 1, tzinfo=timezone.utc)
        at_ = (time - _EPOCH).total_seconds()
        if at_ > high:
            return
        if at_ >= low:
            yield at_, _NAMES[time.month - 1] if time.month > 1 else str(time.year)
        month -= step
