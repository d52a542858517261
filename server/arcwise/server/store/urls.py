"""URLs of stores without what is secret in them, for logs, messages and pages."""

from __future__ import annotations

from urllib.parse import unquote

_SECRET = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
"""Keywords of libpq, up to PostgreSQL 18."""


def shown_url(url: str) -> str:
    """Return the URL of any store without secrets; only its scheme where it cannot be taken apart."""
    if url.startswith("sqlite:"):
        return url  # a path, which may look like anything
    try:
        return without_password(url)
    except ValueError:
        return f"{url.partition('://')[0]}://..."


def without_password(url: str) -> str:
    """Return a URL for libpq without its secrets, taken apart as libpq does.

    Raises `ValueError` when an @ comes after the one that ends user and password: libpq would take a part of
    a password before it for a host or a database, and name it in errors.
    """
    scheme, _, rest = url.partition("://")
    user, at, place = rest.partition("@")
    if not at or "/" in user:
        user, at, place = "", "", rest
    path, mark, query = place.partition("?")
    if "@" in path:
        raise ValueError
    stated = [part for part in query.split("&") if unquote(part.partition("=")[0]) not in _SECRET]
    return f"{scheme}://{user.partition(':')[0]}{at}{path}{mark if stated else ''}{'&'.join(stated)}"
