"""Checks of arguments, each naming the argument and its bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from arcwise.checks import checked_bool, did_you_mean, real_or_nan, shown
from arcwise.errors import ParameterError
from arcwise.loopback import is_loopback_authority

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["check_options", "checked_integer", "checked_key", "checked_number", "checked_url", "is_loopback"]


def check_options(cls: type, given: Iterable[str], options: type) -> None:
    """Raise `TypeError` for the first name that is not an option.

    Parameters
    ----------
    cls
        The class that was called.
    given
        The names of its further keyword arguments.
    options
        The typed dictionary of what they may be.
    """
    for name in given:
        if name not in options.__annotations__:
            from inspect import signature  # takes long to import, and nobody waits for an error

            own = [each.name for each in signature(cls).parameters.values() if each.kind is each.KEYWORD_ONLY]
            known = [*own, *options.__annotations__]
            raise TypeError(f"{cls.__name__}() has no option {name!r}{did_you_mean(name, known)}")


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
    if not url.lower().startswith("https://") and not over_http and not is_loopback(url):
        raise ParameterError(
            "key would be sent unencrypted: use an https:// URL, or key_over_http=True where "
            "something else encrypts"
        )
    return key


def _is_visible(text: str) -> bool:
    return all("!" <= character <= "~" for character in text)


def is_loopback(url: str) -> bool:
    """Return whether a URL's host is this machine: localhost, 127.0.0.0/8 or ::1."""
    # As it stands: parsers of URLs differ in what they take such a host to be, and what they leave out.
    return is_loopback_authority(url.partition("://")[2].partition("/")[0])


def checked_integer(name: str, value: object, most: int) -> int:
    """Return an integer from 1 to `most`; raise `ParameterError` otherwise."""
    if type(value) is not int or not 1 <= value <= most:
        raise ParameterError(f"{name} must be an integer from 1 to {most}, got {value!r}")
    return value


def checked_number(name: str, value: object, *, above_zero: bool = False) -> float:
    """Return a finite number of at least 0, or above it, as a float; raise `ParameterError` otherwise."""
    number = real_or_nan(value)
    if not math.isfinite(number):
        raise ParameterError(f"{name} must be a finite number, got {shown(value)}")
    if number < 0 or (above_zero and number == 0):
        raise ParameterError(f"{name} must be {'above' if above_zero else 'at least'} 0, got {value!r}")
    return number
