"""Report headings through NATS JetStream instead of HTTP, with a custom transport and an app that uses it.

python examples/nats/device.py nats://127.0.0.1:4222 heading.json 1000
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from typing import TYPE_CHECKING, Any

import nats

from arcwise.client import Client, MemoryLedger, Task, Uplink
from arcwise.wire import decode_batch

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

SUBJECT = "arcwise.reports"


class NatsTransport:
    """Publishes each batch as a message, with the batch id as the message id.

    A client calls `post` from its sending thread, but nats-py needs asyncio, so the transport runs an event
    loop in a thread of its own. The client treats any exception of `post` as network trouble, and sends the
    same bytes again later.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._connection: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[int, str | None]:
        """Publish a batch, wait until the stream has stored it, and return 204, which acknowledges it."""
        batch_id = decode_batch(body).batch_id.hex()
        self._call(self._publish(body, batch_id), timeout)
        return 204, None

    async def _publish(self, body: bytes, batch_id: str) -> None:
        if self._connection is None:
            self._connection = await nats.connect(self._servers, max_reconnect_attempts=-1)
        await self._connection.jetstream().publish(SUBJECT, body, headers={"Nats-Msg-Id": batch_id})

    def _call(self, coroutine: Coroutine[Any, Any, None], timeout: float) -> None:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            future.result(timeout)
        finally:
            future.cancel()  # nothing continues after the client's timeout

    def close(self) -> None:
        """Close the connection and end the thread."""
        if self._connection is not None:
            self._call(self._connection.close(), 10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def main() -> None:
    """Report as many headings as requested, each from a different device."""
    servers, task_file, reports = sys.argv[1:]
    task = Task.load(task_file)
    # NatsTransport ignores the URL.
    with Uplink("https://reports.example", transport=NatsTransport(servers), batch_size=10) as uplink:
        for _ in range(int(reports)):
            # Each client is a new device. An app has a FileLedger, which keeps unacknowledged reports.
            client = Client(uplink, tasks=[task], ledger=MemoryLedger())
            client.report(task.name, random.gauss(270.0, 30.0) % 360)
        uplink.flush(timeout=60)
        print(f"{uplink.counters.sent} acknowledged, {uplink.counters.pending} still pending")


if __name__ == "__main__":
    main()
