"""POST /v1/tasks, and closing and opening a task: the actions of an admin key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from arcwise.server.access.administration import MAX_TASK_BYTES
from arcwise.server.access.gate import Actor

if TYPE_CHECKING:
    from arcwise.server.runtime import Runtime

_TASK_BODY = {
    "requestBody": {
        "required": True,
        "description": "The content of a task's file, made with `arcwise task new`.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


def admin_routes(runtime: Runtime) -> APIRouter:
    """Return the routes that manage tasks."""
    router = APIRouter(tags=["tasks:admin"])
    administration = runtime.administration

    def admin(request: Request) -> Actor:
        return Actor(runtime.gate.check(request.scope, "admin"))

    @router.post("/v1/tasks", summary="Add a task", status_code=201, openapi_extra=_TASK_BODY)
    async def make_task(request: Request) -> Response:
        """Serve a task from now on; 200 if it is already known. Its certificate is checked."""
        actor = admin(request)
        body = await runtime.ingest.bodies.read(request.scope, request.receive, most=MAX_TASK_BYTES)
        task, is_new = await administration.make_task(actor, body)
        return _state(runtime, task.id, 201 if is_new else 200)

    @router.post("/v1/tasks/{task_id}/close", summary="Stop accepting reports of a task")
    async def close_task(request: Request, task_id: str) -> Response:
        """After the answer no worker counts a report; estimates stay. Closing twice changes nothing."""
        await administration.close_task(admin(request), task_id)
        return _state(runtime, task_id, 200)

    @router.post("/v1/tasks/{task_id}/open", summary="Accept reports of a closed task again")
    async def open_task(request: Request, task_id: str) -> Response:
        """Other workers accept them within ten seconds. Reports refused in the meantime are lost."""
        await administration.open_task(admin(request), task_id)
        return _state(runtime, task_id, 200)

    return router


def _state(runtime: Runtime, task_id: str, status: int) -> Response:
    state: dict[str, Any] = {"task_id": task_id, "closed": runtime.catalogue.closed.get(task_id)}
    return JSONResponse(
        state, status, headers={"Location": f"/v1/tasks/{task_id}"} if status == 201 else None
    )
