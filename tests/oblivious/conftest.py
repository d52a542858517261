"""A gateway's keys, a server that has them, and a relay before it, each in a separate process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from arcwise.oblivious.messages import encode_key_configs
from arcwise.server.collect.gateway_keys import GatewayKeyFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

RELAY = Path(__file__).parents[2] / "examples" / "relay.py"


@pytest.fixture
def keys(tmp_path: Path) -> GatewayKeyFile:
    file = GatewayKeyFile(tmp_path / "gateway.keys")
    file.make()
    return file


@pytest.fixture
def key_config(keys: GatewayKeyFile) -> bytes:
    return encode_key_configs([keys.read()[0].key.config])


class Http:
    """Requests to an app in this process, for tests that are not coroutines."""

    def __init__(self, portal: BlockingPortal, http: httpx.AsyncClient) -> None:
        self._portal = portal
        self._http = http

    def get(self, path: str) -> httpx.Response:
        return self._portal.call(self._http.get, path)

    def post(self, path: str, content: bytes, headers: dict[str, str]) -> httpx.Response:
        return self._portal.call(partial(self._http.post, path, content=content, headers=headers))


@contextmanager
def running(app: FastAPI, *, host: str = "reports.example", sender: str = "127.0.0.1") -> Iterator[Http]:
    """Run an app in a thread; requests may come from any address and name any host."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(sender, 5000))
    asking = httpx.AsyncClient(transport=transport, base_url=f"http://{host}")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(app.router.lifespan_context(app)),
        portal.wrap_async_context_manager(asking) as http,
    ):
        yield Http(portal, http)


@contextmanager
def relaying(gateway: str, *, origins: str = "") -> Iterator[str]:
    """Run the relay of examples/ before a server; yield the relay's URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "GATEWAY": f"{gateway}/.well-known/ohttp-gateway", "ORIGINS": origins}
    process = subprocess.Popen([sys.executable, RELAY, "--port", str(port)], env=environment)
    with process:
        try:
            until = time.monotonic() + 30
            with socket.socket() as probe:
                while probe.connect_ex(("127.0.0.1", port)) and time.monotonic() < until:
                    time.sleep(0.02)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)
