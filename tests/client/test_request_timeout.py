"""The timeout of a request is a total: a server that is slow for ever does not hold the sender."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from arcwise.client import HttpxTransport
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from arcwise.tasks import Task
    from tests.support.twins import Twin

TIMEOUT = 0.25
SERVED = 2.0
"""The timeout of a request that is answered immediately; it must suffice on a busy machine too."""

STEP = 0.02
MOST_STEPS = 1500
"""The steps of a slow server, enough for half a minute. A request that ends in time sees a small part."""

HANG = 60
ACKNOWLEDGED = b"HTTP/1.1 204 No Content\r\n\r\n"


class Slow:
    """A server that answers `served` requests of a connection immediately, then one slowly."""

    def __init__(self, step: Callable[[socket.socket, int], object], *, served: int = 0) -> None:
        self.steps: list[int] = []
        """The number of steps made, by connection."""
        self._step = step
        self._served = served
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.tls: ssl.SSLContext | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection:
                number = len(self.steps)
                self.steps.append(0)
                for _ in range(self._served):
                    connection.recv(65_536)
                    connection.sendall(ACKNOWLEDGED)
                connection.recv(1)
                for step in range(MOST_STEPS):
                    self._step(connection, step)
                    self.steps[number] += 1
                    time.sleep(STEP)
                connection.sendall(b"\r\n\r\n")

    @property
    def most_steps(self) -> int:
        """Return the most steps of any connection; 0 if the machine was too busy to make one in time."""
        return max(self.steps, default=0)

    def close(self) -> None:
        self._listener.close()


def drip(connection: socket.socket, step: int) -> None:
    """Send the head of an answer, byte by byte."""
    connection.sendall((b"HTTP/1.1 204 No Content\r\nX-Y: " + b"z" * MOST_STEPS)[step : step + 1])


def stall(connection: socket.socket, _step: int) -> None:
    """Send interim answers, each of them complete."""
    connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")


def sip(connection: socket.socket, _step: int) -> None:
    """Read the request a little at a time."""
    if not connection.recv(131_072, socket.MSG_WAITALL):
        raise ConnectionError


@contextlib.contextmanager
def slow(step: Callable[[socket.socket, int], object], *, served: int = 0) -> Iterator[Slow]:
    with contextlib.closing(Slow(step, served=served)) as server:
        yield server


@pytest.mark.parametrize("step", [drip, stall])
def test_a_head_that_never_ends(twin: Twin, step: Callable[[socket.socket, int], object]) -> None:
    with slow(step) as server, contextlib.closing(twin.http(trust_env=False)) as transport:
        with pytest.raises((TimeoutError, httpx.TimeoutException)):
            transport.post(f"http://{server.address}", b"", {}, TIMEOUT)
        assert server.most_steps < MOST_STEPS / 2


@pytest.mark.slow
def test_a_request_that_is_never_taken(twin: Twin) -> None:
    with slow(sip) as server, contextlib.closing(twin.http(trust_env=False)) as transport:
        with pytest.raises((TimeoutError, httpx.TimeoutException)):
            transport.post(f"http://{server.address}", bytes(2**26), {}, 4 * TIMEOUT)
        assert server.most_steps < 2**26 / 131_072 / 2


@pytest.mark.slow
def test_a_connection_that_is_used_again(twin: Twin) -> None:
    with slow(drip, served=2) as server, contextlib.closing(twin.http(trust_env=False)) as transport:
        for _ in range(2):
            assert transport.post(f"http://{server.address}", b"", {}, SERVED) == (204, None)
            time.sleep(SERVED)  # each request has its own timeout
        with pytest.raises((TimeoutError, httpx.TimeoutException)):
            transport.post(f"http://{server.address}", b"", {}, TIMEOUT)
        assert len(server.steps) == 1
        assert server.most_steps < MOST_STEPS / 2


def test_a_proxy(twin: Twin) -> None:
    with (
        slow(drip) as server,
        contextlib.closing(twin.http(trust_env=False, proxy=f"http://{server.address}")) as transport,
    ):
        for url in ("http://reports.example", "https://reports.example"):
            with pytest.raises((TimeoutError, httpx.TimeoutException)):
                transport.post(url, b"", {}, TIMEOUT)
        assert server.most_steps < MOST_STEPS / 2


def test_an_encrypted_head(twin: Twin, tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate), "-keyout", str(key)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs the command openssl")
    with slow(drip) as server:
        server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.tls.load_cert_chain(certificate, key)
        trusted = ssl.create_default_context(cafile=str(certificate))
        transport = twin.http(trust_env=False, verify=trusted)
        with contextlib.closing(transport), pytest.raises((TimeoutError, httpx.TimeoutException)):
            transport.post(f"https://{server.address}", b"", {}, TIMEOUT)
        assert server.most_steps < MOST_STEPS / 2


@pytest.mark.slow
def test_a_client_that_was_passed_in_is_bounded_for_our_requests_only() -> None:
    with slow(drip) as server, httpx.Client(trust_env=False) as client:
        with pytest.raises((TimeoutError, httpx.TimeoutException)):
            HttpxTransport(client).post(f"http://{server.address}", b"", {}, TIMEOUT)
        assert server.most_steps < MOST_STEPS / 2
    with slow(drip, served=2) as server, httpx.Client(trust_env=False) as client:
        assert HttpxTransport(client).post(f"http://{server.address}", b"", {}, SERVED) == (204, None)
        time.sleep(SERVED)
        assert client.post(f"http://{server.address}", content=b"").status_code == 204
        assert len(server.steps) == 1


@pytest.mark.usefixtures("quick")
def test_the_sender_goes_on_against_a_server_that_drips(heading: Task) -> None:
    with (
        slow(drip) as server,
        Client(
            f"http://{server.address}",
            tasks=[heading],
            interval=0,
            request_timeout=TIMEOUT,
            transport=HttpxTransport(trust_env=False),
        ) as client,
    ):
        assert client.report("heading", 1.0)
        deadline = time.monotonic() + HANG
        while len(server.steps) < 3:
            assert time.monotonic() < deadline
            time.sleep(STEP)
        assert server.most_steps < MOST_STEPS / 2
        client.close(0)
