"""Geng and Viswanath, section I-A1: the errors of a test between two inputs, equations 3 to 11 and 15."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.auditing.tradeoff import least_missed_detection, worst_tradeoff
from arcwise.domains import Interval
from arcwise.mechanisms import (
    LaplaceMechanism,
    OptimalPiecewise,
    RandomizedResponse,
    StaircaseMechanism,
)
from arcwise.noise import Laplace, Staircase
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.pictures import Panel, Picture, look, mark

if TYPE_CHECKING:
    from arcwise.noise import ContinuousNoise
    from arcwise.typing import FloatArray

_SOURCE = "Geng, Viswanath (arXiv 1212.1186)"
_EPSILON = 1.0
_ALARMS = np.linspace(0.0, 1.0, 201)


def laplace_missed_detection(false_alarm: FloatArray, epsilon: float) -> FloatArray:
    """Return equation 15: the missed detection of the best test under Laplace noise."""
    a, b = np.asarray(false_alarm, dtype=np.float64), np.exp(-epsilon)
    middle = b / (4.0 * np.maximum(a, 0.5 * b))
    missed: FloatArray = np.where(a < 0.5 * b, 1.0 - a / b, np.where(a <= 0.5, middle, b * (1.0 - a)))
    return missed


def noise_missed_detection(
    noise: ContinuousNoise, shift: float, edges: FloatArray, false_alarm: FloatArray
) -> FloatArray:
    """Return the least missed detection under noise between 0 and `shift`, by Neyman and Pearson.

    The noise is constant between the ascending edges, or nearly so; the parts beyond the first and the last
    are one cell each.
    """
    places = np.concatenate([[-np.inf], edges, [np.inf]])
    masses = [np.diff(noise.cdf(places - by)) for by in (0.0, shift)]
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.nan_to_num(masses[1] / masses[0], nan=0.0))
    alarm, detected = (np.concatenate([[0.0], np.cumsum(mass[order])]) for mass in masses)
    missed: FloatArray = 1.0 - np.interp(false_alarm, alarm, detected)
    return missed


def _testing(_full: bool, progress: Progress) -> Outcome:
    bound = np.array([least_missed_detection(float(a), _EPSILON) for a in _ALARMS])
    staircase = Staircase.optimal(_EPSILON)
    steps = np.arange(-40.0, 41.0)
    edges = np.unique(np.concatenate([steps, steps + staircase.gamma, steps - staircase.gamma]))
    noises = {
        "Laplace (equation 15)": laplace_missed_detection(_ALARMS, _EPSILON),
        "staircase": noise_missed_detection(staircase, 1.0, edges, _ALARMS),
    }
    fine = np.linspace(-30.0, 31.0, 61_001)
    numeric = noise_missed_detection(Laplace(_EPSILON), 1.0, fine, _ALARMS)

    unit = Interval(0.0, 1.0)
    mechanisms = {
        "OPM, inset": OptimalPiecewise(unit, _EPSILON),
        "Laplace": LaplaceMechanism(unit, _EPSILON),
        "staircase": StaircaseMechanism(unit, _EPSILON),
        "randomised response, 4 answers": RandomizedResponse(Interval(0, 3, step=1), _EPSILON),
    }
    worst = {}
    for done, (name, mechanism) in enumerate(mechanisms.items()):
        progress(done, len(mechanisms))
        worst[name] = worst_tradeoff(mechanism)

    rim = {"color": "black", "linewidth": 1.0, "zorder": 1}
    shade = mark("fill_between", _ALARMS, 0.0, bound, color="0.92", linewidth=0)
    limit = mark("plot", _ALARMS, bound, label=rf"$\varepsilon={_EPSILON:g}$ (equations 10, 11)", **rim)
    left = [shade, limit]
    left += [
        mark("plot", _ALARMS, curve, label=name, **look(k, k + 1))
        for k, (name, curve) in enumerate(noises.items())
    ]
    right = [shade, limit]
    right += [
        mark(
            "plot",
            [float(a) for a in region.false_alarm],
            [float(b) for b in region.missed_detection],
            label=name,
            **look(k, k + 1),
        )
        for k, (name, region) in enumerate(worst.items())
    ]
    titles = ("noise, one sensitivity apart", "reports, the two inputs told apart best")
    panels = [
        Panel(
            marks,
            x="false alarm",
            y="" if column else "missed detection",
            title=titles[column],
            xlim=(0.0, 1.0),
            ylim=(0.0, 1.0),
            legend={"loc": "upper right"},
        )
        for column, marks in enumerate((left, right))
    ]
    corners = [
        (name, *region.inputs, float(a), float(b))
        for name, region in worst.items()
        for a, b in zip(region.false_alarm, region.missed_detection, strict=True)
    ]
    gap = float(np.abs(numeric - noises["Laplace (equation 15)"]).max())
    return Outcome(
        {
            "noise": Table.of(
                false_alarm=_ALARMS,
                least_missed_detection=bound,
                laplace_missed_detection=noises["Laplace (equation 15)"],
                staircase_missed_detection=noises["staircase"],
            ),
            "mechanisms": Table(
                (
                    "mechanism",
                    "first_input (units of the domain)",
                    "second_input (units of the domain)",
                    "false_alarm",
                    "missed_detection",
                ),
                corners,
            ),
        },
        Picture([panels], (8.0, 4.2), {"sharey": True}),
        [
            Check(
                "largest difference of equation 15 from the best tests of Laplace noise, numerically",
                0.0,
                gap,
                tolerance=1e-3,
                formula=True,
            )
        ],
        [
            "The least sum of both errors, of which privacy alone allows "
            f"{2.0 / (1.0 + np.exp(_EPSILON)):.4f} at epsilon {_EPSILON:g}: "
            + ", ".join(f"{name} {float(region.least_sum):.4f}" for name, region in worst.items())
            + ". Exact, from the integers of the samplers.",
            "Staircase noise comes to the bound in "
            f"{np.mean(noises['staircase'] < bound + 1e-9):.0%} of all false alarms, Laplace noise in "
            f"{np.mean(noises['Laplace (equation 15)'] < bound + 1e-9):.0%}: it protects more between, and "
            "that costs accuracy.",
        ],
    )


REPRODUCTIONS = (
    Reproduction(
        "hypothesis-testing",
        f"{_SOURCE}, equations 3 to 11 and 15",
        "false alarms and missed detections of tests between two inputs",
        _testing,
    ),
)
