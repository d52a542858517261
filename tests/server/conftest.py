"""An app for each test that asks for one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from arcwise.server import Settings
from arcwise.tasks import Task
from tests.support.apps import App, Serve

Scenario = Callable[[httpx.AsyncClient, FastAPI], Awaitable[None]]


async def start(folder: Path, tasks: list[Task], **options: Any) -> App:
    # Requests that are made in process do not name a loopback address.
    given: dict[str, Any] = {"store": f"sqlite:///{folder / 'app.db'}", "open": True} | options
    return await App.start(Settings(tasks, **given))


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Return a coroutine function that starts an app with these tasks."""
    async with AsyncExitStack() as stack:

        async def started(tasks: list[Task], **options: Any) -> App:
            http = await start(tmp_path, tasks, **options)
            stack.push_async_callback(http.stop)
            return http

        yield started


@pytest.fixture
def with_app(tmp_path: Path) -> Callable[..., None]:
    """Return a function that runs a coroutine function of (http, app) with an app of these tasks."""

    def run(tasks: list[Task], scenario: Scenario, **options: Any) -> None:
        async def main() -> None:
            http = await start(tmp_path, tasks, **options)
            try:
                await scenario(http, http.app)
            finally:
                await http.stop()

        asyncio.run(main())

    return run
