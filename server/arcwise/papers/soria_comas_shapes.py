"""Soria-Comas and Domingo-Ferrer: better noise, and what Laplace noise protects. Figures 1, 4 and 5."""

from __future__ import annotations

import math

import numpy as np

from arcwise.noise import Laplace, Staircase, compare_concentration
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.pictures import Mark, Panel, Picture, look, mark

_PAPER = "Soria-Comas, Domingo-Ferrer 2013"


def _high_part(epsilon: float) -> float:
    """Return m_i, the part of each sensitivity with the larger density, as section 4 prints it."""
    b = math.exp(-epsilon)
    return (1.0 - b - epsilon * b) / (epsilon * (1.0 - b))


def _figure_1(_full: bool, _progress: Progress) -> Outcome:
    laplace = Laplace(1.0)
    made = Staircase(1.0, 1.0, _high_part(1.0))
    x = np.linspace(-4.0, 4.0, 1601)
    inner, outer = laplace.pdf(x), made.pdf(x)
    masses = [float(noise.cdf(k + 1.0) - noise.cdf(float(k))) for k in range(3) for noise in (made, laplace)]
    order = compare_concentration(made, laplace)
    best = Staircase.optimal(1.0, power=2)
    panel = Panel(
        [
            mark("plot", x, inner, label="Laplace(0, 1)", **look(0)),
            mark("plot", x, outer, label="the mass of each $[i, i+1]$ moved to 0", **look(1)),
        ],
        x=r"noise, in units of the sensitivity",
        y="density per sensitivity",
        xlim=(-4.0, 4.0),
        ylim=(0.0, 0.56),
    )
    return Outcome(
        {
            "": Table.of(
                **{
                    "x (sensitivities)": x,
                    "laplace_density (per sensitivity)": inner,
                    "constructed_density (per sensitivity)": outer,
                }
            )
        },
        Picture([[panel]]),
        [
            Check(f"mass from {k} to {k + 1} (formula)", laplace_mass, mass, tolerance=1e-12, formula=True)
            for k, (mass, laplace_mass) in enumerate(zip(masses[::2], masses[1::2], strict=True))
        ],
        [
            f"The larger density has the part m = {made.gamma:.6f} of each sensitivity. By Definition 3 the "
            f"new noise is {order.relation} than Laplace noise: every interval from 0 holds at least as much "
            f"of its mass. Its variance is {made.var():.4f}, Laplace noise's {laplace.var():.4f}, the least "
            f"{best.var():.4f}; the noise of least variance and Laplace noise are "
            f"{compare_concentration(best, laplace).relation}.",
        ],
    )


def _protected(sensitivities: tuple[float, float], title: str, span: tuple[float, float]) -> Panel:
    first, second = sensitivities
    far = first + second
    box = (np.array([-1, 1, 1, -1]) * first, np.array([-1, -1, 1, 1]) * second)
    diamond = (np.array([far, 0.0, -far, 0.0, far]), np.array([0.0, far, 0.0, -far, 0.0]))
    marks: list[Mark] = [
        mark("fill", *box, color="0.7", label=r"$S_f$, the differences that occur"),
        mark("plot", *diamond, label=r"density of Laplace noise $\geq e^{-\varepsilon} f(0)$", **look(0)),
        mark("set_aspect", "equal"),
    ]
    limits = ((-span[0], span[0]), (-span[1], span[1]))
    return Panel(
        marks,
        x="difference of the first attribute",
        y="difference of the second attribute",
        title=title,
        xlim=limits[0],
        ylim=limits[1],
        legend=None,
    )


def _figures_4_5(_full: bool, _progress: Progress) -> Outcome:
    cases = {4: (1.0, 1.0), 5: (1.0, 10.0)}
    rows, findings = [], []
    for figure, (first, second) in cases.items():
        box, diamond = 4.0 * first * second, 2.0 * (first + second) ** 2
        rows.append((figure, first, second, first + second, box, diamond, diamond / box))
        findings.append(
            f"Figure {figure}: Laplace noise protects a region {diamond / box:.2f} times as large as S_f, "
            f"which has the area {box:g}."
        )
    columns = (
        "figure",
        "sensitivity_1 (units of the attribute)",
        "sensitivity_2 (units of the attribute)",
        "l1_sensitivity (units of the attributes)",
        "area_of_differences (unit areas)",
        "area_protected (unit areas)",
        "ratio",
    )
    panels = [
        _protected(cases[4], r"$S_f = [-1, 1] \times [-1, 1]$", (2.4, 2.4)),
        _protected(cases[5], r"$S_f = [-1, 1] \times [-10, 10]$", (13.2, 13.2)),
    ]
    return Outcome(
        {"": Table(columns, rows)},
        Picture([panels], (7.2, 4.0), legend={"loc": "outside lower center", "ncols": 2}),
        (),
        findings,
    )


REPRODUCTIONS = (
    Reproduction(
        "soria-comas-figure-1",
        f"{_PAPER}, Figure 1",
        "noise that is better than Laplace noise, by moving its mass to 0",
        _figure_1,
    ),
    Reproduction(
        "soria-comas-figures-4-5",
        f"{_PAPER}, Figures 4 and 5",
        "differences of two attributes and what Laplace noise protects",
        _figures_4_5,
    ),
)
