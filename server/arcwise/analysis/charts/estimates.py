"""The charts of an estimate: distribution and distribution function on an interval, a rose on a circle.

What has an interval is shown with it; where there is none, the legend says so.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.charts.look import circle_marks
from arcwise.analysis.charts.merging import merged
from arcwise.analysis.charts.model import Axis, Chart, Layer
from arcwise.analysis.estimators.k_modal import as_drawn
from arcwise.digits import counted, rounded_up, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arcwise.analysis.charts.model import Table
    from arcwise.analysis.estimators.result import Distribution, Estimate, Value
    from arcwise.typing import FloatArray

_ZONES = 48
"""Parts of a chart whose values are shown under the pointer, where there are no bins."""
_CELLS = 36
"""Of a small chart."""
_NARROW = 1 / 6
"""Of a circle: a wider interval of the direction does not cover the sectors' values."""
_MOST = 1e300
"""The highest density that is drawn: on a domain of a few floats it has no bound."""
_SHARES = tuple((share, f"{share:g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0))


def estimate_title(estimate: Estimate) -> str:
    """Return what stands over the picture."""
    return f"{estimate.task}: {counted(estimate.n, 'report')} at epsilon {rounded_up(estimate.epsilon)}"


def estimate_charts(estimate: Estimate) -> list[Chart]:
    """Return the charts of an estimate; none where it has no distribution."""
    if estimate.distribution is None:
        return []
    if estimate.resultant_length is not None:
        return [_rose(estimate, estimate.distribution)]
    return [_density(estimate, estimate.distribution), _cumulative(estimate, estimate.distribution)]


def small_chart(estimate: Estimate) -> Chart | None:
    """Return the distribution with its mean or direction, small; None where there is no distribution."""
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


class Bins(NamedTuple):
    """The shares of the bins of an estimate: their bounds, shape (B+1,), and three numbers each, shape (B,).

    Where no point is known, in an end zone, it is the middle of the interval.
    """

    bounds: FloatArray
    points: FloatArray
    low: FloatArray
    high: FloatArray


def bin_intervals(estimate: Estimate) -> Bins:
    """Return the bins as they are drawn; none have the shapes (1,) and (0,)."""
    values = list(estimate.bins.values())
    ends = np.array([[float(end) for end in name.split(":")] for name in estimate.bins]).reshape(-1, 2)
    # On a lattice a bin ends at its last value and the next begins a step after it; here they meet half-way.
    half = 0.5 * float(ends[1, 0] - ends[0, 1]) if len(ends) > 1 else 0.0
    bounds = np.append(ends[:, 0] - half, ends[-1:, 1] + half)
    low, high = (np.array([getattr(value, end) for value in values], np.float64) for end in ("low", "high"))
    points = [
        0.5 * (a + b) if value.value is None else value.value
        for value, a, b in zip(values, low, high, strict=True)
    ]
    return Bins(bounds, np.array(points), low, high)


def _cells(estimate: Estimate, distribution: Distribution, one: float) -> tuple[tuple[float, ...], ...]:
    """Return the histogram: the bounds of each cell, and its probability by `one` of its width."""
    drawn = as_drawn(distribution, circular=estimate.domain.circular).tolist()
    return tuple(
        (low, high, min(p / (high - low) * one, _MOST) if high > low else 0.0)
        for (low, high), p in zip(pairwise(distribution.edges), drawn, strict=True)
    )


def _density(estimate: Estimate, distribution: Distribution) -> Chart:
    edges, level = distribution.edges, f"{100 * estimate.level:g} %"
    discrete = distribution.values is not None
    # On a lattice heights are probabilities of values, of a bin their average.
    one = edges[1] - edges[0] if discrete else 1.0
    cells = _cells(estimate, distribution, one)
    layers = [Layer("cells", "fit", cells, "fit" if estimate.bins else "fit, no band")]
    whiskers = _whiskers(estimate, one)
    if whiskers:
        layers.append(Layer("whiskers", "fit", whiskers, f"bins, {level} each"))
    mean = estimate.mean
    if mean is not None:
        layers += _marked(mean, "mean" if mean.value is not None else "possible means", level)
    top = 1.06 * max([*(y for _, _, y in cells), *(most for *_, most in whiskers)])
    layers.append(_share_zones(estimate, distribution, top))
    per = "" if estimate.unit is None else f" per {estimate.unit}"
    said = "" if mean is None else f" Mean {mean}{_unit(estimate)}."
    return Chart(
        "probabilities" if discrete else "density",
        estimate_title(estimate),
        "Distribution",
        f"Estimated distribution of values in {estimate.domain_words}.{said} "
        + _where(estimate, distribution),
        _shares_table(estimate, distribution, level),
        Axis(f"value in {estimate.domain_words}", edges[0], edges[-1]),
        Axis("probability" if discrete else f"density{per}", 0.0, top or 1.0),
        tuple(layers),
    )


def _cumulative(estimate: Estimate, distribution: Distribution) -> Chart:
    edges, level, unit = distribution.edges, f"{100 * estimate.level:g} %", _unit(estimate)
    low, high, band = edges[0], edges[-1], estimate.band
    layers = []
    total = [min(share, 1.0) for share in accumulate(distribution.probabilities)]
    if band is not None:
        knots = [low, *(min(max(at, low), high) for at in band.at), high]
        # Between two places F is at least what it is on the left, and at most what it is on the right.
        ends = zip([0.0, *band.low], [*band.high, 1.0], strict=True)
        blocks = tuple((*at, *both) for at, both in zip(pairwise(knots), ends, strict=True) if at[0] < at[1])
        layers.append(Layer("ribbon", "fit", blocks, f"band, {level}"))
    if distribution.values is None:
        fit = list(zip(edges, [0.0, *total], strict=True))
    else:  # it jumps at each value
        jumps = zip(distribution.values, [0.0, *total], total, strict=False)
        fit = [(low, 0.0), *(p for x, a, b in jumps for p in ((x, a), (x, b))), (high, total[-1])]
    layers.append(Layer("line", "fit", tuple(fit), "fit" if band is not None else "fit, no band"))
    known = [(float(tau), value) for tau, value in estimate.quantiles.items() if value.ends() is not None]
    if known:
        ranges = tuple((tau, _or_nan(value.value), *_ends(value)) for tau, value in known)
        layers.append(Layer("ranges", "mark", ranges, f"quantiles, {level}"))
    zones = list(_share_of_places(estimate, distribution, total))
    zones += [
        ((*_ends(value), tau - 0.03, tau + 0.03), f"quantile {tau:g}: {value}{unit}") for tau, value in known
    ]
    layers.append(_zones(zones))
    said = "; ".join(f"quantile {name} {value}{unit}" for name, value in estimate.quantiles.items())
    rows = [_row(f"quantile {name}", value) for name, value in estimate.quantiles.items()]
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
        estimate_title(estimate),
        "Distribution function",
        f"Estimated share of values up to each value in {estimate.domain_words}{'. ' if said else '.'}{said}",
        (("", "estimate", f"{level} interval"), tuple(rows)),
        Axis(f"value in {estimate.domain_words}", low, high),
        Axis("share of values up to it", 0.0, 1.0, "given", _SHARES),
        tuple(layers),
    )


def _rose(estimate: Estimate, distribution: Distribution) -> Chart:
    edges, level, unit = distribution.edges, f"{100 * estimate.level:g} %", _unit(estimate)
    period = edges[-1] - edges[0]
    one = period / (2 * np.pi)
    cells = _cells(estimate, distribution, one)
    layers = [Layer("cells", "fit", cells, "fit" if estimate.bins else "fit, no band")]
    whiskers = tuple((x0, x1, float("nan"), *ends) for x0, x1, _, *ends in _whiskers(estimate, one))
    if whiskers:
        layers.append(Layer("whiskers", "fit", whiskers, f"sectors, {level} each"))
    top = 1.06 * max([*(y for _, _, y in cells), *(most for *_, most in whiskers)]) or 1.0
    direction, length, said = estimate.direction, estimate.resultant_length, ""
    zones = _share_zones(estimate, distribution, top)
    layers.append(zones)
    if direction is not None:
        layers[-1:-1] = _marked(direction, "mean direction", level)
        ends = direction.ends()
        if ends is not None and ends[1] - ends[0] < _NARROW * period:
            zones = Layer("zones", "hover", ((*ends, 0.0, top),), "", (f"mean direction: {direction}{unit}",))
            layers.append(zones)
        said = f" Mean direction {direction}{unit}, resultant length {length}."
    marks = circle_marks(period, estimate.unit)
    places = tuple((period * place / len(marks), mark) for place, mark in enumerate(marks))
    return Chart(
        "rose",
        estimate_title(estimate),
        "Rose: areas are probabilities",
        f"Estimated distribution of values in {estimate.domain_words}.{said} "
        + _where(estimate, distribution),
        _shares_table(estimate, distribution, level),
        Axis(f"resultant length {length}", edges[0], edges[-1], "given", places, period),
        Axis("", 0.0, top),
        tuple(layers),
    )


def _marked(value: Value, name: str, level: str) -> Iterator[Layer]:
    """Yield the interval of a mean or a direction, and its point."""
    ends = value.ends()
    if ends is not None:
        yield Layer("spans", "mark", (ends,), f"{name}, {level}")
    if value.value is not None:
        yield Layer("rules", "mark", ((value.value,),), "" if ends is not None else f"{name}, no interval")


def _whiskers(estimate: Estimate, one: float) -> tuple[tuple[float, ...], ...]:
    """Return each bin's bounds, its point and its interval, as heights."""
    bounds, points, lows, highs = (each.tolist() for each in bin_intervals(estimate))
    found = []
    for (x0, x1), y, low, high in zip(pairwise(bounds), points, lows, highs, strict=True):
        found.append((x0, x1, *(min(share / (x1 - x0) * one, _MOST) for share in (y, low, high))))
    return tuple(found)


def _share_zones(estimate: Estimate, distribution: Distribution, top: float) -> Layer:
    """Return what is shown of a bin, or, where there are none, of some cells together."""
    unit = _unit(estimate)
    bounds = bin_intervals(estimate).bounds.tolist() if estimate.bins else []
    if bounds:
        names = [f"{_span(name)}{unit}: {value}" for name, value in estimate.bins.items()]
    else:
        cells = _groups(distribution)
        bounds = [cells[0][0], *(x1 for _, x1, _, _ in cells)]
        names = [f"{name}{unit}: {share:.3g} (fit, no interval)" for _, _, name, share in cells]
    spans = [(x0, x1, 0.0, top) for x0, x1 in pairwise(bounds)]
    return _zones(zip(spans, names, strict=True))


def _zones(found: Sequence[tuple[tuple[float, ...], str]] | Iterator[tuple[tuple[float, ...], str]]) -> Layer:
    found = list(found)
    return Layer("zones", "hover", tuple(zone for zone, _ in found), "", tuple(text for _, text in found))


def _groups(distribution: Distribution) -> list[tuple[float, float, str, float]]:
    """Return successive cells together: where they start and end, that in words, and their probability."""
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
    """Yield what is shown around places of the distribution function."""
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
    """Return some places of the distribution function, and its values there."""
    at = distribution.edges[1:] if distribution.values is None else distribution.values
    every = -(-len(at) // _ZONES)
    return list(zip(at, total, strict=True))[every - 1 :: every]


def _shares_table(estimate: Estimate, distribution: Distribution, level: str) -> Table:
    places = [
        (name, value)
        for name, value in (
            ("mean", estimate.mean),
            ("direction", estimate.direction),
            ("resultant length", estimate.resultant_length),
        )
        if value is not None
    ]
    rows = [_row(name, value) for name, value in places]
    rows += [_row(f"share {_span(name)}", value) for name, value in estimate.bins.items()]
    if not estimate.bins:
        rows += [(f"share {name}", f"{share:.3g}", "") for _, _, name, share in _groups(distribution)]
    return ("", "estimate", f"{level} interval"), tuple(rows)


def _row(name: str, value: Value) -> tuple[str, ...]:
    return name, value.written()[0], value.interval_words()


def _where(estimate: Estimate, distribution: Distribution) -> str:
    """Return between which values most are, and how many modes there are."""
    most = max(_groups(distribution), key=lambda group: group[3] / ((group[1] - group[0]) or 1.0))
    modes = distribution.modes
    at_least = "" if modes is None else f" The reports show at least {counted(modes, 'mode')}."
    return f"Most values are around {most[2]}{_unit(estimate)}.{at_least}"


def _span(name: str) -> str:
    """Return a bin's name in words: a single value of a lattice once."""
    return " to ".join(dict.fromkeys(name.split(":")))


def _number(number: float, width: float) -> str:
    """Return a place of a domain of this width."""
    return written(number, number + width / _ZONES / 4, digits=4)[0] if width else f"{number:.17g}"


def _unit(estimate: Estimate) -> str:
    return f" {estimate.unit}" if estimate.unit else ""


def _ends(value: Value) -> tuple[float, float]:
    ends = value.ends()
    assert ends is not None  # noqa: S101 (asked before)
    return ends


def _or_nan(number: float | None) -> float:
    return float("nan") if number is None else number
