"""The least users for a mean: worst-case variance of unbiased mechanisms beside what none can be below.

No source shows this figure. It puts the published mechanisms of the piecewise family and of few outputs
beside the optimum over all mechanisms, which linear programming bounds from below and designs come close to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import PchipInterpolator

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.design import figures
from arcwise.mechanisms.closed_forms.finite import (
    duchi_worst_variance,
    hybrid_worst_variance,
    three_outputs_worst_variance,
)
from arcwise.mechanisms.closed_forms.piecewise import piecewise_parameter, piecewise_worst_variance
from arcwise.mechanisms.closed_forms.published import best_published_variance
from arcwise.papers.base import Outcome, Progress, Reproduction, Table
from arcwise.papers.interval_laws import EPSILONS
from arcwise.papers.pictures import Panel, Picture, mark

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from arcwise.analysis.design import Figure as Row
    from arcwise.mechanisms.closed_forms.piecewise import PiecewiseMember

DESIGNED = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Where designs and bounds are computed, unless the full size is asked for: `_FULL` then."""

_FULL = (0.1, *(0.25 * i for i in range(1, 33)))
_TABLE = (0.5, 1.0, 2.0, 4.0)
_UNIT = "(domain lengths squared)"


def _member(name: PiecewiseMember) -> Callable[[float], float]:
    return lambda epsilon: piecewise_worst_variance(epsilon, s=piecewise_parameter(epsilon, name))


_LINES: dict[str, tuple[Callable[[float], float], str, Any]] = {
    "Duchi": (duchi_worst_variance, COLOURS[6], (0, (1, 1.2))),
    "PM": (_member("pm"), COLOURS[1], (0, (6, 2))),
    "PM-SUB": (_member("pm-sub"), COLOURS[4], (0, (3, 1, 1, 1, 1, 1))),
    "PM-OPT": (_member("pm-opt"), COLOURS[5], (0, (2, 1))),
    "HM": (hybrid_worst_variance, COLOURS[2], (0, (4, 1.5, 1, 1.5))),
    "three outputs": (three_outputs_worst_variance, COLOURS[3], (0, (8, 1.5))),
}
"""Worst-case variances on [0, 1], colours and dashes."""


def _variance(full: bool, progress: Progress) -> Outcome:
    epsilons = _FULL if full else DESIGNED
    rows = figures(
        epsilons,
        published={epsilon: best_published_variance(epsilon) for epsilon in epsilons},
        inputs=None if full else 33,
        progress=lambda share, _: progress(round(share * len(epsilons)), len(epsilons)),
    )
    curves = {
        name: np.array([function(float(epsilon)) for epsilon in EPSILONS])
        for name, (function, _, _) in _LINES.items()
    }
    bounds = np.array([row.bound for row in rows])

    at = np.array(epsilons)
    # Between the points that are computed: in proportion to PM-OPT, from which it is never far.
    near = _LINES["PM-OPT"][0]
    share = PchipInterpolator(np.log(at), bounds / np.array([near(epsilon) for epsilon in epsilons]))
    between = curves["PM-OPT"] * share(np.log(EPSILONS))
    looks = {name: {"color": colour, "linestyle": dash} for name, (_, colour, dash) in _LINES.items()}
    designs: dict[str, Any] = {"color": COLOURS[0], "marker": "s", "linestyle": "", "clip_on": False}
    bound: dict[str, Any] = {"color": "black", "linewidth": 0.9}
    upper = Panel(
        [
            *(mark("plot", EPSILONS, curves[name], label=name, **style) for name, style in looks.items()),
            mark("plot", at, [row.worst for row in rows], label="LP design", **designs),
            mark("plot", EPSILONS, between, label="LP bound, all mechanisms", zorder=1, **bound),
        ],
        y=r"worst-case variance on $[0, 1]$",
        xlim=(0.1, 8.0),
        ylim=(0.5 * float(bounds.min()), None),
        log="xy",
    )
    lower = Panel(
        [
            *(mark("plot", EPSILONS, curves[name] / between, **style) for name, style in looks.items()),
            mark("plot", at, [row.worst / row.bound for row in rows], **designs),
            mark("axhline", 1.0, **bound),
        ],
        x=r"$\varepsilon$",
        y="relative to the bound",
        xlim=(0.1, 8.0),
        ylim=(0.98, 2.0),
        log="x",
    )

    return Outcome(
        {
            "designs": Table(
                (
                    "epsilon",
                    *(f"{name} {_UNIT}" for name in ("bound", "design", "best_published")),
                    "codes",
                    "nodes",
                ),
                [(row.epsilon, row.bound, row.worst, _published(row), row.codes, row.nodes) for row in rows],
            ),
            "curves": Table.of(
                epsilon=EPSILONS, **{f"{name} {_UNIT}": curve for name, curve in curves.items()}
            ),
            "summary": _summary(rows),
        },
        Picture([[upper], [lower]], (6.4, 6.0), {"sharex": True, "height_ratios": (3, 2)}),
        (),
        _findings(rows),
    )


def _published(row: Row) -> float:
    """Return the best published variance, which is given for every row here."""
    return float("nan") if row.published is None else row.published


def _summary(rows: list[Row]) -> Table:
    """Return the worst-case variances at a few epsilons, one line for each mechanism."""
    at = {row.epsilon: row for row in rows}
    lines: list[tuple[float | str, ...]] = [
        ("LP bound, all mechanisms", *(at[epsilon].bound for epsilon in _TABLE)),
        ("LP design", *(at[epsilon].worst for epsilon in _TABLE)),
    ]
    lines += [(name, *(function(epsilon) for epsilon in _TABLE)) for name, (function, _, _) in _LINES.items()]
    return Table(("mechanism", *(f"epsilon {epsilon:g} {_UNIT}" for epsilon in _TABLE)), lines)


def _findings(rows: list[Row]) -> list[str]:
    at = {row.epsilon: row for row in rows}
    shown = ", ".join(
        f"{at[epsilon].excess:.2%} at epsilon {epsilon:g} (PM needs "
        f"{piecewise_worst_variance(epsilon) / at[epsilon].worst:.2f} times as many users)"
        for epsilon in _TABLE
    )
    savings = {row.epsilon: _published(row) / row.worst for row in rows}
    least = min(savings, key=savings.__getitem__)
    most = max(savings, key=savings.__getitem__)
    return [
        f"The design's worst-case variance is above what any epsilon-LDP mechanism can reach by {shown}.",
        "The best published mechanism, mixtures of PM and three outputs with free parameters included, needs "
        f"{savings[least]:.3f} (epsilon {least:g}) to {savings[most]:.3f} (epsilon {most:g}) times as many "
        "users as the design.",
    ]


REPRODUCTIONS = (
    Reproduction(
        "unbiased-variance",
        "this project",
        "worst-case variance of unbiased mechanisms, the LP designs and the bound for all mechanisms",
        _variance,
    ),
)
