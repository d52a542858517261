"""Strict recognition of this machine's own names, since trust follows from them."""

from __future__ import annotations

import re

_NUMBER = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_HOST = re.compile(rf"[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt]|127(?:\.{_NUMBER}){{3}}|::1")
_AUTHORITY = re.compile(r"(\[::1\]|[A-Za-z0-9.]+)(?::([1-9][0-9]{0,4}))?")


def is_loopback(host: str) -> bool:
    """Return whether a host is localhost, an address in 127.0.0.0/8 or ::1, each in its usual spelling.

    Examples
    --------
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "127.1", "::1%eth0")]
    [True, True, True, False, False]
    """
    return _HOST.fullmatch(host) is not None


def is_loopback_authority(authority: str) -> bool:
    """Return whether a Host header, or the part of a URL between // and the path, names this machine.

    The text must be a host that `is_loopback` accepts (::1 in brackets), optionally followed by a colon and a
    port from 1 to 65535.

    Examples
    --------
    >>> [is_loopback_authority(text) for text in ("[::1]:8000", "localhost", "[::1].example", "localhost:0")]
    [True, True, False, False]
    """
    found = _AUTHORITY.fullmatch(authority)
    if found is None or int(found[2] or 1) > 65_535:
        return False
    return is_loopback(found[1].strip("[]"))
