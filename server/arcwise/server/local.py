"""Requests of this machine to itself: the only ones that a server without keys serves unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.loopback import is_loopback, is_loopback_authority

if TYPE_CHECKING:
    from starlette.types import Scope

# What curl, browsers, HTTP libraries and Prometheus send by themselves. Proxies announce themselves by
# headers, of which every product has its own, so that no list of those is ever complete.
_USUAL = frozenset(
    {
        b"accept",
        b"accept-charset",
        b"accept-encoding",
        b"accept-language",
        b"alt-used",
        b"authorization",
        b"cache-control",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"dnt",
        b"expect",
        b"host",
        b"http2-settings",
        b"idempotency-key",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"keep-alive",
        b"origin",
        b"pragma",
        b"priority",
        b"purpose",
        b"range",
        b"referer",
        b"save-data",
        b"sec-gpc",
        b"sec-purpose",
        b"te",
        b"transfer-encoding",
        b"upgrade",
        b"upgrade-insecure-requests",
        b"user-agent",
        b"x-prometheus-scrape-timeout-seconds",
    }
)
_USUAL_PREFIXES = (b"sec-ch-", b"sec-fetch-", b"sec-websocket-")
"""Browsers say with these what they are, and what a request is for."""


def is_local(scope: Scope) -> bool:
    """Return whether a request came over the loopback, for a loopback name, and shows no sign of a proxy.

    A proxy on this machine speaks for the world. The name matters because a page in a browser here can let
    its own name point to 127.0.0.1, and would then read what it gets as its own.

    Signs of a proxy are any header that clients do not send by themselves, and HTTP/1.0, which nginx speaks
    unless it is told otherwise. A proxy that shows none of these, and asks for a loopback name or passes on
    the name that somebody far away chose, cannot be told from this machine, and neither can a tunnel of TCP:
    a server behind one needs a key first.
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
