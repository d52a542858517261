"""The path by way of relays, those of `examples/`: one before each worker; senders know only relays."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from arcwise.oblivious import encode_key_configs
from arcwise.oblivious.binary_http import Request, encode_request, padded
from arcwise.oblivious.messages import REQUEST_MEDIA_TYPE, encapsulate
from arcwise.server.collect.gateway_keys import GatewayKeyFile
from arcwise.wire import MEDIA_TYPE
from tests.soak.kills.workers import EndedError, Worker

if TYPE_CHECKING:
    from arcwise.oblivious.messages import KeyConfig, Sent

__all__ = ["Relay", "make_keys", "sealed"]

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
        """Tell whether it listens; as for `Worker`, but it does not say so."""
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
    """Return a request of `Batches`, encrypted anew, as a POST to a relay; and what opens its answer."""
    head, _, body = request.partition(b"\r\n\r\n")
    kind = (b"content-type", MEDIA_TYPE.encode("ascii"))
    inside = Request(b"POST", b"https", b"reports.example", head.split(b" ", 2)[1], (kind,), body)
    sent = encapsulate(config, padded(encode_request(inside)))
    outside = (
        f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {REQUEST_MEDIA_TYPE}\r\n"
        f"Content-Length: {len(sent.message)}\r\n\r\n"
    )
    return outside.encode("ascii") + sent.message, sent
