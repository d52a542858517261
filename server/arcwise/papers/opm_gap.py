"""How far the best piecewise density is from the best of all mechanisms, with a counterexample by hand."""

from __future__ import annotations

import math

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.design import randomized_response
from arcwise.mechanisms.closed_forms.optimal import interval_expected_error
from arcwise.papers.base import Outcome, Progress, Reproduction, Table
from arcwise.papers.interval_laws import EPSILONS, SOURCE, UNIT, below
from arcwise.papers.interval_optimum import (
    BOUND_EPSILONS,
    DESIGN_EPSILONS,
    FULL_EPSILONS,
    designed_error,
    least_error,
)
from arcwise.papers.pictures import Panel, Picture, mark

_POWERS = (1.0, 2.0)
_NAMES = {1.0: "|y-x|", 2.0: "(y-x)^2"}


def _gap(full: bool, progress: Progress) -> Outcome:
    epsilons = FULL_EPSILONS if full else BOUND_EPSILONS
    steps = len(_POWERS) * (len(epsilons) + len(DESIGN_EPSILONS))
    bounds: dict[float, list[float]] = {}
    designs: dict[float, list[float]] = {}
    done = 0
    for power in _POWERS:
        bounds[power], designs[power] = [], []
        for epsilon in epsilons:
            progress(done, steps)
            bounds[power].append(least_error(epsilon, power, full))
            done += 1
        for epsilon in DESIGN_EPSILONS:
            progress(done, steps)
            designs[power].append(designed_error(epsilon, power))
            done += 1
    by_hand = np.array([randomized_response(epsilon).worst_case() for epsilon in EPSILONS])

    panels = []
    for power in _POWERS:
        designed = [
            value / _optimum(epsilon, power)
            for epsilon, value in zip(DESIGN_EPSILONS, designs[power], strict=True)
        ]
        least = [
            value / _optimum(epsilon, power) for epsilon, value in zip(epsilons, bounds[power], strict=True)
        ]
        marks = [mark("axhline", 1.0, color=COLOURS[0], label="OPM, the best piecewise density on $[0, 1]$")]
        if power == 1.0:
            ratio = by_hand / np.array([_optimum(epsilon, power) for epsilon in EPSILONS])
            label = r"randomised response on $\{a, 1-a\}$"
            marks.append(mark("plot", EPSILONS, ratio, color=COLOURS[1], linestyle=(0, (6, 2)), label=label))
        label = "found by linear programming"
        marks.append(mark("plot", DESIGN_EPSILONS, designed, "s", color=COLOURS[2], label=label, zorder=3))
        label = "bound for all mechanisms (at the dots)"
        marks.append(mark("plot", epsilons, least, color="black", linewidth=1.0, marker=".", label=label))
        marks.append(mark("fill_between", epsilons, 0.0, least, color="0.9", linewidth=0))
        if power == 1.0:
            marks.append(mark("text", 0.3, 0.3, "no mechanism", fontsize=8.5, color="0.35"))
        panels.append(
            Panel(
                marks,
                x=r"$\varepsilon$",
                y="relative to OPM",
                title=rf"worst-case $\mathrm{{E}}\,{_NAMES[power]}$",
                xlim=(0.0, 8.0),
                ylim=(0.0, 1.2),
                legend=None,
            )
        )

    rows: list[tuple[float | str, ...]] = [
        (power, epsilon, _optimum(epsilon, power), value, "bound for all mechanisms")
        for power in _POWERS
        for epsilon, value in zip(epsilons, bounds[power], strict=True)
    ]
    rows += [
        (power, epsilon, _optimum(epsilon, power), value, "linear programming")
        for power in _POWERS
        for epsilon, value in zip(DESIGN_EPSILONS, designs[power], strict=True)
    ]
    rows += [
        (1.0, float(epsilon), _optimum(epsilon, 1.0), float(value), "randomised response on {a, 1-a}")
        for epsilon, value in zip(EPSILONS, by_hand, strict=True)
    ]
    return Outcome(
        {"worst": Table(("power", "epsilon", f"opm {UNIT}", f"value {UNIT}", "what"), rows)},
        Picture([panels], (7.2, 3.7), legend={"loc": "outside lower center", "ncols": 2}),
        (),
        _findings(designs, by_hand, full),
    )


def _optimum(epsilon: float, power: float) -> float:
    return interval_expected_error(0.0, float(epsilon), power)


def _findings(designs: dict[float, list[float]], by_hand: np.ndarray, full: bool) -> list[str]:
    ours = np.array([_optimum(epsilon, 1.0) for epsilon in EPSILONS])
    one = int(np.argmin(np.abs(EPSILONS - 1.0)))
    a = randomized_response(1.0).outputs[0]
    found = [
        "Optimal among piecewise densities is not optimal among mechanisms. By hand: report a or 1-a, the "
        "one on the value's side of 1/2 with probability e^epsilon / (1 + e^epsilon), where "
        f"a = (e^epsilon - 1) / (4 e^epsilon). At epsilon 1, a = {a:.4f}, the worst case is "
        f"{by_hand[one]:.4f}, which is (1 + e^-epsilon) / 4 = {(1.0 + math.exp(-1.0)) / 4.0:.4f}; OPM has "
        f"{ours[one]:.4f}. Two atoms are better than any such density for epsilon {below(by_hand, ours)}."
    ]
    for power in _POWERS:
        parts = [
            f"{1.0 - value / _optimum(epsilon, power):.1%} at {epsilon:g} (no mechanism saves more than "
            f"{1.0 - least_error(epsilon, power, full) / _optimum(epsilon, power):.1%})"
            for epsilon, value in zip(DESIGN_EPSILONS, designs[power], strict=True)
        ]
        found.append(
            f"Of OPM's worst-case E {_NAMES[power]}, tables found by linear programming save "
            f"{', '.join(parts)}."
        )
    return found


REPRODUCTIONS = (
    Reproduction(
        "opm-gap",
        f"{SOURCE}: optimality of LDP mechanisms",
        "the best piecewise density beside the best of all mechanisms, and randomised response by hand",
        _gap,
    ),
)
