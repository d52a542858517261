"""/health/live, /health/ready, /metrics and /docs: what supervisors, Prometheus and people ask."""

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
    """Return the routes about the server itself; those of health need no key."""
    router = APIRouter(tags=["health"])

    @router.get("/health/live", summary="The process answers")
    async def live() -> dict[str, str]:
        """Whether the process answers at all."""
        return {"status": "ok"}

    @router.get("/health/ready", summary="Reports can be taken")
    async def ready() -> dict[str, str]:
        """Whether the store can be read and written, the queue has room, and the server goes on; else 503."""
        trouble = runtime.trouble()
        if trouble is not None:
            raise Problem(503, "not-ready", trouble, headers={"Retry-After": "5"})
        return {"status": "ok"}

    @router.get("/metrics", summary="Counters for Prometheus", response_class=PlainTextResponse)
    async def metrics(request: Request) -> Response:
        """Show what this worker did since it started; takes a metrics or an admin key, where keys are on."""
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
<noscript><p>This page takes JavaScript; <a href="openapi.json">openapi.json</a> says the same.</p></noscript>
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
"""validatorUrl: by default it sends the address of the document to a server of others."""

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Swagger UI writes style attributes and pictures of its own into the page; scripts it does not."""

_HEADERS = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_FILES = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
_KEEP = {"Cache-Control": "public, max-age=86400", **_HEADERS}


def docs_routes() -> APIRouter:
    """Return the page and its files; it says no more than /openapi.json, so it takes no key either."""
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
