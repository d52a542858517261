"""Charging a ledger without a client: the cost of one report of a task, at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from arcwise.client.accounts import EVERYTHING, bill
from arcwise.client.ledger import OutboxOptions

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from arcwise.client import Ledger
    from arcwise.client.accounts import Bill
    from arcwise.client.ledger import Transaction
    from arcwise.tasks import Caps, Task

__all__ = ["bill_of", "charge", "spent", "transaction"]


def bill_of(task: Task, caps: Caps | None = None) -> Bill:
    """Return the bill of one report of the task, with these caps on everything."""
    return bill([(task.id, task.name, task.charge, task.caps), (EVERYTHING, "everything", task.charge, caps)])


def transaction(ledger: Ledger, now: float) -> AbstractContextManager[Transaction]:
    """Open a transaction whose reports go to a separate queue."""
    return ledger._attach(ledger._open_outbox(OutboxOptions(batch_size=1, capacity=1)))(now)


def charge(ledger: Ledger, task: Task, now: float, caps: Caps | None = None) -> bool:
    """Charge one report at a Unix time; return whether the caps allowed it."""
    with transaction(ledger, now) as opened:
        return opened.charge(bill_of(task, caps))


def spent(ledger: Ledger, task: Task) -> int:
    """Return the total spending on a task, in micro-epsilon."""
    return round(ledger.budget(bill_of(task), -math.inf).epsilon * 1_000_000)
