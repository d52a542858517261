"""Soria-Comas and Domingo-Ferrer, section 6: densities for two attributes. Figures 6 and 7, Example 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.papers.base import Outcome, Progress, Reproduction, Table
from arcwise.papers.pictures import Panel, Picture, look, mark, note
from arcwise.papers.published import printed
from arcwise.papers.soria_comas_example import BOX, LAPLACE, SCALED, SENSITIVITIES

_PAPER = "Soria-Comas, Domingo-Ferrer 2013"
_JOINT = (
    "x_1 (units of the attribute)",
    "x_2 (units of the attribute)",
    "laplace_density (per unit area)",
    "box_density (per unit area)",
)
_SINGLE = (
    "component",
    "x (units of the attribute)",
    *(f"{name}_density (per unit of the attribute)" for name in ("laplace", "scaled_laplace", "box")),
)


def _figure_6(_full: bool, _progress: Progress) -> Outcome:
    first, second = np.linspace(-12.0, 12.0, 481), np.linspace(-60.0, 60.0, 481)
    grid = np.stack(np.meshgrid(first, second), axis=-1)
    box = BOX.pdf(grid)
    laplace = LAPLACE.pdf(second)[:, None] * LAPLACE.pdf(first)[None, :]
    origin = LAPLACE.pdf(0.0) ** 2

    colours: dict[str, Any] = {"norm": "log", "vmin": box.min(), "vmax": box.max(), "cmap": "cividis"}
    densities = ((laplace, "Laplace, scale 11 for both"), (box, "box-shaped"))
    levels = origin * np.exp(-np.arange(7.0, 0.0, -1.0))
    lines = {"colors": "white", "linewidths": 0.5, "linestyles": ":"}
    on_laplace = [
        mark("contour", first, second, laplace, levels, **lines),
        note(1, 10, r"$S_f$", "white", offset=(2, -4)),
    ]
    panels = [
        Panel(
            [
                mark("pcolormesh", first, second, density, shading="nearest", rasterized=True, **colours),
                mark("plot", [-1, 1, 1, -1, -1], [-10, -10, 10, 10, -10], color="white", linewidth=1.0),
                mark("grid", visible=False),
                *([] if column else on_laplace),
            ],
            x="noise of the first attribute",
            y="" if column else "noise of the second attribute",
            title=title,
        )
        for column, (density, title) in enumerate(densities)
    ]

    sample = slice(None, None, 20)
    rows = [
        (float(a), float(b), float(laplace[j, i]), float(box[j, i]))
        for j, b in list(enumerate(second))[sample]
        for i, a in list(enumerate(first))[sample]
    ]
    return Outcome(
        {"": Table(_JOINT, rows)},
        Picture([panels], (6.8, 3.8), {"sharey": True}, colours="density per unit of area"),
        [
            printed("variance of either component of Laplace noise", "242", LAPLACE.var()),
            printed("variance of the first component of box-shaped noise", "4.0338", float(BOX.var()[0])),
            printed("variance of the second component of box-shaped noise", "403.38", float(BOX.var()[1])),
        ],
        [
            f"The density at 0 is {BOX.peak:.5f} against {origin:.5f} of Laplace noise, "
            f"{BOX.peak / origin:.1f} times "
            "as much."
        ],
    )


def _figure_7(_full: bool, _progress: Progress) -> Outcome:
    spans = (15.0, 60.0)
    rows: list[tuple[float, ...]] = []
    panels = []
    for j in (0, 1):
        x = np.linspace(-spans[j], spans[j], 1201)
        laplace, scaled, box = LAPLACE.pdf(x), SCALED[j].pdf(x), BOX.component(j).pdf(x)
        rows += [(j + 1, *row) for row in np.column_stack([x, laplace, scaled, box]).tolist()]
        narrow = f"Laplace, scale {SCALED[j].scale:g}"
        panels.append(
            Panel(
                [
                    mark("plot", x, laplace, color=COLOURS[0], label="Laplace, scale 11 (the paper)"),
                    mark("plot", x, scaled, linewidth=1.2, label=narrow, **look(1, 1)),
                    mark("plot", x, box, color=COLOURS[2], label="box-shaped"),
                ],
                x=f"noise of attribute {j + 1} (sensitivity {SENSITIVITIES[j]:g})",
                y="density per unit",
                xlim=(-spans[j], spans[j]),
                ylim=(0.0, None),
            )
        )
    variances = BOX.var()

    return Outcome(
        {"": Table(_SINGLE, rows)},
        Picture([[panel] for panel in panels], (6.4, 5.4)),
        [],
        [
            f"The variance of the second component is {variances[1] / LAPLACE.var():.2f} times that of the "
            f"paper's "
            "Laplace noise, where the paper says about twice; that of the first is "
            f"{LAPLACE.var() / variances[0]:.0f} times smaller.",
            f"Beside Laplace noise in proportion to the sensitivities (variances {SCALED[0].var():g} and "
            f"{SCALED[1].var():g}) both variances are {SCALED[0].var() / variances[0]:.2f} times smaller.",
        ],
    )


REPRODUCTIONS = (
    Reproduction(
        "soria-comas-figure-6",
        f"{_PAPER}, Figure 6 and Example 2",
        "joint densities of Laplace and box-shaped noise",
        _figure_6,
    ),
    Reproduction(
        "soria-comas-figure-7",
        f"{_PAPER}, Figure 7",
        "densities of the components of Laplace and box-shaped noise",
        _figure_7,
    ),
)
