"""/health/live, /health/ready, /metrics and /docs, for supervisors, Prometheus and people."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse

from arcwise.server.problems import Problem
from arcwise.server.process.metrics import Metrics

if TYPE_CHECKING:
    from arcwise.server.runtime import Runtime


def health_routes(runtime: Runtime) -> APIRouter:
    """Return the routes about the server itself; the routes of health need no key."""
    router = APIRouter(tags=["health"])

    @router.get("/health/live", summary="The process answers")
    async def live() -> dict[str, str]:
        """Answer, to show that the process is alive."""
        return {"status": "ok"}

    @router.get("/health/ready", summary="Reports can be taken")
    async def ready() -> dict[str, str]:
        """Report readiness: the store can be read and written, the queue has room, no stop has begun."""
        trouble = runtime.trouble()
        if trouble is not None:
            raise Problem(503, "not-ready", trouble, headers={"Retry-After": "5"})
        return {"status": "ok"}

    @router.get("/metrics", summary="Counters for Prometheus", response_class=PlainTextResponse)
    async def metrics(request: Request) -> Response:
        """Show the counters of this worker since its start; takes a metrics or admin key if keys are on."""
        runtime.gate.check(request.scope, "metrics")
        return Response(runtime.metrics.text(), media_type=Metrics.CONTENT_TYPE)

    return router


_HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>arcwise: HTTP interface</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" href="data:,">
</head>
<body>
<div id="swagger-ui"></div>
<noscript><p>This page needs JavaScript; see <a href="openapi.json">openapi.json</a> instead.</p></noscript>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""

_START = """"use strict";
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  tryItOutEnabled: true,
  syntaxHighlight: { activated: false },
});
"""
"""validatorUrl: by default Swagger UI sends the address of the document to a third-party server."""

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Swagger UI writes its own style attributes and pictures into the page, but no scripts."""

_HEADERS = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_FILES = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
_KEEP = {"Cache-Control": "public, max-age=86400", **_HEADERS}


def docs_routes() -> APIRouter:
    """Return the routes of the page and its files; it needs no key, because it shows only /openapi.json."""
    router = APIRouter(include_in_schema=False)
    read: dict[str, bytes] = {}

    @router.get("/docs")
    async def page() -> Response:
        return Response(_HTML, headers=_HEADERS, media_type="text/html")

    @router.get("/docs/{name}")
    async def file(name: str) -> Response:
        if name == "start.js":
            return Response(_START, headers=_KEEP, media_type="text/javascript")
        if name not in _FILES:
            raise HTTPException(404)
        if name not in read:
            read[name] = (files("fastapi_offline") / "static" / name).read_bytes()
        return Response(read[name], headers=_KEEP, media_type=_FILES[name])

    return router
