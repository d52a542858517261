"""Zheng, Mishra and Hu: the density of the optimal piecewise mechanism, on an interval and on the circle."""

from __future__ import annotations

import math

import numpy as np

from arcwise.mechanisms.closed_forms.optimal import interval_mean, optimal_levels
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.interval_laws import SOURCE, optimal_pieces
from arcwise.papers.pictures import Mark, Panel, Picture, look, mark

_EPSILON = 1.0
_INTERVAL = (0.0, 0.3, 0.5)
_CIRCLE = (0.25 * math.pi, 1.25 * math.pi)
_TURN = 2.0 * math.pi


def _density(_full: bool, _progress: Progress) -> Outcome:
    p, q, c = optimal_levels(_EPSILON)
    rows: list[tuple[float | str, ...]] = []
    interval: list[Mark] = []
    edges, levels = optimal_pieces(np.array(_INTERVAL), _EPSILON, 1.0)
    for k, (x, places) in enumerate(zip(_INTERVAL, edges, strict=True)):
        label = rf"$x={x:g}$, $\mathrm{{E}}[y|x]={interval_mean(x, _EPSILON):.3f}$"
        style = look(k, k) | {"linewidth": 1.5, "baseline": None}
        interval.append(mark("stairs", levels, places, label=label, **style))
        rows += [("interval", x, *row) for row in zip(places[:-1], places[1:], levels, strict=True)]
    circle: list[Mark] = []
    for k, (x, name) in enumerate(zip(_CIRCLE, (r"\pi/4", r"5\pi/4"), strict=True)):
        start, end = (x - _TURN * c) % _TURN, (x + _TURN * c) % _TURN
        places = np.array([0.0, min(start, end), max(start, end), _TURN])
        heights = np.array([q, p, q] if start < end else [p, q, p]) / _TURN
        style = look(k, k) | {"linewidth": 1.5, "baseline": None}
        circle.append(mark("stairs", heights, places, label=rf"$x={name}$", **style))
        rows += [("circle", x, *row) for row in zip(places[:-1], places[1:], heights, strict=True)]
    circle.append(mark("set_xticks", [0.0, math.pi, _TURN], ["0", r"$\pi$", r"$2\pi$"]))
    floor = {"loc": "lower center"}
    panels = [
        Panel(
            interval,
            "output $y$ on $[0, 1]$",
            "density",
            rf"interval, $\varepsilon={_EPSILON:g}$",
            xlim=(0.0, 1.0),
            ylim=(0.0, 1.1 * p),
            legend=floor,
        ),
        Panel(
            circle,
            "output $y$ in radians",
            "density per radian",
            rf"circle, $\varepsilon={_EPSILON:g}$",
            xlim=(0.0, _TURN),
            ylim=(0.0, 1.1 * p / _TURN),
            legend=floor,
        ),
    ]
    mass = float((np.diff(edges, axis=1) * levels).sum(axis=1).max())
    place = "(domain lengths, radians on the circle)"
    per = "(per domain length, per radian on the circle)"
    columns = ("domain", f"x {place}", f"from {place}", f"to {place}", f"density {per}")
    shown = [0.0, 0.5 * c, c]
    means = {round(interval_mean(x, _EPSILON), 12) for x in shown}
    return Outcome(
        {"": Table(columns, rows)},
        Picture([panels], (7.4, 3.6)),
        [Check("mass of the printed density on [0, 1] (formula)", 1.0, mass, tolerance=1e-12, formula=True)],
        [
            f"The window has the height p = e^(epsilon/2) = {p:.4f} and the width 2C = {2 * c:.4f}; outside "
            f"the height is q = e^(-epsilon/2) = {q:.4f}. On the circle both are divided by 2 pi.",
            f"Within C = {c:.4f} of an end all inputs have the same density, and so the same E[y|x]: "
            f"{means.pop():.4f} at the lower end.",
        ],
    )


REPRODUCTIONS = (
    Reproduction(
        "opm-density",
        f"{SOURCE}: optimal mechanism, closed form",
        "density of OPM at epsilon 1 on the interval and on the circle",
        _density,
    ),
)
