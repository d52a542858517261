"""Soria-Comas and Domingo-Ferrer, section 6: several attributes. Tables 3 and 4, Figures 6 and 7.

All reproductions but the last are about Example 2. Its epsilon is 1. One attribute changes by at most 1, the
other by at most 10, in every combination. The core of the box-shaped noise is [-0.1, 0.1] x [-1, 1].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from arcwise.analysis.charts.look import COLOURS
from arcwise.noise import BoxGridNoise, BoxStaircase, GridNoise, IndependentLaplace, Laplace, Staircase
from arcwise.papers.base import Check, Outcome, Progress, Table, in_unit, listed, printed, reproduction, steps
from arcwise.papers.pictures import Mark, Panel, Picture, line, mark, note

_PAPER = "Soria-Comas, Domingo-Ferrer 2013"
_NOISE = ("noise of the first attribute", "noise of the second attribute")

SENSITIVITIES = (1.0, 10.0)
BOX = BoxStaircase(1.0, SENSITIVITIES, (0.1, 1.0))
LAPLACE = Laplace(1.0, sum(SENSITIVITIES))  # noise for the L1 sensitivity 11, the same for both attributes
SCALED = tuple(Laplace(1.0, 2.0 * s) for s in SENSITIVITIES)
"""A fairer comparison: if each attribute is in units of its own sensitivity, the L1 sensitivity is 2.

A change by (1, 10) costs 1/2 + 10/20 = 1 = epsilon, so this noise also protects Example 2.
"""


def _diamond(noises: tuple[Laplace, ...], level: float) -> tuple[float, float]:
    """Return the half diagonals of the smallest region of this level.

    In units of the scales, the half diagonal is the quantile of ``|X_1| / scale_1 + |X_2| / scale_2``, which
    has a Gamma(2) law.
    """
    r = float(special.gammaincinv(2.0, level))
    return r * noises[0].scale, r * noises[1].scale


def _area(half: tuple[float, float]) -> float:
    return 2.0 * half[0] * half[1]


def _rim(half: tuple[float, float], label: str = "", colour: int = 0, **style: Any) -> Mark:
    """Return the line around a diamond."""
    return line([half[0], 0, -half[0], 0, half[0]], [0, half[1], 0, -half[1], 0], label, colour, **style)


def _box(side: float, other: float, **style: Any) -> Mark:
    """Return the line around a box."""
    corners = np.array([-1, 1, 1, -1, -1]), np.array([-1, -1, 1, 1, -1])
    return line(corners[0] * side, corners[1] * other, colour=2, **style)


def _differences(**style: Any) -> Mark:
    """Return the differences of Example 2 as an area."""
    return mark("fill", [-1, 1, 1, -1], [-10, -10, 10, 10], color="0.6", **style)


def _sizes(*names: str) -> list[str]:
    """Return the column names of sizes."""
    return [f"{name} (unit areas)" for name in names]


@reproduction(
    "soria-comas-table-3", f"{_PAPER}, Table 3", "confidence regions of Laplace noise for two attributes"
)
def _table_3(_full: bool, _progress: Progress) -> Outcome:
    prints = {0.99: ("73.02", "10663"), 0.95: ("52.18", "5445"), 0.90: ("42.79", "3662")}
    patch = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    on_line: dict[str, Any] = {"offset": (0, 0), "ha": "center", "va": "center", "bbox": patch}
    checks, rows, marks = [], [], []
    for k, (level, (first, second)) in enumerate(prints.items()):
        half, scaled = _diamond((LAPLACE, LAPLACE), level), _diamond(SCALED, level)
        alpha, size = half[0], _area(half)
        rows.append((level, alpha, size, _area(scaled)))
        checks.append(printed(f"alpha at level {level:g}", first, alpha))
        # The printed sizes are 2 alpha^2 of the printed alphas, so an error of half a unit in alpha's last
        # digit counts double.
        checks.append(Check(f"size at level {level:g}", float(second), size, 0.01 / float(first) * 1.01))
        marks += [
            _rim(half, linewidth=1.2),
            note(0.75 * alpha, (-1) ** k * 0.25 * alpha, f"{100 * level:.0f} %", COLOURS[0], **on_line),
            _rim(scaled, "", 1, dash=1, linewidth=1.2),
        ]
    marks += [
        line([], [], "Laplace, scale 11 for both (the paper)"),
        line([], [], "Laplace, scales 2 and 20", 1, 1),
        _differences(label=r"$S_f$", zorder=3),
    ]
    panel = Panel(marks, *_NOISE, xlim=(-80, 80), ylim=(-140, 140), legend={"loc": "upper right"})
    columns = ("level", "alpha (units of the attributes)", *_sizes("size", "size_with_scales_2_and_20"))
    _, _, sizes, scaled_sizes = zip(*rows, strict=True)
    return Outcome(
        {"": Table(columns, rows)},
        Picture([[panel]]),
        checks,
        [
            f"The paper computes its sizes from rounded alphas; the exact sizes are {listed(sizes, '.1f')}.",
            "Laplace noise can have a different scale for each attribute. With scales 2 and 20, in "
            "proportion to the sensitivities, it protects the same S_f, and its regions are "
            f"{sizes[0] / scaled_sizes[0]:.3f} times smaller ({listed(scaled_sizes, '.1f')}).",
        ],
    )


@reproduction(
    "soria-comas-table-4", f"{_PAPER}, Table 4", "confidence regions of box-shaped noise for two attributes"
)
def _table_4(_full: bool, _progress: Progress) -> Outcome:
    slip = "a slip of 6.69, to which its own size 1790.2 = 40 * 6.69^2 belongs"
    cut = "truncated, not rounded; its own size 611.2 belongs to 3.909"
    prints = {0.99: ("6.99", slip, 1790.2), 0.95: ("4.79", "", 916.6), 0.90: ("3.90", cut, 611.2)}
    checks, rows, marks = [], [], []
    for level, (first, erratum, second) in prints.items():
        box = BOX.confidence_box(level)
        side, other = box.half_widths[0], box.half_widths[1]
        laplace, scaled = _diamond((LAPLACE, LAPLACE), level), _diamond(SCALED, level)
        rows.append((level, side - 0.1, side, other, box.volume, _area(laplace), _area(scaled)))
        what = f"half width z_1 + beta s_1 at level {level:g}"
        checks.append(printed(what, first, side, erratum=erratum))
        # The printed sizes come from half widths of three or four digits.
        checks.append(Check(f"size at level {level:g}", second, box.volume, 1e-3))
        marks.append(_box(side, other))
        marks.append(note(0, other, f"{100 * level:.0f} %", COLOURS[2], offset=(0, -9), ha="center"))
    marks.append(_differences())
    marks.append(note(0, 0, r"$S_f$", "white", ha="center", va="center", offset=(0, 0)))
    left = Panel(marks, *_NOISE, xlim=(-9.5, 9.5), ylim=(-95, 95))
    _, _, side, other, size, of_laplace, of_scaled = rows[1]
    marks = [
        _rim(_diamond((LAPLACE, LAPLACE), 0.95), f"Laplace, scale 11: {of_laplace:.0f}"),
        _rim(_diamond(SCALED, 0.95), f"Laplace, scales 2 and 20: {of_scaled:.0f}", 1, dash=1),
        _box(side, other, linewidth=2.0, label=f"box-shaped: {size:.0f}"),
    ]
    title, legend = "95 % regions and their sizes", {"loc": "upper center", "ncols": 1, "borderpad": 0.1}
    right = Panel(marks, _NOISE[0], "", title, (-60, 60), (-110, 175), legend=legend)
    columns = (
        *("level", "beta", "half_width_1 (units of the attribute)", "half_width_2 (units of the attribute)"),
        *_sizes("size", "laplace_size", "scaled_laplace_size"),
    )
    gains = [f"{row[5] / row[4]:.2f}" for row in rows]
    fair = [f"{row[6] / row[4]:.2f}" for row in rows]
    best = BoxStaircase.optimal(1.0, SENSITIVITIES)
    return Outcome(
        {"": Table(columns, rows)},
        Picture([[left, right]], (7.2, 4.2), {"width_ratios": (1.0, 1.15)}),
        checks,
        [
            "The column that the paper heads beta holds the half width z_1 + beta s_1 of the first side; "
            f"beta itself is {listed((row[1] for row in rows), '.4f')}.",
            f"The regions are {gains[0]}, {gains[1]} and {gains[2]} times smaller than those of the paper's "
            f"Laplace noise, but only {fair[0]}, {fair[1]} and {fair[2]} times smaller than those of Laplace "
            "noise in proportion to the sensitivities. A large part of the gain comes from scaling the "
            "noise of each attribute by its sensitivity.",
            f"The core of least variance is {best.core[0]:.4f} of each sensitivity, not 0.1. Its variances "
            f"are {best.var()[0]:.4f} and {best.var()[1]:.2f}, and its 95 % region has the size "
            f"{best.confidence_box(0.95).volume:.1f}.",
        ],
    )


@reproduction(
    "soria-comas-figure-6",
    f"{_PAPER}, Figure 6 and Example 2",
    "joint densities of Laplace and box-shaped noise",
)
def _figure_6(_full: bool, _progress: Progress) -> Outcome:
    first, second = np.linspace(-12.0, 12.0, 481), np.linspace(-60.0, 60.0, 481)
    box = BOX.pdf(np.stack(np.meshgrid(first, second), axis=-1))
    laplace = LAPLACE.pdf(second)[:, None] * LAPLACE.pdf(first)[None, :]
    origin = LAPLACE.pdf(0.0) ** 2

    mesh: dict[str, Any] = {"norm": "log", "vmin": box.min(), "vmax": box.max(), "cmap": "cividis"}
    mesh |= {"shading": "nearest", "rasterized": True}
    levels = origin * np.exp(-np.arange(7.0, 0.0, -1.0))
    lines = {"colors": "white", "linewidths": 0.5, "linestyles": ":"}
    on_laplace = [
        mark("contour", first, second, laplace, levels, **lines),
        note(1, 10, r"$S_f$", "white", offset=(2, -4)),
    ]
    common = [
        mark("plot", [-1, 1, 1, -1, -1], [-10, -10, 10, 10, -10], color="white", linewidth=1.0),
        mark("grid", visible=False),
    ]
    left = [mark("pcolormesh", first, second, laplace, **mesh), *common, *on_laplace]
    right = [mark("pcolormesh", first, second, box, **mesh), *common]
    panels = [Panel(left, *_NOISE, "Laplace, scale 11 for both"), Panel(right, _NOISE[0], "", "box-shaped")]
    sample = slice(None, None, 20)
    x, y = np.meshgrid(first[sample], second[sample])
    columns = {
        "x_1 (units of the attribute)": x.ravel(),
        "x_2 (units of the attribute)": y.ravel(),
        "laplace_density (per unit area)": laplace[sample, sample].ravel(),
        "box_density (per unit area)": box[sample, sample].ravel(),
    }
    return Outcome(
        {"": Table.of(columns)},
        Picture([panels], (6.8, 3.8), {"sharey": True}, colours="density per unit of area"),
        [
            printed("variance of either component of Laplace noise", "242", LAPLACE.var()),
            printed("variance of the first component of box-shaped noise", "4.0338", float(BOX.var()[0])),
            printed("variance of the second component of box-shaped noise", "403.38", float(BOX.var()[1])),
        ],
        [
            f"The density at 0 is {BOX.peak:.5f} against {origin:.5f} of Laplace noise, "
            f"{BOX.peak / origin:.1f} times as much."
        ],
    )


@reproduction(
    "soria-comas-figure-7",
    f"{_PAPER}, Figure 7",
    "densities of the components of Laplace and box-shaped noise",
)
def _figure_7(_full: bool, _progress: Progress) -> Outcome:
    parts, panels = {}, []
    for j, span in enumerate((15.0, 60.0)):
        x = np.linspace(-span, span, 1201)
        laplace, scaled, box = LAPLACE.pdf(x), SCALED[j].pdf(x), BOX.component(j).pdf(x)
        densities = {"laplace_density": laplace, "scaled_laplace_density": scaled, "box_density": box}
        parts[j + 1] = {"x (units of the attribute)": x, **in_unit("per unit of the attribute", densities)}
        marks = [
            line(x, laplace, "Laplace, scale 11 (the paper)"),
            line(x, scaled, f"Laplace, scale {SCALED[j].scale:g}", 1, 1, linewidth=1.2),
            line(x, box, "box-shaped", 2),
        ]
        label = f"noise of attribute {j + 1} (sensitivity {SENSITIVITIES[j]:g})"
        panels.append([Panel(marks, label, "density per unit", xlim=(-span, span), ylim=(0.0, None))])
    variance, (first, second) = LAPLACE.var(), BOX.var()
    return Outcome(
        {"": Table.stacked("component", parts)},
        Picture(panels, (6.4, 5.4)),
        [],
        [
            f"The variance of the second component is {second / variance:.2f} times that of the paper's "
            "Laplace noise; the paper says about twice. The variance of the first component is "
            f"{variance / first:.0f} times smaller.",
            f"Laplace noise in proportion to the sensitivities has the variances {SCALED[0].var():g} and "
            f"{SCALED[1].var():g}. The variances of "
            f"box-shaped noise are {SCALED[0].var() / first:.2f} times smaller.",
        ],
    )


_STEPS = 64
_ATTRIBUTES = (1, 2, 4, 8, 16)
_EPSILONS = (0.5, 1.0, 2.0, 4.0)


def _costs(epsilon: float, attributes: int) -> tuple[float, float, float, float]:
    """Return the variance of one component, in units of its sensitivity squared, for four mechanisms.

    The four mechanisms are the continuous optimum; vectors drawn jointly on a grid of 64 steps; one
    `GridNoise` for each attribute, at its share of epsilon, on the same grid; and independent Laplace noise.
    """
    ones = (1.0,) * attributes
    share = GridNoise.from_noise(Staircase.optimal(epsilon / attributes, power=2), step=1.0 / _STEPS)
    return (
        float(BoxStaircase.optimal(epsilon, ones).var()[0]),
        float(BoxGridNoise.for_values(epsilon, ones).var()[0]),
        share.var(),
        float(IndependentLaplace(epsilon, ones).var()[0]),
    )


@reproduction(
    "soria-comas-vectors",
    f"{_PAPER}, section 6",
    "variance of several attributes released on a grid",
)
def _vectors(_full: bool, progress: Progress) -> Outcome:
    rows = []
    for epsilon in steps(progress, _EPSILONS):
        for attributes in _ATTRIBUTES:
            best, *others = _costs(epsilon, attributes)
            rows.append((epsilon, attributes, best, *others, *[cost / best for cost in others]))
    ratios = np.array(rows)[:, -3:].reshape(len(_EPSILONS), len(_ATTRIBUTES), 3)
    joint, one_each = ratios[..., 0], ratios[_EPSILONS.index(1.0), 1:, 1]
    certificate = BoxGridNoise.for_values(1.0, (1.0,) * _ATTRIBUTES[-1]).certificate()
    labels = ("drawn jointly on the grid", "one staircase on the grid each", "Laplace noise")
    panels = list[Panel]()
    for epsilon in (1.0, 4.0):
        over = ratios[_EPSILONS.index(epsilon)]
        marks = [
            line(_ATTRIBUTES, over[:, k], label, k, k, marker="o", markersize=4)
            for k, label in enumerate(labels)
        ]
        y = "" if panels else "variance over that of the optimum"
        legend = None if panels else {"loc": "center right"}
        title = rf"$\varepsilon = {epsilon:g}$"
        panels.append(Panel(marks, "attributes", y, title, (0, 20), (0, 6), legend=legend))
    names = ("optimum", "joint_variance", "one_each_variance", "laplace_variance")
    columns = (
        *("epsilon", "attributes", *(f"{name} (sensitivities squared)" for name in names)),
        *("joint_ratio", "one_each_ratio", "laplace_ratio"),
    )
    return Outcome(
        {"": Table(columns, rows)},
        Picture([panels], (7.2, 3.6)),
        [],
        [
            f"For {', '.join(map(str, _ATTRIBUTES[1:]))} attributes at epsilon 1, one staircase on a grid "
            "for each attribute, at its share of epsilon, has "
            f"{listed(one_each, '.2f')} times the variance of the optimum.",
            f"Noise drawn jointly on a grid of {_STEPS} steps to a sensitivity has at most {joint.max():.4f} "
            f"times the variance of the optimum, at epsilons from {_EPSILONS[0]:g} to {_EPSILONS[-1]:g}. Its "
            f"delta is {certificate.delta}.",
        ],
    )
