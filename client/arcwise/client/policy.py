"""The verified tasks and groups of a client, their costs, and the steps of one report on any ledger."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from arcwise.checks import as_float, did_you_mean, shown
from arcwise.client.accounts import EVERYTHING, bill, bounded
from arcwise.client.outcomes import Outcome
from arcwise.digits import rounded_up
from arcwise.errors import CertificateError, DomainError, ParameterError, TaskError, UnknownTaskError
from arcwise.kernels.certificate import UNIT
from arcwise.tasks import Charge, Task, micro_epsilon
from arcwise.tasks.caps import Caps, check_caps

if TYPE_CHECKING:
    from arcwise.client.accounts import Bill
    from arcwise.client.ledger import Memo, Transaction
    from arcwise.randomness import Randomness
    from arcwise.tasks import Group


class ReportableTask:
    """A task that is reported with a new draw and its full charge each time."""

    __slots__ = ("bill", "task")

    def __init__(self, task: Task, caps: Caps | None) -> None:
        self.task = task
        self.bill: Bill = bill(
            [(task.id, task.name, task.charge, task.caps), (EVERYTHING, "everything", task.charge, caps)]
        )

    @property
    def bounded(self) -> bool:
        """Whether a cap limits the spending on this task."""
        return bounded(self.bill)

    def located(self, value: Any) -> Any:
        """Return the value's position among the nodes; raise `DomainError` for a value outside the domain.

        The position is a float, so the report uses the number that was checked, even if the value's class
        returns another number later.
        """
        return self.task.mechanism.locate(value)

    def submit(self, transaction: Transaction, located: Any, now: float, randomness: Randomness) -> Outcome:
        """Charge, randomise and queue one located value in an open transaction."""
        if not transaction.has_room(1):
            return Outcome.FULL
        r, u = randomness.draw()  # before the charge: if this fails, nothing is charged
        if not transaction.charge(self.bill):
            return Outcome.CAPPED
        # The charge comes before the code exists: even if a later step fails, no report leaves uncharged.
        mechanism = self.task.mechanism
        code = mechanism.kernel.sample(mechanism.node_at(located, r), u)
        transaction.put(self.task, _epoch(self.task, transaction, now), code)
        return Outcome.ACCEPTED


class MemoizedTask(ReportableTask):
    """A task with stored answers: equal values get the same answer at no further charge.

    One draw rounds every value to a node, so that the node is a function of the value. With a new draw each
    time, two stored answers would alternate, and their shares would show where the value lies between two
    nodes. All answers are charged together, because a charge for each new answer would show that the value
    has changed. Once all answers are in use, a value gets the answer of the nearest node that has one.
    """

    __slots__ = ("answers",)

    def __init__(self, task: Task, caps: Caps | None, answers: int, *, unlimited: bool) -> None:
        super().__init__(task, caps)
        self.answers = answers
        if not self.bounded and not unlimited:
            # Cap the spending at the cost of all answers: opting out deletes the answers, and a user may opt
            # in again.
            own, *others = self.bill
            whole = own.times(answers)
            own = own._replace(lifetime=whole.epsilon or None, lifetime_delta=whole.delta or None)
            self.bill = (own, *others)

    def submit(self, transaction: Transaction, located: Any, now: float, randomness: Randomness) -> Outcome:
        """Queue the answer for one located value; the first time, charge all answers."""
        if not transaction.has_room(1):
            return Outcome.FULL
        mechanism = self.task.mechanism
        memo = transaction.memo(self.task)
        # Both draws come before the charge, see `ReportableTask`: r rounds all values, u makes a new answer.
        r = randomness.draw()[0] if memo is None else memo.draw
        node = mechanism.node_at(located, r)
        is_new = memo is None or (memo.get(node) is None and len(memo) < self.answers)
        u = randomness.draw()[1] if is_new else 0
        memo = self._paid(transaction, memo, r)
        if memo is None:
            return Outcome.CAPPED
        code = memo.get(node)
        if code is None:
            if len(memo) < min(self.answers, memo.paid):
                code = mechanism.kernel.sample(node, u)
                memo[node] = code
            else:
                code = memo[self._nearest(node, memo)]
        transaction.put(self.task, self.task.epoch(now), code)
        return Outcome.ACCEPTED

    def _paid(self, transaction: Transaction, memo: Memo | None, draw: int) -> Memo | None:
        """Charge the unpaid answers and return the memo; if a cap forbids that, return `memo` unchanged."""
        paid = 0 if memo is None else memo.paid
        if paid >= self.answers:
            return memo
        if not transaction.charge(tuple(item.times(self.answers - paid) for item in self.bill)):
            return memo
        return transaction.memoize(self.task, draw, self.answers)

    def _nearest(self, node: int, nodes: Iterable[int]) -> int:
        """Return the nearest of `nodes`, around the circle if the kernel is circular; of two, the lower."""
        kernel = self.task.mechanism.kernel

        def distance(other: int) -> tuple[int, int]:
            apart = abs(other - node)
            return (min(apart, kernel.nodes - apart) if kernel.circular else apart), other

        return min(nodes, key=distance)


class ReportableGroup:
    """A group of tasks: a round reports all tasks, or k tasks that are drawn independently of the values."""

    __slots__ = ("_items", "_tasks", "bill", "group")

    def __init__(self, group: Group, caps: Caps | None) -> None:
        self.group = group
        self.bill: Bill = bill(
            [(group.id, group.name, group.charge, group.caps), (EVERYTHING, "everything", group.charge, caps)]
        )
        self._tasks = {task.name: task for task in group.tasks}
        self._items = {
            task.name: bill([(task.id, task.name, task.charge, task.caps)]) for task in group.tasks
        }

    def whole_bill(self) -> Bill:
        """Return the bill of a round in which every task is drawn, with the group's own account first."""
        return self.bill + tuple(item for items in self._items.values() for item in items)

    def task_bill(self, name: str) -> Bill:
        """Return the bill of one report of a task of the group, with the task's own account first."""
        return self._items[name] + self.bill

    @property
    def bounded(self) -> bool:
        """Whether caps limit the spending: every round includes a task with a bounded bill."""
        unbounded = sum(not bounded(self.task_bill(name)) for name in self._tasks)
        return unbounded < (self.group.sample or len(self._tasks))

    def located(self, value: Any) -> dict[str, float]:
        """Return each value's position among its task's nodes, by task name; leave out values of None.

        Raises `ParameterError`, `UnknownTaskError` or `DomainError` unless the value is a mapping from task
        names to None or values in the tasks' domains.
        """
        if not isinstance(value, Mapping):
            raise ParameterError(
                f"the value of group {self.group.name!r} must be a mapping from task names to numbers, "
                f"got a {type(value).__name__}"
            )
        positions = {}
        for name, number in dict(value).items():
            task = self._tasks.get(name)
            if task is None:
                known = ", ".join(map(repr, self._tasks))
                # If the name is not a string, it may be the value, so it is not shown.
                given = repr(name) if isinstance(name, str) else f"is a {type(name).__name__}"
                raise UnknownTaskError(f"no task {given} in group {self.group.name!r}; it has {known}")
            if number is not None:
                try:
                    positions[name] = task.mechanism.locate(number)
                except DomainError as error:
                    raise DomainError(f"{name!r}: {error}") from None
        return positions

    def submit(self, transaction: Transaction, located: Any, now: float, randomness: Randomness) -> Outcome:
        """Charge a round and queue its reports in an open transaction.

        A missing value is charged all the same, so that the charge reveals nothing about it.
        """
        chosen = self.group.choose(randomness)
        if not transaction.has_room(len(chosen)):
            return Outcome.FULL
        # Draw before the charge, see `ReportableTask`.
        draws = [(task, randomness.draw()) for task in chosen if located.get(task.name) is not None]
        if not transaction.charge(
            tuple(item for task in chosen for item in self._items[task.name]) + self.bill
        ):
            return Outcome.CAPPED
        for task, (r, u) in draws:
            code = task.mechanism.kernel.sample(task.mechanism.node_at(located[task.name], r), u)
            transaction.put(task, _epoch(task, transaction, now), code)
        return Outcome.ACCEPTED


def _epoch(task: Task, transaction: Transaction, now: float) -> int:
    """Return the epoch of a report that is charged in this transaction."""
    # A rolling cap limits charges by the ledger's time, which never goes back. A central statement assumes
    # that the cap also limits the reports in an epoch. If a clock is set forward and back, that holds only if
    # the epoch follows the ledger's time.
    return task.epoch(now if task.central is None else transaction.time)


Reportable: TypeAlias = "ReportableTask | ReportableGroup"


_UNLIMITED = "unlimited"
"""The value of `caps` with which an app accepts an unbounded privacy loss."""

_MOST_ANSWERS = 1_000_000
"""The largest number of memoised answers. No task has this many nodes, and every ledger can hold the cost."""

_SUGGESTED = 5
"""Number of reports that the cap suggested in an error message allows."""


class Policy:
    """The tasks and groups of a client by name, and the caps that all of them share.

    `remembers` names a setting that needs a ledger which outlives the process; None without such a setting.
    """

    __slots__ = ("_bills", "_everything", "remembers", "reportables")

    def __init__(self, reportables: dict[str, Reportable], caps: Caps | None, remembers: str | None) -> None:
        self.reportables = reportables
        self.remembers = remembers
        self._bills: dict[str, Bill] = {}
        for name, reportable in reportables.items():
            self._bills[name] = reportable.bill
            if isinstance(reportable, ReportableGroup):
                self._bills[name] = reportable.whole_bill()
                self._bills.update(
                    (task.name, reportable.task_bill(task.name)) for task in reportable.group.tasks
                )
        self._everything = bill([(EVERYTHING, "everything", Charge(0, 0), caps)])

    def reportable(self, name: str) -> Reportable:
        """Return the task or group of this name, or raise `UnknownTaskError`."""
        reportable = self.reportables.get(name) if isinstance(name, str) else None
        if reportable is None:
            known = ", ".join(map(repr, self.reportables))
            if not isinstance(name, str):  # it may be the value, given instead of the name
                raise UnknownTaskError(
                    f"no task is a {type(name).__name__}: give a name; this client has {known}"
                )
            for other, group in self.reportables.items():
                if isinstance(group, ReportableGroup) and name in {task.name for task in group.group.tasks}:
                    raise UnknownTaskError(
                        f"task {name!r} belongs to group {other!r}: report the group, with a mapping from "
                        "task names to values"
                    )
            hint = did_you_mean(name, self.reportables)
            raise UnknownTaskError(f"no task {shown(name)}; this client has {known}{hint}")
        return reportable

    @property
    def names(self) -> frozenset[str]:
        """The names of all groups and all tasks, including the tasks in groups."""
        return frozenset(self._bills)

    def bill(self, name: str | None) -> Bill:
        """Return the bill of a report to a task, or of a round of a group, whose account is first.

        None means everything. Raises `UnknownTaskError` if no task or
        group has this name.
        """
        if name is None:
            return self._everything
        bill = self._bills.get(name) if isinstance(name, str) else None
        if bill is None:
            known = ", ".join(map(repr, self._bills))
            given = shown(name) if isinstance(name, str) else f"is a {type(name).__name__}"  # maybe the value
            raise UnknownTaskError(f"no task {given}; this client has {known}")
        return bill


def policy_of(
    tasks: Iterable[Task | Group],
    *,
    caps: Caps | Literal["unlimited"] | None,
    memoize: Mapping[str, int] | None,
    max_epsilon: float | None,
    max_delta: float,
) -> Policy:
    """Check these arguments of `Client` and return the policy.

    Raises `ParameterError` if an argument is invalid or no cap bounds the spending, and `CertificateError` if
    a report may spend more than `max_epsilon` or `max_delta`.
    """
    if not isinstance(caps, (Caps, NoneType)) and not (isinstance(caps, str) and caps == _UNLIMITED):
        raise ParameterError(
            f'caps must be None, a Caps such as Caps(lifetime=5.0), or "{_UNLIMITED}"; got {shown(caps)}'
        )
    memoize = {} if memoize is None else memoize
    if not isinstance(memoize, Mapping) or not all(type(count) is int for count in memoize.values()):
        raise ParameterError(
            f"memoize must be None or a mapping from task names to integers, got {memoize!r}"
        )
    _Most(max_epsilon, max_delta)  # checked here first: a wrong type may not be hashable
    if isinstance(tasks, (str, Task)) or not isinstance(tasks, Iterable):
        raise ParameterError(
            f"tasks must be an iterable of Task and Group, such as [Task.load(FILE)]; got {shown(tasks)}"
        )
    try:
        return _policy(tuple(tasks), caps, tuple(memoize.items()), max_epsilon, max_delta)
    except TypeError as error:  # not iterable, or an item is not hashable
        raise ParameterError(f"tasks must be an iterable of Task and Group: {error}") from error


@lru_cache(maxsize=256, typed=True)
def _policy(
    tasks: tuple[object, ...],
    chosen: Caps | str | None,
    memoize: tuple[tuple[str, int], ...],
    max_epsilon: object,
    max_delta: object,
) -> Policy:
    """Return the policy; cached, because tasks are immutable and many clients have the same tasks."""
    if not tasks:
        raise ParameterError("tasks must hold at least one Task")
    caps = chosen if isinstance(chosen, Caps) else None
    most = _Most(max_epsilon, max_delta)
    answers = dict(memoize)
    reportables: dict[str, Reportable] = {}
    names: set[str] = set()
    remembers = "caps on everything" if _bounds(caps) else None
    for thing in tasks:
        reportable = _reportable(thing, caps, answers, most, unlimited=chosen == _UNLIMITED)
        named: Task | Group
        within: tuple[Task, ...] = ()
        if isinstance(reportable, ReportableGroup):
            named, within = reportable.group, reportable.group.tasks
        else:
            named = reportable.task
        for name in (named.name, *(task.name for task in within)):
            if name in names:
                raise ParameterError(f"tasks and groups must have different names, got {name!r} twice")
            names.add(name)
        reportables[named.name] = reportable
        if isinstance(reportable, MemoizedTask):
            remembers = f"memoised answers of task {named.name!r}"
        for capped in (named, *within):
            if remembers is None and _bounds(capped.caps):
                remembers = f"caps of {capped.name!r}"
    if answers:
        unknown = ", ".join(map(repr, answers))
        first = next(iter(answers))
        hint = did_you_mean(first, names) if isinstance(first, str) else ""
        raise ParameterError(
            f"memoize must name tasks of this client that are in no group, got {unknown}{hint}"
        )
    for reportable in reportables.values():
        if chosen != _UNLIMITED and not reportable.bounded:
            raise _unbounded(reportable)
    return Policy(reportables, caps, remembers)


def _reportable(
    thing: object, caps: Caps | None, answers: dict[str, int], most: _Most, *, unlimited: bool
) -> Reportable:
    """Return the reportable of a task or a group, and take its entry out of `answers`."""
    if isinstance(thing, Task):
        certificate = thing.mechanism.certificate()
        most.check(f"a report to task {thing.name!r}", thing.charge, certificate.epsilon)
        if thing.name not in answers:
            _check_room(caps, thing.charge, f"report to task {thing.name!r}")
            return ReportableTask(thing, caps)
        count = answers.pop(thing.name)
        if not 1 <= count <= _MOST_ANSWERS:
            raise ParameterError(
                f"memoize[{thing.name!r}] must be from 1 to {_MOST_ANSWERS:,} answers, got {count!r}"
            )
        if thing.central is not None:
            raise ParameterError(
                f"memoize must not name task {thing.name!r}: its central statement assumes fresh answers, "
                "and the counts of two epochs would differ by the answers of the devices that changed; leave "
                "it out"
            )
        whole = Charge(thing.charge.micro_epsilon * count, thing.charge.delta_units * count)
        for kept in (thing.caps, caps):
            _check_room(kept, whole, f"set of {count} memoised answers of task {thing.name!r}")
        return MemoizedTask(thing, caps, count, unlimited=unlimited)
    from arcwise.tasks.group import Group  # imported only by apps with groups

    if not isinstance(thing, Group):
        raise ParameterError(f"tasks must be Tasks and Groups, got {thing!r}; Task.load(FILE) reads one")
    for task in thing.tasks:
        task.mechanism.certificate()
    most.check(f"a round of group {thing.name!r}", thing.charge, thing.epsilon)
    _check_room(caps, thing.charge, f"round of group {thing.name!r}")
    return ReportableGroup(thing, caps)


def _bounds(caps: Caps | None) -> bool:
    """Return whether the caps contain any cap."""
    return caps is not None and caps != Caps(window=caps.window)


def _unbounded(reportable: Reportable) -> ParameterError:
    """Return the error for a task or group that no cap bounds."""
    if isinstance(reportable, ReportableGroup):
        kind, name, once = "group", reportable.group.name, "round"
    else:
        kind, name, once = "task", reportable.task.name, "report"
    cost = reportable.bill[0].epsilon
    cap = f"lifetime={_SUGGESTED * cost / 1e6!r}" if cost else "lifetime_delta=..."
    allowed = f", {_SUGGESTED} {once}s in all" if cost else ""
    return ParameterError(
        f"no cap limits what a device spends on {kind} {name!r}, where every {once} adds up: give the client "
        f'caps=Caps({cap}){allowed}, or make the {kind} with caps; caps="{_UNLIMITED}" accepts a loss '
        "without bound"
    )


def _check_room(caps: Caps | None, charge: Charge, what: str) -> None:
    if caps is not None:
        try:
            check_caps(caps, charge, what)
        except TaskError as error:
            raise ParameterError(str(error)) from None


class _Most:
    """The limits on the spending of one call of `report`."""

    __slots__ = ("_delta", "_epsilon", "_max_delta", "_max_epsilon")

    def __init__(self, max_epsilon: object, max_delta: object) -> None:
        self._max_epsilon = max_epsilon
        self._max_delta = max_delta
        self._epsilon: int | None = None
        if max_epsilon is not None:
            ceiling = _number(max_epsilon)
            if not ceiling > 0:
                raise ParameterError(f"max_epsilon must be None or a number above 0, got {max_epsilon!r}")
            self._epsilon = None if math.isinf(ceiling) else micro_epsilon(ceiling)
        if not 0 <= _number(max_delta) < 1:
            raise ParameterError(f"max_delta must be a number in [0, 1), got {max_delta!r}")
        self._delta = Fraction(_number(max_delta)) * UNIT

    def check(self, what: str, charge: Charge, epsilon: float) -> None:
        """Raise `CertificateError` if a charge exceeds the limits."""
        if self._epsilon is not None and charge.micro_epsilon > self._epsilon:
            raise CertificateError(
                f"{what} spends epsilon = {epsilon!r}, more than max_epsilon = {self._max_epsilon!r}: raise "
                "max_epsilon, or use a task with a smaller epsilon"
            )
        if charge.delta_units > self._delta:
            raise CertificateError(
                f"{what} spends delta = {rounded_up(charge.delta_units / UNIT)} (exactly "
                f"{charge.delta_units} / 2**64), more than max_delta = {self._max_delta!r}"
            )


def _number(value: Any) -> float:
    """Return a real number as a float, or NaN for anything else, including numbers beyond a float's range."""
    try:
        number = as_float(value)
    except OverflowError:
        return math.nan
    return math.nan if number is None else number
