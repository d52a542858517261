"""What the charts of all results have: headings, texts under the pointer, rows of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.analysis.charts.model import Layer
from arcwise.digits import counted, rounded_up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.analysis.estimators.result import Estimate, Value
    from arcwise.analysis.timeseries.result import Series


def heading(result: Estimate | Series) -> str:
    """Return what stands over the picture."""
    return f"{result.task}: {counted(result.n, 'report')} at epsilon {rounded_up(result.epsilon)}"


def zones(found: Iterable[tuple[tuple[float, ...], str]]) -> Layer:
    """Return the layer of the texts that areas ``(x0, x1, y0, y1)`` show under the pointer."""
    found = list(found)
    return Layer("zones", "hover", tuple(area for area, _ in found), "", tuple(text for _, text in found))


def row(name: str, value: Value) -> tuple[str, str, str]:
    """Return the cells of a value in a table: its name, its number and its interval."""
    return name, value.written()[0], value.interval_words()


def span(name: str) -> str:
    """Return a bin's or a share's name in words: a single value of a lattice once."""
    return " to ".join(dict.fromkeys(name.split(":")))
