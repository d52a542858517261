"""Checks of a server's base URL, of the key that is sent there, and of URLs of databases for libpq."""

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
"""Keywords of libpq, up to PostgreSQL 18."""


def checked_url(url: object, name: str = "url", *, insecure: object = True) -> str:
    """Return a base URL without its last slash, or raise `ParameterError` over the argument of this name.

    Unless `insecure` is True, http:// is refused but for this machine.
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
    if url != url.strip() or not url.isprintable():  # urlsplit leaves them out, and what sends does not
        raise ParameterError(
            f"{name} must not begin or end with blanks or contain control characters, got {url!r}"
        )
    return url.rstrip("/")


def checked_key(key: object, scopes: tuple[str, ...]) -> str | None:
    """Return a key of one of these scopes, or None; raise `ParameterError`, which never repeats the key."""
    if key is None:
        return None
    scope = _scope(key)
    if scope not in scopes:
        found = f"a key with the scope {scope}" if scope else "something else, such as a part of one"
        raise ParameterError(
            f"key must be None or what `arcwise key new --scope {scopes[0]}` prints, "
            f"arcwise_{scopes[0]}_ID_SECRET with {_ID} and {_SECRET} hexadecimal digits; got {found}"
        )
    return str(key)


_ID, _SECRET = 12, 64
"""Hexadecimal digits of the parts of a key."""


def _scope(key: object) -> str:
    """Return the scope that stands in a whole key, "" for anything else: which could end a header, too."""
    parts = key.split("_") if isinstance(key, str) else []
    if len(parts) != 4 or parts[0] != "arcwise" or [len(part) for part in parts[2:]] != [_ID, _SECRET]:
        return ""
    known = parts[1] in ("ingest", "read", "metrics", "admin")
    return parts[1] if known and set(parts[2] + parts[3]) <= set("0123456789abcdef") else ""


def is_loopback_url(url: str) -> bool:
    """Return whether a URL's host is this machine: localhost, 127.0.0.0/8 or ::1."""
    # As it stands: parsers of URLs differ in what they take such a host to be, and what they leave out.
    return is_loopback_authority(url.partition("://")[2].partition("/")[0])


def libpq_settings(
    url: str, name: str, read: Callable[[str], dict[str, Any]], *, changes: bool = True
) -> dict[str, Any]:
    """Return the settings for libpq in a URL, as `read`, psycopg's `conninfo_to_dict`, finds them.

    Connections use UTF-8, whatever the URL says. With `changes`, one to several hosts (of the URL, or of
    PGHOST and PGHOSTADDR) leads to the first that can be written to, unless the URL says otherwise.

    Raises `ParameterError` over the argument of this name, without the URL, where libpq cannot read it, or
    would take a part of a password for a host, a port or a database.
    """
    with suppress(Exception):  # psycopg's own, which this module does not know
        settings = read(url)
        without_password(url)
        if set(settings.get("port", "")) <= set("0123456789, +"):
            several = "," in "".join(
                settings.get(each, os.environ.get(f"PG{each.upper()}", "")) for each in ("host", "hostaddr")
            )
            chosen = {"target_session_attrs": "read-write"} if several and changes else {}
            # Whatever the database's own encoding is: without one, psycopg returns bytes for texts.
            return {**chosen, **settings, "client_encoding": "UTF8"}
    raise ParameterError(
        f"{name} must be a URL that libpq can read, such as postgresql://USER@HOST/DATABASE, with %, @ and / "
        "in a password written as %25, %40 and %2F"
    )


def without_password(url: str) -> str:
    """Return a URL for libpq without its secrets, taken apart as libpq does.

    Raises `ValueError` when an @ comes after the one that ends user and password: libpq would take a part of
    a password before it for a host or a database, and name it in errors.
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
