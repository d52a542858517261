"""Zheng, Mishra and Hu: the density of the optimal piecewise mechanism, on an interval and on the circle."""

from __future__ import annotations

import math

import numpy as np

from arcwise.mechanisms.closed_forms.optimal import interval_mean, optimal_levels
from arcwise.papers.base import Outcome, Progress, Table, formula, reproduction
from arcwise.papers.interval_laws import SOURCE, optimal_pieces
from arcwise.papers.pictures import Mark, Panel, Picture, look, mark

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
