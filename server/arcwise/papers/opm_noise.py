"""Zheng, Mishra and Hu: OPM beside Laplace and staircase noise that is kept inside the domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from arcwise.papers.base import Outcome, Progress, Reproduction, Table
from arcwise.papers.interval_laws import EPSILONS, LINES, SOURCE, UNIT
from arcwise.papers.pictures import Panel, Picture, mark

_LINES = tuple(line for line in LINES if line.name.startswith(("OPM", "Laplace", "staircase")))
_MARKS: dict[str, Any] = {"marker": "o", "markersize": 3.5, "markevery": 8, "markerfacecolor": "white"}
_MIDDLES = (np.arange(200) + 0.5) / 400.0
"""Middles of equal parts of [0, 1/2]: their mean is the average over uniform inputs, by symmetry."""


def _noise(_full: bool, progress: Progress) -> Outcome:
    errors: dict[tuple[float, str], np.ndarray] = {}
    for done, (power, line) in enumerate((power, line) for power in (1.0, 2.0) for line in _LINES):
        progress(done, 2 * len(_LINES))
        inputs = np.concatenate([[0.0], _MIDDLES, [0.5]])
        both = np.array([line.error(inputs, epsilon, power) for epsilon in EPSILONS])
        errors[power, line.name] = np.stack([both.max(axis=1), both[:, 1:-1].mean(axis=1)])
    ratios = {
        (power, line.name): errors[power, line.name] / errors[power, "OPM"]
        for power in (1.0, 2.0)
        for line in _LINES
    }

    panels: list[Panel] = []
    for power, name in ((1.0, "|y-x|"), (2.0, "(y-x)^2")):
        marks = []
        for line in _LINES[1:]:
            worst, mean = ratios[power, line.name]
            marks.append(mark("plot", EPSILONS, mean, label=f"{line.name}: average", **line.style))
            marks.append(mark("plot", EPSILONS, worst, label="worst input", **line.style, **_MARKS))
        marks.append(mark("axhline", 1.0, color=_LINES[0].colour, label="OPM"))
        y, title = "" if panels else "relative to OPM", rf"$\mathrm{{E}}\,{name}$"
        panels.append(
            Panel(marks, x=r"$\varepsilon$", y=y, title=title, xlim=(0.0, 8.0), log="y", legend=None)
        )

    rows: list[tuple[float | str, ...]] = [
        (power, float(epsilon), line.name, *map(float, errors[power, line.name][:, i]))
        for power in (1.0, 2.0)
        for line in _LINES
        for i, epsilon in enumerate(EPSILONS)
    ]
    at = int(np.argmin(np.abs(EPSILONS - 4.0)))
    findings = [
        f"At epsilon 4 the error {name} relative to OPM's, on average over inputs and at the worst input: "
        + ", ".join(
            f"{line.name} {ratios[power, line.name][1, at]:.2f} and {ratios[power, line.name][0, at]:.2f}"
            for line in _LINES[1:]
        )
        + "."
        for power, name in ((1.0, "|y-x|"), (2.0, "(y-x)^2"))
    ]
    least = min(float(ratios[1.0, line.name][1].min()) for line in _LINES[1:])
    findings.append(
        f"On average over the domain every kind of noise has at least {least:.3f} times OPM's E |y-x|, at "
        "every epsilon from 0.1 to 8; at the worst input truncated staircase noise has less (opm-worst-case)."
    )
    findings.append(
        "PM, SW and PTT add no noise to the input, and so are not compared here: opm-worst-case has their "
        "worst input, opm-error-over-domain every input."
    )
    columns = ("power", "epsilon", "mechanism", f"worst_error {UNIT}", f"average_error {UNIT}")
    return Outcome(
        {"errors": Table(columns, rows)},
        Picture([panels], (7.2, 3.8), {"sharey": True}, legend={"loc": "outside lower center", "ncols": 4}),
        (),
        findings,
    )


REPRODUCTIONS = (
    Reproduction(
        "opm-noise",
        f"{SOURCE}: comparison of expected errors",
        "truncated and bounded Laplace and truncated staircase noise against OPM",
        _noise,
    ),
)
