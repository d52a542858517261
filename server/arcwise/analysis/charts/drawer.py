"""The drawer: turns one or several charts into one SVG element, without a style or a script of its own.

Colours come from classes (`charts.css`). For SVG viewers without style sheets, attributes repeat the colours
for light backgrounds.
"""

from __future__ import annotations

import math
import re
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from arcwise.analysis.charts.look import FONT, GRID, INK, ROLES, stylesheet
from arcwise.analysis.charts.model import Chart, merged
from arcwise.analysis.charts.scale import apart, axis_marks, fitted, fraction, text_width, wrapped_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arcwise.analysis.charts.model import Layer

_WIDTH, _WIDE = 400.0, 880.0
"""Widths of drawings, in units of about a pixel: of all drawings on a phone, and of series on wide pages."""
_TEXT, _LINE, _PLOT, _ROW = 12.0, 17.0, 190.0, 23.0
"""Sizes of texts, and heights: of a line, of the area of a chart, and of a row of ranges."""
_RADIUS, _AROUND = 128.0, 26.0
"""Size of a rose, and the margin for its labels."""
_SMALL = (280.0, 64.0)
_LEAST = 1.5
"""Smallest width of parts that are drawn; narrower parts are merged with their neighbours."""
_FILLED = frozenset({"cells", "ribbon", "spans"})
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg(
    charts: Chart | Sequence[Chart],
    *,
    ident: str = "chart",
    standalone: bool = False,
    script: bool = True,
    style: bool = True,
) -> str:
    """Return one chart, or several side by side, as SVG.

    Each picture of a page needs an `ident` of its own, a prefix of the ids of its elements. A standalone
    picture is a complete file with its colours, a background and its heading. Without `style` a standalone
    picture has no style sheet and is always light, like a notebook's page. Any other picture is an element
    for a page that has `stylesheet`. A series is then drawn twice, for narrow and for wide pages, and the
    style sheet shows one of the drawings. With `script`, a script of the page shows the texts of `data-value`
    under the pointer. Without `script`, and in complete files, the texts are elements `title`, which browsers
    show by themselves.
    """
    charts = [charts] if isinstance(charts, Chart) else list(charts)
    wide = all(chart.kind == "series" for chart in charts)
    if standalone:
        sheet = f"<style>{stylesheet().replace(':root', '.arc-chart')}</style>" if style else ""
        return _picture(charts, _WIDE if wide else _WIDTH, ident, "", script=False, sheet=sheet)
    if not wide:
        more = " arc-small" if charts[0].kind == "small" else ""
        return _picture(charts, _WIDTH, ident, more, script=script)
    return "".join(
        _picture(charts, width, f"{ident}-{name}", f" arc-{name}", script=script)
        for name, width in (("narrow", _WIDTH), ("wide", _WIDE))
    )


def _picture(
    charts: Sequence[Chart],
    width: float,
    ident: str,
    more: str,
    *,
    script: bool,
    sheet: str | None = None,
) -> str:
    """Return one element, or a complete file if a style sheet is given, even an empty one."""
    parts = [_Drawing(chart, width, script=script) for chart in charts]
    across = 1 if len(parts) == 1 or width == _WIDE else 2
    total = parts[0].width * across
    body: list[str] = []
    top = 0.0
    if sheet is not None:
        for line in wrapped_lines(charts[0].heading, total - 24, _TEXT + 1.5):
            top += _LINE + 2
            body.append(_text(12.0, top, line, "arc-title", size=_TEXT + 1.5))
        top += 8
    for first in range(0, len(parts), across):
        row = parts[first : first + across]
        body += [
            f'<g transform="translate({_n(place * part.width)} {_n(top)})">{part.body}</g>'
            for place, part in enumerate(row)
        ]
        top += max(part.height for part in row)
    title = _clean(charts[0].heading if len(charts) > 1 else f"{charts[0].title}: {charts[0].heading}")
    summary = _clean(" ".join(chart.summary for chart in charts))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="arc-chart{more}" role="img" '
        f'viewBox="0 0 {_n(total)} {_n(top)}" aria-label="{title}" aria-describedby="{ident}-desc" '
        f'font-family="{", ".join(FONT)}" font-size="{_n(_TEXT)}" fill="{INK}"'
    )
    inside = f'<desc id="{ident}-desc">{summary}</desc>'
    if sheet is not None:
        scale = 1.25 if sheet else 1.0
        head += f' width="{_n(scale * total)}" height="{_n(scale * top)}"'
        paper = f'<rect class="arc-paper" width="{_n(total)}" height="{_n(top)}" fill="#ffffff"/>'
        inside = f"<title>{title}</title>{inside}{sheet}{paper}"
    return f"{head}>{inside}{''.join(body)}</svg>"


class _Box(NamedTuple):
    """The area of the marks."""

    left: float
    top: float
    right: float
    bottom: float


class _Flat:
    """Positions of values on a plane."""

    def __init__(self, chart: Chart, box: _Box) -> None:
        self._x, self._y, self.box = chart.x, chart.y, box
        self.least = _LEAST * (chart.x.high - chart.x.low) / (box.right - box.left)

    def x(self, x: float) -> float:
        return self.box.left + fraction(x, self._x.low, self._x.high) * (self.box.right - self.box.left)

    def y(self, y: float) -> float:
        return self.box.bottom - fraction(y, self._y.low, self._y.high) * (self.box.bottom - self.box.top)

    def at(self, x: float, y: float) -> str:
        return f"{_n(self.x(x))} {_n(self.y(y))}"

    def along(self, _x0: float, x1: float, _y: float) -> str:
        """Return the path from the current point, at x0, to x1."""
        return f"H{_n(self.x(x1))}"


class _Round:
    """Positions of values around a circle: clockwise from the top; radii are roots of densities."""

    least = 0.0

    def __init__(self, chart: Chart, middle: tuple[float, float], radius: float) -> None:
        self.middle, self.radius, self._top = middle, radius, chart.y.high
        self._turn = 2 * math.pi / (chart.x.period or 1.0)
        self.least = _LEAST / radius / self._turn

    def at(self, x: float, y: float) -> str:
        angle, radius = x * self._turn, self._out(y)
        across, up = radius * math.sin(angle), radius * math.cos(angle)
        return f"{_n(self.middle[0] + across)} {_n(self.middle[1] - up)}"

    def along(self, x0: float, x1: float, y: float) -> str:
        radius = _n(self._out(y))
        if radius == "0":
            return ""
        parts = math.ceil(abs(x1 - x0) * self._turn / 3.0) or 1  # an arc of a whole turn would vanish
        ends = [x0 + (x1 - x0) * part / parts for part in range(1, parts + 1)]
        return "".join(f"A{radius} {radius} 0 0 {int(x1 > x0)} {self.at(x, y)}" for x in ends)

    def _out(self, y: float) -> float:
        return self.radius * math.sqrt(min(max(y / self._top, 0.0), 1.0))


class _Drawing:
    """One chart, with its upper left corner at the origin: its elements and their size."""

    def __init__(self, chart: Chart, width: float, *, script: bool) -> None:
        self._chart, self._script = chart, script
        self.width, self.height = width, 0.0
        if chart.kind == "small":
            self.width, self.height = _SMALL[chart.polar], _SMALL[1]
        self._frame: _Flat | _Round
        if chart.kind == "small":
            self.body = "".join(self._small())
        else:
            self.body = "".join([*(self._round() if chart.polar else self._flat()), *self._below()])

    def _small(self) -> Iterator[str]:
        wide, high = self.width, self.height
        if self._chart.polar:
            self._frame = _Round(self._chart, (wide / 2, high / 2), high / 2 - 2)
            yield self._circle("arc-grid")
        else:
            self._frame = _Flat(self._chart, _Box(1, 2, wide - 1, high - 1))
            yield f'<path class="arc-axis" {_stroke(INK)} d="M1 {_n(high - 1)}H{_n(wide - 1)}"/>'
        yield from self._layers()

    def _circle(self, name: str, part: float = 1.0) -> str:
        assert isinstance(self._frame, _Round)  # noqa: S101 (only roses have one)
        (x, y), radius = self._frame.middle, _n(part * self._frame.radius)
        return f'<circle class="{name}" cx="{_n(x)}" cy="{_n(y)}" r="{radius}" {_stroke(GRID)}/>'

    def _round(self) -> Iterator[str]:
        """Yield a rose: its circles and spokes, its marks, its labels."""
        chart, middle = self._chart, (self.width / 2, _LINE + _AROUND + _RADIUS)
        self._frame = frame = _Round(chart, middle, _RADIUS)
        yield _text(12.0, _LINE, chart.title, "arc-label", weight=600)
        yield from (self._circle("arc-grid", math.sqrt(part)) for part in (0.25, 0.5, 1.0))
        centre = f"M{_n(middle[0])} {_n(middle[1])}L"
        spokes = "".join(centre + frame.at(at, chart.y.high) for at, _ in chart.x.marks)
        yield f'<path class="arc-grid" {_stroke(GRID)} d="{spokes}"/>'
        yield from self._layers()
        for at, text in chart.x.marks:
            angle = 2 * math.pi * at / (chart.x.period or 1.0)
            across, up = math.sin(angle), math.cos(angle)
            anchor = "middle" if abs(across) < 0.1 else ("start" if across > 0 else "end")
            x, y = middle[0] + (_RADIUS + 7) * across, middle[1] - (_RADIUS + 7) * up + 4.3 - 5 * up
            room = self.width if anchor == "middle" else self.width / 2 - abs(x - middle[0]) - 3
            yield _text(x, y, fitted(text, room, _TEXT), "arc-soft", anchor=anchor)
        self.height = middle[1] + _RADIUS + _AROUND
        yield from self._label(self.width / 2, chart.x.label)

    def _flat(self) -> Iterator[str]:
        """Yield a chart on a plane: its title, grid and labels around its marks."""
        chart, top = self._chart, 2 * _LINE + 14
        rows = chart.y.kind == "given" and chart.kind == "differences"
        high = _ROW * len(chart.y.marks) if rows else _PLOT
        upright, added = axis_marks(chart.y, high, _TEXT, upright=True)
        names = [fitted(text, 0.4 * self.width, _TEXT) for _, text in upright]
        left = max([text_width(name, _TEXT) for name in names], default=0.0) + 12
        self._frame = frame = _Flat(chart, _Box(left, top, self.width - 12, top + high))
        box = frame.box
        yield _text(12.0, _LINE, fitted(chart.title, self.width - 24, _TEXT), "arc-label", weight=600)
        if not rows:
            label = fitted(chart.y.label + added, self.width - 24, _TEXT)
            yield _text(12.0, 2 * _LINE, label, "arc-soft")
        flat, added = axis_marks(chart.x, box.right - box.left, _TEXT)
        lines = [f"M{_n(box.left)} {_n(frame.y(at))}H{_n(box.right)}" for at, _ in upright]
        lines += [f"M{_n(frame.x(at))} {_n(box.top)}V{_n(box.bottom)}" for at, _ in flat]
        yield f'<path class="arc-grid" {_stroke(GRID)} d="{"".join(lines)}"/>'
        yield from self._layers()
        yield f'<path class="arc-axis" {_stroke(INK)} d="M{_n(box.left)} {_n(box.bottom)}H{_n(box.right)}"/>'
        for (at, _), name in zip(upright, names, strict=True):
            yield _text(box.left - 6, frame.y(at) + 4.2, name, "arc-soft", anchor="end")
        places = [frame.x(at) for at, _ in flat]
        for place, text in apart(flat, places, _TEXT, self.width):
            yield _text(place, box.bottom + _LINE, text, "arc-soft", anchor="middle")
        self.height = box.bottom + _LINE + 2
        yield from self._label((box.left + box.right) / 2, chart.x.label + added)

    def _label(self, middle: float, label: str) -> Iterator[str]:
        self.height += _LINE
        half = text_width(label := fitted(label, self.width - 16, _TEXT), _TEXT) / 2
        middle = min(max(middle, half + 8), self.width - half - 8)
        yield _text(middle, self.height, label, "arc-label", anchor="middle")

    def _below(self) -> Iterator[str]:
        """Yield the legend, in as many rows as it needs, and the caption."""
        x, self.height = 12.0, self.height + _LINE + 3
        for layer in self._chart.layers:
            if not layer.name:
                continue
            name = fitted(layer.name, self.width - 60, _TEXT)
            needed = 22 + text_width(name, _TEXT) + 14
            if x > 12.0 and x + needed > self.width:
                x, self.height = 12.0, self.height + _LINE
            colour, y = ROLES[layer.role], self.height - 4
            path = f"{_n(y - 5)}h16v10h-16z" if layer.shape in _FILLED else f"{_n(y)}h16"
            marks = _path(layer, f'd="M{_n(x)} {path}"')
            if layer.shape == "ranges":
                marks += f'<circle cx="{_n(x + 8)}" cy="{_n(y)}" r="3"/>'
            yield f'<g class="arc-{layer.role}" color="{colour}" fill="currentColor">{marks}</g>'
            yield _text(x + 22, self.height, name, "arc-soft")
            x += needed
        if self._chart.caption:
            for line in wrapped_lines(self._chart.caption, self.width - 24, _TEXT):
                self.height += _LINE + 2
                yield _text(12.0, self.height, line, "arc-label")
        self.height += 8

    def _layers(self) -> Iterator[str]:
        for layer in self._chart.layers:
            if not layer.points:
                continue
            if layer.shape == "zones":
                zones = "".join(map(self._zone, layer.points, layer.values))
                yield f'<g class="arc-zones" color="{INK}" fill="none" pointer-events="all">{zones}</g>'
                continue
            marks = "".join(_path(layer, f'd="{path}"') for path in self._paths(layer) if path)
            if layer.shape == "ranges" and isinstance(self._frame, _Flat):
                marks += self._dots(layer)
            colour = ROLES[layer.role]
            yield f'<g class="arc-{layer.role}" color="{colour}" fill="currentColor">{marks}</g>'

    def _dots(self, layer: Layer) -> str:
        assert isinstance(self._frame, _Flat)  # noqa: S101 (ranges lie on a plane)
        places = [(self._frame.x(x), self._frame.y(y)) for y, x, *_ in layer.points if not math.isnan(x)]
        return "".join(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="3.6"/>' for x, y in places)

    def _zone(self, point: tuple[float, ...], value: str) -> str:
        path, text = self._block(*point), _clean(value)
        if self._script:
            return f'<path d="{path}" data-value="{text}"/>'
        return f'<path d="{path}"><title>{text}</title></path>'

    def _block(self, x0: float, x1: float, y0: float, y1: float) -> str:
        at, along = self._frame.at, self._frame.along
        return f"M{at(x0, y1)}{along(x0, x1, y1)}L{at(x1, y0)}{along(x1, x0, y0)}Z"

    def _paths(self, layer: Layer) -> Iterator[str]:
        """Yield the path of a layer."""
        at, along = self._frame.at, self._frame.along
        low, high = self._chart.y.low, self._chart.y.high
        points: Sequence[tuple[float, ...]] = layer.points
        if layer.shape == "cells" and self._chart.kind == "probabilities" and self._airy(points):
            yield "".join(
                self._block(x0 + 0.12 * (x1 - x0), x1 - 0.12 * (x1 - x0), low, y) for x0, x1, y in points
            )
        elif layer.shape in {"cells", "outline"}:
            points = merged(points, self._frame.least)
            start = at(points[0][0], points[-1][2] if self._chart.polar else low)
            end = "Z" if self._chart.polar else f"L{at(points[-1][1], low)}"
            yield f"M{start}" + "".join(f"L{at(x0, y)}{along(x0, x1, y)}" for x0, x1, y in points) + end
        elif layer.shape == "ribbon":
            for run in _runs(merged(points, self._frame.least, hull=True)):
                there = "".join(f"{at(x0, most)}{along(x0, x1, most)}L" for x0, x1, _, most in run)
                back = "L".join(f"{at(x1, least)}{along(x1, x0, least)}" for x0, x1, least, _ in run[::-1])
                yield f"M{there}{back}Z"
        elif layer.shape == "whiskers":
            for x0, x1, y, least, most in points:
                middle = (x0 + x1) / 2
                across = "" if math.isnan(y) else f"M{at(x0, y)}{along(x0, x1, y)}"
                yield f"{across}M{at(middle, least)}L{at(middle, most)}"
        elif layer.shape == "ranges":
            yield "".join(f"M{at(least, y)}L{at(most, y)}" for y, _, least, most in points)
        elif layer.shape == "spans":
            yield "".join(self._block(x0, x1, low, high) for x0, x1 in points)
        elif layer.shape == "rules":
            yield "".join(f"M{at(x, low)}L{at(x, high)}" for (x,) in points)
        elif layer.shape == "levels":
            yield "".join(f"M{at(self._chart.x.low, y)}L{at(self._chart.x.high, y)}" for (y,) in points)
        elif layer.shape == "dashes":
            yield "".join(f"M{at(x0, y)}{along(x0, x1, y)}" for x0, x1, y in points if low <= y <= high)
        else:
            yield "M" + "L".join(at(x, y) for x, y in points)

    def _airy(self, points: Sequence[tuple[float, ...]]) -> bool:
        """Return whether values have room for a gap between them."""
        return len(points) * 4 * self._frame.least / _LEAST < self._chart.x.high - self._chart.x.low


def _runs(points: Sequence[tuple[float, ...]]) -> Iterator[list[tuple[float, ...]]]:
    """Yield runs of touching blocks, without the blocks that are not drawn."""
    run: list[tuple[float, ...]] = []
    for point in points:
        known = not any(map(math.isnan, point))
        if run and not (known and point[0] == run[-1][1]):
            yield run
            run = []
        if known:
            run.append(point)
    if run:
        yield run


def _path(layer: Layer, d: str) -> str:
    if layer.shape in _FILLED:
        solid = layer.shape == "cells"
        edge = ' stroke="currentColor"' if solid else ""
        return f'<path class="arc-area" fill-opacity="{0.4 if solid else 0.25}"{edge} {d}/>'
    return f'<path class="arc-line" {_stroke("currentColor", 1.6)} {d}/>'


def _stroke(colour: str, width: float = 1.0) -> str:
    return f'fill="none" stroke="{colour}" stroke-width="{width:g}"'


def _text(
    x: float, y: float, text: str, name: str, *, anchor: str = "start", weight: int = 0, size: float = 0.0
) -> str:
    more = "" if anchor == "start" else f' text-anchor="{anchor}"'
    more += f' font-weight="{weight}"' if weight else ""
    more += f' font-size="{_n(size)}"' if size else ""
    return f'<text class="{name}" x="{_n(x)}" y="{_n(y)}"{more}>{_clean(text)}</text>'


def _clean(text: str) -> str:
    """Return a text from outside, made safe for XML."""
    return escape(_ILLEGAL.sub("\ufffd", " ".join(text.split())))


def _n(number: float) -> str:
    text = f"{number:.1f}"
    return "0" if text in {"-0.0", "0.0"} else text.removesuffix(".0")
