"""Checks of a server's base URL, of a key for that server, and of database URLs for libpq."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from arcwise.checks import checked_bool
from arcwise.errors import ParameterError
from arcwise.loopback import is_loopback_authority

if TYPE_CHECKING:
    from collections.abc import Callable

_SECRETS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
"""Names of libpq's secret settings, up to PostgreSQL 18."""


def checked_url(url: object, name: str = "url", *, insecure: object = True) -> str:
    """Return a base URL without its trailing slash; errors name the argument `name`.

    Unless `insecure` is True, http:// is accepted only for this machine.
    """
    from urllib.parse import urlsplit

    if not isinstance(url, str):
        raise ParameterError(f"{name} must be a string such as 'https://reports.example', got {url!r}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ParameterError(f"{name} is not a URL: {error}; got {url!r}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ParameterError(f"{name} must start with http:// or https:// and name a host, got {url!r}")
    if parts.username is not None or "?" in url or "#" in url:
        raise ParameterError(
            f"{name} must be a base URL without user, query or fragment, got one for {host!r}"
        )
    if not checked_bool("insecure", insecure) and parts.scheme == "http" and not is_loopback_url(url):
        raise ParameterError(
            f"{name} would be used without encryption: give an https:// URL, or insecure=True where "
            "something else encrypts"
        )
    if url != url.strip() or not url.isprintable():  # urlsplit drops these characters, httpx does not
        raise ParameterError(
            f"{name} must not begin or end with blanks or contain control characters, got {url!r}"
        )
    return url.rstrip("/")


def checked_key(key: object, scopes: tuple[str, ...]) -> str | None:
    """Return None or a key with one of these scopes; raise `ParameterError`, which never repeats the key."""
    if key is None:
        return None
    scope = _scope(key)
    if scope not in scopes:
        found = f"a key with the scope {scope}" if scope else "something else, such as a part of one"
        raise ParameterError(
            f"key must be None or a key from `arcwise key new --scope {scopes[0]}`, "
            f"arcwise_{scopes[0]}_ID_SECRET with {_ID} and {_SECRET} hexadecimal digits; got {found}"
        )
    return str(key)


_ID, _SECRET = 12, 64
"""Numbers of hexadecimal digits of the id and the secret in a key."""


def _scope(key: object) -> str:
    """Return the scope of a complete key, or "" for anything else, including text that could end a header."""
    parts = key.split("_") if isinstance(key, str) else []
    if len(parts) != 4 or parts[0] != "arcwise" or [len(part) for part in parts[2:]] != [_ID, _SECRET]:
        return ""
    known = parts[1] in ("ingest", "read", "metrics", "admin")
    return parts[1] if known and set(parts[2] + parts[3]) <= set("0123456789abcdef") else ""


def is_loopback_url(url: str) -> bool:
    """Return whether a URL's host is this machine: localhost, 127.0.0.0/8 or ::1."""
    # The raw text is checked, because URL parsers disagree on the host and drop different characters.
    return is_loopback_authority(url.partition("://")[2].partition("/")[0])


def libpq_settings(
    url: str, name: str, read: Callable[[str], dict[str, Any]], *, changes: bool = True
) -> dict[str, Any]:
    """Return the settings for libpq in a URL, as read by `read`, which is psycopg's `conninfo_to_dict`.

    Connections always use UTF-8, even if the URL says otherwise. With `changes` and several hosts (in the
    URL, PGHOST or PGHOSTADDR), libpq takes the first writable host, unless the URL says otherwise.

    Raises `ParameterError` for the argument `name`, without the URL, if libpq cannot read the URL or would
    take a part of a password for a host, a port or a database.
    """
    with suppress(Exception):  # psycopg's own errors, which this module does not import
        settings = read(url)
        without_password(url)
        if set(settings.get("port", "")) <= set("0123456789, +"):
            several = "," in "".join(
                settings.get(each, os.environ.get(f"PG{each.upper()}", "")) for each in ("host", "hostaddr")
            )
            chosen = {"target_session_attrs": "read-write"} if several and changes else {}
            # UTF-8 regardless of the database's encoding: without an encoding, psycopg returns bytes for
            # texts.
            return {**chosen, **settings, "client_encoding": "UTF8"}
    raise ParameterError(
        f"{name} must be a URL that libpq can read, such as postgresql://USER@HOST/DATABASE, with %, @ and / "
        "in a password written as %25, %40 and %2F"
    )


def without_password(url: str) -> str:
    """Return a URL for libpq without its secrets, split as libpq splits it.

    Raises `ValueError` when another @ follows the @ that ends user and password: libpq would take a part of
    the password for a host or a database, and show it in errors.
    """
    from urllib.parse import unquote

    scheme, _, rest = url.partition("://")
    user, at, place = rest.partition("@")
    if not at or "/" in user:
        user, at, place = "", "", rest
    path, mark, query = place.partition("?")
    if "@" in path:
        raise ValueError
    stated = [part for part in query.split("&") if unquote(part.partition("=")[0]) not in _SECRETS]
    return f"{scheme}://{user.partition(':')[0]}{at}{path}{mark if stated else ''}{'&'.join(stated)}"
