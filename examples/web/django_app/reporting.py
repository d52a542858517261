"""The app's reporting: one uplink per process, made on first use, and a client per user."""

from __future__ import annotations

import os
from functools import cache
from threading import Lock

from arcwise.client import Caps, Circle, Client, PostgresLedgers, Task, Uplink

HEADING = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=3.0))


_MAKING = Lock()
"""`cache` alone would let two simultaneous first requests make two uplinks."""


@cache
def _made() -> tuple[PostgresLedgers, Uplink]:
    schema = os.environ.get("LEDGER_SCHEMA", "arcwise_ledger")
    ledgers = PostgresLedgers(os.environ["DATABASE_URL"], schema=schema, create=True)
    url = os.environ.get("REPORTS_URL", "http://127.0.0.1:8000")
    return ledgers, Uplink(url, ledger=ledgers, interval=1.0)


def ledgers() -> PostgresLedgers:
    """Return the ledgers of all users."""
    with _MAKING:
        return _made()[0]


def uplink() -> Uplink:
    """Return the uplink; its thread starts with the first report, and the process flushes it on exit."""
    with _MAKING:
        return _made()[1]


def client_of(user: str) -> Client:
    """Return a client for one user, for use in one request."""
    return Client(uplink(), tasks=[HEADING], ledger=ledgers().account(user))
