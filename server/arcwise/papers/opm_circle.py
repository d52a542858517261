"""Zheng, Mishra and Hu on the circle: circular OPM beside Purkayastha, von Mises and OPM of the interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.design.circle import CircularLoss, circle_bound
from arcwise.mechanisms.closed_forms.directional import purkayastha, von_mises
from arcwise.mechanisms.closed_forms.optimal import circle_expected_error
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.exact import circular_error
from arcwise.papers.interval_laws import EPSILONS, SOURCE, optimal_pieces
from arcwise.papers.pictures import Mark, Panel, Picture, mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.typing import FloatArray


_X = np.linspace(0.0, 1.0, 401)
_TURN = 2.0 * math.pi
_SHOWN = 2.0
_POWERS = (1.0, 2.0)
_LIMIT = "bound for all mechanisms"
_THIN: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": (0, (1, 1))}
_UNIT = "(radians, to the power)"


class _Line(NamedTuple):
    name: str
    error: Callable[[FloatArray, float, float], FloatArray]
    """(position in turns, epsilon, power) -> expected circular distance in radians, to the power."""
    colour: str
    dash: object


def _circular(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    return np.full(x.shape, circle_expected_error(epsilon, power, period=_TURN))


def _von_mises(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    law = von_mises(epsilon)
    return np.full(x.shape, law.abs_angle if power == 1.0 else law.sq_angle)


def _purkayastha(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    law = purkayastha(epsilon)
    return np.full(x.shape, law.abs_angle if power == 1.0 else law.sq_angle)


def _interval(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    error: FloatArray = _TURN**power * circular_error(x, *optimal_pieces(x, epsilon, power), power)
    return error


_LINES = (
    _Line("OPM, circular", _circular, COLOURS[0], "-"),
    _Line("OPM of the interval", _interval, COLOURS[2], (0, (4, 1.5, 1, 1.5))),
    _Line("von Mises", _von_mises, COLOURS[3], (0, (1, 1.2))),
    _Line("Purkayastha", _purkayastha, COLOURS[1], (0, (6, 2))),
)


def _circle(_full: bool, _progress: Progress) -> Outcome:
    half = np.linspace(0.0, 0.5, 101)
    worst = {
        (power, line.name): np.array([line.error(half, epsilon, power).max() for epsilon in EPSILONS])
        for power in _POWERS
        for line in _LINES
    }
    domain = {(power, line.name): line.error(_X, _SHOWN, power) for power in _POWERS for line in _LINES}

    def marks(where: FloatArray, errors: dict[tuple[float, str], FloatArray], power: float) -> list[Mark]:
        return [
            mark("plot", where, errors[power, name], label=name, color=colour, linestyle=dash)
            for name, _, colour, dash in _LINES
        ]

    turn = mark("set_xticks", [0.0, math.pi, _TURN], ["0", r"$\pi$", r"$2\pi$"])
    y, title = r"$\mathrm{E}\,d(y,x)$ in radians", rf"$\varepsilon={_SHOWN:g}$"
    over = [*marks(_TURN * _X, domain, 1.0), turn, mark("plot", [], [], label=_LIMIT, **_THIN)]
    panels = [Panel(over, "input $x$ in radians", y, title, xlim=(0.0, _TURN), ylim=(0.0, None), legend=None)]
    names = (r"d(y,x)$ in radians", r"d(y,x)^2$ in radians$^2$")
    for power, name in zip(_POWERS, names, strict=True):
        y = rf"worst-case $\mathrm{{E}}\,{name}"
        bound = [_bound(epsilon, power) for epsilon in EPSILONS]
        over = [*marks(EPSILONS, worst, power), mark("plot", EPSILONS, bound, label=_LIMIT, **_THIN)]
        panels.append(Panel(over, r"$\varepsilon$", y, xlim=(0.0, 8.0), log="y", legend=None))

    over_domain, over_epsilon = {}, {}
    for power in _POWERS:
        curves = {f"{line.name} {_UNIT}": domain[power, line.name] for line in _LINES}
        over_domain[power,] = {"x (radians)": _TURN * _X, **curves}
        curves = {f"{line.name} {_UNIT}": worst[power, line.name] for line in _LINES}
        bound = [_bound(epsilon, power) for epsilon in EPSILONS]
        over_epsilon[power,] = {"epsilon": EPSILONS, **curves, f"bound {_UNIT}": bound}
    return Outcome(
        {"domain": Table.stacked(("power",), over_domain), "worst": Table.stacked(("power",), over_epsilon)},
        Picture([panels], (9.2, 3.3), legend={"loc": "outside lower center", "ncols": 5}),
        [*(_window_check(epsilon) for epsilon in (1.0, 4.0)), _distance_check()],
        _findings(worst, domain),
    )


def _bound(epsilon: float, power: float) -> float:
    """Return the least worst case of all epsilon-LDP mechanisms on the circle, in radians to the power."""
    return float(_TURN**power * circle_bound(float(epsilon), CircularLoss(power)))


def _window_check(epsilon: float) -> Check:
    """Return the printed half window beside the one found by minimising the circular error directly."""
    printed = math.pi * math.expm1(epsilon / 2) / math.expm1(epsilon)

    def error(c: float) -> float:
        q = 1.0 / (1.0 + 2.0 * c * math.expm1(epsilon))
        levels = np.array([q, q * math.exp(epsilon), q])
        return float(circular_error(0.5, np.array([0.0, 0.5 - c, 0.5 + c, 1.0]), levels, 1.0))

    found = minimize_scalar(error, bounds=(1e-6, 0.5), method="bounded", options={"xatol": 1e-12})
    what = f"half window C at epsilon {epsilon:g} (printed formula, against direct minimisation)"
    return Check(what, printed, _TURN * float(found.x), tolerance=1e-6, formula=True)


def _distance_check() -> Check:
    """Return what the printed distance says of two points on either side of 0, and what it is."""
    y, x = 0.1, _TURN - 0.3
    printed = min(abs(y - x), abs(y - (_TURN - x)))
    return Check(
        "L_mod(y, x) = min(L(y, x), L(y, 2 pi - x)) for L = |y-x|, y = 0.1, x = 2 pi - 0.3",
        printed,
        min(abs(y - x), _TURN - abs(y - x)),
        formula=True,
        erratum="2 pi - x is the mirror image of x, so the formula measures to the wrong point and changes "
        "as the circle turns. The circular distance is min(|y-x|, 2 pi - |y-x|): for that, the source's "
        "window is the best",
    )


def _findings(
    worst: dict[tuple[float, str], FloatArray], domain: dict[tuple[float, str], FloatArray]
) -> list[str]:
    found = []
    for power, name in ((1.0, "d"), (2.0, "d^2")):
        ours = worst[power, "OPM, circular"]
        bound = np.array([_bound(epsilon, power) for epsilon in EPSILONS])
        others = np.array([worst[power, line.name] for line in _LINES[1:]])
        least = int(np.sum(ours < others.min(axis=0)))
        gains = {
            line.name: (
                float((worst[power, line.name] / ours).min()),
                float((worst[power, line.name] / ours).max()),
            )
            for line in _LINES[1:]
        }
        found.append(
            f"E {name}: circular OPM is the least of all four at {least} of {len(EPSILONS)} epsilons from "
            "0.1 to 8; the others have "
            + ", ".join(
                f"{other} {low:.3f} to {most:.2f} times as much" for other, (low, most) in gains.items()
            )
            + f". It is the optimum over all epsilon-LDP mechanisms: largest excess over the bound "
            f"{float((ours / bound - 1.0).max()):.0e}."
        )
    baseline = domain[1.0, "OPM of the interval"]
    found.append(
        f"OPM of the interval, cut open at 0, at epsilon {_SHOWN:g}: E d from {baseline.min():.4f} at pi to "
        f"{baseline.max():.4f} at {_TURN * _X[int(np.argmax(baseline))]:.3f}; circular OPM has "
        f"{domain[1.0, 'OPM, circular'][0]:.4f} everywhere."
    )
    return found


REPRODUCTIONS = (
    Reproduction(
        "opm-circle",
        f"{SOURCE}: circular domain",
        "expected circular distance against Purkayastha, von Mises and the interval's OPM",
        _circle,
    ),
)
