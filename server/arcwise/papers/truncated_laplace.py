"""Geng, Ding, Guo and Kumar, "Tight analysis of privacy and utility tradeoff in approximate DP".

The figures of the poster print no numbers. The checks are about its limits and its sentence on Gaussian
noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import optimize

from arcwise.analysis.plotting.style import DASHES
from arcwise.noise import AnalyticGaussian, Laplace, Staircase, TruncatedLaplace
from arcwise.papers.base import Check, Outcome, Progress, Table, formula, listed, reproduction, steps
from arcwise.papers.pictures import EPSILON, Panel, Picture, line, mark

_SOURCE = "Geng, Ding, Guo, Kumar (arXiv 1810.00877)"
_COSTS = {1: "amplitude", 2: "power"}


def _delta_label(delta: float) -> str:
    name = rf"$10^{{{math.log10(delta):.0f}}}$" if delta < 0.01 else f"{delta:g}"
    return rf"$\delta$ = {name}"


@reproduction(
    "truncated-laplace-density",
    f"{_SOURCE}, the truncated Laplacian mechanism",
    "density of truncated Laplace noise at epsilon 1",
)
def _density(_full: bool, _progress: Progress) -> Outcome:
    x, laplace = np.linspace(-6.0, 6.0, 1201), Laplace(1.0)
    columns = {"x (sensitivities)": x, "laplace (per sensitivity)": laplace.pdf(x)}
    marks, checks, ends = [], [], []
    for k, delta in enumerate((0.01, 0.1, 0.3)):
        noise = TruncatedLaplace(1.0, delta)
        end = noise.half_support
        columns[f"delta_{delta:g} (per sensitivity)"] = noise.pdf(x)
        marks.append(line(x, np.where(abs(x) <= end, noise.pdf(x), 0.0), _delta_label(delta), k, k))
        what = f"mass in the last sensitivity before A at delta {delta:g} (formula)"
        checks.append(formula(what, delta, float(noise.cdf(end) - noise.cdf(end - 1.0)), 1e-12))
        ends.append(f"A = {end:.4f} and B = {noise.peak:.4f} at delta {delta:g}")
    marks.append(line(x, laplace.pdf(x), r"Laplace, $\delta$ = 0", 3, 3))
    names = ("noise, in units of the sensitivity", "density per sensitivity")
    return Outcome(
        {"": Table.of(columns)},
        Picture([[Panel(marks, *names, xlim=(-6.0, 6.0), ylim=(0.0, None))]]),
        checks,
        [f"At epsilon 1 the density is B e^(-|x|) up to A and 0 beyond: {', '.join(ends)}."],
    )


def _gaussian_ratio(epsilon: float, delta: float, power: int) -> float:
    """Return the cost of truncated Laplace noise divided by that of Gaussian noise."""
    noise, gaussian = TruncatedLaplace(epsilon, delta), AnalyticGaussian(epsilon, delta)
    return noise.abs_moment(power) / gaussian.abs_moment(power)


def _worst_ratio(delta: float, power: int) -> tuple[float, float]:
    """Return the epsilon with the largest `_gaussian_ratio` at this delta, and this ratio."""
    found = optimize.minimize_scalar(
        lambda t: -_gaussian_ratio(math.exp(t), delta, power),
        bounds=(math.log(0.1), math.log(20.0)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return math.exp(found.x), -float(found.fun)


def _even_delta(power: int) -> float:
    """Return the delta above which Gaussian noise is better at some epsilon."""
    return float(optimize.brentq(lambda delta: _worst_ratio(delta, power)[1] - 1.0, 0.2, 0.5, xtol=1e-7))


def _improvement_check(what: str, power: int) -> Check:
    epsilon, ratio = _worst_ratio(0.5, power)
    return formula(
        f"ratio of {what} at most, said to be improved in all privacy regimes (epsilon {epsilon:.3f})",
        1.0,
        ratio,
        0.0,
        erratum="Gaussian noise is better at delta = 1/2 and this epsilon; the poster bounds neither number",
    )


@reproduction(
    "truncated-laplace-gaussian",
    f"{_SOURCE}, comparison with the optimal Gaussian mechanism",
    "amplitude and power of truncated Laplace noise over those of Gaussian noise",
)
def _gaussian(full: bool, progress: Progress) -> Outcome:
    deltas = (1e-9, 1e-6, 1e-3, 0.1, 0.3, 0.5)
    epsilons = np.geomspace(1e-3, 10.0, 401 if full else 121)
    parts = {}
    for delta in steps(progress, deltas):
        ratios = {
            f"{cost}_ratio": [_gaussian_ratio(e, delta, p) for e in epsilons] for p, cost in _COSTS.items()
        }
        parts[delta] = {"epsilon": epsilons, **ratios}
    panels = list[list[Panel]]()
    for cost in _COSTS.values():
        marks = [mark("axhline", 1.0, color="0.35", linewidth=0.9)]
        for k, (delta, columns) in enumerate(parts.items()):
            style: dict[str, Any] = {"method": "semilogx", "linewidth": 1.4 if k < len(DASHES) else 2.4}
            marks.append(line(epsilons, columns[f"{cost}_ratio"], _delta_label(delta), k, k, **style))
        y = f"noise {cost}:\ntruncated Laplace / Gaussian"
        x, plain = (EPSILON, "x") if panels else ("", "")
        limits = ((epsilons[0], epsilons[-1]), (0.0, 1.15))
        panels.append([Panel(marks, x, y, "", *limits, plain=plain, legend=None)])
    return Outcome(
        {"": Table.stacked("delta", parts)},
        Picture(panels, (6.8, 5.0), {"sharex": True}, {"loc": "outside right center"}),
        [_improvement_check("amplitudes", 1), _improvement_check("powers", 2)],
        [
            f"Up to delta = {_even_delta(1):.4f} (amplitude) and {_even_delta(2):.4f} (power) truncated "
            "Laplace noise is better than Gaussian noise at every epsilon. At a larger delta, Gaussian noise "
            "is better at some epsilon.",
            "The poster's problem formulation prints the constraint without the factor e^epsilon, and its "
            "mechanism needs a delta of at most 1/2, which it does not say.",
        ],
    )


def _limit_checks() -> list[Check]:
    """Return the checks of the limits of the lower bound over the upper bound, V_low / V_upp."""
    cases = []
    for delta in (0.01, 0.05, 0.25):  # deltas at which 1 / (2 delta) is an integer, as the poster assumes
        limits = 1.0 - 2.0 * delta, (1.0 - delta) * (1.0 - 2.0 * delta)
        cases.append((f"epsilon goes to 0, delta {delta:g}", TruncatedLaplace(1e-7, delta), limits, 1e-5))
    for e in (0.1, 1.0, 4.0):
        limits = e / math.expm1(e), e**2 * (1.0 + math.exp(e)) / (2.0 * math.expm1(e) ** 2)
        cases.append((f"delta goes to 0, epsilon {e:g}", TruncatedLaplace(e, 1e-13), limits, 1e-6))
    cases.append(("epsilon = delta goes to 0", TruncatedLaplace(1e-5, 1e-5), (1.0, 1.0), 1e-4))
    return [
        formula(
            f"V{p}_low / V{p}_upp as {where}", limit, noise.lower_bound(p) / noise.abs_moment(p), tolerance
        )
        for where, noise, limits, tolerance in cases
        for p, limit in enumerate(limits, 1)
    ]


def _overtaken(delta: float, power: int) -> float:
    """Return the epsilon from which on staircase noise, with delta = 0, is the cheaper noise."""

    def excess(t: float) -> float:
        epsilon = math.exp(t)
        best = Staircase.optimal(epsilon, power=power).abs_moment(power)
        return math.log(best / TruncatedLaplace(epsilon, delta).abs_moment(power))

    return math.exp(optimize.brentq(excess, math.log(1e-4), math.log(20.0), xtol=1e-10))


@reproduction(
    "truncated-laplace-bounds",
    f"{_SOURCE}, tightness of the bounds",
    "lower over upper bounds of amplitude and power, and their limits",
)
def _tightness(full: bool, progress: Progress) -> Outcome:
    deltas = (1e-9, 1e-3, 0.05, 0.25)
    epsilons = np.geomspace(1e-3, 10.0, 401 if full else 161)
    parts = {}
    for delta in steps(progress, deltas):
        columns = {"epsilon": epsilons}
        for p, unit in ((1, "(sensitivities)"), (2, "(sensitivities squared)")):
            noises = [TruncatedLaplace(e, delta) for e in epsilons]
            low = np.array([noise.lower_bound(p) for noise in noises])
            upper = np.array([noise.abs_moment(p) for noise in noises])
            staircase = np.array([Staircase.optimal(e, power=p).abs_moment(p) for e in epsilons])
            columns |= {f"lower_{p} {unit}": low, f"upper_{p} {unit}": upper, f"ratio_{p}": low / upper}
            columns[f"ratio_with_staircase_{p}"] = low / np.minimum(upper, staircase)
        parts[delta] = columns

    panels = list[Panel]()
    for p, cost in _COSTS.items():
        marks = [
            line(epsilons, columns[f"ratio_{p}"], _delta_label(delta), k, k, method="semilogx")
            for k, (delta, columns) in enumerate(parts.items())
        ]
        label = r"$\delta = 10^{-9}$, over the better of" "\ntruncated Laplace and staircase"
        better = parts[1e-9][f"ratio_with_staircase_{p}"]
        marks.append(line(epsilons, better, label, 6, method="semilogx", linewidth=0.9))
        y, legend = ("", None) if panels else ("lower bound / upper bound", {"loc": "lower left"})
        limits = ((epsilons[0], epsilons[-1]), (0.0, 1.02))
        panels.append(Panel(marks, EPSILON, y, f"noise {cost}", *limits, plain="x", legend=legend))

    odd = TruncatedLaplace(1e-7, 0.3)
    first, second = (listed((_overtaken(delta, p) for delta in (1e-9, 1e-6, 1e-3)), ".3g") for p in (1, 2))
    last = {name: column[-1] for name, column in parts[1e-9].items()}
    return Outcome(
        {"": Table.stacked("delta", parts)},
        Picture([panels], (7.2, 3.7), {"sharey": True}),
        _limit_checks(),
        [
            "If 1 / (2 delta) is not an integer, V1_low / V1_upp has a limit above 1 - 2 delta as epsilon "
            f"goes to 0: {odd.lower_bound(1) / odd.abs_moment(1):.4f} at delta 0.3.",
            "The upper bound is far from tight at larger epsilon, where spending a delta on truncation does "
            "not pay. Staircase noise with delta = 0 has less amplitude than truncated Laplace noise from "
            f"epsilon {first} on, and less power from {second} on (delta 1e-9, 1e-6, 1e-3).",
            f"At epsilon {last['epsilon']:g} and delta 1e-09 the bounds of the amplitude differ by a factor "
            f"of {1.0 / last['ratio_1']:.3g}. With staircase noise as a second upper bound, the factor is "
            f"{1.0 / last['ratio_with_staircase_1']:.3g}.",
        ],
    )
