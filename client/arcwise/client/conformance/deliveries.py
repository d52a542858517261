"""A test server with scripted answers, and checks of the requests that a client sends to it."""

from __future__ import annotations

import re
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.errors import WireError
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, Batch, code_width, decode_batch

if TYPE_CHECKING:
    from collections.abc import Iterator


class Request(NamedTuple):
    """A request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """A scripted answer; status 0 cuts the connection."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()


_HEADERS = frozenset(
    (
        *(
            "host",
            "content-length",
            "content-type",
            "user-agent",
            "authorization",
            "connection",
            "keep-alive",
        ),
        *("accept", "accept-encoding", "accept-language", "cache-control", "pragma", "transfer-encoding"),
        # Headers that HTTP libraries of browsers, Node.js or Java add.
        *("origin", "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "upgrade", "http2-settings", "te"),
    )
)
"""All headers that a report may have; none of them needs to reveal anything about the device."""

_KNOWN_VALUES = {
    "host": r"(127\.0\.0\.1|localhost):\d+",
    "connection": "(te, *)?(keep-alive|close)|te|upgrade, *http2-settings",
    "keep-alive": r"(timeout=)?\d{1,3}(, *max=\d{1,4})?",
    "upgrade": "h2c",
    "te": r"trailers|deflate, *gzip;q=0\.3",
}
"""The allowed values of connection headers."""

_OF_THE_REQUEST = frozenset(("content-length", "authorization", "host", "connection", "upgrade"))
"""Headers that may differ between two requests of a client."""

_SAME_BYTES = 4
"""Two random ids share this many bytes at a given position with probability 2^-32."""


class Known:
    """Record of one client's deliveries so far; each delivery uses a new account."""

    def __init__(self) -> None:
        self._headers: dict[str, str] | None = None
        self._ids: list[bytes] = []

    def faults(self, seen: list[Request], bodies: list[bytes]) -> list[str]:
        """Return faults that could identify the device or link its requests; remember the new requests."""
        found = []
        for request in seen:
            headers = {name: value for name, value in request.headers.items() if name not in _OF_THE_REQUEST}
            if self._headers is None:
                self._headers = headers
            differ = {name for name, _ in headers.items() ^ self._headers.items()}
            found += [f"the header {name} is not the same in all requests" for name in sorted(differ)]
        ids: dict[bytes, None] = {}  # each id once: a repeated id is another fault
        for body in bodies:
            with suppress(WireError):
                ids[decode_batch(body).batch_id] = None
        for one in ids:
            if any(_alike(one, other) for other in self._ids):
                found.append("the batch id shares bytes with that of another batch: it must be random")
            self._ids.append(one)
        return found


def _alike(one: bytes, other: bytes) -> bool:
    places = range(len(one) - _SAME_BYTES + 1)
    return any(one[at : at + _SAME_BYTES] == other[at : at + _SAME_BYTES] for at in places)


class Delivery(NamedTuple):
    """A server with a list of answers, and the requests that it expects; the last answer is repeated."""

    name: str
    request: dict[str, Any]
    expected: dict[str, Any]
    answers: tuple[Answer, ...]
    reports: tuple[int, ...]
    """The number of codes that the batch of each request must hold; the last number is repeated."""
    requests: int
    """The expected number of requests."""

    @contextmanager
    def serving(self) -> Iterator[tuple[str, list[Request]]]:
        """Serve on this machine; yield the URL and the growing list of requests."""
        seen: list[Request] = []
        answers = self.answers
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers: dict[str, str] = {}
                for name, value in self.headers.items():  # join the values of a repeated header
                    before = headers.get(name.lower())
                    headers[name.lower()] = value if before is None else f"{before}, {value}"
                with lock:
                    seen.append(Request(self.command, self.path, headers, body))
                    answer = answers[min(len(seen), len(answers)) - 1]
                self.close_connection = answer.status == 0
                if answer.status == 0:
                    return
                self.send_response_only(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                if answer.status != 204:
                    self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST  # noqa: N815 - a redirect that is followed may become a GET

            def log_message(self, *args: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
            http.daemon_threads = True
            threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            try:
                yield f"http://127.0.0.1:{http.server_port}", seen
            finally:
                http.shutdown()

    def faults(self, seen: list[Request], began: float, known: Known | None = None) -> list[str]:
        """Return the faults of the requests; `began` is the Unix time before the first request.

        `known` holds the requests of this client's other deliveries.
        """
        known = Known() if known is None else known
        task = Task.from_bytes(bytes.fromhex(self.request["task"]))
        key = self.request["key"]
        found = []
        if len(seen) != self.requests:
            found.append(f"{len(seen)} requests, expected {self.requests}")
        for number, request in enumerate(seen):
            reports = self.reports[min(number, len(self.reports) - 1)]
            found += _faults_of(request, task, None if key is None else f"Bearer {key}")
            found += self._faults_of_batch(request.body, task, began, reports)
        bodies = list(dict.fromkeys(request.body for request in seen))
        if len(bodies) > len(self.reports):
            found.append("a batch that was sent again has other bytes")
        found += known.faults(seen, bodies)
        return list(dict.fromkeys(found))

    def _faults_of_batch(self, body: bytes, task: Task, began: float, reports: int) -> list[str]:
        try:
            batch: Batch = decode_batch(body)
        except WireError as error:
            return [f"the body is not a batch: {error}"]
        width = code_width(task.mechanism.kernel.codes)
        codes = [
            int.from_bytes(batch.codes[at : at + width], "little") for at in range(0, len(batch.codes), width)
        ]
        found = []
        if batch.task_id.hex() != task.id:
            found.append("the task id in the body is not that of the task")
        if not task.epoch(began) <= batch.epoch <= task.epoch(time.time()):
            found.append(f"the epoch is {batch.epoch}, expected {task.epoch(began)}")
        if len(codes) != reports:
            found.append(f"the batch has {len(codes)} codes, expected {reports}")
        if codes != sorted(codes):
            found.append("the codes are not sorted")
        if codes and max(codes) >= task.mechanism.kernel.codes:
            found.append(f"a code is not below {task.mechanism.kernel.codes}")
        return found


def _faults_of(request: Request, task: Task, authorization: str | None) -> list[str]:
    found = []
    if (request.method, request.path) != ("POST", f"/v1/tasks/{task.id}/reports"):
        found.append(f"{request.method} {request.path}, expected POST /v1/tasks/{task.id}/reports")
    if request.headers.get("content-type") != MEDIA_TYPE:
        found.append(f"Content-Type is {request.headers.get('content-type')!r}, expected {MEDIA_TYPE!r}")
    if request.headers.get("authorization") != authorization:
        found.append(f"Authorization is {request.headers.get('authorization')!r}, expected {authorization!r}")
    found += [f"there is a header {name}" for name in sorted(set(request.headers) - _HEADERS)]
    found += [
        f"{name} is {request.headers[name]!r}, which HTTP does not need"
        for name, known in _KNOWN_VALUES.items()
        if name in request.headers and not re.fullmatch(known, request.headers[name], re.IGNORECASE)
    ]
    return found


_KEY = f"arcwise_ingest_0123456789ab_{'0123456789abcdef' * 4}"
_GOOD = Answer(204)


def deliveries(tasks: dict[str, str]) -> Iterator[Delivery]:
    """Yield the deliveries; each may take 10 seconds, or 1 second if its reports must stay pending."""
    sent, dropped, kept = (
        {"sent": 3 * (end == "sent"), "dropped": 3 * (end == "dropped"), "pending": 3 * (end == "pending")}
        for end in ("sent", "dropped", "pending")
    )

    def delivery(
        name: str, answers: list[Answer], expected: dict[str, int], requests: int, **more: Any
    ) -> Delivery:
        asked = {
            "task": tasks[more.get("task", "wrap")],
            "values": more.get("values", [10.0, 200.0, 350.5]),
            "key": more.get("key"),
            "seconds": more.get("seconds", 1 if expected is kept else 10),
            "later": more.get("later", []),
        }
        return Delivery(name, asked, expected, tuple(answers), more.get("reports", (3,)), requests)

    yield delivery("a batch", [_GOOD], sent, 1)
    yield delivery("codes of two bytes", [_GOOD], sent, 1, task="wrap, 512 nodes", values=[1.0, 2.5, 23.0])
    yield delivery("with a key", [_GOOD], sent, 1, key=_KEY)
    # "inset, odd range" has a lifetime cap of three reports; 1e9 is outside the domain and is not charged.
    capped = [0.1, 1e9, 0.2, 0.3, 0.4, 0.5]
    yield delivery("a cap and a value outside", [_GOOD], sent, 1, task="inset, odd range", values=capped)
    for name, answer in (
        ("503", Answer(503)),
        ("no answer", Answer(0)),
        ("200 of somebody else", Answer(200)),
        ("a redirect", Answer(307, (("Location", "/elsewhere"),))),
    ):
        yield delivery(f"{name}, then 204", [answer, _GOOD], sent, 2)
    # The wait is at least a minute; a client that waits only one second would send again within these 3
    # seconds.
    yield delivery("503, Retry-After", [Answer(503, (("Retry-After", "1"),)), _GOOD], kept, 1, seconds=3)
    yield delivery("400", [Answer(400)], dropped, 1)
    yield delivery("410", [Answer(410)], dropped, 1)
    # The cap allows three reports. Two reports are dropped but stay charged, so only one more is allowed.
    yield delivery(
        "a report that is dropped stays charged",
        [Answer(410), _GOOD],
        {"sent": 1, "dropped": 2, "pending": 0},
        2,
        task="inset, odd range",
        values=[0.1, 0.2],
        later=[0.3, 0.4, 0.5],
        reports=(2, 1),
    )
    yield delivery("401", [Answer(401)], kept, 1)
    yield delivery("404, Retry-After", [Answer(404, (("Retry-After", "60"),))], kept, 1)
