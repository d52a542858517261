"""Servers, and relays before them, as processes that are killed and started again on the same ports."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from arcwise.oblivious import encode_key_configs
from arcwise.oblivious.binary_http import Request, encode_request, padded
from arcwise.oblivious.messages import REQUEST_MEDIA_TYPE, encapsulate
from arcwise.server.collect.gateway_keys import GatewayKeyFile
from arcwise.wire import MEDIA_TYPE

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from arcwise.oblivious.messages import KeyConfig, Sent


DRAIN_SECONDS = 0.3
_START_SECONDS = 60.0
_STOP_SECONDS = 40.0


class EndedError(AssertionError):
    """A worker ended by itself, or does not end."""


class Worker:
    """One server process at a time, always on the same port; its standard error goes to a file."""

    def __init__(self, command: Sequence[str], port: int, log: Path) -> None:
        self._command = [*command, "--port", str(port)]
        self._log = log
        self.port = port
        self.took = 1.0
        """Seconds that the last start took."""
        self._process: subprocess.Popen[str] | None = None
        self._ready = False

    @property
    def process(self) -> subprocess.Popen[str]:
        """The process that was started last."""
        assert self._process is not None, "it was never started"
        return self._process

    def start(self) -> None:
        """Start a process; it is ready later."""
        self._ready = False
        self._started = time.monotonic()
        with self._log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)

    def ready(self, seconds: float = 0.0) -> bool:
        """Return whether it listens, immediately or within some seconds; raise `EndedError` if it ended."""
        if not self._ready:
            out = self.process.stdout
            assert out is not None
            if select.select([out], [], [], seconds)[0]:
                line = out.readline()
                if not line.startswith("arcwise is listening on http://127.0.0.1:"):
                    raise EndedError(self._ended(self.process.wait(_STOP_SECONDS)))
                self._ready = True
                self.took = time.monotonic() - self._started
        if (code := self.process.poll()) is not None:
            raise EndedError(self._ended(code))
        return self._ready

    def wait(self) -> None:
        """Wait until it listens."""
        if not self.ready(_START_SECONDS):
            raise EndedError(f"the worker on port {self.port} does not start")

    def _ended(self, code: int) -> str:
        said = f"the worker on port {self.port} ended by itself with {code}; its last words:"
        return "\n".join([said, *self.last_words()])

    def last_words(self) -> list[str]:
        """Return the last lines of its standard error."""
        return self._log.read_text(encoding="utf-8").splitlines()[-20:]

    def kill(self) -> None:
        """Send SIGKILL; `reap` it afterwards."""
        self.process.kill()

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.terminate()

    def reap(self) -> int:
        """Wait for the end of the process and return its exit code, minus the signal."""
        code = self.process.wait(_STOP_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def expect_killed(self) -> None:
        """Wait for the end of the process, which must be SIGKILL's."""
        if (code := self.reap()) != -signal.SIGKILL:
            raise EndedError(self._ended(code))

    def discard(self) -> None:
        """End the process in any state."""
        if self._process is not None:
            self.process.kill()
            self.reap()


def serve_command(folder: Path, store: str) -> list[str]:
    """Return the command that serves the tasks of a folder, without its port."""
    command = [sys.executable, "-m", "arcwise.cli", "serve", "--tasks", str(folder), "--store", store]
    return [*command, "--drain-seconds", str(DRAIN_SECONDS)]


def free_ports(count: int, generator: random.Random) -> tuple[int, ...]:
    """Return ports that stay free while nobody listens on them.

    Ports in the range for outgoing connections do not stay free: a connection to a port without a listener
    can even be given that very port, and talk to itself.
    """
    found: list[int] = []
    while len(found) < count:
        port = generator.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return tuple(found)


_RELAY = Path(__file__).parents[3] / "examples" / "relay.py"


def make_keys(file: Path) -> bytes:
    """Make a gateway's keys in a file; return the configuration of the first."""
    return encode_key_configs([GatewayKeyFile(file).make().config])


class Relay(Worker):
    """A relay before a gateway of this machine, one process at a time."""

    def __init__(self, gateway_port: int, port: int, log: Path) -> None:
        gateway = f"GATEWAY=http://127.0.0.1:{gateway_port}/.well-known/ohttp-gateway"
        super().__init__(["env", gateway, sys.executable, os.fspath(_RELAY)], port, log)

    def ready(self, seconds: float = 0.0) -> bool:
        """Return whether it listens; as for `Worker`, but it does not announce it."""
        until = time.monotonic() + seconds
        while True:
            if (code := self.process.poll()) is not None:
                raise EndedError(self._ended(code))
            if not self._ready:
                with socket.socket() as probe:
                    self._ready = probe.connect_ex(("127.0.0.1", self.port)) == 0
            if self._ready or time.monotonic() >= until:
                return self._ready
            time.sleep(0.05)


def sealed(config: KeyConfig, request: bytes) -> tuple[bytes, Sent]:
    """Return a request of `Batches`, encrypted again, as a POST to a relay; and the key to its answer."""
    head, _, body = request.partition(b"\r\n\r\n")
    kind = (b"content-type", MEDIA_TYPE.encode("ascii"))
    inside = Request(b"POST", b"https", b"reports.example", head.split(b" ", 2)[1], (kind,), body)
    sent = encapsulate(config, padded(encode_request(inside)))
    outside = (
        f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {REQUEST_MEDIA_TYPE}\r\n"
        f"Content-Length: {len(sent.message)}\r\n\r\n"
    )
    return outside.encode("ascii") + sent.message, sent
