"""The client of arcwise: randomises on the device, sends codes, keeps account of what was spent.

Importing it loads neither numpy, httpx nor asyncio; each is loaded when it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.client.client import Client
from arcwise.client.ledger import Ledger, MemoryLedger
from arcwise.client.outbox import Counters
from arcwise.client.transport import AsyncHttpxTransport, AsyncTransport, HttpxTransport, Transport
from arcwise.client.uplink import Uplink

if TYPE_CHECKING:
    from arcwise.client.aio import AsyncClient, AsyncUplink

__all__ = [
    "AsyncClient",
    "AsyncHttpxTransport",
    "AsyncTransport",
    "AsyncUplink",
    "Client",
    "Counters",
    "HttpxTransport",
    "Ledger",
    "MemoryLedger",
    "Transport",
    "Uplink",
]


def __getattr__(name: str) -> object:
    if name in ("AsyncClient", "AsyncUplink"):
        from arcwise.client import aio

        return getattr(aio, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
