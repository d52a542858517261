"""GET /health/live: whether the process answers at all."""

from __future__ import annotations

from fastapi import APIRouter

__all__ = ["health_routes"]


def health_routes() -> APIRouter:
    """Return the routes that load balancers and supervisors ask, without a key."""
    router = APIRouter(tags=["health"])

    @router.get("/health/live", summary="The process answers")
    async def live() -> dict[str, str]:
        """Whether the process answers at all."""
        return {"status": "ok"}

    return router
