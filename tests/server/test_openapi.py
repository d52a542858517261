"""The OpenAPI document and its page agree with the app; every problem is on the protocol's page."""

import ast
import asyncio
import re
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from arcwise.domains import Circle
from arcwise.server import create_app
from arcwise.tasks import Task
from arcwise.wire import MAX_BODY_BYTES, MEDIA_TYPE
from tests.support.apps import Serve
from tests.support.reports import report

pytestmark = pytest.mark.anyio

HEADING = Task("heading", Circle(360), 1.0)
ROOT = Path(__file__).parents[2]
REQUIRED = {"type", "title", "status", "detail"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    app = create_app(tasks=[HEADING])
    assert app.openapi() == app.openapi()
    return app.openapi()


OPERATIONS = {
    "/.well-known/ohttp-gateway": {"get": None, "post": None},
    "/v1/tasks/{task_id}/reports": {"post": "ingest"},
    "/v1/tasks": {"get": "read", "post": "admin"},
    "/v1/tasks/{task}": {"get": "read"},
    **{
        f"/v1/tasks/{{task}}/{what}": {"get": "read"}
        for what in (
            *("estimate", "series", "difference", "fit", "plan"),
            *("estimate.{form}", "picture.{form}", "series.{form}", "difference.{form}"),
        )
    },
    "/v1/tasks/{task_id}/close": {"post": "admin"},
    "/v1/tasks/{task_id}/open": {"post": "admin"},
    "/metrics": {"get": "metrics"},
    "/health/live": {"get": None},
    "/health/ready": {"get": None},
}


def test_every_route_is_described_with_its_key(document: dict[str, Any]) -> None:
    found: dict[str, dict[str, str | None]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"]
            assert operation["responses"]["default"]["content"] == {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }
            schemes = [name for choice in operation.get("security", []) for name in choice]
            assert set(schemes) <= set(document["components"]["securitySchemes"])
            found.setdefault(path, {})[method] = schemes[0] if schemes else None
    assert found == OPERATIONS
    assert all(path.startswith(("/v1/", "/health/", "/metrics", "/.well-known/")) for path in found)
    for path in (
        "/v1/tasks",
        "/v1/tasks/{task}",
        "/v1/tasks/{task}/estimate",
    ):  # an admin reads
        assert document["paths"][path]["get"]["security"] == [{"read": []}, {"admin": []}, {}]
    assert document["paths"]["/metrics"]["get"]["security"] == [{"metrics": []}, {"admin": []}, {}]
    described = document["components"]["schemas"]["Problem"]
    assert set(described["required"]) == set(described["properties"]) == REQUIRED
    references = re.findall(r'"\$ref": "#/components/schemas/(\w+)"', str(document).replace("'", '"'))
    assert set(references) <= set(document["components"]["schemas"])


def test_the_binary_body_is_described(document: dict[str, Any]) -> None:
    operation = document["paths"]["/v1/tasks/{task_id}/reports"]["post"]
    assert operation["requestBody"] == {
        "required": True,
        "content": {
            MEDIA_TYPE: {"schema": {"type": "string", "format": "binary", "maxLength": MAX_BODY_BYTES}}
        },
    }
    for word in ("msgpack", "task_id (bin, 32 bytes)", "batch_id (bin, 16 random bytes)", "little-endian"):
        assert word in operation["description"]


def test_every_kind_of_problem_is_on_the_page_of_the_protocol() -> None:
    page = (ROOT / "docs" / "reference" / "protocol.md").read_text(encoding="utf-8")
    kinds = set()
    for path in (ROOT / "server" / "arcwise" / "server").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
                status, kind = node.args[0], node.args[1]
                if isinstance(kind, ast.Constant):
                    assert isinstance(status, ast.Constant)
                    HTTPStatus(int(str(status.value)))
                    kinds.add(str(kind.value))
    assert len(kinds) > 20
    assert {kind for kind in kinds if kind not in page} == set()


def is_problem(answer: httpx.Response) -> bool:
    document = answer.json()
    return (
        answer.headers["content-type"] == "application/problem+json"
        and set(document) == REQUIRED
        and document["status"] == answer.status_code
        and re.fullmatch(r"urn:arcwise:problem:[a-z0-9-]+", document["type"]) is not None
        and "SECRET" not in answer.text + str(answer.headers)
    )


async def test_what_the_framework_answers_itself_is_a_problem_too(serve: Serve) -> None:
    http = await serve([HEADING])
    asked = [
        ("GET", "/SECRET", 404),
        ("GET", "/v1/tasks/", 404),
        ("GET", "/v1/tasks/SECRET/", 404),  # no redirect, which would repeat it
        ("GET", f"/v1/tasks/{HEADING.id}/reports", 405),
        ("DELETE", "/v1/tasks", 405),
        ("SECRET", "/v1/tasks", 405),
        ("HEAD", f"/v1/tasks/{HEADING.id}/SECRET", 404),
        ("GET", f"/v1/tasks/{HEADING.id}/series?every=SECRET", 422),
        ("GET", f"/v1/tasks/{HEADING.id}/estimate?SECRET=1", 422),
        ("POST", f"/v1/tasks/{HEADING.id}/reports", 415),
    ]
    for method, path, status in asked:
        answer = await http.request(method, path)
        assert answer.status_code == status, path
        assert method == "HEAD" or is_problem(answer)
    for path in ("/v1/tasks/SECRET", "/v1/tasks/SECRET/estimate", f"/v1/tasks/{'0' * 64}/estimate"):
        answer = await http.get(path)
        assert is_problem(answer)
        assert answer.json()["type"] == "urn:arcwise:problem:unknown-task"
    assert (await http.get("/health/live")).json() == {"status": "ok"}


async def test_tracing_headers_change_nothing(serve: Serve) -> None:
    traced = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "SECRET=1",
        "x-request-id": "SECRET",
        "b3": "SECRET",
    }
    http = await serve([HEADING])
    plain, with_trace = [await http.get("/v1/tasks", headers=headers) for headers in ({}, traced)]
    assert plain.content == with_trace.content
    assert plain.headers == with_trace.headers
    answer = await report(http, HEADING, headers=traced)
    assert (answer.status_code, dict(answer.headers)) == (204, {"nel": '{"max_age":0}'})
    await asyncio.sleep(0)


async def test_the_page_of_the_docs_loads_everything_from_this_server(serve: Serve) -> None:
    http = await serve([HEADING], open=False)
    page = await http.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert loaded == [
        *("docs/swagger-ui.css", "data:,", "openapi.json"),
        *("docs/swagger-ui-bundle.js", "docs/start.js"),
    ]
    for name in loaded:
        if name != "data:,":
            answer = await http.get(f"/{name}")
            assert answer.status_code == 200, name
    assert "<script>" not in page.text
    assert "style=" not in page.text
    start = (await http.get("/docs/start.js")).text
    assert "validatorUrl: null" in start  # otherwise, it would send the address to another server
    script = await http.get("/docs/swagger-ui-bundle.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["x-content-type-options"] == "nosniff"
    for name in ("redoc.standalone.js", "..%2f__init__.py", "SECRET"):
        answer = await http.get(f"/docs/{name}")
        assert (answer.status_code, "SECRET" in answer.text) == (404, False)
