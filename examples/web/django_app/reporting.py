"""The app's reporting: one uplink per process, made on first use, and a client per user."""

from __future__ import annotations

import os
from functools import cache

from arcwise.client import Caps, Circle, Client, PostgresLedgers, Task, Uplink

HEADING = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=3.0))


@cache
def ledgers() -> PostgresLedgers:
    """Return the ledgers of all users."""
    return PostgresLedgers(
        os.environ["DATABASE_URL"], schema=os.environ.get("LEDGER_SCHEMA", "arcwise_ledger"), create=True
    )


@cache
def uplink() -> Uplink:
    """Return the uplink; its thread starts with the first report, and the process flushes it on exit."""
    return Uplink(os.environ.get("REPORTS_URL", "http://127.0.0.1:8000"), ledger=ledgers(), interval=1.0)


def client_of(user: str) -> Client:
    """Return a client for one user, for use in one request."""
    return Client(uplink(), tasks=[HEADING], ledger=ledgers().account(user))
