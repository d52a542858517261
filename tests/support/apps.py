"""Apps that run in the process of a test, and keys of stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx

from arcwise.server import create_app
from arcwise.server.access.keys import new_key
from arcwise.server.store import open_store

if TYPE_CHECKING:
    from fastapi import FastAPI

    from arcwise.server import Settings

__all__ = ["App", "Serve", "add_key"]

Serve: TypeAlias = Callable[..., Awaitable["App"]]
"""The fixture `serve`: it starts an app with these tasks and settings, until the test ends."""


class App(httpx.AsyncClient):
    """An app with an entered lifespan, and a client that asks it through its ASGI interface."""

    app: FastAPI
    runtime: Any
    _running: AsyncExitStack

    @classmethod
    async def start(cls, settings: Settings, *, base_url: str = "http://server", **clock: Any) -> App:
        """Start an app with these settings."""
        app = create_app(settings, **clock)
        http = cls(transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url=base_url)
        http._running = AsyncExitStack()
        await http._running.enter_async_context(app.router.lifespan_context(app))
        http.app, http.runtime = app, app.state.runtime
        return http

    async def stop(self) -> None:
        """Stop the app, unless it was stopped."""
        await self._running.aclose()
        await self.aclose()


def add_key(url: str, scope: str, *, tasks: list[str] | None = None) -> str:
    """Put a new key into a store, which is created if necessary, and return the key."""
    key, stored = new_key(scope, tasks=tasks, label=f"{scope} of a test", now=0)
    with closing(open_store(url)) as store:
        store.add_key(stored)
    return key
