"""Requests that are nearly HTTP: each holds a valid batch, which must be counted, or must not be."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, NamedTuple

from arcwise.wire import encode_batch
from tests.soak.hostile.bodies import fresh
from tests.soak.hostile.book import head

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from arcwise.tasks import Task
    from arcwise.wire import Batch


class Request(NamedTuple):
    """The data of one connection, the parts one after the other."""

    parts: list[bytes]
    batches: list[Batch]
    """The batches in it that a server may count."""
    end: str = "wait"
    """How the connection ends; see `book.exchange`."""
    must: bool = False
    """Whether each of the batches must be answered 204."""
    kind: str = ""
    """A description, for messages."""


def requests(generator: random.Random, task: Task) -> Iterator[Request]:
    """Yield requests without end, of a random kind each."""
    while True:
        kind = generator.choice(_KINDS)
        yield kind(generator, task)._replace(kind=kind.__name__)


def _whole(batch: Batch, *lines: str, **start: str) -> bytes:
    """Return a request with a batch, with these lines in its head."""
    body = encode_batch(batch)
    return head(batch.task_id.hex(), *lines, f"Content-Length: {len(body)}", **start) + body


def _wrong_length(generator: random.Random, task: Task) -> Request:
    body = encode_batch(fresh(generator, task))
    off = generator.choice((-30, -2, -1, 1, 2, 30, 10**5, 10**7))
    request = head(task.id, f"Content-Length: {max(len(body) + off, 0)}") + body
    return Request([request], [], generator.choice(("wait", "half")))


def _strange_length(generator: random.Random, task: Task) -> Request:
    body = encode_batch(fresh(generator, task))
    size = len(body)
    lines = generator.choice(
        (
            (f"Content-Length: {size}", f"Content-Length: {size + 1}"),
            (f"Content-Length: {size}", f"Content-Length: {size}"),
            ("Content-Length: 18446744073709551616",),
            ("Content-Length: 9223372036854775807",),
            ("Content-Length: 99999999999999999999999999999999",),
            ("Content-Length: -1",),
            (f"Content-Length: +{size}",),
            (f"Content-Length: {size}, {size}",),
            (f"Content-Length: 0x{size:x}",),
            ("Content-Length:",),
            (f"Content-Length: {size}", "Transfer-Encoding: chunked"),
            ("Transfer-Encoding: chunked", f"Content-Length: {size}"),
            (f"Content-Length : {size}",),
            (f"Content-Length: {size}\x00",),
        )
    )
    return Request([head(task.id, *lines) + body], [], "half")


def _chunks(generator: random.Random, task: Task) -> Request:
    batch = fresh(generator, task, 40)
    body = encode_batch(batch)
    cuts = sorted(generator.randrange(1, len(body)) for _ in range(generator.randrange(4)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True) if b > a]
    extension = generator.choice((b"", b"", b";a=b", b";" + b"x" * 200))
    chunked = [b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces]
    trailer = generator.choice((b"", b"", b"X-Trailer: 1\r\n", b"X-Trailer: 2\r\n" * 80))
    top = head(task.id, "Transfer-Encoding: chunked")
    return Request([top, *chunked, b"0\r\n" + trailer + b"\r\n"], [batch], must=not extension)


def _broken_chunks(generator: random.Random, task: Task) -> Request:
    body = encode_batch(fresh(generator, task))
    size = b"%x" % len(body)
    encoding = generator.choice(("chunked", "xchunked, chunked"))
    rest = generator.choice(
        (
            size + b"\r\n" + body + b"\r\n",  # no end
            b"ffffffffffffffffff\r\n" + body,
            b"-1\r\n" + body + b"\r\n0\r\n\r\n",
            b"zz\r\n" + body + b"\r\n0\r\n\r\n",
            size + b"\r\n" + body + b"XX0\r\n\r\n",
            b"7fffffff\r\n" + body,
            b"0" * 5000 + size + b"\r\n",
            size + b"\n" + body[:20],
        )
    )
    top = head(task.id, f"Transfer-Encoding: {encoding}")
    return Request([top, rest], [], generator.choice(("wait", "half")))


_STRANGE_LINES = (
    *("no colon", "X Y: 1", "X\x00: 1", "X: \x00"),
    *(": nameless", "X: 1\n Y: folded", "\x80\xff: 1", "X: 1\rY: 2"),
)


def _strange_header(generator: random.Random, task: Task) -> Request:
    line = generator.choice(_STRANGE_LINES)
    return Request([_whole(fresh(generator, task), line)], [], "half")


def _long_head(generator: random.Random, task: Task) -> Request:
    """Return a head beyond the bound, which also applies to heads in several pieces."""
    batch = fresh(generator, task)
    line = generator.choice(("X: " + "y" * 40_000, "\r\n".join(f"X{number}: 1" for number in range(8000))))
    return Request([_whole(batch, line)], [batch])


_HARMLESS_LINES = (
    "X: \xff\xfe",
    "Authorization: Bearer x\r\nAuthorization: Bearer y",
    "\r\n".join(f"X{number}: 1" for number in range(80)),
    "X: " + "y" * 20_000,
    "Upgrade: h2c\r\nConnection: upgrade",
    *("Expect: 100-continue", "Cookie: a=b", "If-None-Match: *", "Range: bytes=0-1", "Accept: image/png"),
)


def _harmless_header(generator: random.Random, task: Task) -> Request:
    batch, line = fresh(generator, task), generator.choice(_HARMLESS_LINES)
    return Request([_whole(batch, line)], [batch], must="Upgrade" not in line)


_STRANGE_TYPES = ("application/json", "", "x" * 9000, "text/plain; charset=\xff", "multipart/form-data")


def _strange_type(generator: random.Random, task: Task) -> Request:
    request = _whole(fresh(generator, task))
    kind = generator.choice(_STRANGE_TYPES).encode("latin-1")
    start, _, rest = request.partition(b"Content-Type: ")
    return Request([start + b"Content-Type: " + kind + b"\r\n" + rest.partition(b"\n")[2]], [])


def _squeezed(generator: random.Random, task: Task) -> Request:
    body = gzip.compress(encode_batch(fresh(generator, task)))
    return Request([head(task.id, "Content-Encoding: gzip", f"Content-Length: {len(body)}") + body], [])


_STRANGE_METHODS = (
    *("GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT"),
    *("post", "P\x00ST", "X" * 9000, ""),
)


def _strange_method(generator: random.Random, task: Task) -> Request:
    method = generator.choice(_STRANGE_METHODS)
    return Request([_whole(fresh(generator, task), method=method)], [], "half")


def _strange_path(generator: random.Random, task: Task) -> Request:
    good = f"/v1/tasks/{task.id}/reports"
    path = generator.choice(
        (
            *("*", "/", "//", "", "reports", "http://[::1"),
            *(good + "/", good.upper(), good + "%00"),
            *(
                f"/v1/tasks/{name}/reports"
                for name in ("%zz", "%ff%fe", "\xff\xfe", "a" * 20_000, "\r\n\r\n")
            ),
            f"/v1/tasks/../tasks/{task.id}/reports",
            f"/v1//tasks/{task.id}/reports",
        )
    )
    return Request([_whole(fresh(generator, task), path=path)], [], "half")


def _other_name_of_the_path(generator: random.Random, task: Task) -> Request:
    batch, good = fresh(generator, task), f"/v1/tasks/{task.id}/reports"
    path = generator.choice((f"http://elsewhere{good}", good + "?a=b", good + "#c", good.replace("v", "%76")))
    return Request([_whole(batch, path=path)], [batch])


_VERSIONS = (b"HTTP/1.0", b"HTTP/0.9", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/1.1x", b"HTTP/", b"")


def _other_version(generator: random.Random, task: Task) -> Request:
    batch, version = fresh(generator, task), generator.choice(_VERSIONS)
    return Request([_whole(batch).replace(b"HTTP/1.1", version, 1)], [batch], must=version == b"HTTP/1.0")


def _other_protocol(generator: random.Random, _task: Task) -> Request:
    start = generator.choice(
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + generator.randbytes(500),
            generator.randbytes(generator.randrange(1, 3000)),
            b"\r\n" * 5000,
            b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
    )
    return Request([start], [], "half")


def _ahead(generator: random.Random, task: Task) -> Request:
    """Return requests ahead of the answers to earlier ones: as many as a server takes, or far more."""
    count = generator.choice((2, 10, 40, 40, 500))
    batches = [fresh(generator, task) for _ in range(count)]
    return Request([b"".join(map(_whole, batches))], batches, must=count <= 40)


def _hidden(generator: random.Random, task: Task) -> Request:
    """Return a request in the body of another, which is answered without being read, or is not a batch."""
    hidden = _whole(fresh(generator, task))
    path = generator.choice(("/nothing", None))
    return Request([head(task.id, f"Content-Length: {len(hidden)}", path=path) + hidden], [])


def _ended(generator: random.Random, task: Task) -> Request:
    batch = fresh(generator, task)
    request = _whole(batch)
    size = generator.choice((len(request), len(request), generator.randrange(len(request))))
    end = generator.choice(("half", "reset"))
    return Request([request[:size]], [batch] if size == len(request) else [], end)


def _in_pieces(generator: random.Random, task: Task) -> Request:
    batch = fresh(generator, task)
    request = _whole(batch)
    size = generator.choice((8, 16, 64))
    pieces = [request[at : at + size] for at in range(0, len(request), size)]
    return Request(pieces, [batch], must=True)


_KINDS: list[Callable[[random.Random, Task], Request]] = [
    *(_wrong_length, _strange_length, _chunks, _broken_chunks),
    *(_strange_header, _long_head, _harmless_header, _strange_type, _squeezed),
    *(_strange_method, _strange_path, _other_name_of_the_path, _other_version, _other_protocol),
    *(_ahead, _hidden, _ended, _in_pieces),
]
