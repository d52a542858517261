"""httpx clients that keep no cookies, and that take nothing but connections from an app's own client.

httpx is imported with the first client, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from arcwise.errors import ParameterError
from arcwise.urls import is_loopback_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

_Client = TypeVar("_Client")


def check_given(client: object, kind: str) -> None:
    """Raise `ParameterError` unless an argument is None or an httpx client of type `kind`."""
    if client is not None:
        import httpx

        # httpx has no public name for its choice of a proxy or a mount, and nothing can be sent without it.
        if not isinstance(client, getattr(httpx, kind)) or not hasattr(client, "_transport_for_url"):
            raise ParameterError(f"client must be None or an httpx.{kind}, got {type(client).__name__}")


def connected(kind: Callable[..., _Client], given: Any, options: Mapping[str, Any], host: str) -> _Client:
    """Return a new httpx client for a host, see `host_at_home`.

    The new client uses the connections of the client `given`, or connections made with these options if
    `given` is None. It ignores the authentication, cookies, default headers and event hooks of `given`.
    """
    import httpx

    class Borrowed(httpx.BaseTransport, httpx.AsyncBaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response: httpx.Response = _chosen(given, request.url).handle_request(request)
            return response

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response: httpx.Response = await _chosen(given, request.url).handle_async_request(request)
            return response

    own = _with_mounts(options, host) if given is None else {"transport": Borrowed()}
    return kind(**own, cookies=_no_cookies())


def host_at_home(url: str) -> str:
    """Return the host of a URL, in the form of httpx's mounts, if it is this machine; otherwise ""."""
    from urllib.parse import urlsplit

    if not is_loopback_url(url):
        return ""
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host


def way_out(given: Any, options: Mapping[str, Any], url: str) -> str | None:
    """Return in words how requests for a URL of this machine could leave the machine; None if they cannot."""
    if given is not None:
        import httpx

        transport = given._transport_for_url(httpx.URL(url))
    elif options.get("proxy"):
        return "its proxy"
    elif options.get("mounts"):
        return "its mounts"
    else:
        transport = options.get("transport")
    # httpx's own transports have a pool. Any other transport is the app's own responsibility.
    pool = getattr(transport, "_pool", None)
    return "the proxy of its httpx client" if pool is not None and "Proxy" in type(pool).__name__ else None


def _with_mounts(options: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return client options that bypass the environment's proxies for a host of this machine.

    A proxy that the app has named is kept.
    """
    if not host or options.get("proxy") or options.get("mounts"):
        return dict(options)
    return {**options, "mounts": {f"all://{host}": None}}


def _chosen(given: Any, url: httpx.URL) -> Any:
    """Return the transport that the client passed in would use for this URL."""
    if given.is_closed:
        raise RuntimeError("the httpx client that was passed in is closed")
    return given._transport_for_url(url)


def _no_cookies() -> Any:
    """Return a jar that never accepts a cookie."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    return CookieJar(DefaultCookiePolicy(allowed_domains=()))
