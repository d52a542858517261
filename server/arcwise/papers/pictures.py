"""Pictures as data, panel by panel, and a function that draws them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.plotting.style import DASHES, finish, plain_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

EPSILON = r"$\varepsilon$"
"""Labels that many axes share."""

BELOW: dict[str, Any] = {"loc": "outside lower center"}
"""The position of a legend for all panels."""

FAMILY_DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (4, 1.5, 1, 1.5)),
    (0, (1, 1.2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (2, 1)),
    (0, (1, 3)),
)
"""The line styles of figures with many mechanisms, in the order of `COLOURS`."""


class Mark(NamedTuple):
    """An element of a panel: a method of `matplotlib.axes.Axes`, and its arguments."""

    method: str
    args: tuple[Any, ...]
    options: dict[str, Any]


def mark(method: str, *args: Any, **options: Any) -> Mark:
    """Return a mark: ``mark("plot", x, y, label="OPM")``."""
    return Mark(method, args, options)


def line(
    x: Any, y: Any, label: str = "", colour: int = 0, dash: int = 0, *, method: str = "plot", **options: Any
) -> Mark:
    """Return a line with the colour and the dashes of these numbers; give a `method` for logarithmic axes."""
    return Mark(method, (x, y), {"label": label, **look(colour, dash), **options})


def look(colour: int, dash: int = 0) -> dict[str, Any]:
    """Return the colour and the dashes of these numbers, for `Axes.plot`."""
    return {"color": COLOURS[colour], "linestyle": DASHES[dash % len(DASHES)]}


def family_look(number: int) -> dict[str, Any]:
    """Return the style of the mechanism with this number in figures with many mechanisms."""
    return {"color": COLOURS[number], "linestyle": FAMILY_DASHES[number]}


def dot(x: float, y: float, colour: int = 0, **options: Any) -> Mark:
    """Return a dot at one point."""
    return Mark("plot", (x, y, "o"), {"color": COLOURS[colour], **options})


def note(x: float, y: float, text: str, colour: str = "black", **options: Any) -> Mark:
    """Return a name next to its line and in its colour, in place of a legend.

    The position is in the units of the data. `options` are options of `Axes.annotate`. `offset` is the
    distance of the name from the position in typographic points, (3, 3) by default.
    """
    place = {"xytext": options.pop("offset", (3, 3)), "textcoords": "offset points"}
    return mark("annotate", text, (x, y), color=colour, fontsize=8.5, **place, **options)


@dataclass(frozen=True)
class Panel:
    """One pair of axes; its marks are drawn in the given order.

    If a limit in `xlim` or `ylim` is None, it is fitted to the data. `log` ("x", "y" or "xy") selects the
    logarithmic axes, and `plain` the axes with plainly written numbers. `legend` holds options of the legend;
    it is None for no legend.
    """

    marks: Sequence[Mark]
    x: str = ""
    y: str = ""
    title: str = ""
    xlim: tuple[float, float | None] | None = None
    ylim: tuple[float, float | None] | None = None
    log: str = ""
    plain: str = ""
    legend: dict[str, Any] | None = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """Panels in rows.

    The size is in inches. `grid` holds options of `Figure.subplots`. `legend` holds options of a legend for
    all panels, which is made from the first panel; it is None for no legend. `colours` is the label of a
    colour scale; it is "" for no scale.
    """

    rows: Sequence[Sequence[Panel]]
    size: tuple[float, float] = (6.4, 4.0)
    grid: dict[str, Any] = field(default_factory=dict)
    legend: dict[str, Any] | None = None
    colours: str = ""


def draw(figure: Figure, picture: Picture) -> None:
    """Draw a picture onto an empty figure."""
    axes = figure.subplots(len(picture.rows), len(picture.rows[0]), squeeze=False, **picture.grid)
    panels = list(zip(axes.flat, [panel for row in picture.rows for panel in row], strict=True))
    mesh = None
    for one, panel in panels:
        for each in panel.marks:
            drawn = getattr(one, each.method)(*each.args, **each.options)
            mesh = drawn if each.method == "pcolormesh" else mesh
    for one, panel in panels:
        for which in panel.log:
            plain_log(one, which)
        for which in panel.plain:
            getattr(one, f"{which}axis").set_major_formatter("{x:g}")
        limits = {"xlim": panel.xlim, "ylim": panel.ylim}
        one.set(**{name: limit for name, limit in limits.items() if limit is not None})
        finish(one, x=panel.x, y=panel.y, title=panel.title, legend=panel.legend == {})
        if panel.legend:
            one.legend(**panel.legend)
    if picture.legend is not None:
        figure.legend(*axes[0, 0].get_legend_handles_labels(), **picture.legend)
    if mesh is not None:
        figure.colorbar(mesh, ax=axes, label=picture.colours)
