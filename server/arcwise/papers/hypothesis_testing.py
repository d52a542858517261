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
from arcwise.papers.base import Outcome, Progress, Table, formula, reproduction, steps
from arcwise.papers.pictures import Panel, Picture, line, mark

if TYPE_CHECKING:
    from arcwise.noise import ContinuousNoise
    from arcwise.typing import FloatArray

_EPSILON = 1.0
_ALARMS = np.linspace(0.0, 1.0, 201)


def _laplace_missed_detection() -> FloatArray:
    """Return equation 15: the missed detection of the best test under Laplace noise."""
    a, b = _ALARMS, np.exp(-_EPSILON)
    middle = b / (4.0 * np.maximum(a, 0.5 * b))
    missed: FloatArray = np.where(a < 0.5 * b, 1.0 - a / b, np.where(a <= 0.5, middle, b * (1.0 - a)))
    return missed


def _noise_missed_detection(noise: ContinuousNoise, edges: FloatArray) -> FloatArray:
    """Return the least missed detection under noise between 0 and 1, by Neyman and Pearson.

    The noise is constant between the ascending edges, or nearly so; the parts beyond the first and the last
    are one cell each.
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
    "Geng, Viswanath (arXiv 1212.1186), equations 3 to 11 and 15",
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
        (right, "", "reports, the two inputs told apart best"),
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
            "The least sum of both errors, of which privacy alone allows "
            f"{2.0 / (1.0 + np.exp(_EPSILON)):.4f} at epsilon {_EPSILON:g}: {sums}. Exact, from the integers "
            "of the samplers.",
            f"Staircase noise comes to the bound in {np.mean(by_staircase < bound + 1e-9):.0%} of all false "
            f"alarms, Laplace noise in {np.mean(by_laplace < bound + 1e-9):.0%}: it protects more between, "
            "and that costs accuracy.",
        ],
    )
