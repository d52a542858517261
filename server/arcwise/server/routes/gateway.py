"""/.well-known/ohttp-gateway: the gateway of Oblivious HTTP (RFC 9458), if the settings name its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response
from starlette.routing import Route

from arcwise.server.collect.ingest import GATEWAY_PATH
from arcwise.server.problems import Problem

if TYPE_CHECKING:
    from arcwise.server.runtime import Runtime

_KEYS_MEDIA_TYPE: Final = "application/ohttp-keys"


def gateway_routes(runtime: Runtime) -> APIRouter:
    """Return the routes of the gateway; without a gateway, they answer 404."""
    router = APIRouter(tags=["reports"])

    async def refuse(_request: Request) -> Response:
        raise _no_gateway()

    take = runtime.gateway or refuse
    router.routes.append(Route(GATEWAY_PATH, take, methods=["POST"], include_in_schema=False))

    @router.get(
        GATEWAY_PATH,
        summary="The configuration of the gateway's newest key",
        response_class=Response,
        responses={200: {"content": {_KEYS_MEDIA_TYPE: {}}}},
    )
    async def configuration() -> Response:
        """Return ``application/ohttp-keys``. Operators can compare it with the file in their app."""
        if runtime.gateway is None:
            raise _no_gateway()
        return Response(
            runtime.gateway.configuration, media_type=_KEYS_MEDIA_TYPE, headers={"Cache-Control": "no-store"}
        )

    return router


def _no_gateway() -> Problem:
    return Problem(404, "not-found", "This server takes no reports from relays: gateway_keys is not set.")
