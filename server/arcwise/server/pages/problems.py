"""Errors as pages, for browsers; programs get problem documents."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from arcwise.server.access.login import own_path
from arcwise.server.pages.rendering import wants_page
from arcwise.server.pages.viewer import Viewer
from arcwise.server.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from arcwise.server.runtime import Runtime

_SILENT = ("key-missing",)
"""Problems without a message on the login page: the page itself says enough."""


async def problem_page(runtime: Runtime, request: Request, problem: Problem) -> Response | None:
    """Return the page of a problem, or None for programs, which get its document.

    Readers who must log in to see a page get the login form. Readers with too many waiting pages get the
    document, as programs do.
    """
    if wants_page(request):
        with suppress(Problem):
            return await _problem_page(runtime, request, problem)
    return None


async def _problem_page(runtime: Runtime, request: Request, problem: Problem) -> Response:
    if problem.status == HTTPStatus.UNAUTHORIZED:
        # Shown at the same address, so that the login leads back to it.
        to = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return await login_page(runtime, request, problem, to if request.method in ("GET", "HEAD") else "/")
    viewer = None
    if problem.status < HTTPStatus.INTERNAL_SERVER_ERROR and problem.status != HTTPStatus.TOO_MANY_REQUESTS:
        with suppress(Problem):
            viewer = Viewer.of(runtime, request)
    shown = {
        "viewer": viewer,
        "problem": {
            "status": problem.status,
            "title": HTTPStatus(problem.status).phrase,
            "detail": _for_people(problem),
        },
    }
    headers = {
        name: value for name, value in (problem.headers or {}).items() if name.lower() != "content-length"
    }
    return await runtime.pages.response(
        request, "problem.html", shown, status=problem.status, headers=headers
    )


async def problem_answer(runtime: Runtime, request: Request, problem: Problem) -> Response:
    """Return the answer to a failed login or logout; a browser gets the login form again."""
    if request.url.path == "/login" and wants_page(request):
        with suppress(Problem):  # as in `problem_page`
            return await login_page(runtime, request, problem, getattr(request.state, "next", "/"))
    return await problem_page(runtime, request, problem) or problem.response()


async def login_page(
    runtime: Runtime, request: Request, problem: Problem | None = None, to: str = ""
) -> Response:
    """Return the page with the login form.

    `problem` is the reason for showing it, or None if the reader opened it. `to` is the page to show after
    the login, by default the page that the query names.
    """
    shown = {
        "message": "" if problem is None or problem.kind in _SILENT else problem.detail,
        "next": own_path(to or request.query_params.get("next", "/")),
    }
    status = 200 if problem is None else problem.status
    headers = {} if problem is None else problem.headers
    return await runtime.pages.response(request, "login.html", shown, status=status, headers=headers)


def _for_people(problem: Problem) -> str:
    if problem.kind == "not-found":
        return "There is no page at this address."
    if problem.kind == "unknown-task":
        return "This server does not have this task, or it is not yours to see."
    return problem.detail
