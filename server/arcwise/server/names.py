"""Paths and queries: how long they may be, and names of tasks in them, whatever characters these have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from arcwise.server.problems import Problem

if TYPE_CHECKING:
    from starlette.types import Scope

_MAX_TARGET_BYTES: Final = 4096
"""Of a path and its query together, as they were sent: a name has 768 at most, 20 shares some 1,500."""

_PATHS = ("/v1/tasks/", "/tasks/")


def too_long(scope: Scope) -> Problem | None:
    """Return the problem of a request whose path and query are too long to be read; None for others."""
    path = scope.get("raw_path") or scope["path"].encode()
    if len(path.partition(b"?")[0]) + len(scope["query_string"]) <= _MAX_TARGET_BYTES:
        return None
    detail = f"The path and the query of a request may have at most {_MAX_TARGET_BYTES} bytes together."
    return Problem(414, "uri-too-long", detail)


def whole_segments(scope: Scope) -> Scope:
    """Return a scope whose path keeps the segments that were sent: a name may have a slash, as %2F.

    Servers decode the path, and then a slash of a name is one between segments. Where a task's name may
    stand, slashes and percent signs of a segment stay encoded; `name_in` decodes them.
    """
    raw = scope.get("raw_path") or b""
    if b"%" not in raw or not scope["path"].removeprefix(scope.get("root_path", "")).startswith(_PATHS):
        return scope
    segments = [unquote(part) for part in raw.partition(b"?")[0].decode("latin-1").split("/")]
    path = "/".join(part.replace("%", "%25").replace("/", "%2F") for part in segments)
    return {**scope, "path": path}


def name_in(scope: Scope, segment: str) -> str:
    """Return the name or id that a segment of a path stands for, after `whole_segments`."""
    return unquote(segment) if b"%" in (scope.get("raw_path") or b"") else segment
