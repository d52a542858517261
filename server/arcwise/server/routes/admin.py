"""POST /v1/tasks, and its close and open: what an admin key may do."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from arcwise.errors import ArcwiseError, StoreError
from arcwise.server.problems import Problem, store_busy, unknown_task
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.server.runtime import Runtime

__all__ = ["admin_routes"]

_MAX_TASK_BYTES = 8 << 20
"""A table of a megabyte of integers is some three megabytes of decimal digits."""

_TASK_BODY = {
    "requestBody": {
        "required": True,
        "description": "A task as its file holds it, made with `arcwise task new`.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


def admin_routes(runtime: Runtime) -> APIRouter:
    """Return the routes that manage tasks."""
    router = APIRouter(tags=["tasks:admin"])
    naming = asyncio.Lock()  # from the look at a name to the task that has it

    @router.post("/v1/tasks", summary="Make a task known", status_code=201, openapi_extra=_TASK_BODY)
    async def make_task(request: Request) -> Response:
        """Serve a task from now on; 200 when it is known already. Its certificate is checked."""
        runtime.gate.check(request.scope, "admin")
        body = await runtime.ingest.bodies.read(request.scope, request.receive, most=_MAX_TASK_BYTES)
        task = await asyncio.to_thread(_read_task, body)
        async with naming:
            if task.id in runtime.catalogue.tasks:
                return _state(runtime, task.id, 200)
            check_name(task)
            await _change(lambda: runtime.store().register([task]))
            await _change(runtime.refresh)
        return _state(runtime, task.id, 201)

    @router.post("/v1/tasks/{task_id}/close", summary="Take no more reports of a task")
    async def close_task(request: Request, task_id: str) -> Response:
        """No worker counts a report once this has answered; estimates stay. Closing twice changes nothing."""
        known(request, task_id)
        await _change(lambda: runtime.store().close_task(task_id, int(runtime.clock.time())))
        await _change(runtime.refresh)
        return _state(runtime, task_id, 200)

    @router.post("/v1/tasks/{task_id}/open", summary="Take reports of a closed task again")
    async def open_task(request: Request, task_id: str) -> Response:
        """Other workers take them within ten seconds. Reports that were refused meanwhile are lost."""
        task = known(request, task_id)
        async with naming:
            check_name(task)
            await _change(lambda: runtime.store().open_task(task_id))
            await _change(runtime.refresh)
        return _state(runtime, task_id, 200)

    def check_name(task: Task) -> None:
        other = runtime.catalogue.open_name(task.name)
        if other is not None and other != task:
            raise Problem(
                409,
                "name-taken",
                "Another open task has this name: give this task another one, or close the other task first, "
                "whose devices then drop the reports that they have not sent.",
            )

    def known(request: Request, task_id: str) -> Task:
        runtime.gate.check(request.scope, "admin")
        task = runtime.catalogue.tasks.get(task_id)
        if task is None:
            raise unknown_task()
        return task

    return router


def _read_task(body: bytes) -> Task:
    try:
        return Task.from_json(json.loads(body))
    except (ArcwiseError, ValueError, RecursionError):
        # What is wrong with it holds what was sent; the command says it where the file is.
        raise Problem(
            422,
            "invalid-task",
            "The body is not the file of a valid task; `arcwise task verify FILE` says why.",
        ) from None


async def _change(change: Callable[[], object]) -> None:
    try:
        await asyncio.to_thread(change)
    except StoreError:
        raise store_busy("The store cannot be changed now.") from None


def _state(runtime: Runtime, task_id: str, status: int) -> Response:
    state: dict[str, Any] = {"task_id": task_id, "closed": runtime.catalogue.closed.get(task_id)}
    return JSONResponse(
        state, status, headers={"Location": f"/v1/tasks/{task_id}"} if status == 201 else None
    )
