"""GET /v1/tasks, /v1/tasks/{id}, /v1/tasks/{id}/estimate, /health/live: what readers ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from arcwise.errors import StoreError
from arcwise.server.estimators import estimate
from arcwise.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from arcwise.server.store import Store
    from arcwise.tasks import Task

__all__ = ["reader_routes"]


def reader_routes(tasks: Mapping[str, Task], store: Callable[[], Store]) -> APIRouter:
    """Return the routes that read. Handlers are plain functions, so they run off the event loop."""
    router = APIRouter()

    def known(task_id: str) -> Task:
        task = tasks.get(task_id)
        if task is None:
            raise Problem(
                404, "unknown-task", "The server has no such task; GET /v1/tasks lists those it has."
            )
        return task

    @router.get("/v1/tasks", summary="List the tasks")
    def list_tasks() -> dict[str, Any]:
        """Every task with its id and its kernel, as its file would hold it."""
        return {"tasks": [task.to_json() for task in tasks.values()]}

    @router.get("/v1/tasks/{task_id}", summary="Show one task")
    def show_task(task_id: str) -> dict[str, Any]:
        """One task, as its file would hold it."""
        return known(task_id).to_json()

    @router.get("/v1/tasks/{task_id}/estimate", summary="Estimate from all reports so far")
    def show_estimate(task_id: str) -> dict[str, Any]:
        """`n`, and each estimate that the task allows as value, low, high and method."""
        task = known(task_id)
        try:
            counts = store().counts(task)
        except StoreError:
            raise Problem(
                503, "store-busy", "The store cannot be read now.", headers={"Retry-After": "1"}
            ) from None
        if not counts.any():
            return {"task": task.name, "task_id": task.id, "epsilon": task.epsilon, "n": 0}
        return estimate(task, counts).to_dict()

    @router.get("/health/live", summary="The process answers")
    def live() -> dict[str, str]:
        """Whether the process answers at all."""
        return {"status": "ok"}

    return router
