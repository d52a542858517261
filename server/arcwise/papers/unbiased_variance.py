"""The fewest users for a mean: the worst-case variance of unbiased mechanisms, with a bound for all.

No source shows this figure. It compares the published mechanisms, those of the piecewise family and those
with few outputs, with the optimum over all mechanisms. Linear programming gives a lower bound on this
optimum, and designs with a variance close to the bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
from arcwise.papers.base import Outcome, Progress, Table, in_unit, reproduction
from arcwise.papers.interval_laws import EPSILONS
from arcwise.papers.pictures import EPSILON, FAMILY_DASHES, Panel, Picture, family_look, mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.analysis.design import Figure as Row
    from arcwise.mechanisms.closed_forms.piecewise import PiecewiseMember

DESIGNED = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
"""The epsilons at which designs and bounds are computed; the full size uses `_FULL` instead."""

_FULL = (0.1, *(0.25 * i for i in range(1, 33)))
_TABLE = (0.5, 1.0, 2.0, 4.0)
_UNIT = "domain lengths squared"


def _member(name: PiecewiseMember) -> Callable[[float], float]:
    return lambda epsilon: piecewise_worst_variance(epsilon, s=piecewise_parameter(epsilon, name))


class _Line(NamedTuple):
    """A mechanism: its worst-case variance on [0, 1] over epsilon, and its style."""

    variance: Callable[[float], float]
    style: dict[str, Any]


_LINES = {
    "Duchi": _Line(duchi_worst_variance, {"color": COLOURS[6], "linestyle": FAMILY_DASHES[3]}),
    "PM": _Line(_member("pm"), family_look(1)),
    "PM-SUB": _Line(_member("pm-sub"), family_look(4)),
    "PM-OPT": _Line(_member("pm-opt"), family_look(5)),
    "HM": _Line(hybrid_worst_variance, family_look(2)),
    "three outputs": _Line(three_outputs_worst_variance, {"color": COLOURS[3], "linestyle": (0, (8, 1.5))}),
}


@reproduction(
    "unbiased-variance",
    "this project",
    "worst-case variance of unbiased mechanisms, the LP designs and the bound for all mechanisms",
)
def _variance(full: bool, progress: Progress) -> Outcome:
    epsilons = _FULL if full else DESIGNED
    rows = figures(
        epsilons,
        inputs=None if full else 33,
        progress=lambda share, _: progress(round(share * len(epsilons)), len(epsilons)),
    )
    curves = {name: np.array([line.variance(float(e)) for e in EPSILONS]) for name, line in _LINES.items()}
    bounds, designs = np.array([row.bound for row in rows]), np.array([row.worst for row in rows])
    at = np.array(epsilons)
    # Between the computed points, interpolate the ratio to PM-OPT, whose variance is never far away.
    share = PchipInterpolator(np.log(at), bounds / [_LINES["PM-OPT"].variance(e) for e in epsilons])
    between = curves["PM-OPT"] * share(np.log(EPSILONS))

    squares: dict[str, Any] = {"color": COLOURS[0], "marker": "s", "linestyle": "", "clip_on": False}
    thin: dict[str, Any] = {"color": "black", "linewidth": 0.9}
    marks = [mark("plot", EPSILONS, curves[name], label=name, **line.style) for name, line in _LINES.items()]
    marks.append(mark("plot", at, designs, label="LP design", **squares))
    marks.append(mark("plot", EPSILONS, between, label="LP bound, all mechanisms", zorder=1, **thin))
    least = 0.5 * float(bounds.min())
    y = r"worst-case variance on $[0, 1]$"
    upper = Panel(marks, "", y, xlim=(0.1, 8.0), ylim=(least, None), log="xy")
    marks = [mark("plot", EPSILONS, curves[name] / between, **line.style) for name, line in _LINES.items()]
    marks.append(mark("plot", at, designs / bounds, **squares))
    marks.append(mark("axhline", 1.0, **thin))
    lower = Panel(marks, EPSILON, "relative to the bound", xlim=(0.1, 8.0), ylim=(0.98, 2.0), log="x")

    found = {"bound": bounds, "design": designs, "best_published": [row.published for row in rows]}
    sizes = {"codes": [row.codes for row in rows], "nodes": [row.nodes for row in rows]}
    return Outcome(
        {
            "designs": Table.of({"epsilon": epsilons, **in_unit(_UNIT, found), **sizes}),
            "curves": Table.of({"epsilon": EPSILONS, **in_unit(_UNIT, curves)}),
            "summary": _summary(rows),
        },
        Picture([[upper], [lower]], (6.4, 6.0), {"sharex": True, "height_ratios": (3, 2)}),
        (),
        _findings(rows),
    )


def _summary(rows: list[Row]) -> Table:
    """Return a table of the worst-case variances at a few epsilons, with one line for each mechanism."""
    at = {row.epsilon: row for row in rows}
    lines: list[tuple[float | str, ...]] = [
        ("LP bound, all mechanisms", *(at[epsilon].bound for epsilon in _TABLE)),
        ("LP design", *(at[epsilon].worst for epsilon in _TABLE)),
    ]
    lines += [(name, *(line.variance(epsilon) for epsilon in _TABLE)) for name, line in _LINES.items()]
    return Table(("mechanism", *(f"epsilon {epsilon:g} ({_UNIT})" for epsilon in _TABLE)), lines)


def _findings(rows: list[Row]) -> list[str]:
    at = {row.epsilon: row for row in rows}
    shown = ", ".join(
        f"{at[epsilon].excess:.2%} at epsilon {epsilon:g} (PM needs "
        f"{piecewise_worst_variance(epsilon) / at[epsilon].worst:.2f} times as many users)"
        for epsilon in _TABLE
    )
    savings = {row.epsilon: row.saving for row in rows}
    least = min(savings, key=savings.__getitem__)
    most = max(savings, key=savings.__getitem__)
    return [
        f"The design's worst-case variance is above the bound for every epsilon-LDP mechanism by {shown}.",
        "The best published mechanism (including mixtures of PM and three outputs with free parameters) "
        f"needs {savings[least]:.3f} (epsilon {least:g}) to {savings[most]:.3f} (epsilon {most:g}) times as "
        "many users as the design.",
    ]
