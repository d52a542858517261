"""The FastAPI app: routes, problem documents, and the store's life."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from arcwise.errors import ParameterError, StoreError
from arcwise.server.origins import routes_for_origins
from arcwise.server.problems import install_problem_handlers
from arcwise.server.routes import INGEST_OPENAPI, INGEST_PATH, Estimates, Ingest, reader_routes
from arcwise.server.settings import Settings, epochs_in
from arcwise.server.store import Store, Writer, open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["create_app"]


def create_app(settings: Settings | None = None, **options: Any) -> FastAPI:
    """Return an ASGI app that serves the tasks of `settings`; run it with uvicorn or `arcwise serve`.

    The store is opened when the app starts, and closed, after everything queued is written, when it stops.

    Parameters
    ----------
    settings
        How the server is set up.
    **options
        The fields of `Settings`, instead of an object: ``create_app(tasks="tasks/", store="sqlite:///a.db")``.

    Raises
    ------
    ParameterError, TaskError, CertificateError
        When the settings are not valid.
    StoreError
        At start, when the store cannot be opened.
    """
    if settings is None:
        settings = Settings(**options)
    elif options:
        raise ParameterError("give either a Settings object or its fields, not both")
    tasks = {task.id: task for task in settings.served}
    ingest = Ingest(
        tasks.values(), retention_days=settings.retention_days, max_body_bytes=settings.max_body_bytes
    )
    opened: list[Store] = []

    def store() -> Store:
        if not opened:
            raise StoreError("the app has not started: run it under a server, or enter its lifespan")
        return opened[0]

    estimates = Estimates(store)

    def prune() -> None:
        # Older batches are refused by now, so their ids need not be known any more.
        for task in tasks.values():
            oldest = task.epoch(time.time()) - epochs_in(settings.retention_days, task)
            store().prune(task, before=oldest)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        opened.append(open_store(settings.store))
        store().register(tasks.values())
        estimates.start()
        ingest.writer = writer = Writer(
            store(), max_waiting_bytes=settings.max_waiting_bytes, housekeeping=prune
        )
        try:
            yield
        finally:
            ingest.writer = None
            await writer.close()
            await asyncio.to_thread(estimates.close)
            opened.pop().close()

    app = FastAPI(
        title="arcwise",
        summary="Collects locally private reports and estimates from their counts.",
        lifespan=lifespan,
        docs_url=None,  # the pages would load scripts from outside
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat the request's host and path
    )
    # First in the list: the hot path is matched before anything else.
    app.router.routes[:0] = routes_for_origins(INGEST_PATH, ingest, settings.origins)
    app.include_router(reader_routes(tasks, estimates))
    install_problem_handlers(app)
    _describe_ingestion(app)
    return app


def _describe_ingestion(app: FastAPI) -> None:
    """Put the plain route into the OpenAPI document, which FastAPI makes of its own routes only."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        document["paths"][INGEST_PATH] = INGEST_OPENAPI
        return document

    app.openapi = openapi  # type: ignore[method-assign]
