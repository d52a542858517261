"""A load generator: prepared HTTP/1.1 requests over keep-alive connections, one after the other on each.

It runs in a process of its own, so that it uses another core than the server. It prints the total seconds of
all requests, its own CPU seconds, the number of answers by status, and percentiles of response times in
milliseconds. It stops when all requests are sent. With a pace, each connection sends a request every `pace`
seconds, or immediately if the previous answer came later.

The kind of a request is its content: "empty", "batch" (codes of a task on arcwise's wire), "oblivious" (such
a batch, encrypted to a gateway as it is sent; its answer is opened, and counts with the status inside),
"point" (a line for InfluxDB with one field and a time of its own) or "push" (a sample for Prometheus
Pushgateway).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from arcwise.wire import MEDIA_TYPE, Batch, encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    Seal = Callable[[bytes], tuple[bytes, Callable[[bytes], int]]]
    """The bytes of a request, and a function that finds the status in an answer's content."""

TIMEOUT_SECONDS = 60.0


def request(path: str, body: bytes, media: str = MEDIA_TYPE) -> bytes:
    """Return the bytes of one POST."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {media}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def requests_of(job: dict[str, Any]) -> list[bytes]:
    """Return the requests of a job, all made before the first is sent."""
    kind, path, count = job["kind"], job["path"], job["count"]
    if kind == "empty":
        return [request(path, b"")] * count
    if kind in ("batch", "oblivious"):
        task, epoch = bytes.fromhex(job["task"]), job["epoch"]
        codes = bytes(i % job["codes"] for i in range(job["batch"]))
        bodies = [encode_batch(Batch(task, os.urandom(16), epoch, codes)) for _ in range(count)]
        return bodies if kind == "oblivious" else [request(path, body) for body in bodies]
    if kind == "point":
        now = time.time_ns()  # points with the same time would overwrite one another
        return [request(path, b"report code=%di %d" % (i % 128, now + i), "text/plain") for i in range(count)]
    if kind == "push":
        groups = job["connections"]
        return [request(f"{path}/{i % groups}", b"code %d\n" % (i % 128), "text/plain") for i in range(count)]
    raise ValueError(kind)


def seal_of(job: dict[str, Any]) -> Seal | None:
    """Return a function that encrypts the bodies of a job as they are sent; None for plain requests."""
    if job["kind"] != "oblivious":
        return None
    from arcwise.oblivious.binary_http import Request, decode_response, encode_request, padded
    from arcwise.oblivious.messages import REQUEST_MEDIA_TYPE, decode_key_configs, encapsulate

    (config,) = decode_key_configs(bytes.fromhex(job["config"]))
    inside = Request(
        b"POST",
        b"https",
        b"reports.example",
        f"/v1/tasks/{job['task']}/reports".encode("ascii"),
        ((b"content-type", MEDIA_TYPE.encode("ascii")),),
    )

    def seal(body: bytes) -> tuple[bytes, Callable[[bytes], int]]:
        sent = encapsulate(config, padded(encode_request(inside._replace(content=body))))
        message = request(job["path"], sent.message, REQUEST_MEDIA_TYPE)
        return message, lambda content: decode_response(sent.open_answer(content)).status

    return seal


class Connection(asyncio.Protocol):
    """Sends the next request when the previous answer has arrived."""

    def __init__(
        self,
        requests: list[bytes],
        statuses: Counter[int],
        waits: list[float],
        done: asyncio.Future[None],
        *,
        seal: Seal | None,
        pace: float,
    ) -> None:
        self.pace = pace
        self.due = 0.0
        self.requests = requests
        self.seal = seal
        self.statuses = statuses
        self.waits = waits
        self.sent = 0.0
        self.done = done
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it
        self.due = asyncio.get_running_loop().time()
        self.next()

    def wait(self) -> None:
        """Send the next request when it is due."""
        self.due += self.pace
        asyncio.get_running_loop().call_at(self.due, self.next)

    def next(self) -> None:
        """Send another request, or close."""
        if self.requests:
            self.sent = time.perf_counter()
            message = self.requests.pop()
            if self.seal is not None:
                message, self.opened = self.seal(message)
            self.transport.write(message)
        else:
            self.transport.close()
            if not self.done.done():
                self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, separator, rest = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        lowered = head.lower()
        at = lowered.find(b"content-length:")
        length = int(lowered[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(rest) >= length:
            status = int(head[9:12])
            if self.seal is not None and status == 200:
                status = self.opened(rest)
            self.statuses[status] += 1
            self.waits.append(time.perf_counter() - self.sent)
            self.buffer = b""
            self.wait() if self.pace else self.next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))


async def run(
    port: int, requests: list[bytes], connections: int, seal: Seal | None = None, pace: float = 0.0
) -> tuple[float, float, Counter[int], list[float]]:
    """Send requests over `connections` connections; return the seconds, CPU seconds, statuses and waits."""
    statuses: Counter[int] = Counter()
    waits: list[float] = []
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(connections)]
    start, cpu = time.perf_counter(), time.process_time()
    for future in futures:
        await loop.create_connection(
            lambda future=future: Connection(  # type: ignore[misc]
                requests, statuses, waits, future, seal=seal, pace=pace
            ),
            "127.0.0.1",
            port,
        )
    await asyncio.wait_for(asyncio.gather(*futures), TIMEOUT_SECONDS)
    return time.perf_counter() - start, time.process_time() - cpu, statuses, waits


def main() -> None:
    """Read a JSON object of settings from the command line, and print one of results."""
    job = json.loads(sys.argv[1])
    import uvloop

    load = run(job["port"], requests_of(job), job["connections"], seal_of(job), job.get("pace", 0.0))
    seconds, cpu, statuses, waits = uvloop.run(load)
    percentiles = statistics.quantiles(waits, n=100)
    result = {
        "seconds": seconds,
        "cpu": cpu,
        "statuses": statuses,
        "p50": percentiles[49] * 1e3,
        "p99": percentiles[98] * 1e3,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
