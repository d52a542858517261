"""Pictures that compare mechanisms: the picture of a plan, and the pictures of `arcwise compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.plotting.style import DASHES, finish, new_figure, plain_log
from arcwise.digits import rounded_up

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from arcwise.analysis.mechanism_table.measures import MechanismRow
    from arcwise.analysis.planning.result import Plan
    from arcwise.domains import Domain

_MOST = 6
_APART = 0.03
"""Most mechanisms in the picture of a plan, and the least distance between mechanisms with a curve."""


def draw_plan(axes: Axes, plan: Plan) -> None:
    """Draw the error against the number of reports, or against epsilon if that was computed, on log axes.

    The chosen mechanism and the best of the visibly different mechanisms get a curve each; the plan's answer
    is a dot.
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
            marker="o" if plan.goal == "distribution" else "",  # simulated only at these points
            linewidth=2.2 if row.chosen else 1.3,
            label=f"{row.label}{', default for this goal' if row.chosen else ''}",
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


def write_plot(
    path: Path,
    rows: Sequence[MechanismRow],
    domain: Domain,
    epsilon: float,
    *,
    average: str = "uniform inputs",
) -> None:
    """Draw a dot plot, one line for each row in their order, best on top; PNG, SVG or PDF by the suffix.

    `average` names the inputs that the rows are averaged over.
    """
    with new_figure((8.0, 1.5 + 0.23 * len(rows))) as figure:
        _draw(figure, rows, domain, epsilon, average)
        figure.savefig(path)


def _draw(figure: Figure, rows: Sequence[MechanismRow], domain: Domain, epsilon: float, average: str) -> None:
    circular = domain.circular
    distance = "d(y, x)" if circular else "|y - x|"
    left, right = figure.subplots(1, 2, sharey=True)
    _dots(left, [(row.mean_absolute, row.worst_absolute) for row in rows], COLOURS[0], average)
    if not circular:
        left.plot(
            [row.worst_truncated for row in rows], range(len(rows)), "|", color="black", markersize=8,
            markeredgewidth=1.3, label="worst input, y truncated to the domain", zorder=3,
        )  # fmt: skip
    _dots(right, [(row.mean_squared, row.worst_squared) for row in rows], COLOURS[0], average)
    left.set_xlabel(f"expected {distance}")
    right.set_xlabel(f"expected {distance}²")
    labels = [f"{row.label} †" if row.delta else row.label for row in rows]
    left.set_yticks(range(len(rows)), labels)
    for axes in (left, right):
        axes.tick_params(axis="y", length=0)
    figure.suptitle(f"One report at ε = {rounded_up(epsilon)}, values in {domain}", fontsize=11)
    handles, names = left.get_legend_handles_labels()
    note = "† also spends a δ" if any(row.delta for row in rows) else None
    figure.legend(handles, names, loc="outside lower center", ncols=3, title=note, title_fontsize=8.5)


def _dots(axes: Axes, pairs: Sequence[tuple[float, float]], colour: str, average: str) -> None:
    """Draw averages as rings and worst cases as dots, joined by lines, on a log axis, the first on top."""
    places = range(len(pairs))
    averages, worsts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    plain_log(axes, "x")
    axes.hlines(places, averages, worsts, color=colour, linewidth=1.0, alpha=0.6)
    axes.plot(worsts, places, "o", color=colour, markersize=4, label="worst input")
    ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": colour, "markersize": 7.5}
    axes.plot(averages, places, "o", label=f"average over {average}", **ring)
    axes.set_ylim(len(pairs) - 0.4, -0.6)
