"""Charts as data: layers of marks in the units of the result, axes, and helpers for all charts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from arcwise.digits import counted, rounded_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arcwise.analysis.estimators.result import Estimate, Value
    from arcwise.analysis.timeseries.result import Series

Shape: TypeAlias = Literal[
    "cells", "outline", "ribbon", "whiskers", "ranges", "spans", "rules", "levels", "dashes", "line", "zones"
]
Role: TypeAlias = Literal["fit", "mark", "truth", "none", "hover"]
Table: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""A table: the texts of a header and of rows, each row as long as the header."""


@dataclass(frozen=True)
class Axis:
    """One direction of a chart, from `low` to `high`, which are finite and differ.

    `label` includes the unit. The labels along the axis are numbers (modulo `period` if there is one), times
    (seconds since 1970 in UTC), or the places and texts in `marks`.
    """

    label: str
    low: float
    high: float
    kind: Literal["number", "time", "given"] = "number"
    marks: tuple[tuple[float, str], ...] = ()
    period: float | None = None


@dataclass(frozen=True)
class Layer:
    """Marks of one shape and one colour.

    `shape` defines the rows of `points`, with x along the axis of values and y up from it: "cells" and
    "outline" (a histogram) ``(x0, x1, y)``; "ribbon" ``(x0, x1, low, high)``; "whiskers" ``(x0, x1, y, low,
    high)``; "ranges" ``(y, value, low, high)``; "spans" ``(x0, x1)``, from bottom to top; "rules" ``(x,)``;
    "levels" ``(y,)``; "dashes" ``(x0, x1, y)``; "line" ``(x, y)``; "zones" ``(x0, x1, y0, y1)``, which are
    invisible and show their texts, in `values`, under a pointer. A NaN is not drawn.

    `role` decides the colour: the estimate, a highlighted value, the truth, or something unknown. `name` is
    the entry in the legend, "" for none.
    """

    shape: Shape
    role: Role
    points: tuple[tuple[float, ...], ...]
    name: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chart:
    """The content of one picture, also in words.

    `kind` is "density", "probabilities", "cdf", "rose", "series", "differences" or "small". `heading` names
    the task, its reports and epsilon; `title` describes the chart in a few words. `summary` is the
    alternative text, a sentence, and `table` has the numbers for people who do not see the picture. On a
    circle x is the angle, clockwise from the top, and y a density per radian, drawn so that areas are
    probabilities. Layers are in the order in which they are drawn; the caption is below the picture.
    """

    kind: str
    heading: str
    title: str
    summary: str
    table: Table
    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    caption: str = ""

    @property
    def polar(self) -> bool:
        """Whether the chart is drawn around a circle."""
        return self.x.period is not None

    def over(self, layer: Layer) -> Chart:
        """Return the chart with a further layer below its zones, and with enough height for this layer."""
        top = max([self.y.high, *(1.05 * point[2] for point in layer.points if layer.shape == "outline")])
        seen = [each for each in self.layers if each.shape != "zones"]
        zones = [each for each in self.layers if each.shape == "zones"]
        return replace(self, layers=(*seen, layer, *zones), y=replace(self.y, high=top))


def merged(
    points: Sequence[tuple[float, ...]], least: float, *, hull: bool = False
) -> list[tuple[float, ...]]:
    """Return the points, with neighbours merged into blocks of at least the width `least`; gaps stay.

    Parts narrower than a point of the screen are drawn together with their neighbours. Points must be in
    order. Blocks of ``(x0, x1, y)`` have the average of their parts. With `hull`, blocks of
    ``(x0, x1, low, high)`` have the lowest and the highest end of their parts. A block next to a gap may be
    narrower.
    """
    found: list[tuple[float, ...]] = []
    for point in points:
        last = found[-1] if found else None
        if (
            last is None
            or last[1] - last[0] >= least
            or last[1] != point[0]
            or math.isnan(last[2] + point[2])
        ):
            found.append(point)
        elif hull:
            found[-1] = last[0], point[1], min(last[2], point[2]), max(last[3], point[3])
        else:
            one, two = last[1] - last[0], point[1] - point[0]
            total = one + two
            y = last[2] * (one / total) + point[2] * (two / total) if total else last[2]
            found[-1] = last[0], point[1], y
    return found


def heading(result: Estimate | Series) -> str:
    """Return the heading of the picture."""
    return f"{result.task}: {counted(result.n, 'report')} at epsilon {rounded_up(result.epsilon)}"


def zones(found: Iterable[tuple[tuple[float, ...], str]]) -> Layer:
    """Return the layer of the texts that areas ``(x0, x1, y0, y1)`` show under the pointer."""
    found = list(found)
    return Layer("zones", "hover", tuple(area for area, _ in found), "", tuple(text for _, text in found))


def row(name: str, value: Value) -> tuple[str, str, str]:
    """Return the cells of a value in a table: its name, its number and its interval."""
    return name, value.written()[0], value.interval_words()


def span(name: str) -> str:
    """Return a bin's or a share's name in words; a single value of a lattice is written once."""
    return " to ".join(dict.fromkeys(name.split(":")))
