"""A plan: the reports, the epsilon and the error of the chosen mechanism and of other mechanisms."""

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
    """The reports, the epsilon and the error of one mechanism in a plan.

    `label` is the mechanism's name, with the properties that distinguish this member of its family; `chosen`
    marks the mechanism of `arcwise task new --goal`. `reports` and `epsilon` are given or computed; `error`
    is the expected error with these reports and this epsilon, in the unit of the domain. `half_width` is the
    half-width of the interval at the plan's level, None for a distribution. `relative` is the compared
    quantity divided by the smallest such quantity of all mechanisms. `delta` is the delta that a report
    spends in addition to epsilon, from the certificate: 0 for pure mechanisms. `nodes` and `codes` are N and
    K. `command` makes the task; if it is empty, use ``Task(..., mechanism=...)``. `points` are for pictures:
    pairs (reports, error), or (epsilon, error) if epsilon was computed.
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
    """The answer of `plan`: the computed quantity for every mechanism.

    Attributes
    ----------
    domain, goal
        The arguments of `plan`.
    found
        The computed quantity: "reports", "error" or "epsilon".
    compared
        The quantity by which mechanisms are compared: the computed quantity. For a distribution it is always
        the error, which other mechanisms reach with the reports and the epsilon of the chosen mechanism.
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
        Every mechanism that serves the goal, sorted by the compared quantity, smallest first.
    left_out
        The reasons why other mechanisms are left out, by their label.
    populations
        For a distribution: the error of the chosen mechanism for each population, in the unit of the domain.
    notes
        Remarks on the plan.
    central
        The promise about those who see only released counts. The plan's epsilon is the largest that keeps it.
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
        """Return the plan as a JSON object; no number in it is NaN or infinite."""
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
        """Return a matplotlib figure, which notebooks show: the error over the reports, or over epsilon.

        Parameters
        ----------
        ax
            Axes to draw on instead of a new figure; `plot` then returns them.

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
