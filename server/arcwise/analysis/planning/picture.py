"""What `arcwise plan` writes beside its table: the rows as a CSV file, and the curves as a picture."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.csv_rows import write_rows
from arcwise.analysis.plotting.style import DASHES, finish, plain_log
from arcwise.digits import rounded_up

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from arcwise.analysis.planning.result import Plan

_MOST = 6
_APART = 0.03
"""Mechanisms in a picture, at most, and how far apart those that get a curve of their own."""


def write_csv(path: Path, plan: Plan) -> None:
    """Write a line for each mechanism, numbers with all their digits, without the points of the curves."""
    records = [{name: value for name, value in asdict(row).items() if name != "points"} for row in plan.rows]
    with path.open("w", encoding="utf-8", newline="") as file:
        write_rows(file, list(records[0]), records)


def draw_plan(axes: Axes, plan: Plan) -> None:
    """Draw the error against the number of reports, or against epsilon if that was looked for, on log axes.

    The chosen mechanism and the best of those that differ visibly get a curve each; the answer is a dot.
    """
    shown = [plan.chosen]
    for row in plan.rows:
        if len(shown) < _MOST and all(abs(row.relative / one.relative - 1.0) > _APART for one in shown):
            shown.append(row)
    for number, row in enumerate(shown):
        axes.plot(
            [point[0] for point in row.points],
            [point[1] for point in row.points],
            color=COLOURS[number % len(COLOURS)],
            linestyle=DASHES[number % len(DASHES)] if len(row.points) > 1 else "",
            marker="o" if plan.goal == "distribution" else "",  # simulated at these points only
            linewidth=2.2 if row.chosen else 1.3,
            label=f"{row.label}{', the goal gets it' if row.chosen else ''}",
        )
    answer = plan.chosen
    at = answer.epsilon if plan.found == "epsilon" else answer.reports
    axes.plot([at], [answer.error], "o", color="black", zorder=4)
    if plan.asked is not None:
        axes.axhline(plan.asked, color="black", linewidth=0.7, linestyle=":")
    plain_log(axes, "x")
    plain_log(axes, "y")
    fixed = (
        f"{answer.reports:,} reports" if plan.found == "epsilon" else f"epsilon {rounded_up(answer.epsilon)}"
    )
    finish(
        axes,
        x="epsilon" if plan.found == "epsilon" else "reports",
        y=f"error of the {plan.goal}",
        title=f"{fixed}, values in {plan.domain}",
    )
