"""What `arcwise compare` writes: its rows as a CSV file and as a picture."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.csv_rows import write_rows
from arcwise.analysis.plotting.style import new_figure, plain_log
from arcwise.digits import rounded_up

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from arcwise.analysis.mechanism_table.measures import MechanismRow
    from arcwise.domains import Domain


def write_csv(path: Path, rows: Sequence[MechanismRow]) -> None:
    """Write every field of the rows, numbers with all their digits."""
    records = [{**asdict(row), "delta_probability": row.delta_probability} for row in rows]
    with path.open("w", encoding="utf-8", newline="") as file:
        write_rows(file, list(records[0]), records)


def write_plot(
    path: Path,
    rows: Sequence[MechanismRow],
    domain: Domain,
    epsilon: float,
    *,
    average: str = "uniform inputs",
) -> None:
    """Draw a dot plot, one line for each row in their order, best on top; PNG, SVG or PDF by the suffix.

    `average` names the inputs that the rows' averages are over.
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
    note = "† spends a δ as well" if any(row.delta for row in rows) else None
    figure.legend(handles, names, loc="outside lower center", ncols=3, title=note, title_fontsize=8.5)


def _dots(axes: Axes, pairs: Sequence[tuple[float, float]], colour: str, average: str) -> None:
    """Draw averages as rings and worst cases as dots, joined by lines, on a log axis; the first on top."""
    places = range(len(pairs))
    averages, worsts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    plain_log(axes, "x")
    axes.hlines(places, averages, worsts, color=colour, linewidth=1.0, alpha=0.6)
    axes.plot(worsts, places, "o", color=colour, markersize=4, label="worst input")
    ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": colour, "markersize": 7.5}
    axes.plot(averages, places, "o", label=f"average over {average}", **ring)
    axes.set_ylim(len(pairs) - 0.4, -0.6)
