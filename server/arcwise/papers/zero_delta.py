"""Geng, Ding, Guo and Kumar, "The optimal mechanism in additive differential privacy": (0, delta) noise.

The poster prints formulas and no numbers. The formulas are checked against two searches that do not use them:
a linear program over mixtures of uniform densities, and a minimisation over alpha.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import optimize

from arcwise.analysis.charts.look import COLOURS
from arcwise.noise import AnalyticGaussian, UniformAtom, optimal_alpha
from arcwise.papers.base import Check, Outcome, Progress, Table, formula, reproduction, steps
from arcwise.papers.pictures import BELOW, Panel, Picture, line, mark, note

_SOURCE = "Geng, Ding, Guo, Kumar (arXiv 1809.10224)"
_DELTAS = np.concatenate([np.linspace(0.01, 0.98, 98), 1.0 - np.geomspace(0.02, 0.001, 14)[1:]])
_CHECKED = (0.05, 0.3, 0.5, 0.6, 0.75, 0.9)


def _programmed_cost(delta: float, power: float) -> float:
    """Return the least ``E|X|^power`` of symmetric densities that fall with ``|x|``, also with an atom at 0.

    Such a law is a mixture of uniform laws on [-h, h]. Each of these has the mass ``t = min(1, 1 / (2 h))``
    inside [-1/2, 1/2] and the cost ``h^power / (power + 1)``; the atom has t = 1 and no cost. With
    sensitivity 1, the noise is (0, delta)-DP if the mass inside is at most delta.
    """
    inside = np.arange(1, 6001) / 6000.0
    cost = (0.5 / inside) ** power / (power + 1.0)
    inside, cost = np.append(inside, 1.0), np.append(cost, 0.0)
    found = optimize.linprog(
        cost, A_ub=inside[None, :], b_ub=[delta], A_eq=np.ones((1, inside.size)), b_eq=[1.0], method="highs"
    )
    return float(found.fun)


def _printed_cost(delta: float, power: int) -> float:
    """Return the cost according to the two corollaries as printed, at sensitivity 1."""
    if power == 1:
        return 1.0 / (4.0 * delta) if delta <= 0.5 else 1.0 - delta
    return 1.0 / (12.0 * delta**2) if delta <= 2.0 / 3.0 else 9.0 / 16.0 * (1.0 - delta)


def _cost_check(power: int, delta: float) -> Check:
    what = f"least E|X|^{power} at delta {delta:g}, by a linear program"
    return formula(what, _printed_cost(delta, power), _programmed_cost(delta, power), 1e-6)


@reproduction(
    "zero-delta-cost",
    f"{_SOURCE}, Theorem 3",
    "noise magnitude and power over delta, with uniform and Gaussian noise",
)
def _cost(_full: bool, progress: Progress) -> Outcome:
    columns = {"delta": _DELTAS}
    for power, unit in ((1, "(sensitivities)"), (2, "(sensitivities squared)")):
        noises: dict[str, list[Any]] = {
            "optimal": [UniformAtom.optimal(delta, power=power) for delta in _DELTAS],
            "uniform": [UniformAtom(delta, 1.0, 0.0) for delta in _DELTAS],
            "gaussian": [AnalyticGaussian(0.0, delta) for delta in _DELTAS],
        }
        for name, each in noises.items():
            columns[f"{name}_{power} {unit}"] = np.array([noise.abs_moment(power) for noise in each])
    table = np.column_stack(list(columns.values()))
    checks = [_cost_check(*case) for case in steps(progress, itertools.product((1, 2), _CHECKED))]

    names = ("optimal: uniform with atom", "uniform without atom", "Gaussian")
    upper, lower = [], []
    for power, cost in ((1, r"$E|X|\;/\;\Delta$"), (2, r"$E X^2/\,\Delta^2$")):
        knee = power / (power + 1.0)
        costs, ratios = [], []
        for k, width in ((2, 1.4), (1, 1.4), (0, 2.0)):  # the optimum is drawn last, over the other lines
            optimal, values = table[:, 3 * power - 2], table[:, 3 * power - 2 + k]
            costs.append(line(_DELTAS, values, names[k], k, k, method="semilogy", linewidth=width))
            ratios.append(line(_DELTAS, values / optimal, "", k, k, linewidth=width))
        at_knee = mark("axvline", knee, color="0.55", linewidth=0.8)
        words = note(knee, 3.6, rf"$\delta = {power}/{power + 1}$", "0.35", ha="right", offset=(-3, 0))
        upper.append(Panel([*costs, at_knee], y=f"cost {cost}", legend=None))
        ratios += [at_knee, words]
        lower.append(Panel(ratios, r"$\delta$", "cost / optimal cost", xlim=(0.0, 1.0), ylim=(0.9, 4.0)))

    small = AnalyticGaussian(0.0, 1e-6)
    first, second = (UniformAtom.optimal(1e-6, power=p) for p in (1, 2))
    last = table[-1]
    grid = {"sharex": True, "height_ratios": (1.5, 1.0)}
    return Outcome(
        {"": Table.of(columns)},
        Picture([upper, lower], (7.0, 5.2), grid, BELOW | {"ncols": 3, "reverse": True}),
        checks,
        [
            f"Gaussian noise costs {small.abs_moment(1) / first.abs_moment(1):.4f} times the optimum for |x| "
            f"and {small.abs_moment(2) / second.abs_moment(2):.4f} times the optimum for x^2, as delta goes "
            "to 0 (4/pi and 6/pi).",
            f"An atom pays only above delta = p / (p + 1). At delta {last[0]:.3f} the uniform density "
            f"without an atom costs {last[2] / last[1]:.0f} times (|x|) and {last[5] / last[4]:.0f} times "
            "(x^2) as much as the optimum.",
            "The noise is optimal among all symmetric noise with a density that falls with |x|. A linear "
            "program over this whole class finds nothing better.",
        ],
    )


@reproduction("zero-delta-alpha", f"{_SOURCE}, Figure 1 and Theorem 3", "optimal mass at 0 over delta")
def _alpha(_full: bool, _progress: Progress) -> Outcome:
    deltas = np.linspace(0.005, 0.995, 199)
    curves = {p: np.array([optimal_alpha(delta, p) for delta in deltas]) for p in (0.5, 1.0, 2.0, 3.0, 10.0)}
    checks = [_alpha_check(power, delta) for power in (1.0, 2.0, 3.0) for delta in (0.8, 0.9, 0.99)]
    left = []
    for k, power in enumerate((1.0, 2.0, 3.0)):
        noise = UniformAtom.optimal(0.75, power=power)
        h, top = noise.half_support, noise.density
        left.append(
            line([-h, -h, h, h], [0, top, top, 0], rf"$|x|^{power:g}$: $\alpha$ = {noise.alpha:g}", k, k)
        )
        if noise.alpha:
            # Both arrows mean atoms at 0. They are drawn side by side, so that neither hides the other.
            at, arrow = 0.05 * k - 0.025, {"arrowstyle": "-|>", "color": COLOURS[k], "lw": 1.5}
            left.append(mark("annotate", "", (at, noise.alpha), (at, 0), arrowprops=arrow))
    right = [line(deltas, curve, f"$p = {p:g}$", k, k) for k, (p, curve) in enumerate(curves.items())]
    x, y = r"$x\,/\,\Delta$", r"density $\times\;\Delta$, arrows: mass at 0"
    title = r"mass at 0 for the cost $|x|^p$"
    panels = [
        Panel(left, x, y, r"optimal noise, $\delta = 0.75$", ylim=(0.0, 1.15)),
        Panel(right, r"$\delta$", r"optimal $\alpha$", title, xlim=(0.0, 1.0), ylim=(0.0, 1.0)),
    ]
    return Outcome(
        {"": Table.of({"delta": deltas, **{f"alpha_{p:g}": curve for p, curve in curves.items()}})},
        Picture([panels], (7.2, 3.4)),
        checks,
        ["A higher power moves the atom to larger delta: alpha = max(0, (p + 1) delta - p)."],
    )


def _alpha_check(power: float, delta: float) -> Check:
    """Return a check of the printed alpha against the one with the least ``E|X|^power``, found by search."""
    found = optimize.minimize_scalar(
        lambda alpha: UniformAtom(delta, 1.0, alpha).abs_moment(power),
        bounds=(0.0, delta * (1.0 - 1e-9)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    what = f"alpha for |x|^{power:g} at delta {delta:g}, by minimisation"
    return formula(what, (power + 1.0) * delta - power, float(found.x), 1e-6)
