"""Where requests come from: pages that may report, the server's own forms, and this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from arcwise.errors import ParameterError
from arcwise.loopback import is_loopback, is_loopback_authority
from arcwise.server.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Scope

_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]A-Z]+)(:[0-9]{1,5})?")
_PREFLIGHT_SECONDS = 86_400


def checked_origins(origins: object) -> tuple[str, ...]:
    """Return the origins as a tuple, each as browsers write it in an Origin header, or "*" alone for all."""
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


def checked_public_url(url: object) -> str:
    """Return the origin at which browsers find a server, or "" if none is given.

    Plain HTTP is accepted for this machine only: on any other server nobody could log in over plain HTTP.
    """
    if url != "" and not (isinstance(url, str) and _ORIGIN.fullmatch(url)):
        raise ParameterError(
            'public_url must be an origin such as "https://reports.example", in lower case and without a '
            f"path, got {url!r}"
        )
    scheme, _, authority = str(url).partition("://")
    if scheme == "http" and not is_loopback_authority(authority):
        raise ParameterError(
            f"public_url must begin with https:// unless it names this machine, got {url!r}: over plain HTTP "
            "a browser drops the cookie of a login"
        )
    return str(url)


def check_same_origin(scope: Scope, public_url: str = "") -> None:
    """Raise a 403 `Problem` unless a page of this server's own origin sends the request.

    Sec-Fetch-Site must be same-origin. If it is missing, Origin must be `public_url`, or if that is "", the
    origin made from the scheme and the Host of the request.
    """
    sites = _values(scope, b"sec-fetch-site")
    if sites:
        if sites == [b"same-origin"]:
            return
    else:
        hosts = _values(scope, b"host")
        own = public_url.encode("ascii")
        if not own and len(hosts) == 1:
            own = f"{scope.get('scheme', 'http')}://".encode() + hosts[0].lower()
        if own and _values(scope, b"origin") == [own]:
            return
    raise Problem(
        403,
        "cross-origin",
        "A form must be sent from a page of this server, in a browser that says so (Sec-Fetch-Site or "
        "Origin). Behind a proxy, public_url must be the address that browsers use.",
    )


def _values(scope: Scope, header: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == header]


def routes_for_origins(path: str, endpoint: ASGIApp, origins: tuple[str, ...]) -> list[Route]:
    """Return the routes of an endpoint that takes POST, with routes for preflights if there are any origins.

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
    """Answer an OPTIONS request that the middleware let through because it is not a preflight."""
    raise HTTPException(405, headers={"Allow": "POST"})


# The headers that curl, browsers, HTTP libraries and Prometheus send by themselves. Each kind of proxy adds
# its own headers, so a list of proxies' headers would never be complete.
_USUAL = frozenset(
    b"""
    accept accept-charset accept-encoding accept-language alt-used authorization cache-control connection
    content-encoding content-length content-type cookie dnt expect host http2-settings idempotency-key
    if-match if-modified-since if-none-match if-range if-unmodified-since keep-alive origin pragma priority
    purpose range referer save-data sec-gpc sec-purpose te transfer-encoding upgrade
    upgrade-insecure-requests user-agent x-prometheus-scrape-timeout-seconds
    """.split()
)
_USUAL_PREFIXES = (b"sec-ch-", b"sec-fetch-", b"sec-websocket-")
"""Prefixes of headers in which browsers describe themselves and the purpose of a request."""


def is_local(scope: Scope) -> bool:
    """Return whether a request came over the loopback, for a loopback name, and shows no sign of a proxy.

    A proxy on this machine forwards requests from anywhere. The name matters because a web page in a browser
    on this machine can let the name of its site point to 127.0.0.1, and could then read the answers as those
    of its own site.

    Signs of a proxy are any header that clients do not send by themselves, and HTTP/1.0, which nginx uses by
    default. A proxy without these signs looks like this machine if it asks for a loopback name, or passes on
    a name chosen by a remote client. The same is true of a TCP tunnel. Make a key before you run a server
    behind such a proxy or tunnel.
    """
    server, client = scope.get("server"), scope.get("client")
    if not server or not is_loopback(server[0]) or (client and not is_loopback(client[0])):
        return False
    if scope.get("http_version") not in ("1.1", "2", "3"):
        return False
    named = [value for name, value in scope["headers"] if name == b"host"]
    if len(named) != 1 or not is_loopback_authority(named[0].decode("latin-1")):
        return False
    return all(name in _USUAL or name.startswith(_USUAL_PREFIXES) for name, _ in scope["headers"])


def is_foreign(scope: Scope) -> bool:
    """Return whether a page of another origin sends the request, unless a person followed a link.

    SameSite does not prevent this: another port of this machine is the same site and gets the cookie.
    """
    fetched = {name: value for name, value in scope["headers"] if name.startswith(b"sec-fetch-")}
    if fetched.get(b"sec-fetch-site", b"none") in (b"none", b"same-origin"):
        return False
    followed = fetched.get(b"sec-fetch-mode") == b"navigate" and fetched.get(b"sec-fetch-dest") == b"document"
    return not followed
