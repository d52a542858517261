"""Runs uvicorn for one app on one socket, until SIGINT or SIGTERM, and logs the start."""

from __future__ import annotations

import asyncio
import gc
import logging
import platform
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from arcwise.server.access.keys import SCOPES
from arcwise.server.collect.event_loop import Eager
from arcwise.server.process.accepting import Acceptor, allow_files
from arcwise.server.process.connections import bounded_protocol
from arcwise.server.process.logs import finish_logs
from arcwise.server.settings import ProcessSettings
from arcwise.server.store.urls import shown_url
from arcwise.version import __version__

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from starlette.types import Scope

    from arcwise.server.collect.event_loop import Done, Taker
    from arcwise.server.runtime import Runtime
    from arcwise.server.settings import Settings

_MOST_TASKS = 20
_ID_DIGITS = 8

_log = logging.getLogger("arcwise.server")


def log_start(runtime: Runtime, settings: Settings, url: str) -> None:
    """Log the store, the tasks, the keys and the addresses of a server that has just started.

    Each line is logged from a separate place, because `SparingHandler` writes only one line a minute from
    each place. Secrets in the store's URL are left out.
    """
    _log.info("arcwise %s on Python %s", __version__, platform.python_version())
    _log.info("store: %s, %s bytes", shown_url(settings.store), f"{runtime.store_bytes:,.0f}")
    _log.info("tasks: %s", _tasks(runtime))
    _log.info("keys: %s", _keys(runtime))
    _log.info("listening on %s", url)
    _log.info("dashboard: %s/", settings.public_url or _of_this_machine(url))


def _tasks(runtime: Runtime) -> str:
    tasks, closed = runtime.catalogue.tasks, runtime.catalogue.closed
    # Open tasks come first, so that closed tasks are the first to be left out.
    ids = sorted(tasks, key=lambda task_id: task_id in closed)
    words = [
        f"{tasks[task_id].name} ({task_id[:_ID_DIGITS]}{', closed' if task_id in closed else ''})"
        for task_id in ids[:_MOST_TASKS]
    ]
    left_out = len(ids) - len(words)
    return ", ".join(words) + (f" and {left_out:,} more" if left_out else "") or "none"


def _keys(runtime: Runtime) -> str:
    number = runtime.keys_by_scope
    words = [f"{number[scope]} {scope}" for scope in SCOPES if number[scope]]
    return ", ".join(words) or "none"


def _of_this_machine(url: str) -> str:
    """Return a URL that a browser on this machine can open, for a server that listens on all addresses."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


_STOP_SECONDS = 10
"""Seconds in which requests may end at shutdown; after these they are cancelled, and clients repeat them."""


class _Server(uvicorn.Server):
    """Reports its URL once it listens, tunes the garbage collector, and stops in steps."""

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
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if sys.platform == "win32":  # Windows has no uvloop, and its event loop has no readers
            await super().startup(sockets)
        else:
            await super().startup([])
            if self.started:
                self._accept(sockets or [])
        # Objects that exist by now live as long as the process; scanning them again costs 20 us a request.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        if self.started:
            if self._runtime is not None:
                log_start(self._runtime, self._settings, self.url)
            self._on_start(self.url)

    def _accept(self, sockets: list[socket.socket]) -> None:
        protocol: Any = self.config.http_protocol_class
        make = partial(
            protocol, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        loop = asyncio.get_running_loop()
        self._acceptors = [Acceptor(loop, each, make, self._is_full) for each in sockets]

    def _is_full(self) -> bool:
        return len(self.server_state.connections) >= self._settings.max_connections

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # First a load balancer sees that this worker is stopping and sends its requests elsewhere.
        if self._runtime is not None:
            self._runtime.drain()
        until = time.monotonic() + self._settings.drain_seconds
        while time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(0.05)
        for acceptor in self._acceptors:  # uvicorn then ends the open connections
            await acceptor.close()
        await super().shutdown(sockets)
        finish_logs()  # uvicorn ends the process by the signal that it got, so no exit handler runs


def _forwarded(taker: Callable[[Scope], Taker | None], trusted: list[str]) -> Callable[[Scope], Taker | None]:
    """Return `taker` for use behind proxies: a sender's address is taken from the headers of the proxy."""

    async def nothing(_scope: Any, _receive: Any, _send: Any) -> None:
        pass

    rename: Any = ProxyHeadersMiddleware(nothing, trusted)

    def take_renamed(take: Taker, scope: Scope, body: bytes, done: Done) -> None:
        Eager(rename(scope, None, None))  # it changes the scope without waiting
        take(scope, body, done)

    def forwarded(scope: Scope) -> Taker | None:
        take = taker(scope)
        return None if take is None else partial(take_renamed, take)

    return forwarded


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

    `started` is called with the URL when the app is served. Raises `click.ClickException` when the app does
    not start.
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
        access_log=False,  # an access log would hold addresses
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
        return not getattr(app, "trouble", "")  # reported in one line below, without a traceback

    logger = logging.getLogger("uvicorn.error")
    logger.addFilter(is_told)
    try:
        server.run(sockets=[listener])
    except SystemExit:  # newer versions of uvicorn raise it if they fail to start
        if server.started:
            raise
    finally:
        logger.removeFilter(is_told)
        listener.close()  # if the server has started, it is already closed
    if not server.started:
        trouble: str = getattr(app, "trouble", "")
        raise click.ClickException(trouble or "the server did not start; the lines above say why")
