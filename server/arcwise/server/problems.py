"""RFC 9457 problem documents, which never echo what was sent, and the header fields of every answer."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from fastapi import FastAPI, Request
    from starlette.types import Message, Send

PRIVATE: Final = {
    "Cache-Control": "no-store",
    "NEL": '{"max_age":0}',
    "Vary": "Accept, Authorization, Cookie",
    "X-Content-Type-Options": "nosniff",
}
"""Fields of every answer: nobody may cache the answer, and it may differ between readers.

The field NEL (Network Error Logging) deletes an earlier NEL policy, which a proxy or another server of this
name may have set. Such a policy makes browsers report each request. If it gives each browser a different
report address, the address identifies the browser.
"""

_FIELDS: Final = tuple((name.lower().encode(), value.encode()) for name, value in PRIVATE.items())


def with_fields(send: Send) -> Send:
    """Return a `send` that adds the fields of `PRIVATE` that an answer lacks."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = dict(message["headers"])
            is_public = given.get(b"cache-control", b"").startswith(b"public")
            added = [
                (name, value)
                for name, value in _FIELDS
                if name not in given and not (is_public and name == b"vary")
            ]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return sending


MEDIA_TYPE = "application/problem+json"


class Problem(Exception):  # noqa: N818 (the term of RFC 9457)
    """An error with the problem document that describes it.

    `kind` names the problem's type, ``urn:arcwise:problem:{kind}``, and never changes its meaning; `uri`
    replaces the type where a standard has registered another one. `detail` is a sentence for people: what is
    wrong and what to do. It contains nothing that a device sent.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        uri: str = "",
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = headers
        self.uri = uri or f"urn:arcwise:problem:{kind}"

    def response(self) -> Response:
        """Return the problem document as a response."""
        document = {
            "type": self.uri,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        headers = {**PRIVATE, **(self.headers or {})}
        return Response(json.dumps(document), self.status, headers, MEDIA_TYPE)


def unknown_task() -> Problem:
    """Return the problem of a task id that the server does not have."""
    return Problem(404, "unknown-task", "The server does not have this task; GET /v1/tasks lists its tasks.")


def internal_error() -> Problem:
    """Return the problem of a request that failed because of a defect."""
    return Problem(500, "internal-error", "The server failed; see its log.")


def store_busy(detail: str, headers: Mapping[str, str] | None = None) -> Problem:
    """Return the problem of a store that cannot be used right now."""
    return Problem(503, "store-busy", detail, headers={"Retry-After": "1", **(headers or {})})


def estimates_busy() -> Problem:
    """Return the problem for readers when they, or all readers together, wait for too many estimates."""
    return Problem(
        503,
        "estimates-busy",
        "Too many estimates are being computed; try again later.",
        headers={"Retry-After": "2"},
    )


def install_problem_handlers(
    app: FastAPI,
    count: Callable[[str], object],
    page: Callable[[Request, Problem], Awaitable[Response | None]],
) -> None:
    """Answer every error of the app with a problem document or a page, and count it by its kind.

    `page` returns the page of a problem, or None if the document is to be sent.
    """
    from fastapi.exceptions import RequestValidationError

    async def answer(request: Request, error: Any) -> Response:
        count(error.kind)
        return await page(request, error) or error.response()

    async def http(request: Request, error: Any) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 (narrows the type for the checker)
        kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        detail = _DETAILS.get(error.status_code, "The request cannot be served.")
        return await answer(request, Problem(error.status_code, kind, detail, headers=error.headers))

    async def validation(request: Request, _error: Any) -> Response:
        return await answer(
            request, Problem(422, "invalid-request", "A parameter of the request is not valid.")
        )

    async def unexpected(request: Request, _error: Any) -> Response:
        return await answer(request, internal_error())

    app.add_exception_handler(Problem, answer)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(Exception, unexpected)


_DETAILS = {
    404: "There is nothing at this path; GET /v1/tasks lists the tasks.",
    405: "This path does not support this method.",
}
