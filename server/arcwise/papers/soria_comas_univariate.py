"""Soria-Comas and Domingo-Ferrer, section 5: noise for one attribute. Tables 1 and 2, Figures 2 and 3."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.noise import Laplace, Staircase
from arcwise.papers.base import Outcome, Progress, Reproduction, Table
from arcwise.papers.pictures import Mark, Panel, Picture, look, mark, note
from arcwise.papers.published import printed

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAPER = "Soria-Comas, Domingo-Ferrer 2013"
_EPSILONS = (0.1, 0.5, 1.0)
_LEVEL = 0.95
_CURVE = np.geomspace(0.05, 10.0, 601)


def _beside_laplace(rows: Sequence[tuple[float, ...]], label: str) -> list[Mark]:
    """Return the name of the line of Laplace noise, and the rows of a table relative to it as dots."""
    epsilons, ratios = [row[0] for row in rows], [row[2] / row[1] for row in rows]
    return [
        note(_CURVE[-1], 1.0, "Laplace", COLOURS[6], offset=(0, -11), ha="right"),
        mark("plot", epsilons, ratios, "o", color=COLOURS[0], label=label),
    ]


def _table_1(_full: bool, _progress: Progress) -> Outcome:
    prints = {0.1: ("200.00", "199.92"), 0.5: ("8.00", "7.92"), 1.0: ("2.00", "1.92")}
    checks, rows = [], []
    for epsilon in _EPSILONS:
        laplace, best = Laplace(epsilon).var(), Staircase.optimal(epsilon, power=2)
        rows.append((epsilon, laplace, best.var(), best.half_step))
        checks.append(
            printed(f"variance of Laplace noise at epsilon {epsilon:g}", prints[epsilon][0], laplace)
        )
        checks.append(printed(f"least variance at epsilon {epsilon:g}", prints[epsilon][1], best.var()))
    ratio = np.array([Staircase.optimal(e, power=2).var() / Laplace(e).var() for e in _CURVE])

    marks = [
        mark("semilogx", _CURVE, ratio, label="least variance"),
        mark("axhline", 1.0, linewidth=1.0, **look(6, 1)),
        *_beside_laplace(rows, "Table 1"),
    ]
    panel = Panel(
        marks,
        x=r"$\varepsilon$",
        y="variance / variance of Laplace noise",
        ylim=(0.0, 1.05),
        plain="x",
        legend={"loc": "lower left"},
    )
    share = 100.0 * (1.0 - ratio[-1])
    return Outcome(
        {
            "values": Table(
                (
                    "epsilon",
                    "laplace_variance (sensitivities squared)",
                    "least_variance (sensitivities squared)",
                    "d (sensitivities)",
                ),
                rows,
            ),
            "curve": Table.of(epsilon=_CURVE, ratio=ratio),
        },
        Picture([[panel]]),
        checks,
        [
            f"The difference of the variances is {rows[0][1] - rows[0][2]:.4f}, "
            f"{rows[1][1] - rows[1][2]:.4f} and "
            f"{rows[2][1] - rows[2][2]:.4f} at epsilon 0.1, 0.5 and 1: it tends to 1/12, so that Laplace "
            f"noise is "
            f"near the optimum at small epsilon only. At epsilon {_CURVE[-1]:g} the optimum saves "
            f"{share:.0f} %."
        ],
    )


def _table_2(_full: bool, _progress: Progress) -> Outcome:
    prints = {0.1: ("59.91", "59.91"), 0.5: ("11.98", "11.97"), 1.0: ("5.99", "5.98")}
    checks, rows = [], []
    for epsilon in _EPSILONS:
        laplace = 2.0 * Laplace(epsilon).half_width(_LEVEL)
        best = Staircase.shortest_interval(epsilon, level=_LEVEL)
        size = 2.0 * best.half_width(_LEVEL)
        least_variance = 2.0 * Staircase.optimal(epsilon, power=2).half_width(_LEVEL)
        rows.append((epsilon, laplace, size, best.half_step, least_variance))
        first, second = prints[epsilon]
        checks.append(printed(f"size of the Laplace interval at epsilon {epsilon:g}", first, laplace))
        # The table cuts the digits of its last row off, see below.
        checks.append(
            printed(f"size of the shortest interval at epsilon {epsilon:g}", second, size, units=1.0)
        )
    at_2 = Staircase.shortest_interval(2.0, level=_LEVEL).half_width(_LEVEL) / Laplace(2.0).half_width(_LEVEL)
    shortest = np.array(
        [
            Staircase.shortest_interval(e, level=_LEVEL).half_width(_LEVEL) / Laplace(e).half_width(_LEVEL)
            for e in _CURVE
        ]
    )
    least = np.array(
        [Staircase.optimal(e, power=2).half_width(_LEVEL) / Laplace(e).half_width(_LEVEL) for e in _CURVE]
    )

    marks = [
        mark("semilogx", _CURVE, least, label="least variance", **look(1, 1)),
        mark("semilogx", _CURVE, shortest, label="shortest 95 % interval", **look(0)),
        mark("axhline", 1.0, linewidth=1.0, **look(6, 2)),
        *_beside_laplace(rows, "Table 2"),
    ]
    panel = Panel(
        marks,
        x=r"$\varepsilon$",
        y="95 % interval / that of Laplace noise",
        ylim=(0.0, 1.05),
        plain="x",
        legend={"loc": "lower left"},
    )
    return Outcome(
        {
            "values": Table(
                (
                    "epsilon",
                    *(
                        f"{name} (sensitivities)"
                        for name in ("laplace_size", "shortest_size", "d", "size_at_least_variance")
                    ),
                ),
                rows,
            ),
            "curve": Table.of(
                epsilon=_CURVE, shortest_over_laplace=shortest, least_variance_over_laplace=least
            ),
        },
        Picture([[panel]]),
        checks,
        [
            f"The paper cuts its shortest sizes off: {rows[1][2]:.4f} and {rows[2][2]:.4f} are printed as "
            f"11.97 and "
            f"5.98. Rounded they are {rows[1][2]:.2f} and {rows[2][2]:.2f}, as it prints for Laplace noise: "
            f"the "
            f"intervals differ by {rows[1][1] - rows[1][2]:.4f} and {rows[2][1] - rows[2][2]:.4f}.",
            f"Nothing can be saved at epsilon = ln(20) / k = {math.log(20.0):.4f}, "
            f"{math.log(20.0) / 2.0:.4f}, "
            f"{math.log(20.0) / 3.0:.4f} and so on, where the interval ends on a whole multiple of the "
            f"sensitivity, "
            "inside of which all d have the same mass. The three epsilons of the table happen to lie beside "
            "such "
            f"points (k = 30, 6 and 3), so it shows less than there is: at epsilon 2 the shortest interval "
            f"saves "
            f"{100.0 * (1.0 - at_2):.0f} %.",
        ],
    )


def _figure_2(_full: bool, _progress: Progress) -> Outcome:
    best = Staircase.optimal(1.0, power=2)
    half_steps = np.linspace(0.0, 1.0, 401)
    variances = np.array([Staircase.from_half_step(1.0, 1.0, d).var() for d in half_steps])
    # Section 4 moves the mass of Laplace noise inwards within each period; its m_i for epsilon = 1.
    moved = Staircase.from_half_step(1.0, 1.0, 1.0 - 1.0 / math.expm1(1.0))

    words = f"least variance {best.var():.4f}\nat d = {best.half_step:.6f}"
    panel = Panel(
        [
            mark("plot", half_steps, variances),
            mark("axhline", 2.0, linewidth=1.0, **look(6, 1)),
            note(1.0, 2.0, "Laplace: 2", COLOURS[6], ha="right", offset=(0, 3)),
            mark("plot", best.half_step, best.var(), "o", color=COLOURS[0]),
            note(best.half_step, best.var(), words, COLOURS[0], offset=(0, 8), ha="center"),
        ],
        x=r"half width $d$ of the first step$\,/\,\Delta f$",
        y=r"variance$\,/\,\Delta f^2$, $\varepsilon = 1$",
        xlim=(0.0, 1.0),
    )
    return Outcome(
        {
            "curve": Table.of(
                **{"d (sensitivities)": half_steps, "variance (sensitivities squared)": variances}
            )
        },
        Picture([[panel]]),
        [
            printed("d of least variance", "0.416737", best.half_step),
            printed("least variance", "1.9181", best.var()),
        ],
        [
            f"Laplace noise with its mass moved inwards (section 4) has d = {moved.half_step:.4f} and the "
            f"variance "
            f"{moved.var():.6f}, only {moved.var() - best.var():.1g} above the least.",
            "The paper's Theorem 9 counts the outer steps from i = 0, which would give the first of them the "
            "height of the centre; its variance formula, its d and its figures start at e^-epsilon.",
        ],
    )


def _figure_3(_full: bool, _progress: Progress) -> Outcome:
    best = Staircase.shortest_interval(1.0, level=_LEVEL)
    least = 2.0 * best.half_width(_LEVEL)
    half_steps = np.unique(np.append(np.linspace(0.0, 1.0, 401), best.half_step))
    sizes = np.array([2.0 * Staircase.from_half_step(1.0, 1.0, d).half_width(_LEVEL) for d in half_steps])
    laplace = 2.0 * Laplace(1.0).half_width(_LEVEL)
    below = half_steps[sizes < laplace]

    words = f"shortest: {least:.4f} at d = {best.half_step:.4f}"
    panel = Panel(
        [
            mark("plot", half_steps, sizes),
            mark("axhline", laplace, linewidth=1.0, **look(6, 1)),
            note(0.3, laplace, f"Laplace: {laplace:.4f}", COLOURS[6], ha="left", offset=(0, -12)),
            mark("plot", best.half_step, least, "o", color=COLOURS[0]),
            note(best.half_step, least, words, COLOURS[0], offset=(-8, -2), ha="right"),
        ],
        x=r"half width $d$ of the first step$\,/\,\Delta f$",
        y=r"size of the 95 % interval$\,/\,\Delta f$, $\varepsilon = 1$",
        xlim=(0.0, 1.0),
    )
    return Outcome(
        {"curve": Table.of(**{"d (sensitivities)": half_steps, "size (sensitivities)": sizes})},
        Picture([[panel]]),
        [printed("d of the shortest interval", "0.993", best.half_step)],
        [
            f"Only d from {below.min():.4f} to {below.max():.4f} (to the grid of the curve) gives an "
            f"interval shorter "
            f"than Laplace noise; d of least variance gives "
            f"{2.0 * Staircase.optimal(1.0, power=2).half_width(_LEVEL):.4f}, Laplace {laplace:.4f}, "
            f"the best {least:.4f}."
        ],
    )


REPRODUCTIONS = (
    Reproduction(
        "soria-comas-table-1", f"{_PAPER}, Table 1", "least variance beside that of Laplace noise", _table_1
    ),
    Reproduction(
        "soria-comas-table-2",
        f"{_PAPER}, Table 2",
        "shortest 95 % interval beside that of Laplace noise",
        _table_2,
    ),
    Reproduction(
        "soria-comas-figure-2", f"{_PAPER}, Figure 2", "variance over the width of the first step", _figure_2
    ),
    Reproduction(
        "soria-comas-figure-3",
        f"{_PAPER}, Figure 3",
        "size of the 95 % interval over the width of the first step",
        _figure_3,
    ),
)
