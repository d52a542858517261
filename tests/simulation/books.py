"""The spending that a device must have: a list of all charges, compared with its file."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from arcwise.client.accounts import EVERYTHING
from arcwise.tasks import Task
from arcwise.wire import decode_batch
from tests.simulation.network import Report, reports_of
from tests.simulation.world import CAPS, GROUP, SOLO, TASKS

__all__ = ["Books", "Charge", "Contents", "costs_of", "read"]

_CAPS = {EVERYTHING: CAPS, GROUP.id: GROUP.caps, **{task.id: task.caps for task in TASKS.values()}}


class Charge(NamedTuple):
    """One charge: its ledger time, the amount on each account, and the reports that it pays for."""

    time: float
    costs: dict[str, int]
    reports: frozenset[Report]


class Contents(NamedTuple):
    """The content of a ledger's file."""

    accounts: dict[str, int]
    now: float
    opted_out: bool
    pending: int
    sent: int
    dropped: int
    queued: dict[Report, float]
    """When each report was queued, by the device's clock."""


GIVEN_UP = {"expired", "opted-out", "400", "410", "422"}
"""Reasons to give a report up, because nobody will ever take it. An unknown task may still come."""


def costs_of(tasks: tuple[Task, ...]) -> dict[str, int]:
    """Return the cost of a report, or of a round in which these tasks are reported."""
    if not tasks:
        return {}
    if tasks == (SOLO,):
        return {SOLO.id: SOLO.charge.micro_epsilon, EVERYTHING: SOLO.charge.micro_epsilon}
    costs = {task.id: task.charge.micro_epsilon for task in tasks}
    return {**costs, GROUP.id: GROUP.charge.micro_epsilon, EVERYTHING: GROUP.charge.micro_epsilon}


def read(path: Path) -> Contents:
    """Read a ledger's file directly, without the tested code."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        now, opted_out, pending, sent = connection.execute(
            "SELECT now, opted_out, pending, sent FROM state"
        ).fetchone()
        reasons = dict(connection.execute("SELECT reason, reports FROM dropped"))
        assert set(reasons) <= GIVEN_UP, "given up, and would have been taken later"
        dropped = sum(reasons.values())
        queued = {
            (task, code): created
            for task, code, created in connection.execute(
                "SELECT id, code, created FROM reports JOIN tasks ON tasks.number = task"
            )
        }
        waiting = len(queued)
        for created, count, body in connection.execute("SELECT created, reports, body FROM batches"):
            reports = reports_of(decode_batch(body))
            assert len(reports) == count
            waiting += count
            queued.update(dict.fromkeys(reports, created))
        assert waiting == len(queued) == pending, "queued twice, or not as many as the file says"
        # A refused charge may have opened an account without spending.
        accounts = dict(connection.execute("SELECT account, epsilon FROM accounts WHERE epsilon > 0"))
    return Contents(accounts, now, bool(opted_out), pending, sent, dropped, queued)


class Books:
    """The charges of one device, in the order in which they were made."""

    def __init__(self) -> None:
        self.charges: list[Charge] = []
        self.released: set[Report] = set()
        self.durable: dict[str, int] = {}
        """By account, the spending that a loss of power would leave."""

    def enter(self, charge: Charge) -> None:
        """Record a charge that was made, and check every cap that applies to it."""
        assert not self.charges or charge.time >= self.charges[-1].time, "the ledger's time went back"
        self.charges.append(charge)
        for account in charge.costs:
            assert not self._exceeded(account, charge.time, 0, 0.0), f"cap of {account!r} exceeded"

    def forbids(self, costs: dict[str, int], now: float) -> bool:
        """Return whether a cap forbids a charge. Charges are entered at the second after they are made."""
        return any(self._exceeded(account, now, cost, 1.0) for account, cost in costs.items())

    def _exceeded(self, account: str, now: float, more: int, slack: float) -> bool:
        caps = _CAPS[account]
        spent = [(charge.time, charge.costs[account]) for charge in self.charges if account in charge.costs]
        recent = [cost for time, cost in spent if time > now - caps.window - slack]
        return (
            caps.lifetime_micro is not None and sum(c for _, c in spent) + more > caps.lifetime_micro
        ) or (caps.rolling_micro is not None and sum(recent) + more > caps.rolling_micro)

    def release(self, reports: set[Report]) -> None:
        """Record that reports leave the device; their charges must survive any later event."""
        self.released |= reports
        left = [charge for charge in self.charges if charge.reports & self.released]
        assert self.released <= {report for charge in left for report in charge.reports}, "left uncharged"
        for account, cost in _sum(left).items():
            assert self.durable.get(account, 0) >= cost, "left before its charge was durable"

    def recover(self, contents: Contents, *, may_lose: bool, doubtful: Charge | None) -> None:
        """Take over the state after a crash: all charges, or after a loss of power the first of them.

        A charge is doubtful if the crash came while it was made.
        """
        spent = contents.accounts.get(EVERYTHING, 0)
        kept = 0
        while spent and kept < len(self.charges):
            spent -= self.charges[kept].costs[EVERYTHING]
            kept += 1
        if spent and doubtful is not None:
            self.enter(doubtful._replace(time=contents.now))
            kept += 1
        lost = self.charges[kept:]
        assert may_lose or not lost, "a crash lost a charge"
        del self.charges[kept:]
        assert not self.released & {report for charge in lost for report in charge.reports}
        assert all(contents.accounts.get(account, 0) >= cost for account, cost in self.durable.items())
        self.check(contents)

    def check(self, contents: Contents) -> None:
        """Check that a file holds these charges, and that every report of theirs is accounted for."""
        assert contents.accounts == _sum(self.charges)
        reports = sum(len(charge.reports) for charge in self.charges)
        assert reports == contents.sent + contents.pending + contents.dropped


def _sum(charges: list[Charge]) -> dict[str, int]:
    total: dict[str, int] = {}
    for charge in charges:
        for account, cost in charge.costs.items():
            total[account] = total.get(account, 0) + cost
    return total
