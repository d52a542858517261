"""A running app per test: its lifespan entered, requests made in process through its ASGI interface."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from fastapi import FastAPI

from arcwise.server import Settings, create_app
from arcwise.tasks import Task

Result = TypeVar("Result")
Run = Callable[..., None]


@pytest.fixture
def with_app(tmp_path: Path) -> Run:
    """Return a function that runs a coroutine function of (http, app) against an app with these tasks."""

    def run(
        tasks: list[Task], scenario: Callable[[httpx.AsyncClient, FastAPI], Awaitable[None]], **options: Any
    ) -> None:
        async def main() -> None:
            # Requests that are made in process name no loopback address.
            given: dict[str, Any] = {"store": f"sqlite:///{tmp_path / 'app.db'}", "open": True} | options
            app = create_app(Settings(tasks, **given))
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(transport=transport, base_url="http://server") as http,
            ):
                await scenario(http, app)

        asyncio.run(main())

    return run
