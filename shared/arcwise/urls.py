"""Checks of a server's base URL, and of the key that is sent there."""

from __future__ import annotations

from arcwise.checks import checked_bool
from arcwise.errors import ParameterError
from arcwise.loopback import is_loopback_authority

__all__ = ["checked_key", "checked_url", "is_loopback_url"]


def checked_url(url: object) -> str:
    """Return a base URL without its last slash, or raise `ParameterError`."""
    from urllib.parse import urlsplit

    if not isinstance(url, str):
        raise ParameterError(f"url must be a string such as 'https://reports.example', got {url!r}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ParameterError(f"url is not a URL: {error}; got {url!r}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ParameterError(f"url must start with http:// or https:// and name a host, got {url!r}")
    if parts.username is not None or parts.query or parts.fragment:
        raise ParameterError(f"url must be a base URL without user, query or fragment, got one for {host!r}")
    return url.rstrip("/")


def checked_key(key: object, url: str, *, over_http: object) -> str | None:
    """Return the key for this base URL, or None; raise `ParameterError`, which never repeats the key."""
    over_http = checked_bool("key_over_http", over_http)
    if key is None:
        return None
    # Anything else could end the header and begin another one.
    if not isinstance(key, str) or not key.isascii() or not 0 < len(key) <= 512 or not _is_visible(key):
        raise ParameterError(
            "key must be None or 1 to 512 visible ASCII characters, as `arcwise key new` prints"
        )
    if not url.lower().startswith("https://") and not over_http and not is_loopback_url(url):
        raise ParameterError(
            "key would be sent unencrypted: use an https:// URL, or key_over_http=True where "
            "something else encrypts"
        )
    return key


def _is_visible(text: str) -> bool:
    return all("!" <= character <= "~" for character in text)


def is_loopback_url(url: str) -> bool:
    """Return whether a URL's host is this machine: localhost, 127.0.0.0/8 or ::1."""
    # As it stands: parsers of URLs differ in what they take such a host to be, and what they leave out.
    return is_loopback_authority(url.partition("://")[2].partition("/")[0])
