"""Zheng, Mishra and Hu: densities of the optimal piecewise mechanism, and its errors on an interval.

The errors are the expected error of each input, and the worst case at each epsilon. They are for OPM and
other mechanisms on [0, 1], and for PM, SW and PTT on their own domains, compared with OPM.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.mechanisms.closed_forms.optimal import interval_expected_error, interval_mean, optimal_levels
from arcwise.noise import Laplace
from arcwise.papers.base import Check, Outcome, Progress, Table, formula, in_unit, reproduction, steps
from arcwise.papers.interval_laws import (
    EPSILONS,
    LINES,
    POWERS,
    SOURCE,
    UNIT,
    below,
    bound_epsilons,
    interval_error,
    least_error,
    optimal_pieces,
    piecewise_pieces,
    square_wave_pieces,
    window_check,
)
from arcwise.papers.pictures import BELOW, EPSILON, FAMILY_DASHES, Mark, Panel, Picture, look, mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.papers.interval_laws import Pieces
    from arcwise.typing import FloatArray

_EPSILON = 1.0
_INTERVAL = (0.0, 0.3, 0.5)
_CIRCLE = {0.25 * math.pi: r"\pi/4", 1.25 * math.pi: r"5\pi/4"}
_TURN = 2.0 * math.pi


@reproduction(
    "opm-density",
    f"{SOURCE}: optimal mechanism, closed form",
    "density of OPM at epsilon 1 on the interval and on the circle",
)
def _density(_full: bool, _progress: Progress) -> Outcome:
    p, q, c = optimal_levels(_EPSILON)
    rows: list[tuple[float | str, ...]] = []
    interval: list[Mark] = []
    edges, levels = optimal_pieces(np.array(_INTERVAL), _EPSILON, 1.0)
    for k, (x, places) in enumerate(zip(_INTERVAL, edges, strict=True)):
        label = rf"$x={x:g}$, $\mathrm{{E}}[y|x]={interval_mean(x, _EPSILON):.3f}$"
        interval.append(_stairs(levels, places, label, k))
        rows += [("interval", x, *row) for row in zip(places[:-1], places[1:], levels, strict=True)]
    circle: list[Mark] = []
    for k, (x, name) in enumerate(_CIRCLE.items()):
        start, end = (x - _TURN * c) % _TURN, (x + _TURN * c) % _TURN
        places = np.array([0.0, min(start, end), max(start, end), _TURN])
        heights = np.array([q, p, q] if start < end else [p, q, p]) / _TURN
        circle.append(_stairs(heights, places, rf"$x={name}$", k))
        rows += [("circle", x, *row) for row in zip(places[:-1], places[1:], heights, strict=True)]
    circle.append(mark("set_xticks", [0.0, math.pi, _TURN], ["0", r"$\pi$", r"$2\pi$"]))
    panels = []
    for domain, marks, x_label, y_label, length in (
        ("interval", interval, "output $y$ on $[0, 1]$", "density", 1.0),
        ("circle", circle, "output $y$ in radians", "density per radian", _TURN),
    ):
        title, limits = rf"{domain}, $\varepsilon={_EPSILON:g}$", ((0.0, length), (0.0, 1.1 * p / length))
        panels.append(Panel(marks, x_label, y_label, title, *limits, legend={"loc": "lower center"}))
    place, per = "(domain lengths, radians on the circle)", "(per domain length, per radian on the circle)"
    columns = ("domain", f"x {place}", f"from {place}", f"to {place}", f"density {per}")
    mass = float((np.diff(edges, axis=1) * levels).sum(axis=1).max())
    (mean,) = {round(interval_mean(x, _EPSILON), 12) for x in (0.0, 0.5 * c, c)}
    return Outcome(
        {"": Table(columns, rows)},
        Picture([panels], (7.4, 3.6)),
        [formula("mass of the printed density on [0, 1] (formula)", 1.0, mass, 1e-12)],
        [
            f"The window has the height p = e^(epsilon/2) = {p:.4f} and the width 2C = {2 * c:.4f}; outside "
            f"the height is q = e^(-epsilon/2) = {q:.4f}. On the circle both are divided by 2 pi.",
            f"Within C = {c:.4f} of an end all inputs have the same density, and so the same E[y|x]: "
            f"{mean:.4f} at the lower end.",
        ],
    )


def _stairs(levels: np.ndarray, edges: np.ndarray, label: str, k: int) -> Mark:
    return mark("stairs", levels, edges, label=label, **look(k, k), linewidth=1.5, baseline=None)


_SOURCE = f"{SOURCE}: comparison of expected errors"
_X = np.linspace(0.0, 1.0, 401)
_HALF = np.linspace(0.0, 0.5, 201)
"""Inputs from 0 to 1/2; this half is enough, because every law is symmetric about 1/2.

The grid contains the end and the middle, where most laws have their largest errors. Between them, it is fine
enough for five digits.
"""


@reproduction("opm-error-over-domain", _SOURCE, "expected error of each input at epsilon 2 and 4")
def _over_domain(_full: bool, progress: Progress) -> Outcome:
    curves: dict[tuple[float, float], dict[str, FloatArray]] = {}
    for epsilon, power in steps(progress, [(epsilon, power) for epsilon in (2.0, 4.0) for power in POWERS]):
        curves[epsilon, power] = {line.name: line.error(_X, epsilon, power) for line in LINES}
    panels = []
    for epsilon in (2.0, 4.0):
        over = curves[epsilon, 1.0]
        marks = [mark("plot", _X, over[line.name], label=line.name, **line.style) for line in LINES]
        names = ("input $x$ on $[0, 1]$", r"$\mathrm{E}\,|y-x|$", rf"$\varepsilon={epsilon:g}$")
        panels.append(Panel(marks, *names, xlim=(0.0, 1.0), ylim=(0.0, None), legend=None))
    parts = {key: {"x (domain lengths)": _X, **in_unit(UNIT, over)} for key, over in curves.items()}
    # The source prints 1/2: the mass at 0 for the input 0.
    half = Check("Pr[0] of truncated Laplace noise at the input 0", 0.5, float(Laplace(1.0).cdf(0.0)))
    return Outcome(
        {"curves": Table.stacked(("epsilon", "power"), parts)},
        Picture([panels], (7.2, 3.7), legend=BELOW | {"ncols": 3}),
        [*(window_check(epsilon, 0.0, interval_error, 1.0) for epsilon in (1.0, 2.0, 4.0)), half],
        [_domain_finding(epsilon, curves[epsilon, 1.0]) for epsilon in (2.0, 4.0)],
    )


def _domain_finding(epsilon: float, curves: dict[str, FloatArray]) -> str:
    ours = curves["OPM"]
    averages = {name: float(np.trapezoid(curve, _X)) for name, curve in curves.items()}
    worst = {name: float(curve.max()) for name, curve in curves.items()}
    best = min(worst, key=worst.__getitem__)
    beaten = [
        f"{name} on {np.mean(curve < ours):.0%}" for name, curve in curves.items() if (curve < ours).any()
    ]
    second = min(value for name, value in averages.items() if name != "OPM")
    return (
        f"At epsilon {epsilon:g} OPM has the least error on average over the domain: {averages['OPM']:.4f}, "
        f"and {second:.4f} for the next mechanism. Other mechanisms have a smaller error at some inputs "
        f"({', '.join(beaten)} of the domain). In the worst case, OPM has {worst['OPM']:.4f}, and {best} "
        f"{worst[best]:.4f}. The source says of OPM: lowest error."
    )


@reproduction("opm-worst-case", _SOURCE, "worst-case error over epsilon, for |y-x| and (y-x)^2")
def _worst_case(full: bool, progress: Progress) -> Outcome:
    epsilons = bound_epsilons(full)
    worst = {power: {line.name: line.worst(_HALF, power) for line in LINES} for power in POWERS}
    keys = [(power, epsilon) for power in POWERS for epsilon in epsilons]
    bounds = {key: least_error(key[1], key[0], full) for key in steps(progress, keys)}

    dots: dict[str, Any] = {"color": "black", "linewidth": 0.8, "marker": ".", "markersize": 5}
    upper, lower = [], []
    for power, name in POWERS.items():
        curves, ours = worst[power], worst[power]["OPM"]
        least = np.array([bounds[power, epsilon] for epsilon in epsilons])
        ratio = least / np.array([interval_expected_error(0.0, epsilon, power) for epsilon in epsilons])
        marks = [mark("plot", EPSILONS, curves[line.name], label=line.name, **line.style) for line in LINES]
        marks.append(mark("plot", epsilons, least, label="bound for all mechanisms", **dots))
        y = rf"worst-case $\mathrm{{E}}\,{name}$ on $[0, 1]$"
        upper.append(Panel(marks, "", y, log="y", legend=None))
        marks = [mark("plot", EPSILONS, curves[line.name] / ours, **line.style) for line in LINES]
        marks.append(mark("plot", epsilons, ratio, **dots))
        lower.append(Panel(marks, EPSILON, "relative to OPM", xlim=(0.0, 8.0), ylim=(0.45, 2.0)))
    grid = {"sharex": True, "height_ratios": (3, 2)}

    findings = []
    for power, name in POWERS.items():
        spans = {line.name: below(worst[power][line.name], worst[power]["OPM"]) for line in LINES}
        better = "; ".join(f"{line} for epsilon {span}" for line, span in spans.items() if span)
        findings.append(f"These have a smaller worst-case E {name} than OPM: {better}.")
    findings.append(
        "OPM is the best density with outputs in [0, 1] and levels that differ by at most e^epsilon. "
        "Truncation puts atoms at the ends, which no density has, and which reduce the error. So the "
        "source's claim that OPM has the lowest error does not hold for the worst case."
    )
    if not full:
        findings.append(
            "The bound of E |y-x| is looser above epsilon 5, where it uses 65 inputs, and above 7, where it "
            "uses 97. With 129 inputs it rises by 1.0 % at epsilon 6, by 1.6 % at 7 and by 0.02 % at 8."
        )
    parts = {power: {"epsilon": EPSILONS, **in_unit(UNIT, curves)} for power, curves in worst.items()}
    columns = ("power", "epsilon", f"bound ({UNIT})")
    return Outcome(
        {
            "worst": Table.stacked("power", parts),
            "bound": Table(columns, [(*key, bound) for key, bound in bounds.items()]),
        },
        Picture([upper, lower], (7.2, 5.2), grid, BELOW | {"ncols": 4}),
        (),
        findings,
    )


_NOISES = tuple(line for line in LINES if line.name.startswith(("OPM", "Laplace", "staircase")))
_MARKERS: dict[str, Any] = {"marker": "o", "markersize": 3.5, "markevery": 8, "markerfacecolor": "white"}
_MIDDLES = (np.arange(200) + 0.5) / 400.0
"""Midpoints of equal parts of [0, 1/2]. By symmetry, a mean over them is the average over uniform inputs."""


@reproduction("opm-noise", _SOURCE, "truncated and bounded Laplace and truncated staircase noise against OPM")
def _noise(_full: bool, progress: Progress) -> Outcome:
    inputs = np.concatenate([[0.0], _MIDDLES, [0.5]])
    # The worst and the average error at each epsilon, shape (2, epsilons).
    errors: dict[tuple[float, str], FloatArray] = {}
    for power, line in steps(progress, [(power, line) for power in POWERS for line in _NOISES]):
        all_inputs = np.array([line.error(inputs, epsilon, power) for epsilon in EPSILONS])
        errors[power, line.name] = np.stack([all_inputs.max(axis=1), all_inputs[:, 1:-1].mean(axis=1)])
    ratios = {(power, name): error / errors[power, "OPM"] for (power, name), error in errors.items()}

    panels: list[Panel] = []
    findings = []
    at = int(np.argmin(np.abs(EPSILONS - 4.0)))
    for power, name in POWERS.items():
        marks, each = [], []
        for line in _NOISES[1:]:
            worst, mean = ratios[power, line.name]
            marks.append(mark("plot", EPSILONS, mean, label=f"{line.name}: average", **line.style))
            marks.append(mark("plot", EPSILONS, worst, label="worst input", **line.style, **_MARKERS))
            each.append(f"{line.name} {mean[at]:.2f} and {worst[at]:.2f}")
        marks.append(mark("axhline", 1.0, color=_NOISES[0].style["color"], label="OPM"))
        y, title = "" if panels else "relative to OPM", rf"$\mathrm{{E}}\,{name}$"
        panels.append(Panel(marks, EPSILON, y, title, xlim=(0.0, 8.0), log="y", legend=None))
        findings.append(
            f"At epsilon 4 the error {name} relative to OPM's, on average over inputs and at the worst "
            f"input: {', '.join(each)}."
        )
    least = min(float(ratios[1.0, line.name][1].min()) for line in _NOISES[1:])
    rows: list[tuple[float | str, ...]] = [
        (power, float(epsilon), name, float(worst), float(mean))
        for (power, name), both in errors.items()
        for epsilon, worst, mean in zip(EPSILONS, *both, strict=True)
    ]
    columns = ("power", "epsilon", "mechanism", f"worst_error ({UNIT})", f"average_error ({UNIT})")
    return Outcome(
        {"errors": Table(columns, rows)},
        Picture([panels], (7.2, 3.8), {"sharey": True}, BELOW | {"ncols": 4}),
        (),
        [
            *findings,
            f"On average over the domain every kind of noise has at least {least:.3f} times OPM's E |y-x|, "
            "at every epsilon from 0.1 to 8. At the worst input, truncated staircase noise has a smaller "
            "error than OPM at some epsilons (opm-worst-case).",
            "PM, SW and PTT add no noise to the input, so they are not compared here. The reproduction "
            "opm-worst-case shows their worst input, and opm-error-over-domain every input.",
        ],
    )


_SHOWN = 2.0
_DASHES = {"own range": FAMILY_DASHES[3], "truncated": FAMILY_DASHES[1], "OPM": "-"}


class _Mechanism(NamedTuple):
    """A mechanism: its density at positions from 0 to 1 of its domain, the domain's lower end, its colour.

    The domain ends at 1. An error is proportional to a power of the domain's length.
    """

    pieces: Callable[[FloatArray, float], Pieces]
    low: float
    colour: str

    def inputs(self) -> FloatArray:
        return _X * (1.0 - self.low) + self.low

    def errors(self, x: FloatArray, epsilon: float, power: float) -> dict[str, FloatArray]:
        """Return the errors at the position x of the mechanism's own domain, where x is from 0 to 1."""
        pieces, scale = self.pieces(x, epsilon), (1.0 - self.low) ** power
        return {
            "own range": scale * interval_error(x, *pieces, power, truncate=False),
            "truncated": scale * interval_error(x, *pieces, power),
            "OPM": scale * interval_error(x, *optimal_pieces(x, epsilon, power), power),
        }


_MECHANISMS = {
    "PM": _Mechanism(piecewise_pieces, -1.0, COLOURS[1]),
    "SW": _Mechanism(square_wave_pieces, 0.0, COLOURS[2]),
    "PTT": _Mechanism(partial(piecewise_pieces, member="pm-opt"), -1.0, COLOURS[6]),
}


@reproduction(
    "opm-own-domains",
    _SOURCE,
    "PM and PTT on [-1, 1] and SW on [0, 1], truncated or not, against OPM there",
)
def _own_domains(_full: bool, progress: Progress) -> Outcome:
    shown = {name: mechanism.errors(_X, _SHOWN, 1.0) for name, mechanism in _MECHANISMS.items()}
    worst = {}
    for name, power in steps(progress, [(name, power) for name in _MECHANISMS for power in POWERS]):
        errors = [_MECHANISMS[name].errors(_HALF, float(epsilon), power) for epsilon in EPSILONS]
        worst[name, power] = {kind: np.array([each[kind].max() for each in errors]) for kind in _DASHES}

    upper, lower, findings = list[Panel](), list[Panel](), []
    over_domain = {}
    for name, mechanism in _MECHANISMS.items():
        inputs, over = mechanism.inputs(), worst[name, 1.0]
        upper_marks, lower_marks = [], []
        for kind, dash in _DASHES.items():
            ours = kind == "OPM"
            style = {"color": COLOURS[0] if ours else mechanism.colour, "linestyle": dash}
            style["label"] = "OPM" if ours else f"{name}, {kind}"
            upper_marks.append(mark("plot", inputs, shown[name][kind], **style))
            lower_marks.append(mark("plot", EPSILONS, over[kind] / over["OPM"], **style))
        y, relative = ("", "") if upper else (r"$\mathrm{E}\,|y-x|$", r"worst $\mathrm{E}\,|y-x|$, OPM $=1$")
        title = rf"{name} on $[{inputs[0]:g},\,1]$, $\varepsilon={_SHOWN:g}$"
        upper.append(Panel(upper_marks, "input $x$", y, title, (inputs[0], inputs[-1]), (0.0, None)))
        lower.append(Panel(lower_marks, EPSILON, relative, "", (0.0, 8.0), (0.8, 2.0), legend=None))
        over_domain[name] = in_unit("units of the input", {"x": inputs, **shown[name]})
        average = {kind: float(np.trapezoid(curve, _X)) for kind, curve in shown[name].items()}
        spans = {kind: below(over[kind], over["OPM"]) for kind in ("own range", "truncated")}
        least = "; ".join(f"{kind} for epsilon {span}" for kind, span in spans.items() if span)
        findings.append(
            f"{name} at epsilon {_SHOWN:g} has this average E |y-x| over its domain: "
            f"{average['own range']:.3f} with outputs in its own range, {average['truncated']:.3f} with "
            f"truncated outputs. OPM has {average['OPM']:.3f}. In the worst case, it has a smaller error "
            f"than OPM: {least or 'at no epsilon from 0.1 to 8'}."
        )
    findings.append(
        "OPM's outputs are restricted to the domain. The source's optimum is for one output range. SW "
        "shows that a wider range that is truncated afterwards can have a smaller worst case."
    )
    unit = "units of the input, to the power"
    over_epsilon = {key: {"epsilon": EPSILONS, **in_unit(unit, curves)} for key, curves in worst.items()}
    return Outcome(
        {
            "domain": Table.stacked("mechanism", over_domain),
            "worst": Table.stacked(("mechanism", "power"), over_epsilon),
        },
        Picture([upper, lower], (9.2, 5.2)),
        (),
        findings,
    )
