"""How far the best piecewise density is from the best of all mechanisms, with a counterexample by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.design import randomized_response
from arcwise.mechanisms.closed_forms.optimal import interval_expected_error
from arcwise.papers.base import Outcome, Progress, Table, reproduction, steps
from arcwise.papers.interval_laws import (
    EPSILONS,
    POWERS,
    SOURCE,
    UNIT,
    below,
    bound_epsilons,
    designed_error,
    least_error,
)
from arcwise.papers.pictures import BELOW, EPSILON, Panel, Picture, family_look, mark

if TYPE_CHECKING:
    from arcwise.typing import FloatArray

_BOUND, _DESIGN = "bound for all mechanisms", "linear programming"
DESIGN_EPSILONS = (0.5, 1.0, 2.0, 4.0)


def _optimum(epsilon: float, power: float) -> float:
    return interval_expected_error(0.0, float(epsilon), power)


@reproduction(
    "opm-gap",
    f"{SOURCE}: optimality of LDP mechanisms",
    "the best piecewise density beside the best of all mechanisms, and randomised response by hand",
)
def _gap(full: bool, progress: Progress) -> Outcome:
    epsilons = bound_epsilons(full)
    cases = [(_BOUND, power, epsilon) for power in POWERS for epsilon in epsilons]
    cases += [(_DESIGN, power, epsilon) for power in POWERS for epsilon in DESIGN_EPSILONS]
    rows: list[tuple[float | str, ...]] = []
    # The worst cases over OPM's, by what has them and the power.
    ratios: dict[tuple[str, float], list[float]] = {(what, power): [] for what, power, _ in cases}
    for what, power, epsilon in steps(progress, cases):
        optimum = _optimum(epsilon, power)
        worst = least_error(epsilon, power, full) if what == _BOUND else designed_error(epsilon, power)
        rows.append((power, epsilon, optimum, worst, what))
        ratios[what, power].append(worst / optimum)
    by_hand = np.array([randomized_response(epsilon).worst_case() for epsilon in EPSILONS])
    ours = np.array([_optimum(epsilon, 1.0) for epsilon in EPSILONS])
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
        "Optimal among piecewise densities is not optimal among mechanisms. By hand: report a or 1-a, the "
        "one on the value's side of 1/2 with probability e^epsilon / (1 + e^epsilon), where "
        f"a = (e^epsilon - 1) / (4 e^epsilon). At epsilon 1, a = {a:.4f}, the worst case is "
        f"{by_hand[one]:.4f}, which is (1 + e^-epsilon) / 4 = {(1.0 + math.exp(-1.0)) / 4.0:.4f}; OPM has "
        f"{ours[one]:.4f}. Two atoms are better than any such density for epsilon {below(by_hand, ours)}."
    )


def _saved(designs: list[float], power: float, full: bool) -> str:
    parts = [
        f"{1.0 - ratio:.1%} at {epsilon:g} (no mechanism saves more than "
        f"{1.0 - least_error(epsilon, power, full) / _optimum(epsilon, power):.1%})"
        for epsilon, ratio in zip(DESIGN_EPSILONS, designs, strict=True)
    ]
    return (
        f"Of OPM's worst-case E {POWERS[power]}, tables found by linear programming save {', '.join(parts)}."
    )
