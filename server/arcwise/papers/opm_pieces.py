"""Zheng, Mishra and Hu: the Monte Carlo check that more than three pieces do not help."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.design import optimal_pieces, search_pieces
from arcwise.domains import Interval
from arcwise.mechanisms.closed_forms.optimal import (
    circle_expected_error,
    interval_expected_error,
    optimal_levels,
)
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.interval_laws import SOURCE, UNIT
from arcwise.papers.pictures import Panel, Picture, mark

if TYPE_CHECKING:
    from arcwise.typing import FloatArray


_FULL, _SAMPLE, _CHUNK = 10_000, 1_000, 500
_PIECES = (3, 4, 5)
_SEED = 20250521
_CURVE = np.linspace(0.1, 8.0, 40)
_POWERS = (1.0, 2.0)
_UNIT = Interval(0.0, 1.0)


def _closed_form(epsilon: float, power: float, circular: bool) -> float:
    if circular:
        return circle_expected_error(epsilon, power)
    return interval_expected_error(0.0, epsilon, power)


class _Search(NamedTuple):
    """What the search found for every epsilon: the errors, the length of what is high, and whether all is."""

    error: FloatArray
    high: FloatArray
    two_levels: bool


def _search(m: int, epsilons: FloatArray, power: float, *, circular: bool) -> _Search:
    found = search_pieces(m, epsilons, power, circular=circular)
    width = np.diff(found.edges, axis=1)
    used = width > 1e-12
    low = np.where(used, found.levels, np.inf).min(axis=1, keepdims=True)
    is_high = np.abs(found.levels / (low * np.exp(epsilons)[:, None]) - 1.0) < 1e-9
    is_low = np.abs(found.levels / low - 1.0) < 1e-9
    high = np.where(used & is_high, width, 0.0).sum(axis=1)
    return _Search(found.error, high, bool((is_high | is_low | ~used).all()))


def _joined(parts: list[_Search]) -> _Search:
    return _Search(
        np.concatenate([part.error for part in parts]),
        np.concatenate([part.high for part in parts]),
        all(part.two_levels for part in parts),
    )


def _pieces(full: bool, progress: Progress) -> Outcome:
    count = _FULL if full else _SAMPLE
    epsilons = np.random.default_rng(_SEED).uniform(0.1, 8.0, count)
    chunks = [epsilons[start : start + _CHUNK] for start in range(0, count, _CHUNK)]
    found: dict[tuple[bool, float, int], _Search] = {}
    steps = [(circular, power, m) for circular in (False, True) for power in _POWERS for m in _PIECES]
    for done, (circular, power, m) in enumerate(steps):
        parts = []
        for more, chunk in enumerate(chunks):
            progress(done * len(chunks) + more, len(steps) * len(chunks))
            parts.append(_search(m, chunk, power, circular=circular))
        found[circular, power, m] = _joined(parts)
    closed = {
        (circular, power): np.array([_closed_form(float(e), power, circular) for e in epsilons])
        for circular in (False, True)
        for power in _POWERS
    }
    few = {m: np.array([optimal_pieces(m, float(e), 1.0, _UNIT).worst for e in _CURVE]) for m in (1, 2, 3)}
    columns = {
        ("circle" if circular else "interval", power): {
            "epsilon": epsilons,
            f"closed_form {UNIT}": values,
            **{f"m_{m} {UNIT}": found[circular, power, m].error for m in _PIECES},
        }
        for (circular, power), values in closed.items()
    }
    return Outcome(
        {
            "search": Table.stacked(("domain", "power"), columns),
            "few": Table.of(
                epsilon=_CURVE, **{f"m_{m} (domain lengths)": values for m, values in few.items()}
            ),
        },
        _picture(epsilons, found, few),
        [_hypothesis(count, found)],
        _findings(count, found, closed),
    )


def _picture(
    epsilons: FloatArray, found: dict[tuple[bool, float, int], _Search], few: dict[int, FloatArray]
) -> Picture:
    shown = np.argsort(epsilons)[:: max(1, len(epsilons) // 40)]
    shapes = {3: ("o", 8.0), 4: ("s", 4.5), 5: ("x", 2.0)}
    hollow = {"markerfacecolor": "none", "markeredgewidth": 0.7}
    left = []
    for power, colour in zip(_POWERS, COLOURS, strict=False):
        widths = [2.0 * optimal_levels(float(e), power).half_window for e in _CURVE]
        label = rf"$2C$ of the closed form, ${'|y-x|' if power == 1.0 else '(y-x)^2'}$"
        left.append(mark("plot", _CURVE, widths, color=colour, linewidth=1.0, label=label))
        for m, (shape, size) in shapes.items():
            high = found[False, power, m].high[shown]
            left.append(mark("plot", epsilons[shown], high, shape, color=colour, markersize=size, **hollow))
    for m, (shape, size) in shapes.items():
        label = f"search, $m = {m}$"
        left.append(mark("plot", [], [], shape, label=label, color="black", markersize=size, **hollow))
    names = {1: "$m = 1$ (uniform)", 2: "$m = 2$", 3: r"$m \geq 3$"}
    right = [
        mark(
            "plot", _CURVE, values, linestyle=dash, color=COLOURS[0] if m == 3 else COLOURS[6], label=names[m]
        )
        for (m, values), dash in zip(few.items(), ((0, (1, 1.2)), (0, (6, 2)), "-"), strict=True)
    ]
    labels = (
        r"length of what is high, input at an end of $[0, 1]$",
        r"worst-case $\mathrm{E}\,|y-x|$ on $[0, 1]$",
    )
    panels = [
        Panel(marks, x=r"$\varepsilon$", y=y, xlim=(0.0, 8.0), ylim=(0.0, None))
        for marks, y in zip((left, right), labels, strict=True)
    ]
    return Picture([panels], (7.2, 3.6))


def _hypothesis(count: int, found: dict[tuple[bool, float, int], _Search]) -> Check:
    """Return what four or five pieces save over three at most; the source's hypothesis is 0."""
    saved = max(
        float((1.0 - search.error / found[circular, power, 3].error).max())
        for (circular, power, m), search in found.items()
        if m > 3
    )
    what = f"share of the error that 4 or 5 pieces save over 3, largest of {count:,} random epsilons"
    return Check(what, 0.0, max(saved, 0.0), tolerance=1e-12, formula=True)


def _findings(
    count: int, found: dict[tuple[bool, float, int], _Search], closed: dict[tuple[bool, float], FloatArray]
) -> list[str]:
    largest = max(
        float(np.abs(search.error / closed[circular, power] - 1.0).max())
        for (circular, power, _), search in found.items()
    )
    shape = (
        "It always found two levels, e^epsilon apart."
        if all(search.two_levels for search in found.values())
        else "It found more than two levels somewhere."
    )
    return [
        f"{count:,} epsilons uniform in [0.1, 8], |y-x| and its square, interval and circle: at the worst "
        "input the search over densities of m = 3, 4 and 5 pieces, which does not assume where levels "
        f"belong, agrees with the closed form of 3 pieces to {largest:.0e} relative. {shape}",
        "That three pieces are enough needs no sampling: the error is linear in the density, so for a given "
        "lowest level the best density is e^epsilon times as high where the loss is least: in a window.",
    ]


REPRODUCTIONS = (
    Reproduction(
        "opm-pieces",
        f"{SOURCE}: Monte Carlo testing under 10^4 random epsilon",
        "the best density of 3, 4 and 5 pieces at random epsilon; --full takes 10,000",
        _pieces,
    ),
)
