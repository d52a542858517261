"""The files that pages link: one stylesheet, one script and the icon, each under a URL with its hash."""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from arcwise.analysis.charts import stylesheet

_STATIC = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    "arcwise.css": "text/css; charset=utf-8",
    "arcwise.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class Asset(NamedTuple):
    """A file as it is sent: its bytes, plain and compressed with gzip.

    Its URL changes with its content, so browsers may keep it for ever.
    """

    url: str
    media_type: str
    plain: bytes
    packed: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the files by name, read once."""
    texts = {
        "arcwise.css": f"{stylesheet()}\n{_text('pages.css')}",
        "arcwise.js": _text("pages.js"),
        "icon.svg": _text("icon.svg"),
    }
    return {name: _asset(name, text.encode()) for name, text in texts.items()}


def _text(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")


def _asset(name: str, plain: bytes) -> Asset:
    mark = blake2b(plain, digest_size=8).hexdigest()
    return Asset(f"/static/{mark}/{name}", _MEDIA_TYPES[name], plain, gzip.compress(plain, mtime=0))
