"""Geng and Viswanath, "The optimal mechanism in differential privacy": the continuous staircase.

Figures 1 and 2, Corollaries 5 and 7.
"""

from __future__ import annotations

import math

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.noise import Laplace, Staircase
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.pictures import Panel, Picture, look, mark, note
from arcwise.papers.published import printed

_SOURCE = "Geng, Viswanath (arXiv 1212.1186)"


def _density(_full: bool, _progress: Progress) -> Outcome:
    epsilons = (1.0, 3.0)
    x = np.linspace(-3.5, 3.5, 1401)
    noises = [Staircase.optimal(e) for e in epsilons]
    rows = [
        (e, float(a), float(b), float(c))
        for e, noise in zip(epsilons, noises, strict=True)
        for a, b, c in zip(x, Laplace(e).pdf(x), noise.pdf(x), strict=True)
    ]

    panels = []
    for e, noise in zip(epsilons, noises, strict=True):
        # The steps as they are, with their edges at whole periods and gamma further.
        ends = np.concatenate([[0.0], np.arange(4) + noise.gamma])
        edges = np.concatenate([-ends[:0:-1], ends[1:]])
        levels = noise.pdf((edges[1:] + edges[:-1]) / 2.0)
        steps = {"baseline": None, "color": COLOURS[0], "linewidth": 1.7, "label": "staircase"}
        panels.append(
            Panel(
                [
                    mark("plot", x, Laplace(e).pdf(x), label="Laplace", **look(1, 1)),
                    mark("stairs", levels, edges, **steps),
                    note(
                        noise.gamma, noise.peak, rf"$\gamma$ = {noise.gamma:.3f}", COLOURS[0], offset=(4, -6)
                    ),
                ],
                x=r"$x\,/\,\Delta$",
                y=r"density $\times\;\Delta$",
                title=rf"$\varepsilon$ = {e:g}",
                xlim=(-3.5, 3.5),
                ylim=(0.0, 1.12 * max(noise.peak, Laplace(e).pdf(0.0))),
            )
        )

    return Outcome(
        {
            "": Table(
                (
                    "epsilon",
                    "x (sensitivities)",
                    "laplace_density (per sensitivity)",
                    "staircase_density (per sensitivity)",
                ),
                rows,
            )
        },
        Picture([panels], (7.2, 3.2)),
        [],
        [
            "The optimal steps for |x| end at "
            + " and ".join(
                f"{n.gamma:.4f} of the sensitivity with the height {n.peak:.4f} (epsilon {n.epsilon:g}, "
                f"Laplace noise "
                f"has {Laplace(n.epsilon).pdf(0.0):.4f} at 0)"
                for n in noises
            )
            + "."
        ],
    )


def _gain(_full: bool, _progress: Progress) -> Outcome:
    epsilons = np.linspace(0.1, 10.0, 199)
    rows = []
    for e in epsilons.tolist():
        laplace, heuristic = Laplace(e), Staircase.heuristic(e)
        rows.append(
            (
                e,
                *(laplace.abs_moment(p) / Staircase.optimal(e, power=p).abs_moment(p) for p in (1, 2)),
                *(laplace.abs_moment(p) / heuristic.abs_moment(p) for p in (1, 2)),
            )
        )
    table = np.array(rows)
    first, second = float(table[-1, 1]), float(table[-1, 2])

    marks = []
    for k, name in enumerate((r"$|x|$", r"$x^2$")):
        gain, by_rule = table[:, 1 + k], table[:, 3 + k]
        width = {"linewidth": 1.3 + k}  # apart in grey too
        label = rf"{name}, $\gamma = e^{{-\varepsilon}}/2$"
        marks += [
            mark("semilogy", epsilons, gain, label=f"{name}, optimal $\\gamma$", **look(k), **width),
            mark("semilogy", epsilons, by_rule, label=label, **look(k, 1), **width),
            mark("plot", 10.0, gain[-1], "o", color=COLOURS[k], clip_on=False),
            note(10.0, gain[-1], f"{name}: {gain[-1]:.2f}", COLOURS[k], offset=(5, -3)),
        ]
    marks.append(mark("axhline", 1.0, color="0.35", linewidth=0.9))
    y = "cost of Laplace noise / cost of the staircase"
    panel = Panel(marks, x=r"$\varepsilon$", y=y, xlim=(0.0, 10.0), plain="y")

    return Outcome(
        {"": Table(("epsilon", "gain_1", "gain_2", "heuristic_gain_1", "heuristic_gain_2"), rows)},
        Picture([[panel]]),
        [
            # "About 15-fold and 23-fold": the second is cut off, not rounded.
            printed("gain in amplitude at epsilon 10, about", "15", first),
            printed("gain in power at epsilon 10, about", "23", second, units=1.0),
        ],
        [
            f"The gains at epsilon 10 are {first:.4f} and {second:.4f}: about 15 and, rounded, 24, where "
            f"the paper says 23."
        ],
    )


def _asymptotics(_full: bool, _progress: Progress) -> Outcome:
    epsilons = np.geomspace(0.05, 20.0, 301)
    table = np.array(
        [
            [noise.abs_moment(p) for p in (1, 2) for noise in (Staircase.optimal(e, power=p), Laplace(e))]
            for e in epsilons
        ]
    )

    def best(epsilon: float, power: int) -> float:
        return Staircase.optimal(epsilon, power=power).abs_moment(power)

    def slope(power: int) -> float:
        return -math.log(best(45.0, power) / best(40.0, power)) / 5.0

    small = 0.02
    checks = [
        Check(
            "Laplace less optimal amplitude, over epsilon, at small epsilon: 1/24",
            1.0 / 24.0,
            (1.0 / small - best(small, 1)) / small,
            tolerance=1e-4,
            formula=True,
        ),
        Check(
            "Laplace less optimal power at small epsilon: 1/12",
            1.0 / 12.0,
            2.0 / small**2 - best(small, 2),
            tolerance=1e-4,
            formula=True,
        ),
        Check("rate of the amplitude at large epsilon: 1/2", 0.5, slope(1), tolerance=1e-6, formula=True),
        Check("rate of the power at large epsilon: 2/3", 2.0 / 3.0, slope(2), tolerance=1e-5, formula=True),
    ]

    limits = (
        (r"$e^{-\varepsilon/2}$", np.exp(-epsilons / 2.0)),
        (r"$(e^{-\varepsilon}/2)^{2/3}$", (np.exp(-epsilons) / 2.0) ** (2.0 / 3.0)),
    )
    far = epsilons > 4.0
    panels = [
        Panel(
            [
                mark("loglog", epsilons, table[:, 2 * k + 1], label="Laplace", **look(1, 1)),
                mark("loglog", epsilons, table[:, 2 * k], label="staircase", **look(0)),
                mark("loglog", epsilons[far], limits[k][1][far], label=limits[k][0], **look(6, 2)),
            ],
            x=r"$\varepsilon$",
            y=cost,
            plain="x",
        )
        for k, cost in enumerate((r"$E|X|\,/\,\Delta$", r"$E X^2/\,\Delta^2$"))
    ]
    return Outcome(
        {
            "": Table(
                (
                    "epsilon",
                    "staircase_1 (sensitivities)",
                    "laplace_1 (sensitivities)",
                    "staircase_2 (sensitivities squared)",
                    "laplace_2 (sensitivities squared)",
                ),
                np.column_stack([epsilons, table]).tolist(),
            )
        },
        Picture([panels], (7.2, 3.4)),
        checks,
        [
            "At large epsilon the optimal amplitude is e^(-epsilon/2) and the optimal power (e^-epsilon / "
            "2)^(2/3): at "
            f"epsilon 40 the quotients are {best(40.0, 1) * math.exp(20.0):.6f} and "
            f"{best(40.0, 2) * (2.0 * math.exp(40.0)) ** (2.0 / 3.0):.6f}. Laplace noise falls like "
            f"1/epsilon and 2/epsilon^2."
        ],
    )


REPRODUCTIONS = (
    Reproduction(
        "staircase-density",
        f"{_SOURCE}, Figures 1 and 3",
        "densities of the staircase and of Laplace noise",
        _density,
    ),
    Reproduction("staircase-gain", f"{_SOURCE}, Figure 2", "gains over Laplace noise for |x| and x^2", _gain),
    Reproduction(
        "staircase-asymptotics",
        f"{_SOURCE}, Corollaries 5 and 7",
        "optimal costs and their rates at small and large epsilon",
        _asymptotics,
    ),
)
