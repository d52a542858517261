"""Browsers on other origins: off by default, and then only the POST of reports."""

import httpx
import pytest

from arcwise.domains import Circle
from arcwise.tasks import Task
from tests.support.apps import Serve
from tests.support.reports import report

pytestmark = pytest.mark.anyio

HEADING = Task("heading", Circle(360), 1.0)
PATH = f"/v1/tasks/{HEADING.id}/reports"
APP = "https://app.example"
PREFLIGHT = {
    "origin": APP,
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type",
}


def cors(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


async def test_off_by_default(serve: Serve) -> None:
    http = await serve([HEADING])
    answer = await http.options(PATH, headers=PREFLIGHT)
    assert (answer.status_code, cors(answer)) == (405, {})
    answer = await report(http, HEADING, headers={"origin": APP})
    assert (answer.status_code, cors(answer)) == (204, {})


@pytest.mark.parametrize("origins", [[APP], ["http://localhost:8080", APP], ["*"]])
async def test_an_allowed_page_may_report(serve: Serve, origins: list[str]) -> None:
    shown = "*" if origins == ["*"] else APP
    http = await serve([HEADING], allow_origins=origins)
    answer = await http.options(PATH, headers=PREFLIGHT)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == shown
    assert answer.headers["access-control-allow-methods"] == "POST"
    assert "Content-Type" in answer.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in answer.headers
    for content, status in ((None, 204), (b"no batch", 400)):
        answer = await report(http, HEADING, content, headers={"origin": APP})
        assert answer.status_code == status
        assert cors(answer) == {
            "access-control-allow-origin": shown,
            "access-control-expose-headers": "Retry-After",
        }
    counts = (await http.get(f"/v1/tasks/{HEADING.id}/estimate")).json()
    assert counts["n"] == 1


async def test_other_pages_methods_and_headers_are_not_allowed(serve: Serve) -> None:
    http = await serve([HEADING], allow_origins=[APP])
    for change in (
        {"origin": "https://other.example"},
        {"origin": "http://app.example"},
        {"origin": "null"},
        {"access-control-request-method": "PUT"},
        {"access-control-request-headers": "content-type, x-device"},
    ):
        answer = await http.options(PATH, headers={**PREFLIGHT, **change})
        assert answer.status_code == 400
    answer = await report(http, HEADING, headers={"origin": "https://other.example"})
    # The browser hides the answer from the page; other clients may report anyway.
    assert (answer.status_code, cors(answer).get("access-control-allow-origin")) == (204, None)
    answer = await http.options(PATH, headers={"origin": APP})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.headers["content-type"] == "application/problem+json"


async def test_nothing_but_reports_is_shared(serve: Serve) -> None:
    http = await serve([HEADING], allow_origins=["*"])
    for path in (
        "/v1/tasks",
        f"/v1/tasks/{HEADING.id}",
        f"/v1/tasks/{HEADING.id}/estimate",
        "/health/live",
    ):
        assert cors(await http.get(path, headers={"origin": APP})) == {}
        assert (await http.options(path, headers=PREFLIGHT)).status_code == 405
