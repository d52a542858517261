"""uvicorn for one app on one socket, until SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from arcwise.server.eager import Eager
from arcwise.server.process.connections import bounded_protocol
from arcwise.server.process.file_limit import allow_files
from arcwise.server.process.first_lines import log_start
from arcwise.server.process.logs import finish_logs
from arcwise.server.settings import ProcessSettings

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from starlette.types import Scope

    from arcwise.server.runtime import Runtime
    from arcwise.server.whole import Done, Taker

_ACCEPTED_AT_ONCE = 32
"""New connections in one turn of the event loop: uvloop takes one of each socket, and a turn can be long.

All these sockets wake for one that comes alone: each costs it 5 us.
"""
_STOP_SECONDS = 10
"""What requests have to end once nothing new is taken; those that do not are cancelled, and sent again."""


class _Server(uvicorn.Server):
    """Says where it listens once it does, tunes the garbage collector, and stops in steps."""

    url = ""

    def __init__(
        self,
        config: uvicorn.Config,
        runtime: Runtime | None,
        settings: ProcessSettings,
        started: Callable[[str], object],
    ) -> None:
        super().__init__(config)
        self._runtime = runtime
        self._settings = settings
        self._on_start = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What is loaded by now lives as long as the process; scanning it again costs 20 us a request.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        if self.started:
            if self._runtime is not None:
                log_start(self._runtime, self._settings, self.url)
            self._on_start(self.url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # A balancer sees first that this worker is going, and sends its requests elsewhere; then it goes.
        if self._runtime is not None:
            self._runtime.drain()
        until = time.monotonic() + self._settings.drain_seconds
        while time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(0.05)
        await super().shutdown(sockets)
        finish_logs()  # uvicorn ends by the signal that it got: nothing runs at exit


def _forwarded(taker: Callable[[Scope], Taker | None], trusted: list[str]) -> Callable[[Scope], Taker | None]:
    """Return `taker` behind proxies: senders get the addresses that uvicorn reads from the headers."""

    async def nothing(_scope: Any, _receive: Any, _send: Any) -> None:
        pass

    rename: Any = ProxyHeadersMiddleware(nothing, trusted)

    def take_renamed(take: Taker, scope: Scope, body: bytes, done: Done) -> None:
        Eager(rename(scope, None, None))  # it changes the scope, and waits for nothing
        take(scope, body, done)

    def forwarded(scope: Scope) -> Taker | None:
        take = taker(scope)
        return None if take is None else partial(take_renamed, take)

    return forwarded


def quickly_accepting(listener: socket.socket) -> list[socket.socket]:
    """Return a socket that listens with duplicates of it: each takes a connection in a turn of the loop."""
    copies = 0 if sys.platform == "win32" else _ACCEPTED_AT_ONCE - 1  # there is no uvloop, and no such wait
    return [listener, *(listener.dup() for _ in range(copies))]


def _say_where(url: str) -> None:
    click.echo(f"arcwise is listening on {url}")


def run(
    app: Any,
    listener: socket.socket,
    settings: ProcessSettings | None = None,
    *,
    started: Callable[[str], object] = _say_where,
) -> None:
    """Serve an app of `create_app` on a listening socket until SIGINT or SIGTERM.

    `started` is called with the URL when it is served. Raises `click.ClickException` when the app does not
    start.
    """
    settings = settings or ProcessSettings()
    allow_files(settings.max_connections)
    runtime: Runtime | None = getattr(getattr(app, "state", None), "runtime", None)
    taker: Callable[[Scope], Taker | None] = getattr(app, "taker", lambda _scope: None)
    if settings.trusted_proxies:
        taker = _forwarded(taker, list(settings.trusted_proxies))
    config = uvicorn.Config(
        app,
        http=bounded_protocol(
            settings, (lambda _reason: None) if runtime is None else runtime.metrics.cut, taker
        ),
        ws="none",
        access_log=False,  # it would hold addresses
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        log_config=None,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    server = _Server(config, runtime, settings, started)
    host, port = listener.getsockname()[:2]
    server.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def is_told(_record: logging.LogRecord) -> bool:
        return not getattr(app, "trouble", "")  # which is said in one line below, without a traceback

    logger = logging.getLogger("uvicorn.error")
    logger.addFilter(is_told)
    sockets = quickly_accepting(listener)
    try:
        server.run(sockets=sockets)
    except SystemExit:  # by which newer versions of uvicorn say that it has not started
        if server.started:
            raise
    finally:
        logger.removeFilter(is_told)
        for each in sockets:  # uvicorn closes those of a server that has started
            each.close()
    if not server.started:
        trouble: str = getattr(app, "trouble", "")
        raise click.ClickException(trouble or "the server did not start; the lines above say why")
