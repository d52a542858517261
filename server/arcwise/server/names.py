"""Names of tasks in paths: one segment each, whatever characters they have."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["name_in", "whole_segments"]

_PATHS = ("/v1/tasks/", "/tasks/")


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
