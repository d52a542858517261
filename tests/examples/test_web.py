"""Apps that report on behalf of their users: FastAPI with the server mounted in it, Starlette, Django."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from arcwise.client import AsyncRecordingTransport, Caps, Circle, Outcome, Task
from arcwise.client.asgi import Reporting, ReportingMiddleware
from arcwise.errors import CertificateError, ParameterError
from tests.support.ledgers import fresh_ledgers, ledger_schema, ledger_url

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from types import ModuleType

    from starlette.requests import Request

    from arcwise.client import PostgresLedgers

EXAMPLES = Path(__file__).parents[2] / "examples" / "web"
HEADING = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=2.0))
RIDE = {"heading": 12}


@pytest.fixture
def ledgers() -> Iterator[PostgresLedgers]:
    with fresh_ledgers() as ledgers:
        for account in ("anna", "ben"):
            ledgers.create_account(account)
        yield ledgers


def loaded(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def asking(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://testserver")


def account_of(scope: MutableMapping[str, Any]) -> str | None:
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


def test_a_request_has_the_client_of_its_account(ledgers: PostgresLedgers) -> None:
    transport = AsyncRecordingTransport()
    reporting = Reporting("https://reports.example", tasks=[HEADING], ledgers=ledgers, transport=transport)

    async def ride(request: Request) -> JSONResponse:
        client = request.state.arcwise
        return JSONResponse(None if client is None else (await client.report("heading", 12.0)).value)

    app = Starlette(routes=[Route("/ride", ride)], lifespan=reporting.lifespan)
    app.add_middleware(ReportingMiddleware, reporting=reporting, account=account_of)

    async def main() -> list[Any]:
        async with app.router.lifespan_context(app), asking(app) as http:
            users: list[dict[str, str]] = [
                {},
                *({"X-User": name} for name in ("anna", "anna", "anna", "ben", "eve")),
            ]
            return [(await http.get("/ride", headers=headers)).json() for headers in users]

    assert asyncio.run(main()) == [None, "accepted", "accepted", "capped", "accepted", "failed"]
    assert sum(len(batch.codes) for batch in transport.batches) == 3  # flushed at the end
    with pytest.raises(RuntimeError, match="has not started"):
        reporting.client("anna")


def test_what_an_earlier_run_has_left_is_sent(ledgers: PostgresLedgers) -> None:
    down, up = AsyncRecordingTransport([503] * 10), AsyncRecordingTransport()

    async def run(transport: AsyncRecordingTransport, *, report: bool, close_timeout: float) -> None:
        reporting = Reporting(
            "https://reports.example",
            tasks=[HEADING],
            ledgers=ledgers,
            transport=transport,
            interval=3600.0,
            close_timeout=close_timeout,
        )
        async with reporting.lifespan():
            if report:
                assert await reporting.client("anna").report("heading", 1.0)
            with pytest.raises(RuntimeError, match="already"):
                await reporting.lifespan().__aenter__()

    asyncio.run(run(down, report=True, close_timeout=0.0))
    asyncio.run(run(up, report=False, close_timeout=60.0))
    assert len(up.batches) == 1


def test_mistakes_show_before_the_app_starts(ledgers: PostgresLedgers) -> None:
    with pytest.raises(CertificateError, match="max_epsilon"):
        Reporting("https://reports.example", tasks=[HEADING], ledgers=ledgers, max_epsilon=0.5)
    reporting = Reporting("https://reports.example", tasks=[HEADING], ledgers=ledgers)
    app: Any = None
    with pytest.raises(ParameterError, match="account must be a function"):
        ReportingMiddleware(app, reporting=reporting, account="anna")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="reporting must be a Reporting"):
        ReportingMiddleware(app, reporting=None, account=account_of)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_fastapi_app_reports_to_the_server_that_is_mounted_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import uvicorn

    port = free_port()
    with ledger_schema() as schema:
        monkeypatch.setenv("DATABASE_URL", ledger_url())
        monkeypatch.setenv("LEDGER_SCHEMA", schema)
        monkeypatch.setenv("REPORTS_URL", f"http://127.0.0.1:{port}/arcwise")
        monkeypatch.setenv("COLLECT", "1")
        monkeypatch.setenv("STORE", f"sqlite:///{tmp_path / 'store.db'}")
        module = loaded(EXAMPLES / "fastapi_app.py", "fastapi_app")
        server = uvicorn.Server(uvicorn.Config(module.app, port=port, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
                while not server.started:
                    assert thread.is_alive()
                    time.sleep(0.01)
                user = {"X-User": "anna"}
                assert http.post("/rides", headers=user, json=RIDE).json() == {"outcome": "failed"}
                assert http.delete("/consent", headers=user).status_code == 503
                assert http.put("/consent", headers=user).json() == {"made": True}
                outcomes = [http.post("/rides", headers=user, json=RIDE).json()["outcome"] for _ in range(4)]
                assert outcomes == ["accepted"] * 3 + ["capped"]
                assert http.post("/rides", headers=user, json={"heading": "x"}).status_code == 422
                assert http.get("/arcwise/v1/tasks").json()["tasks"][0]["name"] == "heading"
                while asyncio.run(module.reporting.uplink.counters()).sent < 3:  # acknowledged
                    assert thread.is_alive()
                    time.sleep(0.01)
                assert http.delete("/consent", headers=user).json() == {"stopped": True}
                assert http.post("/rides", headers=user, json=RIDE).json() == {"outcome": "opted-out"}
                assert http.put("/consent", headers=user).json() == {"made": False}
                assert http.post("/rides", headers=user, json=RIDE).json() == {"outcome": "capped"}
        finally:
            server.should_exit = True
            thread.join(60)
            module.ledgers.close()


@pytest.mark.slow
def test_the_django_app_reports_for_its_users(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("django", reason="needs Django")
    from arcwise.client import RecordingTransport, Uplink

    with ledger_schema() as schema:
        monkeypatch.setenv("DATABASE_URL", ledger_url())
        monkeypatch.setenv("LEDGER_SCHEMA", schema)
        monkeypatch.syspath_prepend(str(EXAMPLES / "django_app"))
        reporting = loaded(EXAMPLES / "django_app" / "reporting.py", "reporting")
        monkeypatch.setitem(sys.modules, "reporting", reporting)
        transport = RecordingTransport()
        uplink = Uplink(
            "https://reports.example", ledger=reporting.ledgers(), transport=transport, interval=0.0
        )
        monkeypatch.setattr(reporting, "uplink", lambda: uplink)
        module = loaded(EXAMPLES / "django_app" / "app.py", "django_app")
        monkeypatch.setitem(sys.modules, "django_app", module)
        from django.test import Client as Browser

        browser = Browser()
        user = {"HTTP_X_USER": "anna"}
        try:
            assert browser.delete("/consent", **user).status_code == 503
            assert browser.put("/consent", **user).json() == {"made": True}
            outcomes = [
                browser.post("/rides", RIDE, "application/json", **user).json()["outcome"] for _ in range(4)
            ]
            assert [Outcome(outcome) for outcome in outcomes] == [Outcome.ACCEPTED] * 3 + [Outcome.CAPPED]
            assert browser.post("/rides", {"heading": "x"}, "application/json", **user).status_code == 422
            assert browser.get("/rides", **user).status_code == 405
            assert uplink.flush(60)
            assert sum(len(batch.codes) for batch in transport.batches) == 3
            assert browser.delete("/consent", **user).json() == {"stopped": True}
            assert browser.post("/rides", RIDE, "application/json", **user).json() == {"outcome": "opted-out"}
            assert browser.put("/consent", **user).json() == {"made": False}
            assert browser.post("/rides", RIDE, "application/json", **user).json() == {"outcome": "capped"}
        finally:
            uplink.close()
            reporting.ledgers().close()
