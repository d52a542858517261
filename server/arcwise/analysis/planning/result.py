"""A plan: the needs and the error of the chosen mechanism, and of the others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from arcwise.digits import rounded_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from arcwise.domains import Domain
    from arcwise.tasks.central import CentralStatement


@dataclass(frozen=True)
class PlannedMechanism:
    """The needs and the error of one mechanism.

    `label` is the mechanism's name, with the properties that distinguish this member of its family; `chosen`
    marks the mechanism of `arcwise task new --goal`. `reports` and `epsilon` are given or computed; `error`
    is the expected error with them, in the unit of the domain. `half_width` is that of the interval at the
    plan's level, None for a distribution. `relative` is the compared quantity divided by the smallest of all
    mechanisms. `delta` is also spent by the reports, as the certificate states: 0 for pure mechanisms.
    `nodes` and `codes` are N and K. `command` makes the task; if it is empty, use ``Task(...,
    mechanism=...)``. `points` are for pictures: pairs (reports, error), or (epsilon, error) if epsilon was
    computed.
    """

    label: str
    chosen: bool
    reports: int
    epsilon: float
    error: float
    half_width: float | None
    relative: float
    delta: float
    nodes: int
    codes: int
    command: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Plan:
    """The answer of `plan`: the quantity that was computed, for every mechanism.

    Attributes
    ----------
    domain, goal
        As given.
    found
        The computed quantity: "reports", "error" or "epsilon".
    compared
        The quantity by which mechanisms are compared: the computed one. For a distribution it is always the
        error, which the others reach with the reports and the epsilon of the chosen mechanism.
    asked
        The requested error, in the unit of the domain; None if the error was computed.
    level
        Level of the half-widths.
    target
        "population" or "users": the group that the mean, direction or distribution describes.
    measure
        Definition of the error, in words.
    holds
        The populations for which the plan holds, in words.
    rows
        Every mechanism that serves the goal, the smallest of the compared quantity first.
    left_out
        Reasons why other mechanisms are left out, by label.
    populations
        For a distribution: the error of the chosen mechanism by population, in the unit of the domain.
    notes
        Further remarks.
    central
        The promise to those who see only released counts: epsilon is the largest that keeps it.
    """

    domain: Domain
    goal: str
    found: str
    compared: str
    asked: float | None
    level: float
    target: str
    measure: str
    holds: str
    rows: tuple[PlannedMechanism, ...]
    left_out: Mapping[str, str]
    populations: Mapping[str, float]
    notes: tuple[str, ...]
    central: CentralStatement | None = None

    @property
    def chosen(self) -> PlannedMechanism:
        """The default mechanism for this goal."""
        return next(row for row in self.rows if row.chosen)

    @property
    def best(self) -> PlannedMechanism:
        """The mechanism with the smallest compared quantity."""
        return self.rows[0]

    @property
    def reports(self) -> int:
        """The reports of the chosen mechanism."""
        return self.chosen.reports

    @property
    def error(self) -> float:
        """The error of the chosen mechanism, in the unit of the domain."""
        return self.chosen.error

    @property
    def epsilon(self) -> float:
        """The epsilon of the chosen mechanism."""
        return self.chosen.epsilon

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object; no number in it is NaN or infinite."""
        chosen = {name: getattr(self.chosen, name) for name in ("reports", "error", "half_width", "epsilon")}
        asked = {name: getattr(self, name) for name in ("goal", "found", "compared", "asked")}
        said = {name: getattr(self, name) for name in ("level", "target", "measure", "holds")}
        return {
            "domain": str(self.domain),
            **asked,
            **chosen,
            **said,
            "mechanisms": [asdict(row) for row in self.rows],
            "left_out": dict(self.left_out),
            "populations": dict(self.populations),
            "notes": list(self.notes),
            **({} if self.central is None else {"central": self.central.to_fields()}),
        }

    def plot(self, *, ax: Axes | None = None) -> Any:
        """Return the picture, a matplotlib figure that notebooks show: error against reports, or epsilon.

        Parameters
        ----------
        ax
            Axes to draw onto instead of a new figure; they are returned.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed: the extra is `plots`.
        """
        from arcwise.analysis.plotting.mechanisms import draw_plan
        from arcwise.analysis.plotting.style import new_figure, styled

        if ax is not None:
            with styled():
                draw_plan(ax, self)
            return ax
        with new_figure((6.4, 4.2)) as figure:
            draw_plan(figure.subplots(), self)
        return figure

    def summary(self) -> str:
        """Return the answer without the table of mechanisms."""
        row = self.chosen
        half = (
            ""
            if row.half_width is None
            else f"; the interval at level {self.level:g} is +- {row.half_width:.4g}"
        )
        lines = [
            f"{row.reports:,} reports at epsilon {rounded_up(row.epsilon)}: error {row.error:.4g}{half}",
            f"  goal       {self.goal} of values in {self.domain}",
            f"  error      {self.measure}",
            f"  holds      {self.holds}",
            f"  mechanism  {row.label}, {row.nodes} nodes, {row.codes} codes",
            f"  command    {row.command}",
        ]
        if self.central is not None:
            lines.insert(1, f"  central    {self.central}")
        if len(self.populations) > 1:
            each = ", ".join(f"{name} {error:.4g}" for name, error in self.populations.items())
            lines.append(f"  by case    {each}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        row = self.chosen
        return (
            f"<Plan of {row.reports:,} reports at epsilon {rounded_up(row.epsilon)}: error {row.error:.4g}>"
        )

    def __str__(self) -> str:
        lines = [self.summary()]
        if len(self.rows) > 1:
            width = max(len(row.label) for row in self.rows) + 2
            lines.append("")
            lines.append(
                f"{'mechanism':<{width}} {'reports':>16} {'epsilon':>8} {'error':>10} "
                f"{'times the ' + self.compared:>17}"
            )
            lines += [
                f"{row.label + (' *' if row.chosen else ''):<{width}} {row.reports:>16,} "
                f"{rounded_up(row.epsilon):>8} {row.error:>10.4g} {row.relative:>17.3f}"
                for row in self.rows
            ]
            lines.append("* the default for this goal")
        return "\n".join(lines)
