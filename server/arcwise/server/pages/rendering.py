"""Responses from templates: escaping, security headers, entity tags, compression, and static files."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from arcwise.analysis.charts import stylesheet
from arcwise.server.access.rates import MOST_OF_READER, address_of
from arcwise.server.pages.later import Later
from arcwise.server.pages.words import FILTERS
from arcwise.server.problems import estimates_busy
from arcwise.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send forms without their Origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every page and every file that pages link."""

_KEPT = "private, no-cache"
_YEAR = "public, max-age=31536000, immutable"
_VARY = "Accept, Accept-Encoding, Authorization, Cookie"
_MAX_MADE = 32
"""Most rendered pages that are kept: if ten readers look at a page, it is rendered once."""

_LEAST_PACKED = 1_000
"""Bytes below which compression saves nothing."""


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,  # text that people wrote into tasks and keys is escaped, too
        undefined=StrictUndefined,
        auto_reload=False,  # compiled once
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    environment.globals.update(asset={name: each.url for name, each in assets().items()}, version=__version__)
    return environment


def page_tag(*parts: object) -> str:
    """Return the entity tag of a page that depends only on these parts."""
    what = repr((parts, __version__, [each.url for each in assets().values()]))
    return f'W/"{blake2b(what.encode(), digest_size=12).hexdigest()}"'


def still_tag(tag: str, document: Mapping[str, Any]) -> str:
    """Return the tag of a document; it does not change with the exact number of withheld reports."""
    if "min_reports" not in document:
        return tag
    return blake2b(repr(_shown_of(document)).encode(), digest_size=12).hexdigest()


def _shown_of(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: each > 0 if name == "withheld" else _shown_of(each) for name, each in part.items()}
    return [_shown_of(each) for each in part] if isinstance(part, list) else part


def page_number(request: Request, count: int, per_page: int) -> tuple[int, int]:
    """Return the page of a long list that the query asks for, from 1 on, and the number of pages."""
    pages = max(1, -(-count // per_page))
    text = request.query_params.get("page", "1")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1
    return min(max(number, 1), pages), pages


def is_held(request: Request, tag: str) -> bool:
    """Return whether If-None-Match names the tag."""
    given = ",".join(request.headers.getlist("if-none-match"))
    names = {each.strip().removeprefix("W/") for each in given.split(",")}
    return tag.removeprefix("W/") in names


def wants_page(request: Request) -> bool:
    """Return whether to answer with a page: Accept names HTML, as in browsers but not in programs.

    Paths under /v1 never answer with a page: there browsers get the same as programs.
    """
    if request.url.path.startswith("/v1/"):
        return False
    accept = request.headers.get("accept", "")
    for part in accept.split(","):
        media_type, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if media_type in ("text/html", "application/xhtml+xml"):
            return not any(each.replace(" ", "") in ("q=0", "q=0.0") for each in parameters)
    return False


class Pages:
    """Makes pages from templates, one at a time, so that reports wait for at most one page.

    `later` computes the results that pages show.
    """

    def __init__(self) -> None:
        self.later = Later()
        self._of_reader: Counter[str] = Counter()  # pages that wait or are being made
        self._rendering = asyncio.Semaphore(1)
        self._made: dict[tuple[str | None, bool], bytes] = {}  # least recently used first

    async def response(
        self,
        request: Request,
        template: str,
        make: Callable[[], Mapping[str, Any]] | Mapping[str, Any],
        *,
        status: int = 200,
        tag: str | None = None,
        secret: bool = False,
        reader: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return a page as a response, made from a file in ``templates/``.

        `make` is the mapping that the template shows, or a function that returns it; the function and the
        template run on a thread. `tag` is the entity tag of everything that the page shows: readers that
        already have this tag get 304, and others get the page that was already made for the tag, if it is
        kept. A `secret` page shows a secret, so it is neither cached nor compressed.

        Raises a 503 `Problem` when too many pages of the `reader` wait; the default `reader` is the address.
        A `secret` page never raises it, because its secret is already made and is shown only once.
        """
        sent = {**SECURITY_HEADERS, "Cache-Control": "no-store" if secret else _KEPT, "Vary": _VARY}
        sent |= headers or {}
        if tag is not None:
            sent["ETag"] = tag
            if is_held(request, tag):
                return Response(status_code=304, headers=sent)
        packs = not secret and _takes_gzip(request)

        def made() -> bytes:
            shown = make() if callable(make) else make
            given = {"viewer": None, "pending": False, "refresh": 0, **shown}
            text = _templates().get_template(template).render(tag=tag or "", path=request.url.path, **given)
            body = text.encode()
            return gzip.compress(body, 5, mtime=0) if packs and len(body) >= _LEAST_PACKED else body

        reader = reader or address_of(request.scope)
        if self._of_reader[reader] >= MOST_OF_READER and not secret:
            raise estimates_busy()
        self._of_reader[reader] += 1
        try:
            async with self._rendering:
                kept = self._made.pop((tag, packs), b"")
                body = kept or await asyncio.to_thread(made)
        finally:
            self._of_reader[reader] -= 1
            self._of_reader += Counter()  # drops readers with no page waiting
        if tag is not None:
            self._made[tag, packs] = body
            while len(self._made) > _MAX_MADE:
                del self._made[next(iter(self._made))]
        if body[:2] == b"\x1f\x8b":
            sent["Content-Encoding"] = "gzip"
        return Response(body, status, sent, "text/html; charset=utf-8")


def asset(request: Request) -> Response | None:
    """Return the static file that a URL in a page names, or None if there is no such file."""
    found = next((each for each in assets().values() if each.url == request.url.path), None)
    if found is None:
        return None
    packs = _takes_gzip(request)
    sent = {**SECURITY_HEADERS, "Cache-Control": _YEAR, "Vary": "Accept-Encoding"}
    if packs:
        sent["Content-Encoding"] = "gzip"
    return Response(found.packed if packs else found.plain, headers=sent, media_type=found.media_type)


def _takes_gzip(request: Request) -> bool:
    for part in request.headers.get("accept-encoding", "").split(","):
        name, _, quality = part.partition(";")
        if name.strip().lower() == "gzip":
            return quality.replace(" ", "").lower() not in ("q=0", "q=0.0")
    return False


_STATIC = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    "arcwise.css": "text/css; charset=utf-8",
    "arcwise.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class Asset(NamedTuple):
    """A file as it is sent: its bytes, plain and compressed with gzip.

    Its URL changes with its content, so browsers may cache it for ever.
    """

    url: str
    media_type: str
    plain: bytes
    packed: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the files by name; they are read once."""
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
