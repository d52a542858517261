"""/docs: a page that loads everything from this server, under a strict policy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from arcwise.domains import Circle
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx
    from fastapi import FastAPI

HEADING = Task("heading", Circle(360), 2.0)


def test_the_page_loads_everything_from_this_server(with_app: Callable[..., None]) -> None:
    async def scenario(http: httpx.AsyncClient, _app: FastAPI) -> None:
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
        assert "validatorUrl: null" in start  # or it would send the address to a server of others
        script = await http.get("/docs/swagger-ui-bundle.js")
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert script.headers["x-content-type-options"] == "nosniff"
        for name in ("redoc.standalone.js", "..%2f__init__.py", "SECRET"):
            answer = await http.get(f"/docs/{name}")
            assert (answer.status_code, "SECRET" in answer.text) == (404, False)

    with_app([HEADING], scenario, open=False)


def test_the_page_is_no_part_of_the_interface(with_app: Callable[..., None]) -> None:
    async def scenario(http: httpx.AsyncClient, _app: FastAPI) -> None:
        paths = (await http.get("/openapi.json")).json()["paths"]
        assert not [path for path in paths if path.startswith("/docs")]

    with_app([HEADING], scenario)
