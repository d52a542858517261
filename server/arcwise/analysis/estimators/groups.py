"""Reports of a group's tasks: the devices behind them, and whether all tasks were drawn equally often.

A device draws k of the d tasks in every round, so the number of rounds in which it reports a task is binomial
with probability s = k/d. The numbers of reports of the tasks are dependent: a device that draws one task
draws k - 1 other tasks. A single task of a group is estimated like any task, by `estimate` with
``sampled=group.share``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scipy.special import betainc, chdtrc

from arcwise.analysis.estimators.inference_target import check_level
from arcwise.analysis.estimators.result import Value
from arcwise.checks import explained, shown
from arcwise.errors import ParameterError
from arcwise.tasks import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_FEW = 5  # average reports per task from which the chi-square law is accurate enough
_SUSPICIOUS = 0.001  # below this p-value, the note says that chance does not explain the difference

_ROUNDS = (
    "a device counts once for every round",
    "devices whose value was missing are not among them",
)


@dataclass(frozen=True)
class TaskReports:
    """A task of a group, its reports, and the number of rounds in which a device had a value for it."""

    task: str
    reports: int
    devices: Value

    def __str__(self) -> str:
        devices = self.devices
        value, low, high = (number or 0.0 for number in (devices.value, devices.low, devices.high))
        interval = "" if low == high else f" [{low:,.0f}, {high:,.0f}]"
        return f"{self.reports:>12,} reports, {value:,.0f}{interval} devices"


@dataclass(frozen=True)
class GroupReports:
    """The reports of a group's tasks.

    Attributes
    ----------
    group, group_id
        The name and the id of the group.
    sample
        The number of tasks that a device reports in a round; None for all.
    level
        The level of the intervals.
    tasks
        The tasks in the order of the group.
    p_value
        The probability that the tasks' numbers of reports differ at least as much as these, if every device
        has a value for every task. None without sampling, and with fewer than 5 reports per task on average.
    note
        The conclusion from the numbers of reports, in words.
    """

    group: str
    group_id: str
    sample: int | None
    level: float
    tasks: tuple[TaskReports, ...]
    p_value: float | None
    note: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the attributes."""
        tasks = [{**vars(row), "devices": row.devices.to_dict()} for row in self.tasks]
        return {**vars(self), "tasks": tasks}

    def __repr__(self) -> str:
        reports = ", ".join(f"{row.task} {row.reports:,}" for row in self.tasks)
        return f"<GroupReports of {self.group!r}: {reports}>"

    def __str__(self) -> str:
        drawn = "every task" if self.sample is None else f"{self.sample} of {len(self.tasks)} tasks"
        width = max(len(row.task) for row in self.tasks)
        lines = [f"group {self.group}: a device reports {drawn} in a round"]
        lines += [f"  {row.task:<{width}}  {row}" for row in self.tasks]
        return "\n".join([*lines, f"  {self.note}", f"  {'; '.join(_ROUNDS)}"])


@explained
def group_reports(group: Group, reports: Mapping[str, int], *, level: float = 0.95) -> GroupReports:
    """Return the devices behind the reports of each task, and whether all tasks were drawn equally often.

    Parameters
    ----------
    group
        The group that the devices use.
    reports
        The number of reports by task name, from the same rounds for all tasks.
    level
        The level of the intervals.

    Raises
    ------
    ParameterError
        When a task of the group has no number, or the level is out of its bounds.

    Examples
    --------
    >>> from arcwise.domains import Circle, Interval
    >>> from arcwise.tasks import Group
    >>> domains = {"heading": Circle(360), "speed": Interval(0, 180)}
    >>> group = Group.share_budget("vehicle", domains, epsilon=2.0)
    >>> found = group_reports(group, {"heading": 5_103, "speed": 4_897})
    >>> found.tasks[0].devices.value, round(found.p_value, 3)
    (10206.0, 0.039)
    """
    check_level(level)
    if not isinstance(group, Group):
        raise ParameterError(f"group must be a Group, such as Group.load(FILE) returns, got {shown(group)}")
    numbers = []
    for task in group.tasks:
        number = reports.get(task.name)
        if type(number) is not int or number < 0:
            raise ParameterError(
                f"reports must hold a non-negative integer for every task, got {number!r} for {task.name!r}"
            )
        numbers.append(number)
    p_value = None if group.sample is None else drawn_alike(numbers, group.sample)
    rows = tuple(
        TaskReports(task.name, number, devices_behind(number, group.share, level=level))
        for task, number in zip(group.tasks, numbers, strict=True)
    )
    return GroupReports(
        group.name, group.id, group.sample, level, rows, p_value, _note(numbers, group.sample, p_value)
    )


def devices_behind(reports: int, share: float, *, level: float = 0.95) -> Value:
    """Return the number of devices, given how many of them were drawn to report with probability `share`.

    The interval holds every number of devices M that explains the number drawn: neither "this many or fewer"
    nor "this many or more" has a probability below half the error. This is the method of Clopper and Pearson,
    but for M instead of the share.
    """
    method = "reports divided by the share of devices that was drawn; exact binomial interval"
    if share == 1.0:
        return Value(reports, reports, reports, "all devices report", _ROUNDS)
    tail = (1.0 - level) / 2
    low, high = 0, _last(reports, lambda devices: _at_most(reports, devices, share) > tail)
    if reports:
        low = reports
        if betainc(reports, 1.0, share) <= tail:
            low = 1 + _last(reports, lambda devices: betainc(reports, devices - reports + 1.0, share) <= tail)
    return Value(reports / share, low, high, method, _ROUNDS)


def _at_most(reports: int, devices: int, share: float) -> float:
    """Return the probability that at most `reports` of the devices are drawn."""
    return 1.0 if devices <= reports else float(betainc(devices - reports, reports + 1.0, 1.0 - share))


def _last(start: int, holds: Callable[[int], bool]) -> int:
    """Return the last integer from `start` on for which `holds` is true; it is true at `start`."""
    step = 1
    while holds(start + step):
        step *= 2
    low, high = start + step // 2, start + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def drawn_alike(reports: Sequence[int], sample: int) -> float | None:
    """Return the probability of numbers that differ at least this much, or None for too few reports.

    `reports` has one number for each of the d tasks. Every device draws `sample` = k of the tasks, fewer than
    d.

    The indicator that a device draws a task has the variance ``s (1-s)``, and the covariances between tasks
    keep the sum constant. So with n_j the reports of task j and m their average,
    ``sum (n_j - m)^2 (d-1) / (m (d-k))`` has nearly the chi-square law with d - 1 degrees of freedom:
    Pearson's statistic times ``(d-1) / (d-k)``.
    """
    tasks = len(reports)
    average = sum(reports) / tasks
    if average < _FEW:
        return None
    squares = sum((number - average) ** 2 for number in reports)
    return float(chdtrc(tasks - 1, squares / average * (tasks - 1) / (tasks - sample)))


def _note(reports: Sequence[int], sample: int | None, p_value: float | None) -> str:
    missing = "values are missing in some devices, a cap of a task's own was reached, or batches were lost"
    if sample is None:
        return "equal numbers of reports" if len(set(reports)) == 1 else f"the tasks differ: {missing}"
    if p_value is None:
        return "too few reports to test whether the tasks were drawn equally often"
    if p_value < _SUSPICIOUS:
        return f"the tasks differ by more than random drawing explains (p = {p_value:.2g}): {missing}"
    return f"the numbers agree with tasks drawn equally often (p = {p_value:.2g})"
