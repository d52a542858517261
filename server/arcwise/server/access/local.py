"""Requests of this machine to itself: the only ones that a server without keys serves unasked."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["is_local", "is_loopback"]

# What proxies add, of which a plain one need add none.
_FORWARDED = frozenset(
    {b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"true-client-ip", b"cf-connecting-ip"}
)
_FORWARDED_PREFIX = b"x-forwarded-"


def is_local(scope: Scope) -> bool:
    """Return whether a request came in on a loopback address, for a loopback name, and not through a proxy.

    A proxy on this machine speaks for the world. The name matters because a page in a browser here can let
    its own name point to 127.0.0.1, and would then read what it gets as its own.

    A proxy that adds no header and asks for a loopback name, as nginx does unless it is told otherwise,
    cannot be told from this machine: a server behind a proxy needs a key first.
    """
    server = scope.get("server")
    if not server or not is_loopback(server[0]):
        return False
    for name, value in scope["headers"]:
        if name == b"host":
            if not _names_loopback(value):
                return False
        elif name in _FORWARDED or name.startswith(_FORWARDED_PREFIX):
            return False
    return True


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Return whether a host is this machine: localhost, 127.0.0.0/8 or ::1."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@lru_cache(maxsize=64)
def _names_loopback(host: bytes) -> bool:
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return is_loopback(text[1:].partition("]")[0])
    return is_loopback(text.partition(":")[0])
