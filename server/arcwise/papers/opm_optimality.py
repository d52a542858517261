"""Zheng, Mishra and Hu: whether more than three pieces help, and how far OPM is from the best mechanism.

The first question repeats their Monte Carlo check. The second uses a counterexample found by hand.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.design import optimal_pieces, randomized_response, search_pieces
from arcwise.mechanisms.closed_forms.optimal import (
    circle_expected_error,
    interval_expected_error,
    optimal_levels,
)
from arcwise.papers.base import Outcome, Progress, Table, formula, in_unit, reproduction, steps
from arcwise.papers.interval_laws import (
    EPSILONS,
    INTERVAL,
    POWERS,
    SOURCE,
    UNIT,
    below,
    bound_epsilons,
    designed_error,
    least_error,
)
from arcwise.papers.pictures import BELOW, EPSILON, FAMILY_DASHES, Panel, Picture, family_look, mark

if TYPE_CHECKING:
    from arcwise.typing import FloatArray

_FULL, _SAMPLE = 10_000, 1_000
_SEED = 20250521
_CURVE = np.linspace(0.1, 8.0, 40)
_SHAPES = {3: ("o", 8.0), 4: ("s", 4.5), 5: ("x", 2.0)}
"""For each number of pieces in the search, the marker of its points and their size."""


class _Search(NamedTuple):
    """Results of the search for every epsilon: errors, lengths of high parts, whether two levels occur."""

    error: FloatArray
    high: FloatArray
    two_levels: bool


def _search(m: int, epsilons: FloatArray, power: float, circular: bool) -> _Search:
    found = search_pieces(m, epsilons, power, circular=circular)
    width = np.diff(found.edges, axis=1)
    used = width > 1e-12
    low = np.where(used, found.levels, np.inf).min(axis=1, keepdims=True)
    is_high = np.abs(found.levels / (low * np.exp(epsilons)[:, None]) - 1.0) < 1e-9
    is_low = np.abs(found.levels / low - 1.0) < 1e-9
    high = np.where(used & is_high, width, 0.0).sum(axis=1)
    return _Search(found.error, high, bool((is_high | is_low | ~used).all()))


def _closed_form(epsilon: float, power: float, circular: bool = False) -> float:
    if circular:
        return circle_expected_error(epsilon, power)
    return interval_expected_error(0.0, epsilon, power)


@reproduction(
    "opm-pieces",
    f"{SOURCE}: Monte Carlo testing under 10^4 random epsilon",
    "the best density of 3, 4 and 5 pieces at random epsilon; --full takes 10,000",
)
def _pieces(full: bool, progress: Progress) -> Outcome:
    count = _FULL if full else _SAMPLE
    epsilons = np.random.default_rng(_SEED).uniform(0.1, 8.0, count)
    cases = list(itertools.product((False, True), POWERS))
    found: dict[tuple[bool, float, int], _Search] = {}
    for (circular, power), m in steps(progress, itertools.product(cases, _SHAPES)):
        found[circular, power, m] = _search(m, epsilons, power, circular)
    columns = {}
    saved, deviation = 0.0, 0.0
    for circular, power in cases:
        closed = np.array([_closed_form(float(e), power, circular) for e in epsilons])
        errors = {m: found[circular, power, m].error for m in _SHAPES}
        columns["circle" if circular else "interval", power] = {
            "epsilon": epsilons,
            **in_unit(UNIT, {"closed_form": closed, **{f"m_{m}": error for m, error in errors.items()}}),
        }
        saved = max(saved, *(float((1.0 - errors[m] / errors[3]).max()) for m in (4, 5)))
        deviation = max(deviation, *(float(np.abs(error / closed - 1.0).max()) for error in errors.values()))
    few = {m: np.array([optimal_pieces(m, float(e), 1.0, INTERVAL).worst for e in _CURVE]) for m in (1, 2, 3)}
    curves = {"epsilon": _CURVE, **in_unit("domain lengths", {f"m_{m}": each for m, each in few.items()})}
    shape = (
        "It always found two levels, e^epsilon apart (as a ratio)."
        if all(search.two_levels for search in found.values())
        else "It found more than two levels somewhere."
    )
    # The hypothesis of the source is that four or five pieces have no smaller error than three.
    what = f"share of the error that 4 or 5 pieces save over 3, largest of {count:,} random epsilons"
    return Outcome(
        {"search": Table.stacked(("domain", "power"), columns), "few": Table.of(curves)},
        Picture([[_high_parts(epsilons, found), _few_pieces(few)]], (7.2, 3.6)),
        [formula(what, 0.0, saved, 1e-12)],
        [
            f"The search used {count:,} epsilons uniform in [0.1, 8], |y-x| and its square, interval and "
            "circle. At the worst input, it searched over densities of m = 3, 4 and 5 pieces without "
            "assuming where the levels are. Its errors agree with the closed form of 3 pieces to a relative "
            f"difference of {deviation:.0e}. {shape}",
            "Three pieces are enough, and this can be proved without sampling. The error is linear in the "
            "density. So for a given lowest level, the best density is e^epsilon times as high in the region "
            "where the loss is least, which is a window.",
        ],
    )


def _high_parts(epsilons: FloatArray, found: dict[tuple[bool, float, int], _Search]) -> Panel:
    shown = np.argsort(epsilons)[:: max(1, len(epsilons) // 40)]
    hollow = {"markerfacecolor": "none", "markeredgewidth": 0.7}
    marks = []
    for (power, name), colour in zip(POWERS.items(), COLOURS, strict=False):
        widths = [2.0 * optimal_levels(float(e), power).half_window for e in _CURVE]
        label = rf"$2C$ of the closed form, ${name}$"
        marks.append(mark("plot", _CURVE, widths, color=colour, linewidth=1.0, label=label))
        for m, (shape, size) in _SHAPES.items():
            high = found[False, power, m].high[shown]
            marks.append(mark("plot", epsilons[shown], high, shape, color=colour, markersize=size, **hollow))
    for m, (shape, size) in _SHAPES.items():
        label = f"search, $m = {m}$"
        marks.append(mark("plot", [], [], shape, label=label, color="black", markersize=size, **hollow))
    y = r"length of what is high, input at an end of $[0, 1]$"
    return Panel(marks, EPSILON, y, xlim=(0.0, 8.0), ylim=(0.0, None))


def _few_pieces(few: dict[int, FloatArray]) -> Panel:
    names = {1: "$m = 1$ (uniform)", 2: "$m = 2$", 3: r"$m \geq 3$"}
    looks = {1: (COLOURS[6], FAMILY_DASHES[3]), 2: (COLOURS[6], FAMILY_DASHES[1]), 3: (COLOURS[0], "-")}
    marks = [
        mark("plot", _CURVE, few[m], linestyle=dash, color=colour, label=names[m])
        for m, (colour, dash) in looks.items()
    ]
    y = r"worst-case $\mathrm{E}\,|y-x|$ on $[0, 1]$"
    return Panel(marks, EPSILON, y, xlim=(0.0, 8.0), ylim=(0.0, None))


_BOUND, _DESIGN = "bound for all mechanisms", "linear programming"
DESIGN_EPSILONS = (0.5, 1.0, 2.0, 4.0)


@reproduction(
    "opm-gap",
    f"{SOURCE}: optimality of LDP mechanisms",
    "the best piecewise density against the best of all mechanisms, and randomised response by hand",
)
def _gap(full: bool, progress: Progress) -> Outcome:
    epsilons = bound_epsilons(full)
    cases = [(_BOUND, power, epsilon) for power in POWERS for epsilon in epsilons]
    cases += [(_DESIGN, power, epsilon) for power in POWERS for epsilon in DESIGN_EPSILONS]
    rows: list[tuple[float | str, ...]] = []
    # The worst cases divided by OPM's, by mechanism and power.
    ratios: dict[tuple[str, float], list[float]] = {(what, power): [] for what, power, _ in cases}
    for what, power, epsilon in steps(progress, cases):
        optimum = _closed_form(float(epsilon), power)
        worst = least_error(epsilon, power, full) if what == _BOUND else designed_error(epsilon, power)
        rows.append((power, epsilon, optimum, worst, what))
        ratios[what, power].append(worst / optimum)
    by_hand = np.array([randomized_response(epsilon).worst_case() for epsilon in EPSILONS])
    ours = np.array([_closed_form(float(epsilon), 1.0) for epsilon in EPSILONS])
    rows += [
        (1.0, *row, "randomised response on {a, 1-a}")
        for row in zip(EPSILONS.tolist(), ours.tolist(), by_hand.tolist(), strict=True)
    ]

    panels = []
    for power, name in POWERS.items():
        least = ratios[_BOUND, power]
        black = {"color": "black", "linewidth": 1.0, "marker": "."}
        green = {"color": COLOURS[2], "label": "found by linear programming", "zorder": 3}
        marks = [
            mark("axhline", 1.0, color=COLOURS[0], label="OPM, the best piecewise density on $[0, 1]$"),
            mark("plot", DESIGN_EPSILONS, ratios[_DESIGN, power], "s", **green),
            mark("plot", epsilons, least, label="bound for all mechanisms (at the dots)", **black),
            mark("fill_between", epsilons, 0.0, least, color="0.9", linewidth=0),
        ]
        if power == 1.0:
            label = r"randomised response on $\{a, 1-a\}$"
            marks.insert(1, mark("plot", EPSILONS, by_hand / ours, label=label, **family_look(1)))
            marks.append(mark("text", 0.3, 0.3, "no mechanism", fontsize=8.5, color="0.35"))
        title = rf"worst-case $\mathrm{{E}}\,{name}$"
        panels.append(Panel(marks, EPSILON, "relative to OPM", title, (0.0, 8.0), (0.0, 1.2), legend=None))
    columns = ("power", "epsilon", f"opm ({UNIT})", f"value ({UNIT})", "what")
    return Outcome(
        {"worst": Table(columns, rows)},
        Picture([panels], (7.2, 3.7), legend=BELOW | {"ncols": 2}),
        (),
        [_by_hand(by_hand, ours), *(_saved(ratios[_DESIGN, power], power, full) for power in POWERS)],
    )


def _by_hand(by_hand: FloatArray, ours: FloatArray) -> str:
    one = int(np.argmin(np.abs(EPSILONS - 1.0)))
    a = randomized_response(1.0).outputs[0]
    return (
        "The best piecewise density is not the best of all mechanisms. A counterexample by hand reports a or "
        "1-a: with probability e^epsilon / (1 + e^epsilon) the one on the value's side of 1/2, where "
        f"a = (e^epsilon - 1) / (4 e^epsilon). At epsilon 1, a is {a:.4f} and the worst case is "
        f"{by_hand[one]:.4f}, which is (1 + e^-epsilon) / 4 = {(1.0 + math.exp(-1.0)) / 4.0:.4f}. OPM has "
        f"{ours[one]:.4f}. Two atoms are better than any such density for epsilon {below(by_hand, ours)}."
    )


def _saved(designs: list[float], power: float, full: bool) -> str:
    parts = [
        f"{1.0 - ratio:.1%} at {epsilon:g} (no mechanism reduces it by more than "
        f"{1.0 - least_error(epsilon, power, full) / _closed_form(float(epsilon), power):.1%})"
        for epsilon, ratio in zip(DESIGN_EPSILONS, designs, strict=True)
    ]
    return (
        f"Tables found by linear programming reduce OPM's worst-case E {POWERS[power]} by {', '.join(parts)}."
    )
