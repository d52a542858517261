"""The FastAPI app: its routes, its problem documents and its lifespan."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI

from arcwise.checks import did_you_mean, explained, shown
from arcwise.errors import ArcwiseError, ParameterError
from arcwise.server.access.login import login_routes
from arcwise.server.access.origins import routes_for_origins
from arcwise.server.catalogue import whole_segments
from arcwise.server.collect.ingest import INGEST_PATH, task_in
from arcwise.server.openapi import describe
from arcwise.server.pages.problems import problem_answer, problem_page
from arcwise.server.pages.routes import page_routes
from arcwise.server.problems import Problem, install_problem_handlers, with_fields
from arcwise.server.routes.admin import admin_routes
from arcwise.server.routes.gateway import gateway_routes
from arcwise.server.routes.server import docs_routes, health_routes
from arcwise.server.routes.tasks import reader_routes
from arcwise.server.runtime import Runtime
from arcwise.server.settings import Settings, settings_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

    from arcwise.server.collect.clock import Clock
    from arcwise.server.collect.event_loop import Taker
    from arcwise.server.collect.ingest import Ingest

_MAX_TARGET_BYTES: Final = 4096
"""Most bytes of a path and its query, as sent: a name takes at most 768 bytes, and 20 shares some 1,500."""


class _App(FastAPI):
    """FastAPI with a shortcut for reports, because most requests are reports.

    FastAPI's middleware and routers cost more than everything else that a report needs. Reports go through
    FastAPI, too, if `add_middleware` was called or the app is mounted under a path. Other wrappers of
    FastAPI's own stack, such as some tracers, do not see reports. Requests other than reports begin in turns,
    so that they cannot hold up reports.
    """

    runtime: Runtime
    ingest: Ingest | None = None
    """If None, reports go through FastAPI, too."""
    trouble: str = ""
    """Why the app did not start."""

    def taker(self, scope: Scope) -> Taker | None:
        """Return the function that takes a fully received request past FastAPI, or None to use FastAPI."""
        if self.user_middleware:  # the middleware must see the request
            return None
        takes = None if self.ingest is None else self.ingest.taker(scope)
        gateway = self.runtime.gateway
        return takes if takes or gateway is None else gateway.taker(scope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            runtime, is_change = self.runtime, scope["method"] not in ("GET", "HEAD")
            problem = _read_only() if runtime.read_only and is_change else _too_long(scope)
            if problem is not None:
                runtime.metrics.refused(problem.kind)
                await problem.response()(scope, receive, send)
                return
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            task_id = task_in(path) if scope["method"] == "POST" else None
            if not self.user_middleware and not scope.get("root_path"):
                if task_id is not None and self.ingest is not None:
                    await self.ingest.serve(task_id, scope, receive, send)
                    return
                if runtime.gateway is not None and runtime.gateway.taker(scope):
                    await runtime.gateway(scope, receive, send)
                    return
            if task_id is None:
                if not await runtime.turns.wait(scope):
                    return
                if not runtime.read_only:
                    await runtime.sessions.attach(scope)
            scope, send = whole_segments(scope), with_fields(send)
        await super().__call__(scope, receive, send)


@explained
def create_app(settings: Settings | None = None, *, clock: Clock = time, **options: Any) -> FastAPI:
    """Return an ASGI app that serves the tasks of `settings`; run it with uvicorn or `arcwise serve`.

    The store is opened when the app starts. When it stops, everything queued is written and the store closed.

    Parameters
    ----------
    settings
        The settings of the server.
    clock
        The machine's clock, or another clock for tests and simulations.
    **options
        Fields of `Settings`, instead of an object: ``create_app(tasks="tasks/", store="sqlite:///a.db")``.

    Raises
    ------
    ParameterError, TaskError, CertificateError
        When the settings are not valid.
    TypeError
        When an option is not a field of `Settings`.
    StoreError
        At start, when the store cannot be opened.
    CertificateError
        Also at start, when the central statement of a task that is new to the store is not true.
    """
    if settings is not None and not isinstance(settings, Settings):
        raise ParameterError(
            f"settings must be a Settings; give tasks and store by name, got {shown(settings)}"
        )
    if settings is None:
        known = settings_of(Settings)
        for name in options.keys() - known:
            hint = did_you_mean(name, known) or f"; it takes {', '.join(known)}"
            raise TypeError(f"create_app() has no option {name!r}{hint}")
        settings = Settings(**options)
    elif options:
        raise ParameterError("give either a Settings object or its fields, not both")
    return _app(Runtime(settings, clock), settings)


@explained
def create_dashboard(settings: Settings, *, clock: Clock = time) -> FastAPI:
    """Return an ASGI app that shows a store to this machine, without keys, and changes nothing.

    Of `settings` it uses the store, which must exist, `release`, `min_reports`, `min_reports_days` and
    `estimates_apart`. Servers may keep writing to the store. Requests other than GET and HEAD are refused.
    The app raises `StoreError` at its start when the store cannot be opened.
    """
    return _app(Runtime(settings, clock, read_only=True), settings)


def _read_only() -> Problem:
    # For devices 503 means "later": their server may have stopped, and this dashboard may have taken its
    # port.
    return Problem(
        503,
        "read-only",
        "This dashboard takes no reports and changes nothing; `arcwise serve` does.",
        headers={"Retry-After": "60"},
    )


def _too_long(scope: Scope) -> Problem | None:
    """Return the problem of a request whose path and query are too long; None for any other request."""
    path = scope.get("raw_path") or scope["path"].encode()
    if len(path.partition(b"?")[0]) + len(scope["query_string"]) <= _MAX_TARGET_BYTES:
        return None
    detail = f"The path and the query of a request may have at most {_MAX_TARGET_BYTES} bytes together."
    return Problem(414, "uri-too-long", detail)


def _app(runtime: Runtime, settings: Settings) -> _App:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            await runtime.start()
        except ArcwiseError as error:
            app.trouble = str(error)
            raise
        try:
            yield
        finally:
            await runtime.stop()

    app = _App(
        title="arcwise",
        summary="Collects locally private reports and estimates from their counts.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages would load scripts from outside
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat the request's host and path
    )
    app.runtime = app.state.runtime = runtime
    if not settings.origins and not runtime.read_only:  # origins need middleware of their own
        app.ingest = runtime.ingest
    # First in the list: matched before anything else.
    app.router.routes[:0] = routes_for_origins(INGEST_PATH, runtime.ingest, settings.origins)
    app.include_router(gateway_routes(runtime))
    app.include_router(reader_routes(runtime))
    app.include_router(admin_routes(runtime))
    app.include_router(health_routes(runtime))
    app.include_router(docs_routes())
    app.include_router(login_routes(runtime, partial(problem_answer, runtime)))
    app.router.routes += page_routes(runtime)
    install_problem_handlers(app, runtime.metrics.refused, partial(problem_page, runtime))
    describe(app)
    return app
