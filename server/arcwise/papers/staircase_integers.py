"""Geng and Viswanath, section VI: the staircase on the integers. Figure 5, and the optimal r."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.plotting.style import COLOURS, DASHES, finish
from arcwise.noise import DiscreteStaircase, Geometric, Staircase, optimal_gamma, optimal_r
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.direct_labels import label_end

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS"]

_SOURCE = "Geng, Viswanath (arXiv 1212.1186)"


def _mass(_full: bool, _progress: Progress) -> Outcome:
    noise, geometric = DiscreteStaircase.optimal(1.0, 5), Geometric(1.0, 5)
    n = np.arange(-16, 17)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.bar(
            n,
            noise.pmf(n),
            width=0.7,
            color=COLOURS[5],
            edgecolor=COLOURS[0],
            linewidth=0.6,
            label="staircase",
        )
        axes.plot(n, geometric.pmf(n), "o", color=COLOURS[1], markersize=3.5, label="geometric")
        axes.set_xlim(-16.5, 16.5)
        finish(axes, x="$n$", y="$P(X = n)$", title=rf"$\varepsilon = 1$, $\Delta = 5$, $r = {noise.r}$")

    return Outcome(
        {
            "": Table(
                ("n", "staircase", "geometric"),
                [
                    (int(i), float(a), float(b))
                    for i, a, b in zip(n, noise.pmf(n), geometric.pmf(n), strict=True)
                ],
            )
        },
        draw,
        [],
        [
            f"At sensitivity 5 and epsilon 1 the best r for |x| is {noise.r}; the staircase has E|X| = "
            f"{noise.abs_moment(1):.4f}, geometric noise {geometric.abs_moment(1):.4f}."
        ],
    )


def _optimal_r(full: bool, progress: Progress) -> Outcome:
    epsilons, fixed = (0.5, 1.0, 2.0, 4.0), (1, 2, 5, 20)
    most = 1000 if full else 200
    sensitivities = np.unique(np.rint(np.geomspace(1, most, 160)).astype(int))
    rows = []
    for done, e in enumerate(epsilons):
        progress(done, len(epsilons) + len(fixed))
        for s in sensitivities.tolist():
            best = [DiscreteStaircase.optimal(e, s, power=p) for p in (1, 2)]
            geometric = Geometric(e, s)
            gains = [geometric.abs_moment(p) / best[p - 1].abs_moment(p) for p in (1, 2)]
            rows.append((e, s, best[0].r, best[1].r, *gains))
    table = np.array(rows).reshape(len(epsilons), len(sensitivities), -1)
    fine = np.linspace(0.02, 8.0, 267)
    over_epsilon = {}
    for done, s in enumerate(fixed):
        progress(len(epsilons) + done, len(epsilons) + len(fixed))
        over_epsilon[s] = np.array([optimal_r(e, s) for e in fine])
    progress(1, 1)
    checks = [
        Check(
            f"E|X|^{p} at sensitivity 1 and epsilon {e:g}, that of geometric noise",
            Geometric(e).abs_moment(p),
            DiscreteStaircase.optimal(e, 1, power=p).abs_moment(p),
            tolerance=1e-12,
        )
        for p in (1, 2)
        for e in epsilons
    ]
    large = 4096
    checks += [
        # r is a whole number: r / sensitivity is within 1 / sensitivity of gamma.
        Check(
            f"r / sensitivity at sensitivity {large} and epsilon {e:g}, gamma",
            optimal_gamma(e, p),
            optimal_r(e, large, p) / large,
            tolerance=1.0 / (large * optimal_gamma(e, p)),
        )
        for p in (1, 2)
        for e in epsilons
    ]

    def draw(figure: Figure) -> None:
        panels: Any = figure.subplots(1, 2)
        left, right = panels
        for k, e in enumerate(epsilons):
            left.semilogx(
                sensitivities, table[k, :, 2] / sensitivities, "os^v"[k], color=COLOURS[k], markersize=2.4
            )
            left.axhline(optimal_gamma(e), color=COLOURS[k], linestyle=DASHES[1], linewidth=1.0)
            label_end(left, sensitivities[-1], optimal_gamma(e), rf"$\varepsilon$ = {e:g}", COLOURS[k])
        left.set_xlim(1, sensitivities[-1])
        left.set_ylim(0.0, 1.02)
        left.xaxis.set_major_formatter("{x:g}")
        finish(
            left, x=r"sensitivity $\Delta$", y=r"$r\,/\,\Delta$, dashed: $\gamma$", title="optimal for $|x|$"
        )
        for k, s in enumerate(fixed):
            right.step(
                fine,
                over_epsilon[s],
                where="mid",
                color=COLOURS[k],
                linestyle=DASHES[k],
                label=rf"$\Delta$ = {s}",
            )
        right.set_xlim(0.0, 8.0)
        right.set_ylim(0.0, 10.5)
        finish(right, x=r"$\varepsilon$", y="$r$", title="optimal for $|x|$")

    last_gains = table[:, -1, 4]
    continuous = [Staircase.optimal(e).abs_moment(1) for e in epsilons]
    discrete = [DiscreteStaircase.optimal(e, large).abs_moment(1) / large for e in epsilons]
    return Outcome(
        {
            "over-sensitivity": Table(("epsilon", "sensitivity", "r_1", "r_2", "gain_1", "gain_2"), rows),
            "over-epsilon": Table(
                ("epsilon", *(f"r_at_sensitivity_{s}" for s in fixed)),
                [(float(e), *(int(over_epsilon[s][i]) for s in fixed)) for i, e in enumerate(fine)],
            ),
        },
        draw,
        checks,
        [
            f"At sensitivity {sensitivities[-1]} the staircase gains over geometric noise for |x| by "
            + ", ".join(f"{gain:.3f}" for gain in last_gains)
            + f" (epsilon {', '.join(f'{e:g}' for e in epsilons)}).",
            f"At sensitivity {large} its E|X| / sensitivity is that of the continuous staircase but for "
            f"{max(abs(a / b - 1.0) for a, b in zip(discrete, continuous, strict=True)):.1g} relative.",
        ],
        size=(7.4, 3.4),
    )


REPRODUCTIONS = (
    Reproduction(
        "staircase-integers-mass",
        f"{_SOURCE}, Figure 5",
        "the mass function of the staircase on the integers",
        _mass,
    ),
    Reproduction(
        "staircase-integers-r",
        f"{_SOURCE}, Theorems 11 and 12",
        "optimal r over sensitivity and epsilon",
        _optimal_r,
    ),
)
