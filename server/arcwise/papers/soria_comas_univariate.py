"""Soria-Comas and Domingo-Ferrer: noise that is better than Laplace noise. Tables 1 and 2, Figures 1 to 5.

Figures 4 and 5 show which differences of two attributes Laplace noise protects. The other tables and figures
are about noise for one attribute.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.noise import Laplace, Staircase, compare_concentration
from arcwise.papers.base import Outcome, Progress, Table, formula, listed, printed, reproduction
from arcwise.papers.pictures import BELOW, EPSILON, Mark, Panel, Picture, dot, line, look, mark, note

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAPER = "Soria-Comas, Domingo-Ferrer 2013"
_LEVEL = 0.95
_CURVE = np.geomspace(0.05, 10.0, 601)
_D = r"half width $d$ of the first step$\,/\,\Delta f$"


def _least_variance(epsilon: float) -> Staircase:
    return Staircase.optimal(epsilon, power=2)


def _shortest(epsilon: float) -> Staircase:
    return Staircase.shortest_interval(epsilon, level=_LEVEL)


def _size(noise: Laplace | Staircase) -> float:
    """Return the size of the 95 % interval."""
    return 2.0 * noise.half_width(_LEVEL)


def _beside_laplace(marks: list[Mark], rows: Sequence[tuple[float, ...]], table: str, y: str) -> Panel:
    """Return a panel with lines over epsilon relative to Laplace noise, and the rows of the table as dots."""
    epsilons, ratios = [row[0] for row in rows], [row[2] / row[1] for row in rows]
    named = [
        *marks,
        mark("axhline", 1.0, linewidth=1.0, **look(6, len(marks))),
        note(_CURVE[-1], 1.0, "Laplace", COLOURS[6], offset=(0, -11), ha="right"),
        mark("plot", epsilons, ratios, "o", color=COLOURS[0], label=table),
    ]
    return Panel(named, EPSILON, y, ylim=(0.0, 1.05), plain="x", legend={"loc": "lower left"})


def _moved_inwards(epsilon: float) -> Staircase:
    """Return Laplace noise with its mass moved inwards within each sensitivity, as in section 4.

    The larger density covers the part m_i of each sensitivity, with m_i as printed in section 4.
    """
    b = math.exp(-epsilon)
    return Staircase(epsilon, 1.0, (1.0 - b - epsilon * b) / (epsilon * (1.0 - b)))


@reproduction(
    "soria-comas-figure-1",
    f"{_PAPER}, Figure 1",
    "noise that is better than Laplace noise, by moving its mass to 0",
)
def _figure_1(_full: bool, _progress: Progress) -> Outcome:
    laplace, made = Laplace(1.0), _moved_inwards(1.0)
    best = _least_variance(1.0)
    x = np.linspace(-4.0, 4.0, 1601)
    columns = {
        "x (sensitivities)": x,
        "laplace_density (per sensitivity)": laplace.pdf(x),
        "constructed_density (per sensitivity)": made.pdf(x),
    }
    marks = [
        line(x, laplace.pdf(x), "Laplace(0, 1)"),
        line(x, made.pdf(x), "the mass of each $[i, i+1]$ moved to 0", 1),
    ]
    label = r"noise, in units of the sensitivity"
    panel = Panel(marks, label, "density per sensitivity", xlim=(-4.0, 4.0), ylim=(0.0, 0.56))
    masses = [
        [float(noise.cdf(k + 1.0) - noise.cdf(float(k))) for noise in (laplace, made)] for k in range(3)
    ]
    return Outcome(
        {"": Table.of(columns)},
        Picture([[panel]]),
        [formula(f"mass from {k} to {k + 1} (formula)", a, b, 1e-12) for k, (a, b) in enumerate(masses)],
        [
            f"The larger density has the part m = {made.gamma:.6f} of each sensitivity. By Definition 3 the "
            f"new noise is {compare_concentration(made, laplace).relation} than Laplace noise: every "
            "interval from 0 contains at least as much of its mass. Its variance is "
            f"{made.var():.4f}. Laplace noise has {laplace.var():.4f}, and the least is {best.var():.4f}. "
            "The noise of least variance and Laplace noise are "
            f"{compare_concentration(best, laplace).relation}.",
        ],
    )


@reproduction(
    "soria-comas-figures-4-5",
    f"{_PAPER}, Figures 4 and 5",
    "differences of two attributes and what Laplace noise protects",
)
def _figures_4_5(_full: bool, _progress: Progress) -> Outcome:
    rows, findings, panels = [], [], []
    for figure, first, second, span in ((4, 1.0, 1.0, 2.4), (5, 1.0, 10.0, 13.2)):
        far = first + second
        box, diamond = 4.0 * first * second, 2.0 * far**2
        rows.append((figure, first, second, far, box, diamond, diamond / box))
        findings.append(
            f"Figure {figure}: Laplace noise protects a region {diamond / box:.2f} times as large as S_f, "
            f"which has the area {box:g}."
        )
        corners = np.array([-1, 1, 1, -1]) * first, np.array([-1, -1, 1, 1]) * second
        rim = np.array([far, 0.0, -far, 0.0, far]), np.array([0.0, far, 0.0, -far, 0.0])
        marks = [
            mark("fill", *corners, color="0.7", label=r"$S_f$, the differences that occur"),
            line(*rim, r"density of Laplace noise $\geq e^{-\varepsilon} f(0)$"),
            mark("set_aspect", "equal"),
        ]
        names = ("difference of the first attribute", "difference of the second attribute")
        title = rf"$S_f = [-1, 1] \times [-{second:g}, {second:g}]$"
        panels.append(Panel(marks, *names, title, (-span, span), (-span, span), legend=None))
    columns = (
        *("figure", "sensitivity_1 (units of the attribute)", "sensitivity_2 (units of the attribute)"),
        *("l1_sensitivity (units of the attributes)", "area_of_differences (unit areas)"),
        *("area_protected (unit areas)", "ratio"),
    )
    picture = Picture([panels], (7.2, 4.0), legend=BELOW | {"ncols": 2})
    return Outcome({"": Table(columns, rows)}, picture, (), findings)


@reproduction("soria-comas-table-1", f"{_PAPER}, Table 1", "least variance and that of Laplace noise")
def _table_1(_full: bool, _progress: Progress) -> Outcome:
    checks, rows = [], []
    for epsilon, first, second in ((0.1, "200.00", "199.92"), (0.5, "8.00", "7.92"), (1.0, "2.00", "1.92")):
        laplace, best = Laplace(epsilon).var(), _least_variance(epsilon)
        rows.append((epsilon, laplace, best.var(), best.half_step))
        checks.append(printed(f"variance of Laplace noise at epsilon {epsilon:g}", first, laplace))
        checks.append(printed(f"least variance at epsilon {epsilon:g}", second, best.var()))
    ratio = np.array([_least_variance(e).var() / Laplace(e).var() for e in _CURVE])

    marks = [line(_CURVE, ratio, "least variance", method="semilogx")]
    panel = _beside_laplace(marks, rows, "Table 1", "variance / variance of Laplace noise")
    columns = (
        *("epsilon", "laplace_variance (sensitivities squared)", "least_variance (sensitivities squared)"),
        "d (sensitivities)",
    )
    saved = [f"{row[1] - row[2]:.4f}" for row in rows]
    return Outcome(
        {"values": Table(columns, rows), "curve": Table.of({"epsilon": _CURVE, "ratio": ratio})},
        Picture([[panel]]),
        checks,
        [
            f"The difference of the variances is {saved[0]}, {saved[1]} and {saved[2]} at epsilon 0.1, 0.5 "
            "and 1. It tends to 1/12, so Laplace noise is near the optimum only at small epsilon. At "
            f"epsilon {_CURVE[-1]:g} the optimum saves {100.0 * (1.0 - ratio[-1]):.0f} %."
        ],
    )


@reproduction("soria-comas-table-2", f"{_PAPER}, Table 2", "shortest 95 % interval and that of Laplace noise")
def _table_2(_full: bool, _progress: Progress) -> Outcome:
    checks, rows = [], []
    for epsilon, first, second in ((0.1, "59.91", "59.91"), (0.5, "11.98", "11.97"), (1.0, "5.99", "5.98")):
        laplace, best = _size(Laplace(epsilon)), _shortest(epsilon)
        rows.append((epsilon, laplace, _size(best), best.half_step, _size(_least_variance(epsilon))))
        checks.append(printed(f"size of the Laplace interval at epsilon {epsilon:g}", first, laplace))
        # The paper truncates the digits in the last row of its table, see below.
        what = f"size of the shortest interval at epsilon {epsilon:g}"
        checks.append(printed(what, second, _size(best), units=1.0))
    shortest = np.array([_size(_shortest(e)) / _size(Laplace(e)) for e in _CURVE])
    least = np.array([_size(_least_variance(e)) / _size(Laplace(e)) for e in _CURVE])

    marks = [
        line(_CURVE, least, "least variance", 1, 1, method="semilogx"),
        line(_CURVE, shortest, "shortest 95 % interval", method="semilogx"),
    ]
    panel = _beside_laplace(marks, rows, "Table 2", "95 % interval / that of Laplace noise")
    names = ("laplace_size", "shortest_size", "d", "size_at_least_variance")
    curves = {"epsilon": _CURVE, "shortest_over_laplace": shortest, "least_variance_over_laplace": least}
    _, (_, laplace_half, half, *_), (_, laplace_one, one, *_) = rows
    saved = 1.0 - _size(_shortest(2.0)) / _size(Laplace(2.0))
    return Outcome(
        {
            "values": Table(("epsilon", *(f"{name} (sensitivities)" for name in names)), rows),
            "curve": Table.of(curves),
        },
        Picture([[panel]]),
        checks,
        [
            f"The paper truncates the shortest sizes: it prints {half:.4f} and {one:.4f} as 11.97 and 5.98. "
            f"The rounded sizes are {half:.2f} and {one:.2f}, which the paper prints for Laplace noise. The "
            f"true differences from Laplace noise are {laplace_half - half:.4f} and {laplace_one - one:.4f}.",
            "Nothing can be saved at epsilon = ln(20) / k = "
            f"{listed((math.log(20.0) / k for k in (1, 2, 3)), '.4f')} and so on. There the interval ends at "
            "a whole multiple of the sensitivity, and all d have the same mass inside it. The three "
            "epsilons of the table happen to lie near such points (k = 30, 6 and 3), so the table shows less "
            f"than the possible gain. At epsilon 2 the shortest interval saves {100.0 * saved:.0f} %.",
        ],
    )


@reproduction("soria-comas-figure-2", f"{_PAPER}, Figure 2", "variance over the width of the first step")
def _figure_2(_full: bool, _progress: Progress) -> Outcome:
    best = _least_variance(1.0)
    half_steps = np.linspace(0.0, 1.0, 401)
    variances = np.array([Staircase.from_half_step(1.0, 1.0, d).var() for d in half_steps])
    moved = _moved_inwards(1.0)

    words = f"least variance {best.var():.4f}\nat d = {best.half_step:.6f}"
    marks = [
        line(half_steps, variances),
        mark("axhline", 2.0, linewidth=1.0, **look(6, 1)),
        note(1.0, 2.0, "Laplace: 2", COLOURS[6], ha="right", offset=(0, 3)),
        dot(best.half_step, best.var()),
        note(best.half_step, best.var(), words, COLOURS[0], offset=(0, 8), ha="center"),
    ]
    panel = Panel(marks, _D, r"variance$\,/\,\Delta f^2$, $\varepsilon = 1$", xlim=(0.0, 1.0))
    columns = {"d (sensitivities)": half_steps, "variance (sensitivities squared)": variances}
    return Outcome(
        {"curve": Table.of(columns)},
        Picture([[panel]]),
        [
            printed("d of least variance", "0.416737", best.half_step),
            printed("least variance", "1.9181", best.var()),
        ],
        [
            f"Laplace noise with its mass moved inwards (section 4) has d = {moved.half_step:.4f} and the "
            f"variance {moved.var():.6f}, only {moved.var() - best.var():.1g} above the least.",
            "The paper's Theorem 9 counts the outer steps from i = 0, which would give the first outer step "
            "the height of the centre. Its variance formula, its d and its figures start at e^-epsilon.",
        ],
    )


@reproduction(
    "soria-comas-figure-3",
    f"{_PAPER}, Figure 3",
    "size of the 95 % interval over the width of the first step",
)
def _figure_3(_full: bool, _progress: Progress) -> Outcome:
    best, laplace = _shortest(1.0), _size(Laplace(1.0))
    half_steps = np.unique(np.append(np.linspace(0.0, 1.0, 401), best.half_step))
    sizes = np.array([_size(Staircase.from_half_step(1.0, 1.0, d)) for d in half_steps])
    below = half_steps[sizes < laplace]

    words = f"shortest: {_size(best):.4f} at d = {best.half_step:.4f}"
    marks = [
        line(half_steps, sizes),
        mark("axhline", laplace, linewidth=1.0, **look(6, 1)),
        note(0.3, laplace, f"Laplace: {laplace:.4f}", COLOURS[6], ha="left", offset=(0, -12)),
        dot(best.half_step, _size(best)),
        note(best.half_step, _size(best), words, COLOURS[0], offset=(-8, -2), ha="right"),
    ]
    panel = Panel(marks, _D, r"size of the 95 % interval$\,/\,\Delta f$, $\varepsilon = 1$", xlim=(0.0, 1.0))
    return Outcome(
        {"curve": Table.of({"d (sensitivities)": half_steps, "size (sensitivities)": sizes})},
        Picture([[panel]]),
        [printed("d of the shortest interval", "0.993", best.half_step)],
        [
            f"Only d from {below.min():.4f} to {below.max():.4f} (to the grid of the curve) gives an "
            f"shorter interval than Laplace noise. The sizes are {_size(_least_variance(1.0)):.4f} for the d "
            f"of least variance, {laplace:.4f} for Laplace noise, and {_size(best):.4f} for the best d."
        ],
    )
