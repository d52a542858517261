"""Soria-Comas and Domingo-Ferrer, section 6: confidence regions for two attributes. Tables 3 and 4."""

from __future__ import annotations

from typing import Any

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.noise import BoxStaircase
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.pictures import Mark, Panel, Picture, look, mark, note
from arcwise.papers.published import printed
from arcwise.papers.soria_comas_example import BOX, LAPLACE, SCALED, SENSITIVITIES

_PAPER = "Soria-Comas, Domingo-Ferrer 2013"
_LEVELS = (0.99, 0.95, 0.90)


def _laplace_radius(level: float) -> float:
    """Return the quantile of ``|X_1| / scale_1 + |X_2| / scale_2`` at this level: a Gamma(2) law."""
    from scipy import special

    return float(special.gammaincinv(2.0, level))


def _diamond(scales: tuple[float, float], level: float) -> tuple[tuple[float, float], float]:
    """Return the half diagonals of the smallest region of this level, a diamond, and its area."""
    r = _laplace_radius(level)
    first, second = r * scales[0], r * scales[1]
    return (first, second), 2.0 * first * second


def _rim(half: tuple[float, float], **style: Any) -> Mark:
    return mark("plot", [half[0], 0, -half[0], 0, half[0]], [0, half[1], 0, -half[1], 0], **style)


def _box(side: float, other: float, **style: Any) -> Mark:
    corners = np.array([-1, 1, 1, -1, -1]), np.array([-1, -1, 1, 1, -1])
    return mark("plot", corners[0] * side, corners[1] * other, color=COLOURS[2], **style)


def _table_3(_full: bool, _progress: Progress) -> Outcome:
    prints = {0.99: ("73.02", "10663"), 0.95: ("52.18", "5445"), 0.90: ("42.79", "3662")}
    checks, rows, diamonds = [], [], {}
    for level in _LEVELS:
        half, size = _diamond((LAPLACE.scale, LAPLACE.scale), level)
        _, scaled = diamonds[level] = _diamond((SCALED[0].scale, SCALED[1].scale), level)
        rows.append((level, half[0], size, scaled))
        first, second = prints[level]
        checks.append(printed(f"alpha at level {level:g}", first, half[0]))
        # The sizes are 2 alpha^2 of the printed alphas: half a unit of their last digit counts double.
        checks.append(
            Check(f"size at level {level:g}", float(second), size, tolerance=0.01 / float(first) * 1.01)
        )

    patch = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    on_line: dict[str, Any] = {"offset": (0, 0), "ha": "center", "va": "center", "bbox": patch}
    marks = []
    for k, level in enumerate(_LEVELS):
        alpha, words = rows[k][1], f"{100 * level:.0f} %"
        marks += [
            _rim((alpha, alpha), color=COLOURS[0], linewidth=1.2),
            note(0.75 * alpha, (-1) ** k * 0.25 * alpha, words, COLOURS[0], **on_line),
            _rim(diamonds[level][0], linewidth=1.2, **look(1, 1)),
        ]
    marks += [
        mark("plot", [], [], color=COLOURS[0], label="Laplace, scale 11 for both (the paper)"),
        mark("plot", [], [], label="Laplace, scales 2 and 20", **look(1, 1)),
        mark("fill", [-1, 1, 1, -1], [-10, -10, 10, 10], color="0.6", label=r"$S_f$", zorder=3),
    ]
    panel = Panel(
        marks,
        x="noise of the first attribute",
        y="noise of the second attribute",
        xlim=(-80, 80),
        ylim=(-140, 140),
        legend={"loc": "upper right"},
    )

    return Outcome(
        {
            "": Table(
                (
                    "level",
                    "alpha (units of the attributes)",
                    "size (unit areas)",
                    "size_with_scales_2_and_20 (unit areas)",
                ),
                rows,
            )
        },
        Picture([[panel]]),
        checks,
        [
            "The paper's sizes are computed from its rounded alphas; exact are "
            + ", ".join(f"{row[2]:.1f}" for row in rows)
            + ".",
            "Laplace noise need not treat both attributes alike: with scales 2 and 20, in proportion to the "
            "sensitivities, it protects the same S_f with regions "
            f"{rows[0][2] / rows[0][3]:.3f} times smaller ({', '.join(f'{row[3]:.1f}' for row in rows)}).",
        ],
    )


def _table_4(_full: bool, _progress: Progress) -> Outcome:
    prints = {0.99: ("6.99", "1790.2"), 0.95: ("4.79", "916.6"), 0.90: ("3.90", "611.2")}
    errata = {
        0.99: "a slip of 6.69, which is what its own size 1790.2 = 40 * 6.69^2 belongs to",
        0.95: "",
        0.90: "cut off, not rounded; its own size 611.2 belongs to 3.909",
    }
    checks, rows = [], []
    best = BoxStaircase.optimal(1.0, SENSITIVITIES)
    for level in _LEVELS:
        box = BOX.confidence_box(level)
        _, laplace = _diamond((LAPLACE.scale, LAPLACE.scale), level)
        _, scaled = _diamond((SCALED[0].scale, SCALED[1].scale), level)
        side = box.half_widths[0]
        rows.append((level, side - 0.1, side, box.half_widths[1], box.volume, laplace, scaled))
        first, second = prints[level]
        checks.append(
            printed(f"half width z_1 + beta s_1 at level {level:g}", first, side, erratum=errata[level])
        )
        # The sizes come from half widths of three or four digits.
        checks.append(Check(f"size at level {level:g}", float(second), box.volume, tolerance=1e-3))

    marks = []
    for level, _, side, other, *_ in rows:
        marks.append(_box(side, other))
        marks.append(note(0, other, f"{100 * level:.0f} %", COLOURS[2], offset=(0, -9), ha="center"))
    marks += [
        mark("fill", [-1, 1, 1, -1], [-10, -10, 10, 10], color="0.6"),
        note(0, 0, r"$S_f$", "white", ha="center", va="center", offset=(0, 0)),
    ]
    left = Panel(
        marks,
        x="noise of the first attribute",
        y="noise of the second attribute",
        xlim=(-9.5, 9.5),
        ylim=(-95, 95),
    )
    _, _, side, other, size, laplace, scaled = rows[1]
    right = Panel(
        [
            _rim(_diamond((11, 11), 0.95)[0], color=COLOURS[0], label=f"Laplace, scale 11: {laplace:.0f}"),
            _rim(_diamond((2, 20), 0.95)[0], label=f"Laplace, scales 2 and 20: {scaled:.0f}", **look(1, 1)),
            _box(side, other, linewidth=2.0, label=f"box-shaped: {size:.0f}"),
        ],
        x="noise of the first attribute",
        title="95 % regions and their sizes",
        xlim=(-60, 60),
        ylim=(-110, 175),
        legend={"loc": "upper center", "ncols": 1, "borderpad": 0.1},
    )

    return Outcome(
        {
            "": Table(
                (
                    "level",
                    "beta",
                    "half_width_1 (units of the attribute)",
                    "half_width_2 (units of the attribute)",
                    "size (unit areas)",
                    "laplace_size (unit areas)",
                    "scaled_laplace_size (unit areas)",
                ),
                rows,
            )
        },
        Picture([[left, right]], (7.2, 4.2), {"width_ratios": (1.0, 1.15)}),
        checks,
        [
            "The column that the paper heads beta holds the half width z_1 + beta s_1 of the first side; "
            "beta itself "
            f"is {', '.join(f'{row[1]:.4f}' for row in rows)}.",
            f"The regions are {rows[0][5] / rows[0][4]:.2f}, {rows[1][5] / rows[1][4]:.2f} and "
            f"{rows[2][5] / rows[2][4]:.2f} times smaller than those of the paper's Laplace noise, but only "
            f"{rows[0][6] / rows[0][4]:.2f}, {rows[1][6] / rows[1][4]:.2f} and "
            f"{rows[2][6] / rows[2][4]:.2f} times "
            "smaller than those of Laplace noise in proportion to the sensitivities: much of the gain is "
            "that of "
            "treating the attributes by their sensitivity.",
            f"The core of least variance is {best.core[0]:.4f} of each sensitivity, not 0.1: variances "
            f"{best.var()[0]:.4f} and {best.var()[1]:.2f}, 95 % region "
            f"{best.confidence_box(0.95).volume:.1f}.",
        ],
    )


REPRODUCTIONS = (
    Reproduction(
        "soria-comas-table-3",
        f"{_PAPER}, Table 3",
        "confidence regions of Laplace noise for two attributes",
        _table_3,
    ),
    Reproduction(
        "soria-comas-table-4",
        f"{_PAPER}, Table 4",
        "confidence regions of box-shaped noise for two attributes",
        _table_4,
    ),
)
