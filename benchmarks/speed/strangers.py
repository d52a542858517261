"""The cost of requests without a key for a server, and how long reports wait meanwhile.

The server uses keys, a gateway's too, and serves twenty devices, each of which reports every 0.4 s. Meanwhile
it gets, one kind after the other, requests that are as costly to read as a stranger can make them: ten a
second, each on a connection of its own. The output shows the CPU of the server, for a request and for a MiB
of its content, and how long answers to a device took meanwhile. It exits with 1 if the 99th percentile is
above a second. Each kind runs for `--seconds`, and all for two minutes.

    python -m benchmarks.speed.strangers [--seconds 3] [--rate 10] [KIND ...]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from arcwise.domains import Interval
from arcwise.oblivious.binary_http import Request, encode_request, padded
from arcwise.oblivious.messages import REQUEST_MEDIA_TYPE, GatewayKey, KeyConfig, encapsulate
from arcwise.server.access.keys import new_key
from arcwise.server.collect.gateway_keys import GatewayKeyFile
from arcwise.server.store import open_store
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, Batch, encode_batch
from benchmarks.speed.cpu_time import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
DEVICES = 20
PACE = 0.4
MOST_P99 = 1.0
TASK = Task("benchmark", Interval(0, 1), epsilon=1.0)
PATH = f"/v1/tasks/{TASK.id}/reports"
GATEWAY = "/.well-known/ohttp-gateway"


class Server(NamedTuple):
    """A server's address, its process, and a key for reports."""

    port: int
    pid: int
    key: str


class Found(NamedTuple):
    """Results for a kind: bytes of a request, answers, the server's CPU, and the device's waits."""

    size: int
    statuses: Counter[str]
    cpu: float
    waits: list[float]


def post(path: str, body: bytes, media: str, *fields: str) -> bytes:
    """Return the bytes of one POST."""
    lines = (f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Type: {media}", *fields)
    return "\r\n".join((*lines, f"Content-Length: {len(body)}", "", "")).encode() + body


def get(path: str, *fields: str) -> bytes:
    """Return the bytes of one GET."""
    return "\r\n".join((f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *fields, "", "")).encode()


def chunked(path: str, body: bytes, media: str) -> bytes:
    """Return the bytes of one POST in chunks of a byte each."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {media}\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head.encode() + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"


def batch(codes: int) -> bytes:
    """Return the body of a batch with this many codes."""
    return encode_batch(Batch(bytes.fromhex(TASK.id), os.urandom(16), TASK.epoch(time.time()), bytes(codes)))


def tree(most: int) -> bytes:
    """Return nested arrays of five arrays each, in at most `most` bytes."""
    found = b"\x91\x01"
    while 5 * len(found) < most:
        found = b"\x95" + 5 * found
    return found


def kinds_of(config: KeyConfig) -> dict[str, Callable[[], bytes]]:
    """Return functions that make a request of each kind."""
    large = MIB - 100
    fields = ((b"content-type", MEDIA_TYPE.encode()),)
    control = encode_request(Request(b"POST", b"https", b"x", PATH.encode(), (), b""))[:-3]
    section = (0x8000_0000 | large).to_bytes(4, "big") + bytes(large)

    def sealed(inside: bytes, key: KeyConfig = config) -> bytes:
        return post(GATEWAY, encapsulate(key, inside).message, REQUEST_MEDIA_TYPE)

    def inside(content: bytes) -> bytes:
        return padded(encode_request(Request(b"POST", b"https", b"x", PATH.encode(), fields, content)))

    def media(kind: str) -> str:
        return f"Accept: {kind}"

    return {
        "oblivious: empty fields": lambda: sealed(control + section),
        "oblivious: empty trailers": lambda: sealed(control + b"\0\0" + section),
        "oblivious: a large batch": lambda: sealed(inside(batch(large))),
        "oblivious: another's key": lambda: sealed(inside(batch(large)), GatewayKey.generate(1).config),
        "body: a large batch": lambda: post(PATH, batch(large), MEDIA_TYPE),
        "body: msgpack, deep": lambda: post(PATH, b"\x95" + b"\x91" * large, MEDIA_TYPE),
        "body: msgpack, a tree": lambda: post(PATH, tree(large), MEDIA_TYPE),
        "oblivious: msgpack, a tree": lambda: sealed(inside(tree(large))),
        "body: gzip": lambda: post(PATH, bytes(large), MEDIA_TYPE, "Content-Encoding: gzip"),
        "body: chunks of a byte": lambda: chunked(PATH, bytes(160_000), MEDIA_TYPE),
        "body: trailers": lambda: chunked(PATH, b"", MEDIA_TYPE)[:-2] + b"a:\r\n" * 32_000 + b"\r\n",
        "gateway: chunks of a byte": lambda: chunked(GATEWAY, bytes(160_000), REQUEST_MEDIA_TYPE),
        "body: JSON of a task": lambda: post("/v1/tasks", b"[" * large, "application/json"),
        "form: many fields": lambda: post("/login", b"a&" * 2000, "application/x-www-form-urlencoded"),
        "form: %-escapes": lambda: post("/login", b"key=%41" * 500, "application/x-www-form-urlencoded"),
        "form: multipart": lambda: post("/login", b"--x\r\n" * 1000, "multipart/form-data; boundary=x"),
        "form: chunks of a byte": lambda: chunked("/login", b"a" * 4000, "application/x-www-form-urlencoded"),
        "head: 500 fields": lambda: get("/health/live", *(f"a{number}: " for number in range(500))),
        "head: a long key": lambda: get("/v1/tasks", "Authorization: Bearer " + "arcwise_" * 3900),
        "head: cookies": lambda: get("/", "Cookie: " + "a=b;" * 7900),
        "head: accept": lambda: get("/tasks/x", "Accept: " + "a/b;q=0," * 3900),
        "head: tags": lambda: get(f"/v1/tasks/{TASK.id}/estimate", "If-None-Match: " + 'W/"",' * 5200),
        "name: combining marks": lambda: get(f"/v1/tasks/{quote(MARKS)}"),
        "name: of a page": lambda: get(f"/tasks/{quote(MARKS)}", media("text/html")),
        "name: slashes": lambda: get("/v1/tasks/" + "%2F/" * 7900),
        "query: parameters": lambda: get(f"/v1/tasks/{TASK.id}/estimate?" + "a&" * 15_900),
        "query: of a page": lambda: get("/login?next=/" + "%61" * 10_000, media("text/html")),
    }


MARKS = "\u0300\u0316" * 2600
"""Normalising these takes a time that grows with the square of their number."""


async def asked(port: int, request: bytes) -> str:
    """Send one request on a connection of its own; return the status, or "cut"."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        with suppress(ConnectionError):
            await writer.drain()
        return (await asyncio.wait_for(reader.readline(), 60))[9:12].decode() or "cut"
    except ConnectionError:
        return "cut"
    finally:
        writer.close()


async def report(port: int, key: str, due: float, until: float, waits: list[float]) -> None:
    """Report repeatedly on one connection, from `due` on, and record the response times."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while due < until:
        await asyncio.sleep(max(due - time.perf_counter(), 0.0))
        writer.write(post(PATH, batch(1), MEDIA_TYPE, f"Authorization: Bearer {key}"))
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        waits.append(time.perf_counter() - due)  # from when it was due: a stall counts for all that it delays
        if b" 204 " not in head:
            raise SystemExit(f"a report was answered {head!r}")
        due += PACE
    writer.close()


async def beside(server: Server, seconds: float, rate: float, make: Callable[[], bytes] | None) -> Found:
    """Let the device report, and send requests of a kind meanwhile."""
    port, pid, key = server
    requests = [make() for _ in range(int(seconds * rate))] if make else []
    waits: list[float] = []
    before, begun = cpu_seconds([pid]), time.perf_counter()
    devices = [
        report(port, key, begun + PACE * number / DEVICES, begun + seconds, waits)
        for number in range(DEVICES)
    ]
    reporting = asyncio.gather(*devices)
    sending = []
    for number, request in enumerate(requests):
        await asyncio.sleep(max(begun + number / rate - time.perf_counter(), 0.0))
        sending.append(asyncio.create_task(asked(port, request)))
    statuses = Counter(await asyncio.gather(*sending))
    await reporting
    return Found(len(requests[0]) if requests else 0, statuses, cpu_seconds([pid]) - before, waits)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("kinds", nargs="*", help="prefixes of kinds; all unless given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = GatewayKeyFile(folder / "gateway.keys")
        kinds = kinds_of(keys.make().config)
        store = f"sqlite:///{folder / 'arcwise.db'}"
        key, stored = new_key("ingest", now=time.time())
        with closing(open_store(store)) as opened:
            opened.add_key(stored)
        (folder / "tasks").mkdir()
        TASK.save(folder / "tasks" / "task.json")
        command = [
            sys.executable,
            "-m",
            "arcwise",
            "serve",
            "--tasks",
            str(folder / "tasks"),
            "--store",
            store,
        ]
        command += ["--port", "0", "--gateway-keys", str(keys.path), "--log-level", "error"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rstrip().rpartition(":")[2])
            row = "{:<28}{:>9}{:>7}{:>12}{:>12}{:>9}{:>9}  {}".format
            print(row("", "KiB", "sent", "CPU ms each", "CPU s / MiB", "p50 ms", "p99 ms", "answers"))

            def run(make: Callable[[], bytes] | None) -> Found:
                server = Server(port, process.pid, key)
                return asyncio.run(beside(server, arguments.seconds, arguments.rate, make))

            run(None)
            alone = run(None)
            missed = False
            rows: dict[str, Callable[[], bytes] | None] = {"none": None, **kinds}
            for kind, make in rows.items():
                if arguments.kinds and make and not kind.startswith(tuple(arguments.kinds)):
                    continue
                found = run(make) if make else alone
                waits = sorted(found.waits)
                p50, p99 = (waits[int(share * (len(waits) - 1))] for share in (0.5, 0.99))
                count = found.statuses.total()
                cpu = max(found.cpu - alone.cpu, 0.0) / max(count, 1)
                mib = found.size / MIB
                print(
                    row(
                        kind,
                        f"{found.size / 1024:.0f}",
                        count,
                        f"{1000 * cpu:.2f}",
                        f"{cpu / mib:.4f}" if mib else "",
                        f"{1000 * p50:.1f}",
                        f"{1000 * p99:.1f}",
                        ", ".join(f"{status}: {n}" for status, n in found.statuses.items()),
                    ),
                    flush=True,
                )
                missed |= p99 > MOST_P99
        finally:
            process.terminate()
            process.wait(30)
    if missed:
        raise SystemExit("a 99th percentile is beyond a second")


if __name__ == "__main__":
    main()
