"""GET /health/live, /health/ready, /metrics: what supervisors, load balancers and Prometheus ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
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
