"""The charts of a comparison: differences with their intervals, and a line at zero difference."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from arcwise.analysis.charts.model import Axis, Chart, Layer, row, span, zones
from arcwise.analysis.estimators.result import numbers_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcwise.analysis.estimators.comparison import Comparison
    from arcwise.analysis.estimators.result import Value


def comparison_title(comparison: Comparison) -> str:
    """Return the title of the picture."""
    return f"Difference: {comparison.other} minus {comparison.task}'s {comparison.n:,} reports"


def comparison_charts(comparison: Comparison) -> list[Chart]:
    """Return the charts of a comparison: of values in the domain, and of shares, if there are any."""
    unit = f" ({comparison.unit})" if comparison.unit else ""
    places = {name: value for name in ("mean", "direction") if (value := getattr(comparison, name))}
    places |= {f"quantile {tau}": value for tau, value in comparison.quantiles.items()}
    length = comparison.resultant_length
    shares = {} if length is None else {"resultant length": length}
    shares |= {f"share {span(name)}": value for name, value in comparison.shares.items()}
    shares |= {f"share {span(name)}": value for name, value in comparison.bins.items()}
    found = [_rows(comparison, "Differences", f"difference{unit}", places)]
    if shares:
        found.append(_rows(comparison, "Differences of shares", "difference", shares))
    if comparison.cdf:
        found.append(_cumulative(comparison))
    return [chart for chart in found if chart is not None]


def _rows(comparison: Comparison, title: str, label: str, values: Mapping[str, Value]) -> Chart | None:
    """Return a chart with a row for each value, the first at the top, or None if no value has an interval."""
    level = f"{100 * comparison.level:g} %"
    known = [(name, value) for name, value in values.items() if value.ends() is not None]
    if not known:
        return None
    heights = [len(known) - 0.5 - place for place in range(len(known))]
    ranges = tuple((y, *numbers_of(value)) for y, (_, value) in zip(heights, known, strict=True))
    low, high = _around([end for *_, least, most in ranges for end in (least, most)])
    unit = f" {comparison.unit}" if comparison.unit and title == "Differences" else ""
    return Chart(
        "differences",
        comparison_title(comparison),
        title,
        "; ".join(f"{name} {value}{unit}" for name, value in known[:4])
        + (f"; and {len(known) - 4} more." if len(known) > 4 else "."),
        (
            ("", "difference", f"{level} interval"),
            tuple(row(name, value) for name, value in values.items()),
        ),
        Axis(label, low, high),
        Axis(
            "",
            0.0,
            float(len(known)),
            "given",
            tuple((y, name) for y, (name, _) in zip(heights, known, strict=True)),
        ),
        (
            Layer("rules", "truth", ((0.0,),)),
            Layer("ranges", "fit", ranges, f"difference, {level} each"),
            zones(
                ((low, high, y - 0.5, y + 0.5), f"{name}: {value}{unit}")
                for y, (name, value) in zip(heights, known, strict=True)
            ),
        ),
        comparison.test.words(comparison.level) if comparison.test is not None and not title[11:] else "",
    )


def _cumulative(comparison: Comparison) -> Chart:
    """Return the differences of the distribution functions, with intervals that hold together."""
    level = f"{100 * comparison.level:g} % together"
    unit = f" {comparison.unit}" if comparison.unit else ""
    known = [(float(at), value) for at, value in comparison.cdf.items() if value.ends()]
    places = [at for at, _ in known]
    left, right = _around(places, zero=False)
    half = 0.5 * min((b - a for a, b in pairwise(places)), default=right - left)
    half = min(half, 0.5 * (right - left))
    points = [(at, *numbers_of(value)) for at, value in known]
    bottom, top = _around([end for *_, low, high in points for end in (low, high)])
    return Chart(
        "cdf",
        comparison_title(comparison),
        "Difference of the distribution functions",
        f"Differences of the shares of values up to {len(known)} places, from "
        f"{min(low for *_, low, _ in points):.3g} to {max(high for *_, high in points):.3g}.",
        (
            (f"up to{unit}", "difference", f"{level} interval"),
            tuple(row(at, value) for at, value in comparison.cdf.items()),
        ),
        Axis(f"value{f' ({comparison.unit})' if comparison.unit else ''}", left, right),
        Axis("difference of shares up to it", bottom, top),
        (
            Layer("levels", "truth", ((0.0,),)),
            Layer(
                "whiskers",
                "fit",
                tuple((at - half * 0.6, at + half * 0.6, y, low, high) for at, y, low, high in points),
                f"difference, {level}",
            ),
            zones(
                ((at - half, at + half, bottom, top), f"up to {at:g}{unit}: {value}") for at, value in known
            ),
        ),
    )


def _around(ends: list[float], *, zero: bool = True) -> tuple[float, float]:
    low, high = min(ends), max(ends)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin
