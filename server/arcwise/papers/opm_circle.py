"""Zheng, Mishra and Hu on the circle: circular OPM against Purkayastha, von Mises and the interval's OPM."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.design.circle import CircularLoss, circle_bound
from arcwise.mechanisms.closed_forms.directional import purkayastha, von_mises
from arcwise.mechanisms.closed_forms.optimal import circle_expected_error
from arcwise.papers.base import Check, Outcome, Progress, Table, formula, in_unit, reproduction
from arcwise.papers.interval_laws import (
    EPSILONS,
    SOURCE,
    Line,
    circular_error,
    optimal_pieces,
    window_check,
)
from arcwise.papers.pictures import BELOW, EPSILON, Mark, Panel, Picture, mark

if TYPE_CHECKING:
    from arcwise.mechanisms.closed_forms.directional import Directional
    from arcwise.typing import FloatArray

_X = np.linspace(0.0, 1.0, 401)
_HALF = np.linspace(0.0, 0.5, 101)
_TURN = 2.0 * math.pi
_SHOWN = 2.0
_POWERS = {1.0: "d", 2.0: "d^2"}
_UNIT = "radians, to the power"


def _moment(law: Directional, power: float) -> float:
    return law.abs_angle if power == 1.0 else law.sq_angle


def _interval(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    error: FloatArray = _TURN**power * circular_error(x, *optimal_pieces(x, epsilon, power), power)
    return error


_LINES = (
    Line("OPM, circular", lambda x, e, k: np.full(x.shape, circle_expected_error(e, k, period=_TURN)), 0),
    Line("OPM of the interval", _interval, 2),
    Line("von Mises", lambda x, e, k: np.full(x.shape, _moment(von_mises(e), k)), 3),
    Line("Purkayastha", lambda x, e, k: np.full(x.shape, _moment(purkayastha(e), k)), 1),
)
"""`error` of these lines maps (position in turns, epsilon, power) to the error in radians to the power."""


def _bound(power: float) -> FloatArray:
    """Return the least worst-case error of any epsilon-LDP mechanism on the circle, at each epsilon."""
    loss = CircularLoss(power)
    return np.array([_TURN**power * circle_bound(float(epsilon), loss) for epsilon in EPSILONS])


@reproduction(
    "opm-circle",
    f"{SOURCE}: circular domain",
    "expected circular distance against Purkayastha, von Mises and the interval's OPM",
)
def _circle(_full: bool, _progress: Progress) -> Outcome:
    domain = {power: {line.name: line.error(_X, _SHOWN, power) for line in _LINES} for power in _POWERS}
    worst = {power: {line.name: line.worst(_HALF, power) for line in _LINES} for power in _POWERS}
    bounds = {power: _bound(power) for power in _POWERS}

    def marks(where: FloatArray, errors: dict[str, FloatArray], bound: Any) -> list[Mark]:
        lines = [mark("plot", where, errors[line.name], label=line.name, **line.style) for line in _LINES]
        thin: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": (0, (1, 1))}
        return [*lines, mark("plot", *bound, label="bound for all mechanisms", **thin)]

    turn = mark("set_xticks", [0.0, math.pi, _TURN], ["0", r"$\pi$", r"$2\pi$"])
    names = ("input $x$ in radians", r"$\mathrm{E}\,d(y,x)$ in radians", rf"$\varepsilon={_SHOWN:g}$")
    over = [*marks(_TURN * _X, domain[1.0], ([], [])), turn]
    panels = [Panel(over, *names, xlim=(0.0, _TURN), ylim=(0.0, None), legend=None)]
    for power, name in ((1.0, r"d(y,x)$ in radians"), (2.0, r"d(y,x)^2$ in radians$^2$")):
        over = marks(EPSILONS, worst[power], (EPSILONS, bounds[power]))
        y = rf"worst-case $\mathrm{{E}}\,{name}"
        panels.append(Panel(over, EPSILON, y, xlim=(0.0, 8.0), log="y", legend=None))

    over_domain = {
        power: {"x (radians)": _TURN * _X, **in_unit(_UNIT, curves)} for power, curves in domain.items()
    }
    over_epsilon = {
        power: {"epsilon": EPSILONS, **in_unit(_UNIT, {**curves, "bound": bounds[power]})}
        for power, curves in worst.items()
    }
    findings = [_finding(name, worst[power], bounds[power]) for power, name in _POWERS.items()]
    baseline = domain[1.0]["OPM of the interval"]
    findings.append(
        f"If the circle is cut open at 0, OPM of the interval at epsilon {_SHOWN:g} has an E d from "
        f"{baseline.min():.4f} at pi to {baseline.max():.4f} at {_TURN * _X[int(np.argmax(baseline))]:.3f}. "
        f"Circular OPM has {domain[1.0]['OPM, circular'][0]:.4f} everywhere."
    )
    return Outcome(
        {"domain": Table.stacked("power", over_domain), "worst": Table.stacked("power", over_epsilon)},
        Picture([panels], (9.2, 3.3), legend=BELOW | {"ncols": 5}),
        [*(window_check(epsilon, 0.5, circular_error, _TURN) for epsilon in (1.0, 4.0)), _distance_check()],
        findings,
    )


def _distance_check() -> Check:
    """Return the check of the printed distance for two points on either side of 0."""
    y, x = 0.1, _TURN - 0.3
    return formula(
        "L_mod(y, x) = min(L(y, x), L(y, 2 pi - x)) for L = |y-x|, y = 0.1, x = 2 pi - 0.3",
        min(abs(y - x), abs(y - (_TURN - x))),
        min(abs(y - x), _TURN - abs(y - x)),
        erratum="2 pi - x is the mirror image of x, so the formula measures to the wrong point and changes "
        "as the circle turns. The circular distance is min(|y-x|, 2 pi - |y-x|): for that, the source's "
        "window is the best",
    )


def _finding(name: str, worst: dict[str, FloatArray], bound: FloatArray) -> str:
    ours = worst["OPM, circular"]
    others = {other: curve for other, curve in worst.items() if other != "OPM, circular"}
    least = int(np.sum(ours < np.min(list(others.values()), axis=0)))
    times = ", ".join(
        f"{other} {(curve / ours).min():.3f} to {(curve / ours).max():.2f} times as much"
        for other, curve in others.items()
    )
    return (
        f"Circular OPM has the least E {name} of all four mechanisms at {least} of {len(EPSILONS)} epsilons "
        f"from 0.1 to 8. The other mechanisms have {times}. Circular OPM is the optimum over all epsilon-LDP "
        f"mechanisms: it exceeds the bound by a share of at most {float((ours / bound - 1.0).max()):.0e}."
    )
