"""The mode: where most of the population is, at a stated resolution, on an interval or a circle.

The point of highest density cannot be estimated from noisy reports: the most likely distribution is a few
spikes, and two places close together look alike. The reports do show which window of a given width holds the
largest share of the population. All windows have the same width, so a narrow cell at an end does not win
because of its width. People who are all at one place (an atom) count like people spread over a window.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.estimators.result import Value, all_notes
from arcwise.analysis.grid import cell_edges, coarse_notes, first_cell, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis.estimators.bounds import Evidence
    from arcwise.analysis.estimators.survey import Profile
    from arcwise.analysis.grid import Values
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import BoolArray, FloatArray

_WINDOWS = 8
"""Windows that fit side by side into the domain, on grids that are fine enough.

With 16 windows, intervals are longer by an eighth to a half for broad peaks, because shares of narrow windows
are known less precisely; they are shorter for narrow peaks and for atoms at a large epsilon. 4 windows are
rarely better than 8 (`benchmarks/studies/mode_windows.py`).
"""

_STEPS = 4  # most positions of windows per window width

_FEWEST_NODES = 9
"""Fewest nodes for which a mode is estimated: of fewer nodes, two take more than a quarter of the domain."""

_MOST_VALUES = 32  # most values of a lattice on which the mode is one of the values: each value costs a bound
_TIE = 1e-9  # shares of windows that differ by less count as equal
_ROUNDING = 1e-9  # part of a cell: smaller parts are rounding errors


def mode(survey: Profile, *, level: float = 0.95, interval: bool = True) -> Value:
    """Return the place where most of the population is, in the unit of the domain.

    Without `interval` the result is only a point, which saves up to 32 bounds.

    The point: windows are as wide as an eighth of the domain, or as two nodes if these are wider. Their
    starts are a quarter of a window apart. The point is the middle of the cell of highest density in the
    window with the largest fitted share. The end nodes of an interval are atoms at its ends, as in the
    quantiles.

    The interval holds the window with the largest share in the population, at the level. Let b be the point's
    window. A window is dropped only if its share minus that of b has an upper bound below 0 (`bounds`). For
    the window with the truly largest share this difference is at least 0, for any b. The reports choose b: of
    m windows, it may be any of the m - 1 others. So each bound has the level ``1 - (1 - level) / (m - 1)``
    (Bonferroni). The interval extends from the first window kept to the last; on a circle it is the smallest
    arc that holds them.

    For the clamp placement, a window in an end zone may hold all people of the zone or none of them. It is
    assumed to hold all if it is tested, and none if it is b. There is no point estimate if a zone may hold
    more people than the best window.

    On a lattice of up to 32 values with a node each, the windows are the values, and a note names the values
    kept.
    """
    mechanism, probabilities = survey.mechanism, survey.probabilities
    kernel, domain = mechanism.kernel, mechanism.domain
    few, bounds = survey.few, survey.bounds if interval else None
    fitted = np.roll(probabilities, -first_cell(mechanism))
    values = values_of(mechanism)
    if values is not None and values.size <= _MOST_VALUES and (values.first == values.last).all():
        return _of_values(mechanism, values, fitted, level=level, bounds=bounds, few=few)
    if kernel.nodes < _FEWEST_NODES:
        return Value(None, None, None, "none", (f"too few nodes ({kernel.nodes}) to show a mode",))
    circular = kernel.circular
    windows = _windows(2.0 / (kernel.nodes if circular else kernel.nodes - 1), circular=circular)
    edges = cell_edges(mechanism)
    least, most = _covered(edges, windows, circular=circular)
    shares = least @ fitted
    best = int(np.argmax(shares))
    value, why = None, ""
    if float(np.ptp(shares)) <= _TIE:
        why = "no window of the fitted distribution holds more than another"
    elif float((most @ fitted).max()) > shares[best]:
        why = "an end zone, where values are not distinguished, may hold the mode"
    else:
        atoms = not circular and not mechanism.end_zones
        value = float(domain.from_unit(np.float64(_densest(fitted, edges, least[best], atoms=atoms))))
    width = windows.width * domain.length
    method = f"densest cell of the fullest of {len(windows.starts)} windows {width:.4g} wide"
    if bounds is None:
        return Value(value, None, None, method, all_notes("not computed without bands", why, few))
    notes = all_notes(
        why,
        few,
        coarse_notes(mechanism),
        f"of windows {width:.4g} wide: narrower or second peaks are not resolved",
    )
    functionals = [bounds.places.between(start, start + windows.width) for start in windows.starts.tolist()]
    kept = _staying(bounds, functionals, best, level, ends=not circular)
    low, high = _hull(kept, windows, circular=circular)
    first, last = (float(domain.from_unit(np.float64(each))) for each in (low, high))
    if circular and high - low < 1.0:
        first, last = _around(value, first, last, domain.length)
    return Value(value, first, last, f"{method}; bounds of all windows' shares, Bonferroni", notes)


def _of_values(
    mechanism: Mechanism,
    values: Values,
    fitted: FloatArray,
    *,
    level: float,
    bounds: Evidence | None,
    few: str,
) -> Value:
    """Return the most frequent value of the population; the interval holds all possible modes."""
    domain, size = mechanism.domain, values.size
    best = int(np.argmax(fitted))
    known = float(np.ptp(fitted)) > _TIE
    why = "" if known else "no value of the fitted distribution has more than another"
    at = domain.values()
    value = float(at[best]) if known else None
    method = "most frequent value of the fitted distribution"
    if bounds is None:
        return Value(value, None, None, method, all_notes("not computed without bands", why, few))
    functionals = [bounds.places.values_between(k, k) for k in range(size)]
    kept = np.flatnonzero(_staying(bounds, functionals, best, level))
    notes = all_notes(why, few, f"values that may be the mode: {', '.join(f'{each:g}' for each in at[kept])}")
    first, last = float(at[kept[0]]), float(at[kept[-1]])
    if mechanism.kernel.circular:
        windows = _Windows(np.arange(size) / size, 1.0 / size)
        mask = np.isin(np.arange(size), kept)
        low, high = _hull(mask, windows, circular=True)
        if high - low < 1.0:
            first, last = (float(domain.from_unit(np.float64(each))) for each in (low, high - windows.width))
            first, last = _around(value, first, last, domain.length)
        else:
            first, last = 0.0, domain.length
    return Value(value, first, last, f"{method}; bounds of all values' shares, Bonferroni", notes)


def _around(value: float | None, first: float, last: float, period: float) -> tuple[float, float]:
    """Return the ends of an arc, moved by whole turns so that the arc holds the value."""
    turns = 0.0 if value is None else period * float(np.floor((value - first) / period))
    return first + turns, last + turns


class _Windows(NamedTuple):
    """The starts of windows on the unit domain, shape (m,), equally spaced, and their width."""

    starts: FloatArray
    width: float


def _windows(least: float, *, circular: bool) -> _Windows:
    width = max(1.0 / _WINDOWS, least)
    if circular:
        count = int(_STEPS / width + _ROUNDING)
        return _Windows(np.arange(count) / count, width)
    # Windows start at least a quarter of their width apart, so that only the first and the last touch the end
    # cells.
    count = int(_STEPS * (1.0 - width) / width + _ROUNDING) + 1
    return _Windows(np.linspace(0.0, 1.0 - width, count), width)


def _covered(edges: FloatArray, windows: _Windows, *, circular: bool) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest part of each cell that lies in each window, shape (m, cells).

    The least and the largest part differ only in the end cells of an interval, because the position of people
    within such a cell is unknown.
    """
    left, right = edges[:-1], edges[1:]
    part = np.zeros((len(windows.starts), len(left)))
    for turn in (-1.0, 0.0, 1.0) if circular else (0.0,):
        first = windows.starts[:, None] + turn
        overlap = np.minimum(right, first + windows.width) - np.maximum(left, first)
        part += np.maximum(overlap, 0.0) / (right - left)
    part = np.where(part < _ROUNDING, 0.0, np.where(part > 1.0 - _ROUNDING, 1.0, part))
    least, most = part.copy(), part
    if not circular:
        least[:, [0, -1]], most[:, [0, -1]] = np.floor(part[:, [0, -1]]), np.ceil(part[:, [0, -1]])
    return least, most


def _densest(fitted: FloatArray, edges: FloatArray, part: FloatArray, *, atoms: bool) -> float:
    """Return the middle of the densest cell centred in a window; an end cell may be an atom."""
    cell = int(np.argmax(np.where(part >= 0.5 - _ROUNDING, fitted / np.diff(edges), -1.0)))
    if atoms and cell in (0, len(fitted) - 1):
        return float(cell > 0)
    return float(edges[cell] + edges[cell + 1]) / 2


def _staying(
    bounds: Evidence,
    functionals: Sequence[tuple[FloatArray, FloatArray]],
    best: int,
    level: float,
    *,
    ends: bool = False,
) -> BoolArray:
    """Return a mask of the parts of the domain that may hold the largest share, shape (m,).

    Each part has two arrays of functionals: the first are above its share, and the second above the share of
    the rest of the domain. `best` is the part that seems to hold the most. At the confidence level, the mask
    includes the part that truly holds the most. With `ends`, it includes only the first and the last of these
    parts.
    """
    count = len(functionals)
    root = NormalDist().inv_cdf(1.0 - (1.0 - level) / (count - 1))

    def stays(i: int) -> bool:
        # The share of the part minus the share of the best part.
        difference = functionals[i][0][:1] + functionals[best][1][:1] - 1.0
        if i == best or float(difference[0] @ bounds.fitted) >= 0.0:
            return True
        return bounds.averages([difference], root)[0].upper(root) >= 0.0

    if not ends:
        return np.array([stays(i) for i in range(count)])
    kept = np.zeros(count, dtype=bool)
    kept[next(i for i in range(count) if stays(i))] = True
    kept[next(i for i in reversed(range(count)) if stays(i))] = True
    return kept


def _hull(kept: BoolArray, windows: _Windows, *, circular: bool) -> tuple[float, float]:
    """Return the smallest interval or arc that holds the windows kept."""
    starts = windows.starts[kept]
    if not circular:
        return float(starts[0]), float(min(starts[-1] + windows.width, 1.0))
    gaps = np.diff(np.append(starts, starts[0] + 1.0))
    widest = int(np.argmax(gaps))
    if gaps[widest] <= windows.width + _ROUNDING:
        return 0.0, 1.0
    low = float(starts[(widest + 1) % len(starts)])
    return low, low + 1.0 - float(gaps[widest]) + windows.width
