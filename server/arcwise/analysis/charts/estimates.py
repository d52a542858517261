"""The charts of an estimate: distribution and distribution function on an interval, a rose on a circle.

Values are shown with their intervals; if a value has no interval, the legend says so.
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.charts.look import circle_marks
from arcwise.analysis.charts.model import Axis, Chart, Layer, heading, merged, row, span, zones
from arcwise.analysis.estimators.histogram import as_drawn
from arcwise.analysis.estimators.result import numbers_of
from arcwise.digits import counted, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arcwise.analysis.charts.model import Table
    from arcwise.analysis.estimators.result import Distribution, Estimate, Value

_ZONES = 48
"""Number of parts that show values under the pointer, in a chart without bins."""
_CELLS = 36
"""Number of parts of a small chart."""
_NARROW = 1 / 6
"""Share of a circle up to which the direction's interval shows its own text instead of the sectors'."""
_MOST = 1e300
"""The highest density that is drawn; on a domain of only a few floats, densities may be arbitrarily high."""
_SHARES = tuple((share, f"{share:g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0))


def estimate_charts(estimate: Estimate) -> list[Chart]:
    """Return the charts of an estimate; an empty list if it has no distribution."""
    if estimate.distribution is None:
        return []
    if estimate.resultant_length is not None:
        return [_rose(estimate, estimate.distribution)]
    return [_density(estimate, estimate.distribution), _cumulative(estimate, estimate.distribution)]


def small_chart(estimate: Estimate) -> Chart | None:
    """Return the distribution with its mean or direction as a small chart, or None without a distribution."""
    if estimate.distribution is None:
        return None
    whole = estimate_charts(estimate)[0]
    kept = []
    for layer in whole.layers:
        if layer.shape == "cells":
            points = merged(layer.points, (whole.x.high - whole.x.low) / _CELLS)
            kept.append(Layer("cells", layer.role, tuple(points)))
        elif layer.shape in {"spans", "rules"}:
            kept.append(Layer(layer.shape, layer.role, layer.points))
    (cells,) = (layer for layer in kept if layer.shape == "cells")
    y = Axis("", 0.0, 1.05 * (max(point[2] for point in cells.points) or 1.0))
    x = Axis("", whole.x.low, whole.x.high, period=whole.x.period)
    return Chart("small", whole.heading, whole.title, whole.summary, whole.table, x, y, tuple(kept))


def _density(estimate: Estimate, distribution: Distribution) -> Chart:
    edges, mean = distribution.edges, estimate.mean
    discrete = distribution.values is not None
    # On a lattice heights are probabilities of values, and the height of a bin is the average over its
    # values.
    one = edges[1] - edges[0] if discrete else 1.0
    name = "mean" if mean is None or mean.value is not None else "possible means"
    layers, top = _layers(estimate, distribution, one, bins="bins", name=name, marked=mean)
    per = "" if estimate.unit is None else f" per {estimate.unit}"
    said = "" if mean is None else f" Mean {mean}{_unit(estimate)}."
    return Chart(
        "probabilities" if discrete else "density",
        heading(estimate),
        "Distribution",
        f"Estimated distribution of values in {estimate.domain_words}.{said} "
        + _where(estimate, distribution),
        _shares_table(estimate, distribution),
        Axis(f"value in {estimate.domain_words}", edges[0], edges[-1]),
        Axis("probability" if discrete else f"density{per}", 0.0, top),
        tuple(layers),
    )


def _cumulative(estimate: Estimate, distribution: Distribution) -> Chart:
    edges, level, unit = distribution.edges, _level(estimate), _unit(estimate)
    low, high, band = edges[0], edges[-1], estimate.band
    layers = []
    total = [min(share, 1.0) for share in accumulate(distribution.probabilities)]
    if band is not None:
        knots = [low, *(min(max(at, low), high) for at in band.at), high]
        # Between two places the distribution function F is at least its value on the left, and at most its
        # value on the right.
        ends = zip([0.0, *band.low], [*band.high, 1.0], strict=True)
        blocks = tuple((*at, *both) for at, both in zip(pairwise(knots), ends, strict=True) if at[0] < at[1])
        layers.append(Layer("ribbon", "fit", blocks, f"band, {level}"))
    if distribution.values is None:
        fit = list(zip(edges, [0.0, *total], strict=True))
    else:  # F jumps at each value
        jumps = zip(distribution.values, [0.0, *total], total, strict=False)
        fit = [(low, 0.0), *(p for x, a, b in jumps for p in ((x, a), (x, b))), (high, total[-1])]
    layers.append(Layer("line", "fit", tuple(fit), "fit" if band is not None else "fit, no band"))
    known = [(float(tau), value) for tau, value in estimate.quantiles.items() if value.ends() is not None]
    if known:
        ranges = tuple((tau, *numbers_of(value)) for tau, value in known)
        layers.append(Layer("ranges", "mark", ranges, f"quantiles, {level}"))
    shown = list(_share_of_places(estimate, distribution, total))
    shown += [
        ((*numbers_of(value)[1:], tau - 0.03, tau + 0.03), f"quantile {tau:g}: {value}{unit}")
        for tau, value in known
    ]
    layers.append(zones(shown))
    said = "; ".join(f"quantile {name} {value}{unit}" for name, value in estimate.quantiles.items())
    rows: list[tuple[str, str, str]] = [
        row(f"quantile {name}", value) for name, value in estimate.quantiles.items()
    ]
    if band is not None:
        for at, least, most in zip(band.at, band.low, band.high, strict=True):
            rows.append(
                (f"share up to {_number(at, high - low)}", "", ", ".join(written(least, most, digits=3)))
            )
    else:
        rows += [
            (f"share up to {_number(x1, high - low)}", f"{y:.3g}", "")
            for x1, y in _read_off(distribution, total)
        ]
    return Chart(
        "cdf",
        heading(estimate),
        "Distribution function",
        f"Estimated share of values up to each value in {estimate.domain_words}{'. ' if said else '.'}{said}",
        (("", "estimate", f"{level} interval"), tuple(rows)),
        Axis(f"value in {estimate.domain_words}", low, high),
        Axis("share of values up to it", 0.0, 1.0, "given", _SHARES),
        tuple(layers),
    )


def _rose(estimate: Estimate, distribution: Distribution) -> Chart:
    edges, unit = distribution.edges, _unit(estimate)
    period = edges[-1] - edges[0]
    direction, length, said = estimate.direction, estimate.resultant_length, ""
    one = period / (2 * np.pi)
    layers, top = _layers(
        estimate, distribution, one, bins="sectors", name="mean direction", marked=direction
    )
    if direction is not None:
        ends = direction.ends()
        if ends is not None and ends[1] - ends[0] < _NARROW * period:
            layers.append(zones([((*ends, 0.0, top), f"mean direction: {direction}{unit}")]))
        said = f" Mean direction {direction}{unit}, resultant length {length}."
    marks = circle_marks(period, estimate.unit)
    places = tuple((period * place / len(marks), mark) for place, mark in enumerate(marks))
    return Chart(
        "rose",
        heading(estimate),
        "Rose: areas are probabilities",
        f"Estimated distribution of values in {estimate.domain_words}.{said} "
        + _where(estimate, distribution),
        _shares_table(estimate, distribution),
        Axis(f"resultant length {length}", edges[0], edges[-1], "given", places, period),
        Axis("", 0.0, top),
        tuple(layers),
    )


def _layers(
    estimate: Estimate, distribution: Distribution, one: float, *, bins: str, name: str, marked: Value | None
) -> tuple[list[Layer], float]:
    """Return the layers of the histogram, its intervals and the marked value, and the height that they take.

    A height is the probability of a part of the width `one`. `bins` and `name` are the names of the intervals
    and of the marked value in the legend.
    """
    level = _level(estimate)
    drawn = as_drawn(distribution, circular=estimate.domain.circular).tolist()
    cells = tuple(
        (low, high, min(p / (high - low) * one, _MOST) if high > low else 0.0)
        for (low, high), p in zip(pairwise(distribution.edges), drawn, strict=True)
    )
    layers = [Layer("cells", "fit", cells, "fit" if estimate.bins else "fit, no band")]
    whiskers = _whiskers(estimate, one)
    if whiskers:
        layers.append(Layer("whiskers", "fit", whiskers, f"{bins}, {level} each"))
    if marked is not None:
        ends = marked.ends()
        if ends is not None:
            layers.append(Layer("spans", "mark", (ends,), f"{name}, {level}"))
        if marked.value is not None:
            lacking = "" if ends is not None else f"{name}, no interval"
            layers.append(Layer("rules", "mark", ((marked.value,),), lacking))
    top = 1.06 * max([*(y for *_, y in cells), *(most for *_, most in whiskers)]) or 1.0
    unit = _unit(estimate)
    if whiskers:
        names = [f"{span(name)}{unit}: {value}" for name, value in estimate.bins.items()]
        shown = [(x0, x1, name) for (x0, x1, *_), name in zip(whiskers, names, strict=True)]
    else:
        shown = [
            (x0, x1, f"{name}{unit}: {share:.3g} (fit, no interval)")
            for x0, x1, name, share in _groups(distribution)
        ]
    layers.append(zones(((x0, x1, 0.0, top), text) for x0, x1, text in shown))
    return layers, top


def _whiskers(estimate: Estimate, one: float) -> tuple[tuple[float, ...], ...]:
    """Return each bin's bounds, its point and its interval, as heights; the sectors of a rose have no point.

    In an end zone no point is known; the middle of the interval is used instead.
    """
    ends = [tuple(float(end) for end in name.split(":")) for name in estimate.bins]
    # On a lattice a bin ends at its last value and the next bin begins a step later; here they meet half-way.
    half = 0.5 * (ends[1][0] - ends[0][1]) if len(ends) > 1 else 0.0
    bounds = [*(low - half for low, _ in ends), *(high + half for _, high in ends[-1:])]
    found = []
    for (x0, x1), value in zip(pairwise(bounds), estimate.bins.values(), strict=True):
        y, low, high = numbers_of(value)
        if estimate.domain.circular:
            y = math.nan
        elif value.value is None:
            y = 0.5 * (low + high)
        found.append((x0, x1, *(min(share / (x1 - x0) * one, _MOST) for share in (y, low, high))))
    return tuple(found)


def _groups(distribution: Distribution) -> list[tuple[float, float, str, float]]:
    """Return groups of successive cells: the start, the end, the range in words, and the probability."""
    edges, values = distribution.edges, distribution.values
    cells = len(distribution.probabilities)
    bounds = np.linspace(0, cells, min(cells, _ZONES) + 1).round().astype(int).tolist()
    found = []
    for first, last in pairwise(bounds):
        low, high = (edges[first], edges[last]) if values is None else (values[first], values[last - 1])
        name = " to ".join(dict.fromkeys(_number(end, edges[-1] - edges[0]) for end in (low, high)))
        found.append((edges[first], edges[last], name, sum(distribution.probabilities[first:last])))
    return found


def _share_of_places(
    estimate: Estimate, distribution: Distribution, total: Sequence[float]
) -> Iterator[tuple[tuple[float, ...], str]]:
    """Yield the texts for areas around places of the distribution function."""
    places = _read_off(distribution, total)
    low, high = distribution.edges[0], distribution.edges[-1]
    middles = [low, *((a + b) / 2 for a, b in pairwise(x for x, _ in places)), high]
    for (x, y), (x0, x1) in zip(places, pairwise(middles), strict=True):
        within = ""
        if estimate.band is not None:
            least, most = written(*estimate.band.bounds(x), digits=3)
            within = f", band {least} to {most}"
        yield (x0, x1, 0.0, 1.0), f"up to {_number(x, high - low)}{_unit(estimate)}: {y:.3g}{within}"


def _read_off(distribution: Distribution, total: Sequence[float]) -> list[tuple[float, float]]:
    """Return some places of the distribution function, and its values at these places."""
    at = distribution.edges[1:] if distribution.values is None else distribution.values
    every = -(-len(at) // _ZONES)
    return list(zip(at, total, strict=True))[every - 1 :: every]


def _shares_table(estimate: Estimate, distribution: Distribution) -> Table:
    rows = [
        row(name.replace("_", " "), value)
        for name in ("mean", "direction", "resultant_length")
        if (value := getattr(estimate, name)) is not None
    ]
    rows += [row(f"share {span(name)}", value) for name, value in estimate.bins.items()]
    if not estimate.bins:
        rows += [(f"share {name}", f"{share:.3g}", "") for _, _, name, share in _groups(distribution)]
    return ("", "estimate", f"{_level(estimate)} interval"), tuple(rows)


def _where(estimate: Estimate, distribution: Distribution) -> str:
    """Return a sentence on where most values are, and on the number of modes."""
    most = max(_groups(distribution), key=lambda group: group[3] / ((group[1] - group[0]) or 1.0))
    modes = distribution.modes
    at_least = "" if modes is None else f" The reports show at least {counted(modes, 'mode')}."
    return f"Most values are around {most[2]}{_unit(estimate)}.{at_least}"


def _number(number: float, width: float) -> str:
    """Return a place as text, for a domain of this width."""
    return written(number, number + width / _ZONES / 4, digits=4)[0] if width else f"{number:.17g}"


def _unit(estimate: Estimate) -> str:
    return f" {estimate.unit}" if estimate.unit else ""


def _level(estimate: Estimate) -> str:
    return f"{100 * estimate.level:g} %"
