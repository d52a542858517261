"""Keys: how they are made, and the entry that a store keeps."""

from __future__ import annotations

import secrets
from hashlib import sha256
from typing import TYPE_CHECKING

from arcwise.checks import shown
from arcwise.errors import ParameterError
from arcwise.server.store import StoredKey

if TYPE_CHECKING:
    from collections.abc import Iterable

SCOPES = ("ingest", "read", "metrics", "admin")
"""The scopes of keys: sending reports, reading estimates, scraping metrics, managing tasks and keys."""

_SECRET_BYTES = 32
_ID_BYTES = 6
_MAX_LABEL = 200
_LONGEST = 512
"""Bytes of a header's value that are examined: a key has 92 at most."""


def new_key(
    scope: str, *, tasks: Iterable[str] | None = None, label: str = "", now: float
) -> tuple[str, StoredKey]:
    """Make a key; return its text, to be shown once, and the entry that a store keeps.

    A key is ``arcwise_SCOPE_ID_SECRET``: the prefix lets scanners of source code find keys that were
    published by mistake, the id locates the key's entry in the store, and the secret is 256 random bits. A
    plain SHA-256 is enough: slow hashes protect passwords that people choose, but nobody can guess 256 bits.
    `tasks` are the ids (hex) of the tasks that the key is valid for, or None for all, as for every admin or
    metrics key. `label` has up to 200 printable characters, and `now` is in Unix seconds.
    """
    if scope not in SCOPES:
        raise ParameterError(f"scope must be one of {', '.join(SCOPES)}; got {scope!r}")
    if len(label) > _MAX_LABEL or not label.isprintable():
        raise ParameterError(f"label must be at most {_MAX_LABEL} printable characters, got {shown(label)}")
    good_for = None if tasks is None else tuple(dict.fromkeys(tasks))
    if good_for is not None and (not good_for or scope in ("admin", "metrics")):
        raise ParameterError(
            "tasks must hold at least one id, or be None for all; admin and metrics keys are for all tasks"
        )
    name = secrets.token_hex(_ID_BYTES)
    key = f"arcwise_{scope}_{name}_{secrets.token_hex(_SECRET_BYTES)}"
    return key, StoredKey(name, digest(key.encode("ascii")), scope, good_for, label, int(now), None)


def digest(key: bytes) -> bytes:
    """Return the SHA-256 of a key, 32 bytes."""
    return sha256(key).digest()


def key_id(key: bytes) -> str:
    """Return the id in a key, or "" if it has none."""
    parts = key[:_LONGEST].split(b"_")
    return parts[2].decode("latin-1") if len(parts) == 4 and parts[0] == b"arcwise" else ""
