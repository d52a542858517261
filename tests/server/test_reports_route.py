"""Reports pass through no middleware: neither FastAPI's nor the app's own."""

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from arcwise.domains import Interval
from arcwise.server import create_app
from arcwise.server.collect.event_loop import Eager
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE
from tests.support.apps import Serve
from tests.support.reports import body_of

pytestmark = pytest.mark.anyio

TASK = Task("delay", Interval(0, 1), 1.0)
PATH = f"/v1/tasks/{TASK.id}/reports"


async def post(http: httpx.AsyncClient, path: str = PATH) -> httpx.Response:
    return await http.post(path, content=body_of(TASK), headers={"content-type": MEDIA_TYPE})


class Stamp:
    """Middleware that marks each answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def stamped(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-stamp", b"1")]  # type: ignore[misc]
            await send(message)

        await self.app(scope, receive, stamped)  # type: ignore[arg-type]


@pytest.mark.parametrize("added", [False, True])
async def test_middleware_that_is_added_sees_reports(serve: Serve, added: bool) -> None:
    http = await serve([TASK])
    if added:
        http.app.add_middleware(Stamp)
    for path, status in ((PATH, 204), ("/health/live", 200), (PATH.replace(TASK.id, "0" * 64), 404)):
        answer = await (post(http, path) if path.endswith("reports") else http.get(path))
        assert answer.status_code == status
        assert ("x-stamp" in answer.headers) == added


async def test_an_app_that_is_mounted_takes_reports_below_its_path(tmp_path: Path) -> None:
    inner = create_app(tasks=[TASK], store=f"sqlite:///{tmp_path / 'a.db'}", open=True)
    outer = Starlette(routes=[Mount("/collect", inner)])
    transport = httpx.ASGITransport(outer)
    async with (
        inner.router.lifespan_context(inner),
        httpx.AsyncClient(transport=transport, base_url="http://server") as http,
    ):
        assert (await post(http, f"/collect{PATH}")).status_code == 204
        assert (await post(http)).status_code == 404


async def test_a_slow_body_behind_middleware_is_a_408(tmp_path: Path) -> None:
    """Starlette's middleware reads bodies in a task group, which expects to be notified of a cancellation."""
    app = create_app(tasks=[TASK], store=f"sqlite:///{tmp_path / 'a.db'}", open=True, body_seconds=0.05)

    @app.middleware("http")
    async def passing(request: Request, call_next: Any) -> Any:
        return await call_next(request)

    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": PATH,
        "query_string": b"",
        "headers": [(b"content-type", MEDIA_TYPE.encode())],
        "server": ("server", 80),
        "client": ("127.0.0.1", 1),
    }
    async with app.router.lifespan_context(app):
        await app(scope, receive, send)
    assert sent[0]["status"] == 408


@pytest.mark.parametrize("options", [{}, {"allow_origins": ["https://app.example"]}])
async def test_a_defect_is_a_problem_document_on_either_way(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, options: dict[str, list[str]]
) -> None:
    http = await serve([TASK], **options)

    def fail(*_: object) -> None:
        raise RuntimeError("SECRET")

    monkeypatch.setattr(http.runtime.gate, "check", fail)
    answer = await post(http)
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:arcwise:problem:internal-error"
    assert "SECRET" not in answer.text


@pytest.mark.parametrize(
    "path", [PATH + "/", PATH.upper(), "/v1/tasks//reports", f"/v1/tasks/{TASK.id}x/reports", "//" + PATH[2:]]
)
async def test_other_paths_are_other_paths(serve: Serve, path: str) -> None:
    http = await serve([TASK])
    assert (await post(http, path)).status_code == 404


class TestBegun:
    async def test_what_does_not_wait_is_done(self) -> None:
        async def at_once() -> int:
            return 3

        begun = Eager(at_once())
        assert begun.is_done
        assert await begun == 3

    async def test_what_waits_goes_on_when_it_is_awaited(self) -> None:
        event = asyncio.Event()

        async def later() -> int:
            await event.wait()
            await asyncio.sleep(0)
            return 3

        begun = Eager(later())
        assert not begun.is_done
        asyncio.get_running_loop().call_soon(event.set)
        assert await begun == 3

    async def test_what_it_raises_is_raised(self) -> None:
        async def at_once() -> None:
            raise ValueError("at once")

        async def later() -> None:
            await asyncio.sleep(0)
            raise ValueError("later")

        with pytest.raises(ValueError, match="at once"):
            Eager(at_once())
        begun = Eager(later())
        with pytest.raises(ValueError, match="later"):
            await begun

    async def test_a_cancelled_wait_ends_what_was_begun(self) -> None:
        ended = []

        async def for_ever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        begun = Eager(for_ever())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_wait(begun), 0.01)
        assert ended == [True]

    async def test_a_cancelled_wait_may_wait_again_and_even_end_well(self) -> None:
        async def stubborn() -> int:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
            return 3

        begun = Eager(stubborn())
        waiting = asyncio.ensure_future(begun)
        await asyncio.sleep(0)
        waiting.cancel()
        assert await waiting == 3

    async def test_it_takes_any_awaitable(self) -> None:
        class Awaitable:
            def __await__(self) -> Generator[None, None, int]:
                yield
                return 3

        begun: Eager[int] = Eager(Awaitable())
        assert not begun.is_done
        assert await begun == 3


async def _wait(begun: Eager[None]) -> None:
    await begun
