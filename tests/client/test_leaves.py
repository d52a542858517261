"""The bytes that leave the process contain the code, and nothing else that depends on the value.

The same app runs in separate processes, with values that differ and draws that do not. Where only these
differ, one process runs the app several times, each time with a new ledger and a new client. A server reads
bytes from a socket and keeps everything that arrives; of HTTP it understands only lengths.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from arcwise.client import FileLedger
from arcwise.client.ledger import OutboxOptions
from arcwise.client.transport import user_agent
from arcwise.domains import Circle
from arcwise.kernels import WindowKernel
from arcwise.tasks import DAY, Caps, Task
from arcwise.wire import BATCH_ID_BYTES, MEDIA_TYPE, decode_batch
from tests.support.fixed_draw import FixedDraw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Epochs of a year, so that all runs are in one of them.
ROOT = Path(__file__).parents[2]
TASK = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=30.0), epoch_seconds=366 * DAY)
VALUES: Sequence[Sequence[float]] = ((0, 0.0, 1e-300), (350.5, 359.99999999999994, 180), (12, 12.25, 299.1))

APP = """
import asyncio, json, sys
url, kind, task, runs = json.loads(sys.argv[1])
from arcwise.client import AsyncClient, Client, FileLedger, MemoryLedger, delivery
from arcwise.tasks import Task
from tests.support.fixed_draw import FixedDraw
delivery.FIRST_BACKOFF = 0.002
task = Task.load(task)
for ledger, values, u in runs:
    ledger = FileLedger(ledger, create=True) if ledger else MemoryLedger()
    draw = FixedDraw(2**63, u)
    draw.secure = True  # as a device's own source says of itself: one that does not stays on this machine
    options = dict(tasks=[task], ledger=ledger, randomness=draw, interval=600)
    options["insecure"] = "example" in url
    if kind == "sync":
        with Client(url, **options) as client:
            for value in values:
                assert client.report("heading", value)
            assert client.flush(60)
    else:
        async def main():
            async with AsyncClient(url, **options) as client:
                for value in values:
                    assert await client.report("heading", value)
                assert await client.flush(60)
        asyncio.run(main())
"""


class Socket:
    """A server that keeps every byte of every connection, and answers each request with 204, or once 503."""

    def __init__(self) -> None:
        self.trouble = 0
        self._connections: list[bytes] = []
        self._ended = threading.Condition()
        self._open = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            with self._ended:
                self._open += 1
            with connection:
                kept = self._keep(connection)
            with self._ended:
                self._connections.append(kept)
                self._open -= 1
                self._ended.notify_all()

    def _keep(self, connection: socket.socket) -> bytes:
        kept = pending = b""
        while data := connection.recv(65536):
            kept += data
            pending += data
            head, found, rest = pending.partition(b"\r\n\r\n")
            if not found:
                continue
            lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            length = int(lengths[0].split(b":")[1])
            if len(rest) >= length:
                pending = rest[length:]
                status = b"204 No Content"
                if self.trouble:
                    self.trouble -= 1
                    status = b"503 Service Unavailable\r\nContent-Length: 0"
                connection.sendall(b"HTTP/1.1 " + status + b"\r\n\r\n")
        return kept

    def taken(self) -> list[bytes]:
        """Return the bytes of the connections since the last time, once all of them have ended."""
        with self._ended:
            assert self._ended.wait_for(lambda: self._open == 0, 60)
            taken, self._connections = self._connections, []
            return taken

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


@pytest.fixture(scope="module")
def recorder() -> Iterator[Socket]:
    server = Socket()
    yield server
    server.close()


class App(NamedTuple):
    """One way to run the app."""

    kind: str
    in_file: bool

    def run(
        self,
        folder: Path,
        recorder: Socket,
        *runs: tuple[Sequence[float], int],
        url: str | None = None,
        **environment: str,
    ) -> list[bytes]:
        """Run it in a separate process with values and draws; return every byte of each connection."""
        task = folder / "heading.json"
        TASK.save(task)
        first = len(list(folder.iterdir()))
        ledgers = [folder / f"{first + number}.db" if self.in_file else None for number in range(len(runs))]
        url = f"http://127.0.0.1:{recorder.port}" if url is None else url
        made = [
            (ledger and str(ledger), list(values), u)
            for ledger, (values, u) in zip(ledgers, runs, strict=True)
        ]
        clean = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        subprocess.run(
            [sys.executable, "-c", APP, json.dumps([url, self.kind, str(task), made])],
            cwd=ROOT,
            env=clean | environment,
            check=True,
            timeout=120,
        )
        for ledger, (values, _) in zip(ledgers, runs, strict=True):
            if ledger is not None:
                with FileLedger(ledger) as opened:
                    outbox = opened._open_outbox(OutboxOptions(batch_size=1, capacity=1))
                    assert outbox.counts()[1] == len(values)
        return recorder.taken()


# make test covers both clients and both ledgers; the slow tests cover the other pairs.
APPS = [
    pytest.param(
        App(kind, in_file),
        id=f"{kind}-{'file' if in_file else 'memory'}",
        marks=[pytest.mark.slow] if in_file == (kind == "async") else [],
    )
    for kind in ("sync", "async")
    for in_file in (False, True)
]


@pytest.fixture(params=APPS)
def app(request: pytest.FixtureRequest) -> App:
    chosen: App = request.param
    return chosen


def draw_of(place: str) -> int:
    """Return the second half of a draw, which makes the code equal for all values or different for each."""
    kernel = TASK.mechanism.kernel
    assert isinstance(kernel, WindowKernel)
    return 7 * kernel.background if place == "outside" else kernel.codes * kernel.background


def codes_of(values: Sequence[float], u: int) -> bytes:
    draw = FixedDraw(2**63, u)
    assert TASK.mechanism.kernel.codes <= 256
    return bytes(sorted(TASK.mechanism.randomize(value, randomness=draw) for value in values))


def without_id(sent: bytes) -> tuple[bytes, bytes]:
    """Return the sent bytes with zeros in place of the batch's random id, and the id."""
    batch_id = decode_batch(sent.partition(b"\r\n\r\n")[2]).batch_id
    assert len(batch_id) == BATCH_ID_BYTES
    assert sent.count(batch_id) == 1
    return sent.replace(batch_id, bytes(BATCH_ID_BYTES)), batch_id


def test_a_request_is_these_bytes(app: App, recorder: Socket, tmp_path: Path) -> None:
    u = draw_of("window")
    sent = b"".join(app.run(tmp_path, recorder, (VALUES[1], u)))
    head, _, body = sent.partition(b"\r\n\r\n")
    assert head.decode("ascii").split("\r\n") == [
        f"POST /v1/tasks/{TASK.id}/reports HTTP/1.1",
        f"Host: 127.0.0.1:{recorder.port}",
        f"Content-Type: {MEDIA_TYPE}",
        f"User-Agent: {user_agent()}",
        f"Content-Length: {len(body)}",
    ]
    batch = decode_batch(body)
    assert batch.codes == codes_of(VALUES[1], u)
    # An array of five: 1, the task's id, the batch's id, the epoch, the codes. Nothing comes before or after.
    assert body == (
        b"\x95\x01\xc4\x20" + bytes.fromhex(TASK.id) + b"\xc4\x10" + batch.batch_id
        + bytes([batch.epoch]) + b"\xc4\x03" + batch.codes
    )  # fmt: skip


def test_nothing_but_the_code_tells_of_the_value(app: App, recorder: Socket, tmp_path: Path) -> None:
    draws = {place: draw_of(place) for place in ("outside", "window")}
    runs = [(values, u) for u in draws.values() for values in VALUES]
    connections = app.run(tmp_path, recorder, *runs)
    assert len(connections) == len(runs)
    for place, u in draws.items():
        sent, connections = connections[: len(VALUES)], connections[len(VALUES) :]
        assert len({len(each) for each in sent}) == 1
        codes = [codes_of(values, u) for values in VALUES]
        assert len(set(codes)) == (1 if place == "outside" else len(VALUES))
        same, ids = zip(*map(without_id, sent), strict=True)
        assert len(set(ids)) == len(VALUES)
        for each, own in zip(same, codes, strict=True):
            assert each == same[0][: -len(own)] + own


def test_what_is_sent_again_is_the_same(app: App, recorder: Socket, tmp_path: Path) -> None:
    recorder.trouble = 2
    sent = b"".join(app.run(tmp_path, recorder, (VALUES[1], draw_of("window"))))
    once, rest = divmod(len(sent), 3)
    assert rest == 0
    assert sent == 3 * sent[:once]


def test_nothing_tells_of_the_device(recorder: Socket, tmp_path: Path) -> None:
    device = {
        "HOME": str(tmp_path),
        "HOSTNAME": "somebodys-laptop",
        "LANG": "de_DE.UTF-8",
        "TZ": "Asia/Tokyo",
        "USER": "somebody",
    }
    app, u = App("sync", in_file=False), draw_of("window")
    here, _ = without_id(b"".join(app.run(tmp_path, recorder, (VALUES[0], u))))
    there, _ = without_id(b"".join(app.run(tmp_path, recorder, (VALUES[0], u), **device)))
    assert here == there


def test_a_proxy_sees_no_more_than_the_address(app: App, recorder: Socket, tmp_path: Path) -> None:
    """If the environment names a proxy, as in many companies, requests to it contain no value either."""
    proxy = f"http://127.0.0.1:{recorder.port}"
    u = draw_of("window")
    runs = [(values, u) for values in VALUES[:2]]
    sent = app.run(tmp_path, recorder, *runs, url="http://reports.example:9", HTTP_PROXY=proxy, NO_PROXY="")
    (first, _), (second, _) = map(without_id, sent)
    own = codes_of(VALUES[1], u)
    assert second == first[: -len(own)] + own
    assert first.startswith(f"POST http://reports.example:9/v1/tasks/{TASK.id}/reports HTTP/1.1\r\n".encode())
    names = [line.split(b":")[0] for line in first.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]]
    assert set(names) <= {
        b"Host",
        b"Content-Type",
        b"User-Agent",
        b"Content-Length",
        b"Accept",
        b"Proxy-Connection",
    }
