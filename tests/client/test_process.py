"""The process: forks, and the modules that an import loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import tracemalloc
from typing import TYPE_CHECKING

import httpx
import pytest

import arcwise.client
from arcwise.client import Counters, HttpxTransport, MemoryLedger, Uplink, memory
from arcwise.client.memory import MemoryOutbox
from tests.support.forks import in_child
from tests.support.scripted import serving
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from arcwise.tasks import Task


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_sends_its_own_reports_and_not_its_parents(heading: Task, delay: Task) -> None:
    # On a busy machine more than 5 seconds pass, after which httpx would open another connection.
    transport = HttpxTransport(trust_env=False, limits=httpx.Limits(keepalive_expiry=600))
    with (
        serving() as (url, seen),
        Uplink(url, transport=transport, interval=60) as uplink,
    ):
        outbox = uplink._outbox
        assert isinstance(outbox, MemoryOutbox)
        client = Client(uplink, tasks=[heading, delay], ledger=MemoryLedger())
        client.report("heading", 1.0)
        assert uplink.flush(60)  # a connection is open and the thread is running
        for _ in range(3):
            client.report("heading", 1.0)

        def child() -> bool:
            empty = uplink.counters == Counters()
            accepted = bool(client.report("delay", 1.0))
            return empty and accepted and uplink.flush(30) and uplink.counters.sent == 1

        assert in_child(child)
        # Locks that another thread held at the fork must not block the child.
        locked, release = threading.Event(), threading.Event()

        def hold() -> None:
            with memory._lock, outbox.lock:
                locked.set()
                release.wait(10)

        holder = threading.Thread(target=hold)
        holder.start()
        assert locked.wait(60)
        assert in_child(child)
        release.set()
        holder.join()
        assert uplink.pending == 3
    batches = [request.batch for request in seen]
    by_task = {
        task.name: sum(len(b.codes) for b in batches if b.task_id.hex() == task.id)
        for task in (heading, delay)
    }
    assert by_task == {"heading": 4, "delay": 2}
    assert len({batch.batch_id for batch in batches}) == len(batches)
    assert len({request.peer for request in seen}) == 3  # one per process, never shared


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    return set(json.loads(output))


def test_the_async_twin_loads_asyncio_only() -> None:
    heavy = {"numpy", "httpx", "fastapi", "scipy", "pandas", "uvicorn", "email", "sqlite3"}
    assert modules_after("from arcwise.client import AsyncClient") & heavy == set()


def test_every_public_name_is_documented() -> None:
    """`tests/public_surface.txt` holds the list of these names."""
    for name in arcwise.client.__all__:
        assert getattr(arcwise.client, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        _ = arcwise.client.Clinet  # type: ignore[attr-defined]


def test_a_client_that_was_not_used_is_small(heading: Task) -> None:
    """A gateway has one client for each of its devices."""
    with Uplink("http://127.0.0.1:1") as uplink:
        Client(uplink, tasks=[heading], ledger=MemoryLedger())  # the first client loads what all share
        tracemalloc.start()
        try:
            clients = [Client(uplink, tasks=[heading], ledger=MemoryLedger()) for _ in range(1000)]
            size, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert size / len(clients) < 250  # bytes


def test_equal_task_lists_are_verified_once(heading: Task, delay: Task) -> None:
    """This makes clients cheap enough to have one per simulated device."""
    with Uplink("http://127.0.0.1:1") as uplink:
        first = Client(uplink, tasks=[heading, delay], ledger=MemoryLedger(), max_epsilon=2.0)
        second = Client(uplink, tasks=(heading, delay), ledger=MemoryLedger(), max_epsilon=2.0)
        assert second._policy is first._policy
