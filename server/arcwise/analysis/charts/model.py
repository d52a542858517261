"""Charts as data: layers of marks in the units of the result, axes, and the same in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Shape: TypeAlias = Literal[
    "cells", "outline", "ribbon", "whiskers", "ranges", "spans", "rules", "levels", "dashes", "line", "zones"
]
Role: TypeAlias = Literal["fit", "mark", "truth", "none", "hover"]
Table: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""The texts of a header and of rows, each as long as the header."""


@dataclass(frozen=True)
class Axis:
    """One direction of a chart.

    Attributes
    ----------
    label
        What is shown, with its unit.
    low, high
        Finite, ``low < high``.
    kind
        Of the labels: numbers, times (seconds since 1970 in UTC), or given ones.
    marks
        Places and texts of given labels.
    period
        Numbers are labelled modulo it, where there is one.
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

    Attributes
    ----------
    shape
        What a row of `points` is, x along the axis of values and y up from it: "cells" and "outline", a
        histogram, ``(x0, x1, y)``; "ribbon" ``(x0, x1, low, high)``; "whiskers" ``(x0, x1, y, low, high)``;
        "ranges" ``(y, value, low, high)``; "spans" ``(x0, x1)`` from bottom to top; "rules" ``(x,)``;
        "levels" ``(y,)``; "dashes" ``(x0, x1, y)``; "line" ``(x, y)``; "zones" ``(x0, x1, y0, y1)``, which
        are not seen and have the texts that are shown under a pointer. A value may be NaN: it is not drawn.
    role
        The colour: what is estimated, what stands out, the truth, what is not known.
    name
        In the legend; "" for none.
    values
        Of zones, a text for each.
    """

    shape: Shape
    role: Role
    points: tuple[tuple[float, ...], ...]
    name: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chart:
    """What one picture shows, and the same in words.

    Attributes
    ----------
    kind
        "density", "probabilities", "cdf", "rose", "series", "differences" or "small".
    heading
        What it is about: the task, its reports and epsilon.
    title
        What is drawn, in a few words.
    summary
        What is to be seen, in a sentence: its alternative text.
    table
        The numbers, for those who do not see the picture.
    x, y
        The axes. On a circle x is the angle, clockwise from the top, and y a density per radian, drawn so
        that areas are probabilities.
    layers
        In the order in which they are drawn.
    caption
        A line below the picture, or "".
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
        """Whether it is drawn around a circle."""
        return self.x.period is not None

    def over(self, layer: Layer) -> Chart:
        """Return the chart with a further layer below its zones, and room for it."""
        top = max([self.y.high, *(1.05 * point[2] for point in layer.points if layer.shape == "outline")])
        seen = [each for each in self.layers if each.shape != "zones"]
        zones = [each for each in self.layers if each.shape == "zones"]
        return replace(self, layers=(*seen, layer, *zones), y=replace(self.y, high=top))
