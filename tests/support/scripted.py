"""An HTTP server on the loopback for a client in another process; it answers as the test says."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from arcwise.wire import Batch, decode_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Answer", "Request", "serving"]

Answer: TypeAlias = tuple[int, dict[str, str]] | None
"""Status and headers, or None for a connection that is cut without an answer."""


class Request(NamedTuple):
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes
    peer: tuple[str, int]
    """The other end of its connection."""

    @property
    def batch(self) -> Batch:
        return decode_batch(self.body)


def taken(_request: Request) -> Answer:
    """The answer that a batch was accepted."""
    return 204, {}


@contextmanager
def serving(answer: Callable[[Request], Answer] = taken) -> Iterator[tuple[str, list[Request]]]:
    """Serve POSTs and GETs with these answers, or accept everything; yield the URL and past requests."""
    seen: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.path, headers, body, self.client_address)
            seen.append(request)
            found = answer(request)
            self.close_connection = found is None
            if found is None:
                return
            self.send_response_only(found[0])
            for name, value in found[1].items():
                self.send_header(name, value)
            if found[0] != 204:
                self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        # It never wakes by itself, so that an unhooked fork does not meet it; see `fork_unseen`.
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 3600}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{http.server_port}", seen
        finally:
            stopping = threading.Thread(target=http.shutdown)
            stopping.start()
            while stopping.is_alive():
                with suppress(OSError):  # a connection that is not accepted any more
                    socket.create_connection(("127.0.0.1", http.server_port), 0.1).close()
                stopping.join(0.01)
