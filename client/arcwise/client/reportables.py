"""What one call of `report` does, for a task, a memoised task and a group: the same on every ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from arcwise.client.accounts import EVERYTHING, bill, bounded
from arcwise.client.outcomes import Outcome
from arcwise.errors import DomainError, ParameterError, UnknownTaskError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.client.accounts import Bill
    from arcwise.client.ledger import Memo, Transaction
    from arcwise.randomness import Randomness
    from arcwise.tasks import Caps, Group, Task


class ReportableTask:
    """A task that is reported with a new draw each time, at its full charge."""

    __slots__ = ("bill", "task")

    def __init__(self, task: Task, caps: Caps | None) -> None:
        self.task = task
        self.bill: Bill = bill(
            [(task.id, task.name, task.charge, task.caps), (EVERYTHING, "everything", task.charge, caps)]
        )

    @property
    def bounded(self) -> bool:
        """Whether a cap limits what a device spends on it."""
        return bounded(self.bill)

    def located(self, value: Any) -> Any:
        """Return where the value lies among the nodes; raise `DomainError` for one outside.

        A float, because what was checked is what must be reported, whatever the value's class does next.
        """
        return self.task.mechanism.locate(value)

    def submit(self, transaction: Transaction, located: Any, now: float, randomness: Randomness) -> Outcome:
        """Charge, randomise and queue one located value in an open transaction."""
        if not transaction.has_room(1):
            return Outcome.FULL
        r, u = randomness.draw()  # before the charge: a source that has nothing costs nothing
        if not transaction.charge(self.bill):
            return Outcome.CAPPED
        # Charged before it exists: whatever fails from here on, no report leaves without its charge.
        mechanism = self.task.mechanism
        code = mechanism.kernel.sample(mechanism.node_at(located, r), u)
        transaction.put(self.task, _epoch(self.task, transaction, now), code)
        return Outcome.ACCEPTED


class MemoizedTask(ReportableTask):
    """A task whose answers are kept: the same answer for the same value, at no further charge.

    One draw rounds every value to a node, so the node is a function of the value: with a new draw each time,
    two stored answers would alternate, and their shares would tell where between two nodes the value lies.
    All answers are charged at once: a charge at each new one would tell that the value has changed. Past the
    last one, the answer of the nearest node that has one is given.
    """

    __slots__ = ("answers",)

    def __init__(self, task: Task, caps: Caps | None, answers: int, *, unlimited: bool) -> None:
        super().__init__(task, caps)
        self.answers = answers
        if not self.bounded and not unlimited:
            # The answers are the limit, also for somebody who opts out, which deletes them, and in again.
            own, *others = self.bill
            whole = own.times(answers)
            own = own._replace(lifetime=whole.epsilon or None, lifetime_delta=whole.delta or None)
            self.bill = (own, *others)

    def submit(self, transaction: Transaction, located: Any, now: float, randomness: Randomness) -> Outcome:
        """Queue the answer for one located value; charge all answers the first time."""
        if not transaction.has_room(1):
            return Outcome.FULL
        mechanism = self.task.mechanism
        memo = transaction.memo(self.task)
        # Both before the charge, see `ReportableTask`: what rounds all values, and what draws a new answer.
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
        """Return the memo, paid for; one that cannot be enlarged stays as it is. None: a cap forbids it."""
        paid = 0 if memo is None else memo.paid
        if paid >= self.answers:
            return memo
        if not transaction.charge(tuple(item.times(self.answers - paid) for item in self.bill)):
            return memo
        return transaction.memoize(self.task, draw, self.answers)

    def _nearest(self, node: int, nodes: Iterable[int]) -> int:
        """Return the nearest of the nodes, of two the lower one; around the circle where there is one."""
        kernel = self.task.mechanism.kernel

        def distance(other: int) -> tuple[int, int]:
            apart = abs(other - node)
            return (min(apart, kernel.nodes - apart) if kernel.circular else apart), other

        return min(nodes, key=distance)


class ReportableGroup:
    """A group of tasks: a round of all of them, or of k that are drawn whatever the values are."""

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
        """Return what a round is charged to, its own account first, as if every task were drawn."""
        return self.bill + tuple(item for items in self._items.values() for item in items)

    def task_bill(self, name: str) -> Bill:
        """Return what one report of a task of the group is charged to, its own account first."""
        return self._items[name] + self.bill

    @property
    def bounded(self) -> bool:
        """Whether caps limit what a device spends on it: every round is charged to one that bounds it."""
        unbounded = sum(not bounded(self.task_bill(name)) for name in self._tasks)
        return unbounded < (self.group.sample or len(self._tasks))

    def located(self, value: Any) -> dict[str, float]:
        """Return by task name the position of each value among the task's nodes, without values of None.

        Raises `ParameterError`, `UnknownTaskError` or `DomainError` for anything but a mapping from task
        names to None or values in their domains.
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
                # What is not a name may be the value, in its place.
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

        A value that is missing costs its share all the same: the charge tells nothing about it.
        """
        chosen = self.group.choose(randomness)
        if not transaction.has_room(len(chosen)):
            return Outcome.FULL
        # Before the charge, see `ReportableTask`.
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
    """Return the epoch of a report that was charged in this transaction."""
    # A rolling cap bounds charges by the ledger's time, which never goes back. Only by the same time does it
    # bound the reports in an epoch, as a central statement assumes, when a clock is set forward and back.
    return task.epoch(now if task.central is None else transaction.time)


Reportable: TypeAlias = "ReportableTask | ReportableGroup"
