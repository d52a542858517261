"""Geng, Ding, Guo and Kumar, "The optimal mechanism in additive differential privacy": (0, delta) noise.

The poster prints formulas and no numbers. They are checked against two searches that know nothing of them: a
linear program over mixtures of uniform densities, and a minimisation over alpha.
"""

from __future__ import annotations

import itertools

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.noise import AnalyticGaussian, UniformAtom, optimal_alpha
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.pictures import Panel, Picture, look, mark, note

_SOURCE = "Geng, Ding, Guo, Kumar (arXiv 1809.10224)"
_DELTAS = np.concatenate([np.linspace(0.01, 0.98, 98), 1.0 - np.geomspace(0.02, 0.001, 14)[1:]])
_CHECKED = (0.05, 0.3, 0.5, 0.6, 0.75, 0.9)


def _programmed_cost(delta: float, power: float) -> float:
    """Return the least ``E|X|^power`` over symmetric densities that fall with ``|x|``, an atom at 0 included.

    Such a law is a mixture of uniform laws on [-h, h]. One of them has the mass ``t = min(1, 1 / (2 h))``
    inside [-1/2, 1/2] and the cost ``h^power / (power + 1)``; the atom has t = 1 and no cost. The condition
    for (0, delta)-DP, with sensitivity 1, is that the mass inside is at most delta.
    """
    from scipy import optimize

    inside = np.arange(1, 6001) / 6000.0
    cost = (0.5 / inside) ** power / (power + 1.0)
    inside, cost = np.append(inside, 1.0), np.append(cost, 0.0)
    found = optimize.linprog(
        cost, A_ub=inside[None, :], b_ub=[delta], A_eq=np.ones((1, inside.size)), b_eq=[1.0], method="highs"
    )
    return float(found.fun)


def _printed_cost(delta: float, power: int) -> float:
    """Return the cost by the two corollaries as they are printed, sensitivity 1."""
    if power == 1:
        return 1.0 / (4.0 * delta) if delta <= 0.5 else 1.0 - delta
    return 1.0 / (12.0 * delta**2) if delta <= 2.0 / 3.0 else 9.0 / 16.0 * (1.0 - delta)


def _cost(_full: bool, progress: Progress) -> Outcome:
    rows = []
    for delta in _DELTAS.tolist():
        gaussian = AnalyticGaussian(0.0, delta)
        plain = UniformAtom(delta, 1.0, 0.0)
        row = [delta]
        for power in (1, 2):
            row += [
                UniformAtom.optimal(delta, power=power).abs_moment(power),
                plain.abs_moment(power),
                gaussian.abs_moment(power),
            ]
        rows.append(tuple(row))
    table = np.array(rows)
    checks = []
    for done, (power, delta) in enumerate(itertools.product((1, 2), _CHECKED)):
        progress(done, 2 * len(_CHECKED))
        checks.append(
            Check(
                f"least E|X|^{power} at delta {delta:g}, by a linear program",
                _printed_cost(delta, power),
                _programmed_cost(delta, power),
                tolerance=1e-6,
                formula=True,
            )
        )
    progress(2 * len(_CHECKED), 2 * len(_CHECKED))

    names = ("optimal: uniform with atom", "uniform without atom", "Gaussian")
    upper, lower = [], []
    for power, cost in ((1, r"$E|X|\;/\;\Delta$"), (2, r"$E X^2/\,\Delta^2$")):
        values = table[:, 3 * power - 2 : 3 * power + 1]
        styles = [(k, look(k, k) | {"linewidth": 2.0 if k == 0 else 1.4}) for k in (2, 1, 0)]
        knee = power / (power + 1.0)
        at_knee = mark("axvline", knee, color="0.55", linewidth=0.8)
        costs = [mark("semilogy", _DELTAS, values[:, k], label=names[k], **style) for k, style in styles]
        upper.append(Panel([*costs, at_knee], y=f"cost {cost}", legend=None))
        costs = [mark("plot", _DELTAS, values[:, k] / values[:, 0], **style) for k, style in styles]
        words = note(knee, 3.6, rf"$\delta = {power}/{power + 1}$", "0.35", ha="right", offset=(-3, 0))
        lower.append(
            Panel(
                [*costs, at_knee, words],
                x=r"$\delta$",
                y="cost / optimal cost",
                xlim=(0.0, 1.0),
                ylim=(0.9, 4.0),
            )
        )

    small = AnalyticGaussian(0.0, 1e-6)
    first, second = (UniformAtom.optimal(1e-6, power=p) for p in (1, 2))
    last = table[-1]
    return Outcome(
        {
            "": Table(
                (
                    "delta",
                    *(
                        f"{name}_{p} {unit}"
                        for p, unit in ((1, "(sensitivities)"), (2, "(sensitivities squared)"))
                        for name in ("optimal", "uniform", "gaussian")
                    ),
                ),
                rows,
            )
        },
        Picture(
            [upper, lower],
            (7.0, 5.2),
            {"sharex": True, "height_ratios": (1.5, 1.0)},
            legend={"loc": "outside lower center", "ncols": 3, "reverse": True},
        ),
        checks,
        [
            "Gaussian noise costs "
            f"{small.abs_moment(1) / first.abs_moment(1):.4f} times the optimum for |x| and "
            f"{small.abs_moment(2) / second.abs_moment(2):.4f} times for x^2 as delta goes to 0 (4/pi and "
            f"6/pi).",
            f"The atom pays above delta = p / (p + 1) only; at delta {last[0]:.3f} the uniform density "
            f"without one "
            f"costs {last[2] / last[1]:.0f} and {last[5] / last[4]:.0f} times as much.",
            "Optimal means: of all symmetric noise whose density falls with |x|. A linear program over that "
            "whole "
            "class finds nothing better.",
        ],
    )


def _alpha(_full: bool, _progress: Progress) -> Outcome:
    from scipy import optimize

    powers = (0.5, 1.0, 2.0, 3.0, 10.0)
    deltas = np.linspace(0.005, 0.995, 199)
    curves = {p: np.array([optimal_alpha(delta, p) for delta in deltas]) for p in powers}
    checks = []
    for power in (1.0, 2.0, 3.0):
        for delta in (0.8, 0.9, 0.99):

            def cost(alpha: float, delta: float = delta, power: float = power) -> float:
                return UniformAtom(delta, 1.0, alpha).abs_moment(power)

            found = optimize.minimize_scalar(
                cost, bounds=(0.0, delta * (1.0 - 1e-9)), method="bounded", options={"xatol": 1e-10}
            )
            checks.append(
                Check(
                    f"alpha for |x|^{power:g} at delta {delta:g}, by minimisation",
                    (power + 1.0) * delta - power,
                    float(found.x),
                    tolerance=1e-6,
                    formula=True,
                )
            )
    shown = [(power, UniformAtom.optimal(0.75, power=power)) for power in (1.0, 2.0, 3.0)]

    left = []
    for k, (power, noise) in enumerate(shown):
        h, top = noise.half_support, noise.density
        name = rf"$|x|^{power:g}$: $\alpha$ = {noise.alpha:g}"
        left.append(mark("plot", [-h, -h, h, h], [0, top, top, 0], label=name, **look(k, k)))
        if noise.alpha:
            # Side by side, so that one arrow does not hide the other; both stand for atoms at 0.
            x, arrow = 0.05 * k - 0.025, {"arrowstyle": "-|>", "color": COLOURS[k], "lw": 1.5}
            left.append(mark("annotate", "", (x, noise.alpha), (x, 0), arrowprops=arrow))
    right = [
        mark("plot", deltas, curves[power], label=f"$p = {power:g}$", **look(k, k))
        for k, power in enumerate(powers)
    ]
    panels = [
        Panel(
            left,
            x=r"$x\,/\,\Delta$",
            y=r"density $\times\;\Delta$, arrows: mass at 0",
            title=r"optimal noise, $\delta = 0.75$",
            ylim=(0.0, 1.15),
        ),
        Panel(
            right,
            x=r"$\delta$",
            y=r"optimal $\alpha$",
            title=r"mass at 0 for the cost $|x|^p$",
            xlim=(0.0, 1.0),
            ylim=(0.0, 1.0),
        ),
    ]
    return Outcome(
        {"": Table.of(delta=deltas, **{f"alpha_{p:g}": curve for p, curve in curves.items()})},
        Picture([panels], (7.2, 3.4)),
        checks,
        ["A harder loss puts the atom off to larger delta: alpha = max(0, (p + 1) delta - p)."],
    )


REPRODUCTIONS = (
    Reproduction(
        "zero-delta-cost",
        f"{_SOURCE}, Theorem 3",
        "noise magnitude and power over delta, beside uniform and Gaussian noise",
        _cost,
    ),
    Reproduction(
        "zero-delta-alpha", f"{_SOURCE}, Figure 1 and Theorem 3", "optimal mass at 0 over delta", _alpha
    ),
)
