"""The files that pages link: one stylesheet, one script and the icon, each under a URL with its hash."""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from arcwise.analysis import charts

__all__ = ["Asset", "assets"]

_STATIC = Path(__file__).parent / "static"
_COLOURS = Path(charts.__file__).parent / "charts.css"
_FILES = {
    "arcwise.css": (
        "text/css; charset=utf-8",
        (_COLOURS, _STATIC / "pages.css"),
    ),
    "arcwise.js": ("text/javascript; charset=utf-8", (_STATIC / "pages.js",)),
    "icon.svg": ("image/svg+xml", (_STATIC / "icon.svg",)),
}
"""Each file's media type, and the parts that it is put together from."""


class Asset(NamedTuple):
    """A file as it is sent.

    Attributes
    ----------
    url
        Its path, which changes with its content: browsers may keep it for ever.
    media_type
        Of the content.
    plain, packed
        The bytes, and the same with gzip.
    """

    url: str
    media_type: str
    plain: bytes
    packed: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the files by name, read once."""
    return {name: _read(name, *of) for name, of in _FILES.items()}


def _read(name: str, media_type: str, parts: tuple[Path, ...]) -> Asset:
    plain = b"\n".join(part.read_bytes() for part in parts)
    mark = blake2b(plain, digest_size=8).hexdigest()
    return Asset(f"/static/{mark}/{name}", media_type, plain, gzip.compress(plain, mtime=0))
