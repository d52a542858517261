"""GET /v1/tasks, /v1/tasks/{id}, /v1/tasks/{id}/estimate, /health/live: what readers ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from arcwise.server.problems import unknown_task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcwise.server.routes.estimates import Estimates
    from arcwise.tasks import Task

__all__ = ["reader_routes"]


def reader_routes(tasks: Mapping[str, Task], estimates: Estimates) -> APIRouter:
    """Return the routes that read."""
    router = APIRouter()

    def known(task_id: str) -> Task:
        task = tasks.get(task_id)
        if task is None:
            raise unknown_task()
        return task

    @router.get("/v1/tasks", summary="List the tasks")
    async def list_tasks() -> dict[str, Any]:
        """Every task with its id and its kernel, as its file would hold it."""
        return {"tasks": [task.to_json() for task in tasks.values()]}

    @router.get("/v1/tasks/{task_id}", summary="Show one task")
    async def show_task(task_id: str) -> dict[str, Any]:
        """One task, as its file would hold it."""
        return known(task_id).to_json()

    @router.get("/v1/tasks/{task_id}/estimate", summary="Estimate from all reports so far")
    async def show_estimate(task_id: str) -> dict[str, Any]:
        """`n`, and each estimate that the task allows as value, low, high and method."""
        return await estimates.of(known(task_id))

    @router.get("/health/live", summary="The process answers")
    async def live() -> dict[str, str]:
        """Whether the process answers at all."""
        return {"status": "ok"}

    return router
