"""Geng and Viswanath: the gamma of the staircase. Figure 4, Theorem 8, and the heuristic of section V-B."""

from __future__ import annotations

import numpy as np

from arcwise.analysis.plotting.style import DASHES
from arcwise.noise import Laplace, Staircase, heuristic_gamma, optimal_gamma
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.pictures import Panel, Picture, look, mark, note

_SOURCE = "Geng, Viswanath (arXiv 1212.1186)"


def _loss(power: float) -> str:
    return "$|x|$" if power == 1.0 else f"$x^{power:g}$"


def _gamma(_full: bool, _progress: Progress) -> Outcome:
    epsilons = np.linspace(0.05, 10.0, 200)
    powers = (1.0, 2.0, 4.0)
    curves = {p: np.array([optimal_gamma(e, p) for e in epsilons]) for p in powers}
    heuristic = np.array([heuristic_gamma(e) for e in epsilons])
    checks = [
        Check(
            f"gamma for |x|^{p:g} as epsilon goes to 0",
            0.5,
            optimal_gamma(1e-6, p),
            tolerance=1e-6,
            formula=True,
        )
        for p in powers
    ]
    checks += [
        Check(
            f"gamma for |x|^{p:g} as epsilon grows (50)",
            0.0,
            optimal_gamma(50.0, p),
            tolerance=1e-3,
            formula=True,
        )
        for p in powers
    ]

    marks = [
        mark("plot", epsilons, curves[p], label=f"optimal for {_loss(p)}", **look(k, k))
        for k, p in enumerate(powers)
    ]
    marks.append(mark("plot", epsilons, heuristic, label=r"heuristic $e^{-\varepsilon}/2$", **look(6, 3)))
    panel = Panel(marks, x=r"$\varepsilon$", y=r"$\gamma$", xlim=(0.0, 10.0), ylim=(0.0, 0.5))
    gammas = {f"gamma_{p:g}": curve for p, curve in curves.items()}
    return Outcome(
        {"": Table.of(epsilon=epsilons, **gammas, gamma_heuristic=heuristic)},
        Picture([[panel]]),
        checks,
        [
            "The larger the power, the more slowly gamma falls, like e^(-epsilon / (power + 1)); the "
            "heuristic falls "
            "like e^-epsilon, faster than any."
        ],
    )


def _heuristic(_full: bool, _progress: Progress) -> Outcome:
    from scipy import optimize

    epsilons = np.linspace(0.1, 15.0, 299)
    rows = []
    for e in epsilons.tolist():
        noise = Staircase.heuristic(e)
        near = float(noise.cdf(noise.gamma) - noise.cdf(-noise.gamma))
        row = [e, near, Laplace(e).cdf(noise.gamma) - Laplace(e).cdf(-noise.gamma)]
        row += [noise.abs_moment(p) / Staircase.optimal(e, power=p).abs_moment(p) for p in (1, 2)]
        row += [Laplace(e).abs_moment(p) / Staircase.optimal(e, power=p).abs_moment(p) for p in (1, 2)]
        rows.append(tuple(row))
    table = np.array(rows)

    def excess(epsilon: float, power: int) -> float:
        return Staircase.heuristic(epsilon).abs_moment(power) - Laplace(epsilon).abs_moment(power)

    even = [float(optimize.brentq(excess, 0.5, 5.0, args=(p,))) for p in (1, 2)]
    far = Staircase.heuristic(30.0)

    left = Panel(
        [
            mark("plot", epsilons, table[:, 1], label="staircase, heuristic"),
            mark("plot", epsilons, table[:, 2], linestyle=DASHES[1], label="Laplace"),
            mark("axhline", 1.0 / 3.0, color="0.35", linewidth=0.9),
            note(15.0, 1.0 / 3.0, "1/3", "0.35", ha="right"),
        ],
        x=r"$\varepsilon$",
        y=r"$P(|X| \leq \Delta\, e^{-\varepsilon}/2)$",
        xlim=(0.0, 15.0),
        ylim=(0.0, 0.4),
        legend={"loc": "center right", "bbox_to_anchor": (1.0, 0.6)},
    )
    marks = []
    for k, name in enumerate((r"$|x|$", r"$x^2$")):
        width = {"linewidth": 1.3 + k}  # apart in grey too
        marks += [
            mark("semilogy", epsilons, table[:, 3 + k], label=f"{name}, heuristic", **look(k), **width),
            mark("semilogy", epsilons, table[:, 5 + k], label=f"{name}, Laplace", **look(k, 1), **width),
        ]
    right = Panel(marks, x=r"$\varepsilon$", y="cost / optimal cost", xlim=(0.0, 15.0))

    return Outcome(
        {
            "": Table(
                (
                    "epsilon",
                    "mass_near_0",
                    "laplace_mass_near_0",
                    *(f"{name}_over_optimal_{p}" for name in ("heuristic", "laplace") for p in (1, 2)),
                ),
                rows,
            )
        },
        Picture([[left, right]], (7.2, 3.4)),
        [
            Check(
                "mass within gamma of 0 as epsilon grows (30)",
                1.0 / 3.0,
                float(far.cdf(far.gamma) - far.cdf(-far.gamma)),
                tolerance=1e-9,
                formula=True,
            )
        ],
        [
            "The paper errs where it says that the heuristic does reasonably well at large epsilon: a third "
            "of its "
            "mass is next to 0, but the other two thirds spread over the whole sensitivity, so that E|X| "
            "tends to "
            f"{far.abs_moment(1):.4f} and E X^2 to {far.abs_moment(2):.4f} of it, however large epsilon is.",
            f"It is worse than Laplace noise from epsilon {even[0]:.3f} (|x|) and {even[1]:.3f} (x^2) on.",
        ],
    )


REPRODUCTIONS = (
    Reproduction(
        "staircase-gamma", f"{_SOURCE}, Figure 4 and Theorem 8", "optimal gamma over epsilon", _gamma
    ),
    Reproduction(
        "staircase-heuristic", f"{_SOURCE}, section V-B", "what the heuristic gamma costs", _heuristic
    ),
)
