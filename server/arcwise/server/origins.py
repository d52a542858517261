"""Browsers on other origins: which pages may report to this server. Nothing else of it is theirs to use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

__all__ = ["checked_origins", "routes_for_origins"]

_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]A-Z]+)(:[0-9]{1,5})?")
_PREFLIGHT_SECONDS = 86_400


def checked_origins(origins: object) -> tuple[str, ...]:
    """Return the origins as a tuple, each as a browser writes it in its Origin header, or "*" alone for all.

    Raises
    ------
    ParameterError
        When one is no origin.
    """
    if isinstance(origins, str) or not isinstance(origins, Iterable):
        raise ParameterError(f"allow_origins must be a list of origins, got {origins!r}")
    found = tuple(origins)
    for origin in found:
        if origin != "*" and not (isinstance(origin, str) and _ORIGIN.fullmatch(origin)):
            raise ParameterError(
                'allow_origins must hold "*" or origins such as "https://app.example", in lower case and '
                f"without a path, got {origin!r}"
            )
    if "*" in found and len(found) > 1:
        raise ParameterError('allow_origins must hold "*" alone, or origins without it')
    return found


def routes_for_origins(path: str, endpoint: ASGIApp, origins: tuple[str, ...]) -> list[Route]:
    """Return the routes of an endpoint that takes POST, and the preflights of browsers where they may come.

    No credentials are allowed, so a browser sends no cookies. A page may send a key and read Retry-After.
    """
    if not origins:
        return [Route(path, endpoint, methods=["POST"])]
    shared = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=("POST",),
        allow_headers=("Authorization", "Content-Type"),
        expose_headers=("Retry-After",),
        max_age=_PREFLIGHT_SECONDS,
    )
    return [
        Route(path, endpoint, methods=["POST"], middleware=[shared]),
        Route(path, _no_preflight, methods=["OPTIONS"], middleware=[shared]),
    ]


async def _no_preflight(_request: Request) -> Response:
    """Answer an OPTIONS request that the middleware let through, because it is no preflight."""
    raise HTTPException(405, headers={"Allow": "POST"})
