"""Soria-Comas and Domingo-Ferrer, section 6: densities for two attributes. Figures 6 and 7, Example 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.plotting.style import COLOURS, DASHES, finish
from arcwise.papers.base import Outcome, Progress, Reproduction, Table
from arcwise.papers.direct_labels import label_at
from arcwise.papers.published import printed
from arcwise.papers.soria_comas_example import BOX, LAPLACE, SCALED, SENSITIVITIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS"]

_PAPER = "Soria-Comas, Domingo-Ferrer 2013"


def _figure_6(_full: bool, _progress: Progress) -> Outcome:
    first, second = np.linspace(-12.0, 12.0, 481), np.linspace(-60.0, 60.0, 481)
    grid = np.stack(np.meshgrid(first, second), axis=-1)
    box = BOX.pdf(grid)
    laplace = LAPLACE.pdf(second)[:, None] * LAPLACE.pdf(first)[None, :]
    origin = LAPLACE.pdf(0.0) ** 2

    def draw(figure: Figure) -> None:
        from matplotlib.colors import LogNorm

        axes = figure.subplots(1, 2, sharey=True)
        norm = LogNorm(box.min(), box.max())
        for one, density, title in zip(
            axes, (laplace, box), ("Laplace, scale 11 for both", "box-shaped"), strict=True
        ):
            mesh = one.pcolormesh(
                first, second, density, norm=norm, cmap="cividis", shading="nearest", rasterized=True
            )
            one.plot([-1, 1, 1, -1, -1], [-10, -10, 10, 10, -10], color="white", linewidth=1.0)
            one.grid(visible=False)
            finish(one, x="noise of the first attribute", y="", title=title)
        levels = origin * np.exp(-np.arange(7.0, 0.0, -1.0))
        axes[0].contour(first, second, laplace, levels, colors="white", linewidths=0.5, linestyles=":")
        label_at(axes[0], 1, 10, r"$S_f$", "white", offset=(2, -4))
        axes[0].set_ylabel("noise of the second attribute")
        figure.colorbar(mesh, ax=axes, label="density per unit of area")

    sample = slice(None, None, 20)
    rows = [
        (float(a), float(b), float(laplace[j, i]), float(box[j, i]))
        for j, b in list(enumerate(second))[sample]
        for i, a in list(enumerate(first))[sample]
    ]
    return Outcome(
        {"": Table(("x_1", "x_2", "laplace_density", "box_density"), rows)},
        draw,
        [
            printed("variance of either component of Laplace noise", "242", LAPLACE.var()),
            printed("variance of the first component of box-shaped noise", "4.0338", float(BOX.var()[0])),
            printed("variance of the second component of box-shaped noise", "403.38", float(BOX.var()[1])),
        ],
        [
            f"The density at 0 is {BOX.peak:.5f} against {origin:.5f} of Laplace noise, "
            f"{BOX.peak / origin:.1f} times "
            "as much.",
        ],
        size=(6.8, 3.8),
    )


def _figure_7(_full: bool, _progress: Progress) -> Outcome:
    spans = (15.0, 60.0)
    panels: list[Any] = []
    rows: list[tuple[int, float, float, float, float]] = []
    for j in (0, 1):
        x = np.linspace(-spans[j], spans[j], 1201)
        component = BOX.component(j)
        densities = (LAPLACE.pdf(x), SCALED[j].pdf(x), component.pdf(x))
        panels.append((x, *densities))
        rows.extend(
            (j + 1, float(a), float(b), float(c), float(d)) for a, b, c, d in zip(x, *densities, strict=True)
        )
    variances = BOX.var()

    def draw(figure: Figure) -> None:
        axes = figure.subplots(2, 1)
        for j, one in enumerate(axes):
            x, laplace, scaled, box = panels[j]
            one.plot(x, laplace, color=COLOURS[0], label="Laplace, scale 11 (the paper)")
            one.plot(
                x,
                scaled,
                color=COLOURS[1],
                linestyle=DASHES[1],
                linewidth=1.2,
                label=f"Laplace, scale {SCALED[j].scale:g}",
            )
            one.plot(x, box, color=COLOURS[2], label="box-shaped")
            one.set_ylim(0.0, None)
            one.set_xlim(-spans[j], spans[j])
            finish(one, x=f"noise of attribute {j + 1} (sensitivity {SENSITIVITIES[j]:g})", y="density")

    return Outcome(
        {"": Table(("component", "x", "laplace_density", "scaled_laplace_density", "box_density"), rows)},
        draw,
        [],
        [
            f"The variance of the second component is {variances[1] / LAPLACE.var():.2f} times that of the "
            f"paper's "
            "Laplace noise, where the paper says about twice; that of the first is "
            f"{LAPLACE.var() / variances[0]:.0f} times smaller.",
            f"Beside Laplace noise in proportion to the sensitivities (variances {SCALED[0].var():g} and "
            f"{SCALED[1].var():g}) both variances are {SCALED[0].var() / variances[0]:.2f} times smaller.",
        ],
        size=(6.4, 5.4),
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
