"""The representations of an answer: JSON, CSV and msgpack, chosen by the Accept header."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import msgpack

from arcwise.analysis.csv_rows import write_rows
from arcwise.analysis.tidy import COLUMNS, tidy_rows
from arcwise.server.problems import Problem

MEDIA_TYPES = {"json": "application/json", "csv": "text/csv", "msgpack": "application/msgpack"}
"""Representations by name; the first one is sent if the reader accepts any representation."""

_ALIASES = {"application/x-msgpack": "msgpack", "application/vnd.msgpack": "msgpack"}


def negotiate(accept: str | None) -> str:
    """Return the name of the representation that an Accept header prefers.

    Raises a 406 `Problem` when it accepts none of them.
    """
    if accept is None or not accept.strip():
        return "json"
    liked: dict[str, float] = {}
    for part in accept.split(","):
        media_type, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                quality = _quality(value.strip())
        liked[media_type] = max(quality, liked.get(media_type, 0.0))
    best = max(MEDIA_TYPES, key=lambda form: _liking(form, liked))  # the first of equally preferred ones
    if _liking(best, liked) <= 0.0:
        raise Problem(
            406,
            "not-acceptable",
            f"This path returns {', '.join(MEDIA_TYPES.values())}; Accept asks for none of them.",
        )
    return best


def _liking(form: str, liked: dict[str, float]) -> float:
    media_type = MEDIA_TYPES[form]
    names = [media_type, *(alias for alias, name in _ALIASES.items() if name == form)]
    exact = [liked[name] for name in names if name in liked]
    if exact:
        return max(exact)
    return liked.get(f"{media_type.partition('/')[0]}/*", liked.get("*/*", 0.0))


def _quality(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0


def render(document: dict[str, Any], form: str) -> bytes:
    """Return a document in the representation of a name in `MEDIA_TYPES`.

    CSV is the tidy table (`tidy_rows`), in the format of `write_rows`.
    """
    if form == "csv":
        return _csv(document)
    if form == "msgpack":
        packed: bytes = msgpack.packb(document)
        return packed
    return json.dumps(document, allow_nan=False).encode()


def disposition(name: str, file: str, *, shown: bool) -> str:
    """Return a Content-Disposition header with a file name that is safe everywhere.

    The file name begins with the ASCII letters, digits, dots, hyphens and underscores of the task's name;
    `file`, such as "estimate.csv", follows. If `shown`, a browser displays the file instead of saving it.
    """
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "task"
    return f'{"inline" if shown else "attachment"}; filename="{stem}-{file}"'


def _csv(document: dict[str, Any]) -> bytes:
    text = io.StringIO()
    write_rows(text, COLUMNS, tidy_rows(document))
    return text.getvalue().encode()
