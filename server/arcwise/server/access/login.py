"""POST /login exchanges a key for a session, and POST /logout ends it."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response

from arcwise.errors import StoreError
from arcwise.server.access.origins import check_same_origin
from arcwise.server.access.rates import Rate, address_of
from arcwise.server.access.sessions import LOGIN_SCOPES
from arcwise.server.problems import Problem, store_busy
from arcwise.server.store import StoredAction

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Scope

    from arcwise.server.runtime import Runtime
    from arcwise.server.store import StoredKey

    Show = Callable[[Request, Problem], Awaitable[Response]]

LOGINS_PER_MINUTE = 10, 300
"""Most failed attempts a minute from one address, and from all addresses.

The first number also limits logins with one key from one address.

Attempts from other addresses never delay a login with a valid key: it has 256 random bits, which nobody can
guess.
"""

_MOST_FORM_BYTES = 4096
_MOST_FIELDS = 1000
_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]*")


def own_path(text: str) -> str:
    r"""Return the page to open after a login: the text if it is a path (with a query) on this server, or "/".

    Examples
    --------
    >>> [own_path(text) for text in ("/tasks/a?level=0.9", "//evil.example", "/\\evil.example", "https:/x")]
    ['/tasks/a?level=0.9', '/', '/', '/']
    """
    return text if _PATH.fullmatch(text) else "/"


async def read_form(runtime: Runtime, request: Request, most: int = _MOST_FORM_BYTES) -> dict[str, list[str]]:
    """Return the fields of a form, each with its values.

    Raises `Problem`: 415 when the body is not a form as browsers send it without files, 413 when it has more
    than `most` bytes, 422 when it cannot be read.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise Problem(415, "media-type", "Send the form as application/x-www-form-urlencoded.")
    body = await runtime.ingest.bodies.read(request.scope, request.receive, most=most)
    try:
        # Parsing a task of megabytes takes a second, which must not block reports.
        return await asyncio.to_thread(
            parse_qs,
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise Problem(422, "invalid-request", "The form cannot be read.") from None


def login_routes(runtime: Runtime, show: Show) -> APIRouter:
    """Return the routes that begin and end sessions; `show` answers with a problem."""
    router = APIRouter(include_in_schema=False)
    per_address, in_all = LOGINS_PER_MINUTE
    failures, all_failures, logins = (
        Rate(per_minute, clock=runtime.clock.monotonic) for per_minute in (per_address, in_all, per_address)
    )

    async def begin(request: Request) -> Response:
        scope = request.scope
        check_same_origin(scope, runtime.public_url)
        runtime.sessions.check_https(scope)
        form = await read_form(runtime, request)
        request.state.next = own_path(form.get("next", ["/"])[0])  # for the page that shows a problem
        sent = form.get("key", [])
        sender = address_of(scope)
        key = await good_key("".join(sent[:1]).strip().encode("utf-8", "replace"), sender)
        logins.slow_down(f"{key.id} {sender}")
        if key.scope not in LOGIN_SCOPES:
            raise Problem(
                403,
                "key-scope",
                f"A login takes a key with the scope {' or '.join(LOGIN_SCOPES)}; this one has another.",
            )
        return _go(request.state.next, await changed(log_in(scope, key)))

    async def good_key(sent: bytes, sender: str) -> StoredKey:
        try:
            return runtime.gate.key(sent)
        except Problem:
            failures.slow_down(sender)
            all_failures.slow_down("")
            try:  # the key may be brand new
                await asyncio.to_thread(runtime.refresh)
            except StoreError:
                raise store_busy("The store cannot be read now.") from None
            return runtime.gate.key(sent)

    async def log_in(scope: Scope, key: StoredKey) -> str:
        if key.scope != "admin":  # readers change nothing, and their logins would fill the audit log
            return await runtime.sessions.begin(scope, key)
        store, now = runtime.store(), int(runtime.clock.time())
        entry = StoredAction(now, key.id, "log in", key.id, "unknown")
        number = await asyncio.to_thread(store.begin_action, entry)
        cookie = await runtime.sessions.begin(scope, key)
        await asyncio.to_thread(store.end_action, number, "done")
        return cookie

    async def changed(change: Awaitable[str]) -> str:
        try:
            return await change
        except StoreError:
            raise store_busy("The store cannot be changed now.") from None

    async def end(request: Request) -> Response:
        check_same_origin(request.scope, runtime.public_url)
        return _go("/", await changed(runtime.sessions.end(request.scope)))

    async def shown(request: Request, change: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            return await change(request)
        except Problem as problem:
            runtime.metrics.refused(problem.kind)
            return await show(request, problem)

    @router.post("/login")
    async def login(request: Request) -> Response:
        return await shown(request, begin)

    @router.post("/logout")
    async def logout(request: Request) -> Response:
        return await shown(request, end)

    return router


def _go(path: str, cookie: str) -> Response:
    # 303: the browser follows with GET, so a reload does not send the form again.
    return Response(
        status_code=303, headers={"Location": path, "Set-Cookie": cookie, "Cache-Control": "no-store"}
    )
