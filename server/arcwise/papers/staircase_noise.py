"""Geng and Viswanath, "The optimal mechanism in differential privacy": the continuous staircase.

The errors of a test between two inputs: equations 3 to 11 and 15. Densities and costs: Figures 1 to 3,
Corollaries 5 and 7. The gamma of the staircase: Figure 4, Theorem 8, and the heuristic of section V-B.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize

from arcwise.analysis.auditing.tradeoff import least_missed_detection, worst_tradeoff
from arcwise.analysis.charts.look import COLOURS
from arcwise.domains import Interval
from arcwise.mechanisms import (
    LaplaceMechanism,
    OptimalPiecewise,
    RandomizedResponse,
    StaircaseMechanism,
)
from arcwise.noise import Laplace, Staircase, heuristic_gamma, optimal_gamma
from arcwise.papers.base import Outcome, Progress, Table, formula, printed, reproduction, steps
from arcwise.papers.pictures import EPSILON, Panel, Picture, dot, line, mark, note

if TYPE_CHECKING:
    from arcwise.noise import ContinuousNoise
    from arcwise.typing import FloatArray

SOURCE = "Geng, Viswanath (arXiv 1212.1186)"
_EPSILON = 1.0
_ALARMS = np.linspace(0.0, 1.0, 201)


def _laplace_missed_detection() -> FloatArray:
    """Return the missed detection of the best test under Laplace noise, by equation 15."""
    a, b = _ALARMS, np.exp(-_EPSILON)
    middle = b / (4.0 * np.maximum(a, 0.5 * b))
    missed: FloatArray = np.where(a < 0.5 * b, 1.0 - a / b, np.where(a <= 0.5, middle, b * (1.0 - a)))
    return missed


def _noise_missed_detection(noise: ContinuousNoise, edges: FloatArray) -> FloatArray:
    """Return the least missed detection of a test between 0 and 1 under noise, by Neyman and Pearson.

    The density of the noise is constant, or nearly constant, between the ascending edges. The parts beyond
    the first and the last edge are one cell each.
    """
    places = np.concatenate([[-np.inf], edges, [np.inf]])
    masses = [np.diff(noise.cdf(places - by)) for by in (0.0, 1.0)]
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.nan_to_num(masses[1] / masses[0], nan=0.0))
    alarm, detected = (np.concatenate([[0.0], np.cumsum(mass[order])]) for mass in masses)
    missed: FloatArray = 1.0 - np.interp(_ALARMS, alarm, detected)
    return missed


@reproduction(
    "hypothesis-testing",
    f"{SOURCE}, equations 3 to 11 and 15",
    "false alarms and missed detections of tests between two inputs",
)
def _testing(_full: bool, progress: Progress) -> Outcome:
    bound = np.array([least_missed_detection(float(a), _EPSILON) for a in _ALARMS])
    staircase = Staircase.optimal(_EPSILON)
    whole = np.arange(-40.0, 41.0)
    edges = np.unique(np.concatenate([whole, whole + staircase.gamma, whole - staircase.gamma]))
    by_laplace, by_staircase = _laplace_missed_detection(), _noise_missed_detection(staircase, edges)
    numeric = _noise_missed_detection(Laplace(_EPSILON), np.linspace(-30.0, 31.0, 61_001))
    unit = Interval(0.0, 1.0)
    mechanisms = {
        "OPM, inset": OptimalPiecewise(unit, _EPSILON),
        "Laplace": LaplaceMechanism(unit, _EPSILON),
        "staircase": StaircaseMechanism(unit, _EPSILON),
        "randomised response, 4 answers": RandomizedResponse(Interval(0, 3, step=1), _EPSILON),
    }
    worst = {name: worst_tradeoff(mechanisms[name]) for name in steps(progress, mechanisms)}

    rim = {"color": "black", "linewidth": 1.0, "zorder": 1}
    limits = [
        mark("fill_between", _ALARMS, 0.0, bound, color="0.92", linewidth=0),
        mark("plot", _ALARMS, bound, label=rf"$\varepsilon={_EPSILON:g}$ (equations 10, 11)", **rim),
    ]
    left = [
        *limits,
        line(_ALARMS, by_laplace, "Laplace (equation 15)", 0, 1),
        line(_ALARMS, by_staircase, "staircase", 1, 2),
    ]
    corners = {
        name: (list(map(float, region.false_alarm)), list(map(float, region.missed_detection)))
        for name, region in worst.items()
    }
    right = [*limits, *(line(*both, name, k, k + 1) for k, (name, both) in enumerate(corners.items()))]
    sides = (
        (left, "missed detection", "noise, one sensitivity apart"),
        (right, "", "reports, the two most distinguishable inputs"),
    )
    panels = [
        Panel(marks, "false alarm", y, title, (0.0, 1.0), (0.0, 1.0), legend={"loc": "upper right"})
        for marks, y, title in sides
    ]
    inputs = ("first_input (units of the domain)", "second_input (units of the domain)")
    missed = {
        "false_alarm": _ALARMS,
        "least_missed_detection": bound,
        "laplace_missed_detection": by_laplace,
        "staircase_missed_detection": by_staircase,
    }
    rows = [
        (name, *region.inputs, alarm, detection)
        for name, region in worst.items()
        for alarm, detection in zip(*corners[name], strict=True)
    ]
    what = "largest difference of equation 15 from the best tests of Laplace noise, numerically"
    sums = ", ".join(f"{name} {float(region.least_sum):.4f}" for name, region in worst.items())
    return Outcome(
        {
            "noise": Table.of(missed),
            "mechanisms": Table(("mechanism", *inputs, "false_alarm", "missed_detection"), rows),
        },
        Picture([panels], (8.0, 4.2), {"sharey": True}),
        [formula(what, 0.0, float(np.abs(numeric - by_laplace).max()), 1e-3)],
        [
            "The least sums of both errors are exact, from the integers of the samplers. Privacy alone "
            f"bounds them by {2.0 / (1.0 + np.exp(_EPSILON)):.4f} from below at epsilon {_EPSILON:g}: "
            f"{sums}.",
            f"Staircase noise reaches the bound in {np.mean(by_staircase < bound + 1e-9):.0%} of all false "
            f"alarms, and Laplace noise in {np.mean(by_laplace < bound + 1e-9):.0%}. At other false alarms "
            "Laplace noise protects more than required, which costs accuracy.",
        ],
    )


def _best(epsilon: float, power: int) -> float:
    """Return the least ``E|X|^power`` at sensitivity 1."""
    return Staircase.optimal(epsilon, power=power).abs_moment(power)


@reproduction(
    "staircase-density", f"{SOURCE}, Figures 1 and 3", "densities of the staircase and of Laplace noise"
)
def _density(_full: bool, _progress: Progress) -> Outcome:
    x = np.linspace(-3.5, 3.5, 1401)
    parts, panels, ends = {}, [], []
    for e in (1.0, 3.0):
        noise, laplace = Staircase.optimal(e), Laplace(e)
        parts[e] = {
            "x (sensitivities)": x,
            "laplace_density (per sensitivity)": laplace.pdf(x),
            "staircase_density (per sensitivity)": noise.pdf(x),
        }
        # Draw the steps exactly, with edges at whole periods and at gamma beyond each whole period.
        right = np.concatenate([[0.0], np.arange(4) + noise.gamma])
        edges = np.concatenate([-right[:0:-1], right[1:]])
        levels = noise.pdf((edges[1:] + edges[:-1]) / 2.0)
        style = {"baseline": None, "color": COLOURS[0], "linewidth": 1.7, "label": "staircase"}
        marks = [
            line(x, laplace.pdf(x), "Laplace", 1, 1),
            mark("stairs", levels, edges, **style),
            note(noise.gamma, noise.peak, rf"$\gamma$ = {noise.gamma:.3f}", COLOURS[0], offset=(4, -6)),
        ]
        names = (r"$x\,/\,\Delta$", r"density $\times\;\Delta$", rf"$\varepsilon$ = {e:g}")
        top = 1.12 * max(noise.peak, laplace.pdf(0.0))
        panels.append(Panel(marks, *names, xlim=(-3.5, 3.5), ylim=(0.0, top)))
        ends.append(
            f"{noise.gamma:.4f} of the sensitivity with the height {noise.peak:.4f} (epsilon {e:g}, "
            f"Laplace noise has {laplace.pdf(0.0):.4f} at 0)"
        )
    return Outcome(
        {"": Table.stacked("epsilon", parts)},
        Picture([panels], (7.2, 3.2)),
        [],
        [f"The optimal steps for |x| end at {' and '.join(ends)}."],
    )


@reproduction("staircase-gain", f"{SOURCE}, Figure 2", "gains over Laplace noise for |x| and x^2")
def _gain(_full: bool, _progress: Progress) -> Outcome:
    epsilons = np.linspace(0.1, 10.0, 199)
    columns = {"epsilon": epsilons}
    for p in (1, 2):
        columns[f"gain_{p}"] = np.array([Laplace(e).abs_moment(p) / _best(e, p) for e in epsilons])
    for p in (1, 2):
        ratios = [Laplace(e).abs_moment(p) / Staircase.heuristic(e).abs_moment(p) for e in epsilons]
        columns[f"heuristic_gain_{p}"] = np.array(ratios)

    marks = []
    for k, name in enumerate((r"$|x|$", r"$x^2$")):
        gain, by_rule = columns[f"gain_{k + 1}"], columns[f"heuristic_gain_{k + 1}"]
        style: dict[str, Any] = {"method": "semilogy", "linewidth": 1.3 + k}  # distinct in grey too
        marks += [
            line(epsilons, gain, f"{name}, optimal $\\gamma$", k, **style),
            line(epsilons, by_rule, rf"{name}, $\gamma = e^{{-\varepsilon}}/2$", k, 1, **style),
            dot(10.0, gain[-1], k, clip_on=False),
            note(10.0, gain[-1], f"{name}: {gain[-1]:.2f}", COLOURS[k], offset=(5, -3)),
        ]
    marks.append(mark("axhline", 1.0, color="0.35", linewidth=0.9))
    y = "cost of Laplace noise / cost of the staircase"
    first, second = float(columns["gain_1"][-1]), float(columns["gain_2"][-1])
    return Outcome(
        {"": Table.of(columns)},
        Picture([[Panel(marks, EPSILON, y, xlim=(0.0, 10.0), plain="y")]]),
        [
            # The paper says "about 15-fold and 23-fold". The second number is truncated, not rounded.
            printed("gain in amplitude at epsilon 10, about", "15", first),
            printed("gain in power at epsilon 10, about", "23", second, units=1.0),
        ],
        [
            f"The gains at epsilon 10 are {first:.4f} and {second:.4f}. They are rounded 15 and 24; the "
            "paper says 23 for the second."
        ],
    )


@reproduction(
    "staircase-asymptotics",
    f"{SOURCE}, Corollaries 5 and 7",
    "optimal costs and their rates at small and large epsilon",
)
def _asymptotics(_full: bool, _progress: Progress) -> Outcome:
    epsilons = np.geomspace(0.05, 20.0, 301)
    far, small = epsilons > 4.0, 0.02
    limits = {
        r"$e^{-\varepsilon/2}$": np.exp(-epsilons / 2.0),
        r"$(e^{-\varepsilon}/2)^{2/3}$": (np.exp(-epsilons) / 2.0) ** (2.0 / 3.0),
    }
    costs = (r"$E|X|\,/\,\Delta$", r"$E X^2/\,\Delta^2$")
    columns, panels = {"epsilon": epsilons}, []
    for p, (name, limit) in enumerate(limits.items(), 1):
        best = np.array([_best(e, p) for e in epsilons])
        laplace = np.array([Laplace(e).abs_moment(p) for e in epsilons])
        unit = "(sensitivities)" if p == 1 else "(sensitivities squared)"
        columns |= {f"staircase_{p} {unit}": best, f"laplace_{p} {unit}": laplace}
        marks = [
            line(epsilons, laplace, "Laplace", 1, 1, method="loglog"),
            line(epsilons, best, "staircase", method="loglog"),
            line(epsilons[far], limit[far], name, 6, 2, method="loglog"),
        ]
        panels.append(Panel(marks, EPSILON, costs[p - 1], plain="x"))

    def slope(power: int) -> float:
        return -math.log(_best(45.0, power) / _best(40.0, power)) / 5.0

    amplitude = (1.0 / small - _best(small, 1)) / small
    what = "Laplace minus optimal amplitude, over epsilon, at small epsilon: 1/24"
    power = 2.0 / small**2 - _best(small, 2)
    return Outcome(
        {"": Table.of(columns)},
        Picture([panels], (7.2, 3.4)),
        [
            formula(what, 1.0 / 24.0, amplitude, 1e-4),
            formula("Laplace minus optimal power at small epsilon: 1/12", 1.0 / 12.0, power, 1e-4),
            formula("rate of the amplitude at large epsilon: 1/2", 0.5, slope(1), 1e-6),
            formula("rate of the power at large epsilon: 2/3", 2.0 / 3.0, slope(2), 1e-5),
        ],
        [
            "At large epsilon the optimal amplitude is e^(-epsilon/2) and the optimal power (e^-epsilon / "
            f"2)^(2/3): at epsilon 40 the quotients are {_best(40.0, 1) * math.exp(20.0):.6f} and "
            f"{_best(40.0, 2) * (2.0 * math.exp(40.0)) ** (2.0 / 3.0):.6f}. Laplace noise falls like "
            "1/epsilon and 2/epsilon^2."
        ],
    )


@reproduction("staircase-gamma", f"{SOURCE}, Figure 4 and Theorem 8", "optimal gamma over epsilon")
def _gamma(_full: bool, _progress: Progress) -> Outcome:
    epsilons = np.linspace(0.05, 10.0, 200)
    losses = {1.0: "$|x|$", 2.0: "$x^2$", 4.0: "$x^4$"}
    curves = {p: np.array([optimal_gamma(e, p) for e in epsilons]) for p in losses}
    heuristic = np.array([heuristic_gamma(e) for e in epsilons])
    marks = [
        line(epsilons, curves[p], f"optimal for {loss}", k, k) for k, (p, loss) in enumerate(losses.items())
    ]
    marks.append(line(epsilons, heuristic, r"heuristic $e^{-\varepsilon}/2$", 6, 3))
    gammas = {f"gamma_{p:g}": curve for p, curve in curves.items()}
    checks = [
        formula(f"gamma for |x|^{p:g} as epsilon goes to 0", 0.5, optimal_gamma(1e-6, p), 1e-6)
        for p in losses
    ]
    checks += [
        formula(f"gamma for |x|^{p:g} as epsilon grows (50)", 0.0, optimal_gamma(50.0, p), 1e-3)
        for p in losses
    ]
    return Outcome(
        {"": Table.of({"epsilon": epsilons, **gammas, "gamma_heuristic": heuristic})},
        Picture([[Panel(marks, EPSILON, r"$\gamma$", xlim=(0.0, 10.0), ylim=(0.0, 0.5))]]),
        checks,
        [
            "Gamma falls like e^(-epsilon / (power + 1)), so it falls more slowly for a larger power. The "
            "heuristic gamma falls like e^-epsilon, faster than the optimal gamma for any power."
        ],
    )


def _mass_near_0(noise: ContinuousNoise, half: float) -> float:
    return float(noise.cdf(half) - noise.cdf(-half))


@reproduction("staircase-heuristic", f"{SOURCE}, section V-B", "what the heuristic gamma costs")
def _heuristic(_full: bool, _progress: Progress) -> Outcome:
    epsilons = np.linspace(0.1, 15.0, 299)
    heuristic = [Staircase.heuristic(e) for e in epsilons]
    masses = {
        "mass_near_0": [_mass_near_0(noise, noise.gamma) for noise in heuristic],
        "laplace_mass_near_0": [_mass_near_0(Laplace(noise.epsilon), noise.gamma) for noise in heuristic],
    }
    best = {p: np.array([_best(e, p) for e in epsilons]) for p in (1, 2)}
    over = {
        f"{name}_over_optimal_{p}": np.array([noise.abs_moment(p) for noise in noises]) / best[p]
        for name, noises in (("heuristic", heuristic), ("laplace", [Laplace(e) for e in epsilons]))
        for p in (1, 2)
    }

    def excess(epsilon: float, power: int) -> float:
        return Staircase.heuristic(epsilon).abs_moment(power) - Laplace(epsilon).abs_moment(power)

    even = [float(optimize.brentq(excess, 0.5, 5.0, args=(p,))) for p in (1, 2)]
    far = Staircase.heuristic(30.0)

    marks = [
        line(epsilons, masses["mass_near_0"], "staircase, heuristic"),
        line(epsilons, masses["laplace_mass_near_0"], "Laplace", 1, 1),
        mark("axhline", 1.0 / 3.0, color="0.35", linewidth=0.9),
        note(15.0, 1.0 / 3.0, "1/3", "0.35", ha="right"),
    ]
    y = r"$P(|X| \leq \Delta\, e^{-\varepsilon}/2)$"
    legend = {"loc": "center right", "bbox_to_anchor": (1.0, 0.6)}
    left = Panel(marks, EPSILON, y, xlim=(0.0, 15.0), ylim=(0.0, 0.4), legend=legend)
    marks = []
    for k, name in enumerate((r"$|x|$", r"$x^2$")):
        style: dict[str, Any] = {"method": "semilogy", "linewidth": 1.3 + k}  # distinct in grey too
        ours, theirs = over[f"heuristic_over_optimal_{k + 1}"], over[f"laplace_over_optimal_{k + 1}"]
        marks.append(line(epsilons, ours, f"{name}, heuristic", k, **style))
        marks.append(line(epsilons, theirs, f"{name}, Laplace", k, 1, **style))
    right = Panel(marks, EPSILON, "cost / optimal cost", xlim=(0.0, 15.0))
    what = "mass within gamma of 0 as epsilon grows (30)"
    return Outcome(
        {"": Table.of({"epsilon": epsilons, **masses, **over})},
        Picture([[left, right]], (7.2, 3.4)),
        [formula(what, 1.0 / 3.0, _mass_near_0(far, far.gamma), 1e-9)],
        [
            "The paper says wrongly that the heuristic does reasonably well at large epsilon. A third "
            "of its mass is next to 0, but the other two thirds spread over the whole sensitivity. So as "
            f"epsilon grows, E|X| tends to {far.abs_moment(1):.4f} of the sensitivity, and E X^2 to "
            f"{far.abs_moment(2):.4f} of its square.",
            f"The heuristic is worse than Laplace noise from epsilon {even[0]:.3f} (|x|) and "
            f"{even[1]:.3f} (x^2) on.",
        ],
    )
