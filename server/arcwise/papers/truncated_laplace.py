"""Geng, Ding, Guo and Kumar, "Tight analysis of privacy and utility tradeoff in approximate DP".

The poster's figures have no numbers in print; its limits and its sentence on Gaussian noise are checked.
"""

from __future__ import annotations

import math

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.plotting.style import DASHES
from arcwise.noise import AnalyticGaussian, Laplace, Staircase, TruncatedLaplace
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.pictures import Panel, Picture, look, mark

_SOURCE = "Geng, Ding, Guo, Kumar (arXiv 1810.00877)"


def _gaussian_ratio(epsilon: float, delta: float, power: int) -> float:
    """Return the cost of truncated Laplace noise over that of Gaussian noise."""
    noise, gaussian = TruncatedLaplace(epsilon, delta), AnalyticGaussian(epsilon, delta)
    return noise.abs_moment(power) / gaussian.abs_moment(power)


def _delta_label(delta: float) -> str:
    name = rf"$10^{{{math.log10(delta):.0f}}}$" if delta < 0.01 else f"{delta:g}"
    return rf"$\delta$ = {name}"


def _worst_ratio(delta: float, power: int) -> tuple[float, float]:
    """Return the epsilon with the largest ratio at this delta, and the ratio."""
    from scipy import optimize

    found = optimize.minimize_scalar(
        lambda t: -_gaussian_ratio(math.exp(t), delta, power),
        bounds=(math.log(0.1), math.log(20.0)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return math.exp(found.x), -float(found.fun)


def _even_delta(power: int) -> float:
    """Return the delta above which some epsilon is better served by Gaussian noise."""
    from scipy import optimize

    return float(optimize.brentq(lambda delta: _worst_ratio(delta, power)[1] - 1.0, 0.2, 0.5, xtol=1e-7))


def _gaussian(full: bool, progress: Progress) -> Outcome:
    deltas = (1e-9, 1e-6, 1e-3, 0.1, 0.3, 0.5)
    epsilons = np.geomspace(1e-3, 10.0, 401 if full else 121)
    rows = []
    for done, delta in enumerate(deltas):
        progress(done, len(deltas) + 2)
        rows += [
            (delta, e, _gaussian_ratio(e, delta, 1), _gaussian_ratio(e, delta, 2)) for e in epsilons.tolist()
        ]
    even, worst = [], []
    for power in (1, 2):
        progress(len(deltas) + power - 1, len(deltas) + 2)
        even.append(_even_delta(power))
        worst.append(_worst_ratio(0.5, power))
    progress(len(deltas) + 2, len(deltas) + 2)
    ratios = np.array(rows)[:, 2:].reshape(len(deltas), -1, 2)

    panels = []
    for column, what in enumerate(("amplitude", "power")):
        marks = [mark("axhline", 1.0, color="0.35", linewidth=0.9)]
        for k, delta in enumerate(deltas):
            style = look(k, k) | {"linewidth": 1.4 if k < len(DASHES) else 2.4}
            marks.append(mark("semilogx", epsilons, ratios[k, :, column], label=_delta_label(delta), **style))
        panels.append(
            Panel(
                marks,
                x=r"$\varepsilon$" if column else "",
                y=f"noise {what}:\ntruncated Laplace / Gaussian",
                xlim=(epsilons[0], epsilons[-1]),
                ylim=(0.0, 1.15),
                plain="x" if column else "",
                legend=None,
            )
        )
    why = "Gaussian noise is better at delta = 1/2 and this epsilon; the poster bounds neither of them"
    return Outcome(
        {"": Table(("delta", "epsilon", "amplitude_ratio", "power_ratio"), rows)},
        Picture(
            [[panel] for panel in panels],
            (6.8, 5.0),
            {"sharex": True},
            legend={"loc": "outside right center"},
        ),
        [
            Check(
                f"ratio of {what} at most, said to be improved in all privacy regimes (epsilon {e:.3f})",
                1.0,
                ratio,
                tolerance=0.0,
                erratum=why,
                formula=True,
            )
            for what, (e, ratio) in zip(("amplitudes", "powers"), worst, strict=True)
        ],
        [
            f"Up to delta = {even[0]:.4f} (amplitude) and {even[1]:.4f} (power) truncated Laplace noise is "
            f"the better "
            "of the two at every epsilon, above it is not at some.",
            "The poster's problem formulation prints the constraint without the factor e^epsilon, and its "
            "mechanism "
            "needs delta of at most 1/2, which it does not say.",
        ],
    )


def _limit_checks() -> list[Check]:
    def tightness(epsilon: float, delta: float, power: int) -> float:
        noise = TruncatedLaplace(epsilon, delta)
        return noise.lower_bound(power) / noise.abs_moment(power)

    checks = []
    for delta in (0.01, 0.05, 0.25):  # 1 / (2 delta) is an integer, as the poster assumes
        low = 1e-7
        first, second = 1.0 - 2.0 * delta, (1.0 - delta) * (1.0 - 2.0 * delta)
        where = f"as epsilon goes to 0, delta {delta:g}"
        checks.append(
            Check(f"V1_low / V1_upp {where}", first, tightness(low, delta, 1), tolerance=1e-5, formula=True)
        )
        checks.append(
            Check(f"V2_low / V2_upp {where}", second, tightness(low, delta, 2), tolerance=1e-5, formula=True)
        )
    for e in (0.1, 1.0, 4.0):
        first = e / math.expm1(e)
        second = e**2 * (1.0 + math.exp(e)) / (2.0 * math.expm1(e) ** 2)
        where = f"as delta goes to 0, epsilon {e:g}"
        checks.append(
            Check(f"V1_low / V1_upp {where}", first, tightness(e, 1e-13, 1), tolerance=1e-6, formula=True)
        )
        checks.append(
            Check(f"V2_low / V2_upp {where}", second, tightness(e, 1e-13, 2), tolerance=1e-6, formula=True)
        )
    both = 1e-5
    checks += [
        Check(
            f"V{p}_low / V{p}_upp as epsilon = delta goes to 0",
            1.0,
            tightness(both, both, p),
            tolerance=1e-4,
            formula=True,
        )
        for p in (1, 2)
    ]
    return checks


def _overtaken(delta: float, power: int) -> float:
    """Return the epsilon from which on staircase noise, with delta = 0, has the smaller cost."""
    from scipy import optimize

    def excess(t: float) -> float:
        epsilon = math.exp(t)
        best = Staircase.optimal(epsilon, power=power).abs_moment(power)
        return math.log(best / TruncatedLaplace(epsilon, delta).abs_moment(power))

    return math.exp(optimize.brentq(excess, math.log(1e-4), math.log(20.0), xtol=1e-10))


def _tightness(full: bool, progress: Progress) -> Outcome:
    deltas = (1e-9, 1e-3, 0.05, 0.25)
    epsilons = np.geomspace(1e-3, 10.0, 401 if full else 161)
    rows = []
    for done, delta in enumerate(deltas):
        progress(done, len(deltas))
        for e in epsilons.tolist():
            noise = TruncatedLaplace(e, delta)
            row = [delta, e]
            for power in (1, 2):
                low, upper = noise.lower_bound(power), noise.abs_moment(power)
                staircase = Staircase.optimal(e, power=power).abs_moment(power)
                row += [low, upper, low / upper, low / min(upper, staircase)]
            rows.append(tuple(row))
    progress(len(deltas), len(deltas))
    table = np.array(rows).reshape(len(deltas), len(epsilons), -1)

    panels = []
    for column, what in enumerate(("amplitude", "power")):
        ratios = table[:, :, 4 + 4 * column : 6 + 4 * column]
        marks = [
            mark("semilogx", epsilons, ratios[k, :, 0], label=_delta_label(delta), **look(k, k))
            for k, delta in enumerate(deltas)
        ]
        label = r"$\delta = 10^{-9}$, over the better of" "\ntruncated Laplace and staircase"
        marks.append(
            mark("semilogx", epsilons, ratios[0, :, 1], color=COLOURS[6], linewidth=0.9, label=label)
        )
        panels.append(
            Panel(
                marks,
                x=r"$\varepsilon$",
                y="" if column else "lower bound / upper bound",
                title=f"noise {what}",
                xlim=(epsilons[0], epsilons[-1]),
                ylim=(0.0, 1.02),
                plain="x",
                legend=None if column else {"loc": "lower left"},
            )
        )

    odd = TruncatedLaplace(1e-7, 0.3)
    first, second = (
        ", ".join(f"{_overtaken(delta, power):.3g}" for delta in (1e-9, 1e-6, 1e-3)) for power in (1, 2)
    )
    last = table[0, -1]
    return Outcome(
        {
            "": Table(
                (
                    "delta",
                    "epsilon",
                    *(
                        name
                        for p, unit in ((1, "(sensitivities)"), (2, "(sensitivities squared)"))
                        for name in (
                            f"lower_{p} {unit}",
                            f"upper_{p} {unit}",
                            f"ratio_{p}",
                            f"ratio_with_staircase_{p}",
                        )
                    ),
                ),
                rows,
            )
        },
        Picture([panels], (7.2, 3.7), {"sharey": True}),
        _limit_checks(),
        [
            "Where 1 / (2 delta) is no integer the limit of V1_low / V1_upp for epsilon to 0 is more than 1 "
            "- 2 delta: "
            f"{odd.lower_bound(1) / odd.abs_moment(1):.4f} at delta 0.3.",
            "The upper bound is far from tight at larger epsilon, and truncation is not the reason to spend "
            "delta "
            f"there: staircase noise with delta = 0 has less amplitude from epsilon {first} on and less "
            f"power from "
            f"{second} on (delta 1e-9, 1e-6, 1e-3).",
            f"At epsilon {last[1]:g} and delta {last[0]:g} the amplitudes' bounds differ by a factor of "
            f"{1.0 / last[4]:.3g}, with the staircase of {1.0 / last[5]:.3g}.",
        ],
    )


def _density(_full: bool, _progress: Progress) -> Outcome:
    x = np.linspace(-6.0, 6.0, 1201)
    shown = {delta: TruncatedLaplace(1.0, delta) for delta in (0.01, 0.1, 0.3)}
    marks = [
        mark(
            "plot",
            x,
            np.where(abs(x) <= noise.half_support, noise.pdf(x), 0.0),
            label=_delta_label(delta),
            **look(k, k),
        )
        for k, (delta, noise) in enumerate(shown.items())
    ]
    marks.append(mark("plot", x, Laplace(1.0).pdf(x), label=r"Laplace, $\delta$ = 0", **look(3, 3)))
    panel = Panel(
        marks,
        x="noise, in units of the sensitivity",
        y="density per sensitivity",
        xlim=(-6.0, 6.0),
        ylim=(0.0, None),
    )
    beyond = [
        Check(
            f"mass in the last sensitivity before A at delta {delta:g} (formula)",
            delta,
            float(noise.cdf(noise.half_support) - noise.cdf(noise.half_support - 1.0)),
            tolerance=1e-12,
            formula=True,
        )
        for delta, noise in shown.items()
    ]
    ends = ", ".join(
        f"A = {noise.half_support:.4f} and B = {noise.peak:.4f} at delta {delta:g}"
        for delta, noise in shown.items()
    )
    return Outcome(
        {
            "": Table.of(
                **{
                    "x (sensitivities)": x,
                    "laplace (per sensitivity)": Laplace(1.0).pdf(x),
                    **{f"delta_{d:g} (per sensitivity)": n.pdf(x) for d, n in shown.items()},
                }
            )
        },
        Picture([[panel]]),
        beyond,
        [f"At epsilon 1 the density is B e^(-|x|) up to A and 0 beyond: {ends}."],
    )


REPRODUCTIONS = (
    Reproduction(
        "truncated-laplace-density",
        f"{_SOURCE}, the truncated Laplacian mechanism",
        "density of truncated Laplace noise at epsilon 1",
        _density,
    ),
    Reproduction(
        "truncated-laplace-gaussian",
        f"{_SOURCE}, comparison with the optimal Gaussian mechanism",
        "amplitude and power of truncated Laplace noise over those of Gaussian noise",
        _gaussian,
    ),
    Reproduction(
        "truncated-laplace-bounds",
        f"{_SOURCE}, tightness of the bounds",
        "lower over upper bounds of amplitude and power, and their limits",
        _tightness,
    ),
)
