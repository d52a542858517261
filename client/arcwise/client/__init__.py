"""The arcwise client: it randomises values on the device, sends the codes and records the privacy loss.

Importing this package does not load numpy, httpx, sqlite3 or asyncio. Each name is loaded on first use,
together with its dependencies. The package also exports domains and tasks, so one import line is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.lazy import lazy_names

if TYPE_CHECKING:
    from arcwise.client.accounts import Budget
    from arcwise.client.aio import AsyncClient, AsyncUplink
    from arcwise.client.client import Client
    from arcwise.client.environment import Environment
    from arcwise.client.file.inspection import Inspection, inspect
    from arcwise.client.file.ledger import FileLedger
    from arcwise.client.ledger import Ledger
    from arcwise.client.memory import MemoryLedger
    from arcwise.client.oblivious import AsyncObliviousTransport, ObliviousTransport
    from arcwise.client.outcomes import Counters, Event, Outcome
    from arcwise.client.postgres.ledger import PostgresLedger, PostgresLedgers
    from arcwise.client.recording import AsyncRecordingTransport, RecordedRequest, RecordingTransport
    from arcwise.client.transport import AsyncHttpxTransport, AsyncTransport, HttpxTransport, Transport
    from arcwise.client.uplink import Uplink
    from arcwise.domains import Circle, Interval
    from arcwise.tasks import Caps, Group, Task

__all__ = [
    "AsyncClient",
    "AsyncHttpxTransport",
    "AsyncObliviousTransport",
    "AsyncRecordingTransport",
    "AsyncTransport",
    "AsyncUplink",
    "Budget",
    "Caps",
    "Circle",
    "Client",
    "Counters",
    "Environment",
    "Event",
    "FileLedger",
    "Group",
    "HttpxTransport",
    "Inspection",
    "Interval",
    "Ledger",
    "MemoryLedger",
    "ObliviousTransport",
    "Outcome",
    "PostgresLedger",
    "PostgresLedgers",
    "RecordedRequest",
    "RecordingTransport",
    "Task",
    "Transport",
    "Uplink",
    "inspect",
]

if not TYPE_CHECKING:  # with `__getattr__`, a type checker would accept any name
    __getattr__ = lazy_names(
        __name__,
        {
            ".domains": ("Circle", "Interval"),
            ".tasks": ("Caps", "Group", "Task"),
            "accounts": ("Budget",),
            "aio": ("AsyncClient", "AsyncUplink"),
            "client": ("Client",),
            "environment": ("Environment",),
            "file.inspection": ("Inspection", "inspect"),
            "ledger": ("Ledger",),
            "file.ledger": ("FileLedger",),
            "memory": ("MemoryLedger",),
            "oblivious": ("AsyncObliviousTransport", "ObliviousTransport"),
            "outcomes": ("Counters", "Event", "Outcome"),
            "postgres.ledger": ("PostgresLedger", "PostgresLedgers"),
            "recording": ("AsyncRecordingTransport", "RecordedRequest", "RecordingTransport"),
            "transport": ("AsyncHttpxTransport", "AsyncTransport", "HttpxTransport", "Transport"),
            "uplink": ("Uplink",),
        },
    )
