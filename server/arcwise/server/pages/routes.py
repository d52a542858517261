"""The routes of the dashboard's pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import Route

from arcwise.server.pages.operator import OperatorPages
from arcwise.server.pages.overview import show_overview
from arcwise.server.pages.problems import login_page
from arcwise.server.pages.rendering import asset
from arcwise.server.pages.task import TaskPages

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from arcwise.server.runtime import Runtime


def page_routes(runtime: Runtime) -> list[Route]:
    """Return the routes of the pages and of the files that they link; `login_routes` has POST /login."""
    tasks, operator, change = TaskPages(runtime), OperatorPages(runtime), runtime.administration

    async def overview(request: Request) -> Response:
        return await show_overview(runtime, request)

    async def login(request: Request) -> Response:
        if runtime.read_only:
            return RedirectResponse("/", 303)
        return await login_page(runtime, request)

    async def file(request: Request) -> Response:
        found = asset(request)
        if found is None:
            raise HTTPException(404)
        return found

    by_path = operator.changing
    pages = [
        Route("/", overview),
        Route("/tasks/{task}", tasks.show),
        Route("/tasks/{task}/compare", tasks.compare),
        Route("/tasks/{task}/fit", tasks.fit),
        Route("/tasks/{task}/plan", tasks.plan),
        Route("/operator", operator.show),
        Route("/operator/tasks", operator.add_task, methods=["POST"]),
        Route("/operator/tasks/{task_id}/close", by_path(change.close_task, "closed"), methods=["POST"]),
        Route("/operator/tasks/{task_id}/open", by_path(change.open_task, "opened"), methods=["POST"]),
        Route("/operator/keys", operator.make_key, methods=["POST"]),
        Route("/operator/keys/{key_id}/revoke", by_path(change.revoke_key, "revoked"), methods=["POST"]),
        Route("/login", login, methods=["GET"]),
        Route("/static/{mark}/{name}", file),
    ]
    for route in pages:
        route.include_in_schema = False
    return pages
