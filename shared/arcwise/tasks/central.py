"""The central statement of a task: its promise about readers who see only released counts.

The statement is a promise with assumptions. `arcwise.analysis.central` computes whether it follows from the
kernel. The statement limits the reports of a device, and this module checks that the task's caps enforce
these limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from arcwise.checks import checked_integer, checked_real, explained, shown
from arcwise.digits import rounded_up
from arcwise.errors import ParameterError, TaskError
from arcwise.values import Value

if TYPE_CHECKING:
    from arcwise.tasks.caps import Caps, Charge

CLOSED_EPOCHS: Final = "closed-epochs"
"""The only release rule that a task can name: an epoch is shown only after it stops taking reports."""

LEAST_DELTA: Final = 1e-200
MOST_REPORTS: Final = 10**12
MOST_RELEASES: Final = 10**6


class CentralStatement(Value):
    """A promise of how little a task's counts reveal to a reader who sees no reports, with its assumptions.

    Parameters
    ----------
    epsilon
        The promised central epsilon, positive. It holds for all releases with reports of one device, taken
        together.
    delta
        The central delta, from 1e-200 to below 1.
    reports
        The number of reports that an epoch must hold before it is released, from 1 to 10^12. Reports that do
        not come from honest devices count too.
    honest
        The share of these reports that the reader neither sent nor knows, above 0 and at most 1. Nobody can
        check it.
    reports_each
        The largest number of reports of one device in one epoch, from 1 to `reports`. The task's rolling cap
        ensures it.
    releases
        The largest number of epochs with reports of one device, from 1 to 10^6. The task's lifetime cap
        ensures it.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> from arcwise.tasks import Caps, Task
    >>> once = CentralStatement(epsilon=1.0, delta=1e-8, reports=10_000)
    >>> task = Task("age", Interval(0, 100), 5.0, caps=Caps(lifetime=5.0, rolling=5.0), central=once)
    >>> task.least_reports, task.releases_closed_epochs
    (10000, True)
    """

    __slots__ = __match_args__ = ("epsilon", "delta", "reports", "honest", "reports_each", "releases")

    epsilon: float
    delta: float
    reports: int
    honest: float
    reports_each: int
    releases: int

    @explained
    def __init__(
        self,
        epsilon: float,
        delta: float,
        reports: int,
        *,
        honest: float = 1.0,
        reports_each: int = 1,
        releases: int = 1,
    ) -> None:
        reports = checked_integer("reports", reports, 1, MOST_REPORTS)
        self._set(
            epsilon=checked_real("epsilon", epsilon, above=0),
            delta=checked_real("delta", delta, least=LEAST_DELTA, below=1),
            reports=reports,
            honest=checked_real("honest", honest, above=0, most=1),
            reports_each=checked_integer("reports_each", reports_each, 1, reports),
            releases=checked_integer("releases", releases, 1, MOST_RELEASES),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return checked_central, (self.to_fields(), "central")

    def to_fields(self) -> dict[str, Any]:
        """Return the statement as a map, as in the bytes and the file of a task."""
        return {name: getattr(self, name) for name in sorted(self.__match_args__)}

    def caps(self, epsilon: float, window: int) -> Caps:
        """Return the caps that make a device satisfy the statement, with this rolling window.

        Parameters
        ----------
        epsilon
            The local epsilon of one report.
        window
            In seconds, at least the length of an epoch.
        """
        from arcwise.tasks.caps import Caps, micro_epsilon

        micro = micro_epsilon(epsilon)
        return Caps(self.releases * micro / 1e6, self.reports_each * micro / 1e6, window)

    def check_caps(self, caps: Caps, charge: Charge, epoch_seconds: int) -> None:
        """Raise `TaskError` if a device could send more than the statement assumes.

        A device sends at most `releases` reports in its life, so it is in at most this many epochs. It sends
        at most `reports_each` reports in any `window` seconds, so an epoch that is not longer than `window`
        holds at most `reports_each` of its reports.
        """
        for kind, micro, what, count in (
            ("lifetime", caps.lifetime_micro, "releases", self.releases),
            ("rolling", caps.rolling_micro, "reports_each", self.reports_each),
        ):
            most = count * charge.micro_epsilon
            if micro is None or micro > most:
                given = "none" if micro is None else rounded_up(micro / 1e6, 15)
                cost = rounded_up(charge.micro_epsilon / 1e6, 15)
                raise TaskError(
                    f"caps.{kind} must be at most {rounded_up(most / 1e6, 15)} in a task with "
                    f"central.{what} = {count:,} and a cost of {cost} per report; got "
                    f"{given}: set it, or make a statement with more {what}"
                )
        if caps.window < epoch_seconds:
            raise TaskError(
                f"caps.window must be at least epoch_seconds = {epoch_seconds} in a task with a central "
                f"statement, got {caps.window}: the rolling cap must hold for a whole epoch"
            )

    def __str__(self) -> str:
        releases = "one epoch" if self.releases == 1 else f"up to {self.releases:,} epochs together"
        each = "one report" if self.reports_each == 1 else f"at most {self.reports_each:,} reports"
        honest = "" if self.honest == 1 else f", {self.honest:.6g} of them from others than the reader"
        return (
            f"epsilon = {rounded_up(self.epsilon)}, delta = {rounded_up(self.delta, 3)}, for the counts of "
            f"{releases}, each closed with at least {self.reports:,} reports{honest} and {each} of a device"
        )


def checked_central(value: object, name: str) -> CentralStatement:
    """Return a statement, given as an object or as a map from bytes or a file; else raise `TaskError`.

    A map must hold all keys of `CentralStatement` and no others.
    """
    if isinstance(value, CentralStatement):
        return value
    if not isinstance(value, dict):
        raise TaskError(
            f"{name} must be None or a CentralStatement, got {shown(value)}; for example "
            "CentralStatement(epsilon=1.0, delta=1e-8, reports=10_000)"
        )
    keys = CentralStatement.__match_args__
    if set(value) != set(keys):
        raise TaskError(f"{name} must hold {', '.join(keys)} and nothing else, got {shown(list(value))}")
    try:
        return CentralStatement(**value)
    except ParameterError as error:
        raise TaskError(f"{name}.{error}") from None


def checked_release(value: object, name: str) -> str:
    """Return the release rule; raise `TaskError` if the rule is unknown."""
    if value != CLOSED_EPOCHS or not isinstance(value, str):
        raise TaskError(f'{name} must be None or "{CLOSED_EPOCHS}", got {shown(value)}')
    return CLOSED_EPOCHS
