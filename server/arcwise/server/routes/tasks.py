"""GET /v1/tasks, /v1/tasks/{id}, its estimate and its series: what readers ask."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from arcwise.analysis.timeseries.epochs import Span, epochs_in_step, read_epoch
from arcwise.errors import ParameterError
from arcwise.server.estimates.representations import MEDIA_TYPES, negotiate
from arcwise.server.problems import Problem, unknown_task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.server.runtime import Runtime
    from arcwise.tasks import Task

__all__ = ["reader_routes"]

_TIME = "A date (2026-11-01), a time (2026-11-01T06:00Z, UTC unless it has an offset) or an epoch's number."
_From = Annotated[str | None, Query(alias="from", description=f"Epochs that start then or later. {_TIME}")]
_To = Annotated[str | None, Query(alias="to", description=f"Epochs that start before then. {_TIME}")]
_FORMS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "In the form that Accept asks for, with an ETag",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "text/csv": {"schema": {"type": "string"}},
            "application/msgpack": {"schema": {"type": "string", "format": "binary"}},
        },
    },
    304: {"description": "The estimate of an ETag in If-None-Match is still the same"},
}
_Every = Annotated[
    str, Query(description="Length of a point: epoch, day, week, or a whole number of epochs.")
]


def reader_routes(runtime: Runtime) -> APIRouter:
    """Return the routes that read."""
    router = APIRouter(tags=["tasks"])
    estimates = runtime.estimates
    texts: dict[str, bytes] = {}  # by task id

    async def as_json(task_ids: Iterable[str]) -> list[bytes]:
        """Return tasks as their files hold them: made once, because a table is megabytes of digits."""
        ids = list(task_ids)
        for task_id in ids:
            if task_id not in texts:
                texts[task_id] = await asyncio.to_thread(_text, runtime.catalogue.tasks[task_id])
        return [texts[task_id] for task_id in ids]

    def known(request: Request, task_id: str) -> Task:
        # The key first: without it nobody is told which tasks there are.
        runtime.gate.check(request.scope, "read", task_id)
        task = runtime.catalogue.tasks.get(task_id)
        if task is None:
            raise unknown_task()
        return task

    @router.get(
        "/v1/tasks",
        summary="List the tasks",
        response_model=dict[str, Any],
    )
    async def list_tasks(request: Request) -> Response:
        """Every task as its file would hold it, and when those that are closed were, in Unix seconds."""
        tasks, closed = runtime.catalogue.tasks, runtime.catalogue.closed
        mine = runtime.gate.readable(request.scope, tasks)
        shut = json.dumps({task_id: closed[task_id] for task_id in mine if task_id in closed}).encode()
        return _json(b'{"tasks":[%b],"closed":%b}' % (b",".join(await as_json(mine)), shut))

    @router.get("/v1/tasks/{task_id}", summary="Show one task", response_model=dict[str, Any])
    async def show_task(request: Request, task_id: str) -> Response:
        """One task, as its file would hold it."""
        known(request, task_id)
        return _json(*await as_json([task_id]))

    @router.get(
        "/v1/tasks/{task_id}/estimate",
        summary="Estimate from all reports so far, or of some epochs",
        responses=_FORMS,
    )
    async def show_estimate(request: Request, task_id: str, start: _From = None, end: _To = None) -> Any:
        """`n`, and each estimate that the task allows as value, low, high and method."""
        task = known(request, task_id)
        _check_names(request, {"from", "to"})
        span = None if start is None and end is None else _span(task, start, end)
        return await answered(request, task, span)

    @router.get("/v1/tasks/{task_id}/series", summary="Estimates over time", responses=_FORMS)
    async def show_series(
        request: Request, task_id: str, every: _Every = "epoch", start: _From = None, end: _To = None
    ) -> Response:
        """Points of merged epochs, in order and without holes, each with its mean or its direction."""
        task = known(request, task_id)
        _check_names(request, {"every", "from", "to"})
        span = _span(task, start, end)
        try:
            epochs = epochs_in_step(task, every, "every")
        except ParameterError:
            raise _invalid(
                "every must be epoch, day, week or a whole number of epochs from 1 on; a day or a week must "
                "be a whole number of the task's epochs."
            ) from None
        return await answered(request, task, span, epochs)

    async def answered(request: Request, task: Task, span: Span | None, every: int = 0) -> Response:
        form = negotiate(request.headers.get("accept"))
        answer = await estimates.answer(task, form, _tags(request), span=span, every=every)
        # With a key in between, nobody else's cache may keep it; and each time the tag is asked about.
        headers = {"ETag": answer.tag, "Cache-Control": "private, no-cache", "Vary": "Accept, Authorization"}
        if answer.body is None:
            return Response(status_code=304, headers=headers)
        return Response(answer.body, headers=headers, media_type=MEDIA_TYPES[form])

    return router


def _text(task: Task) -> bytes:
    return json.dumps(task.to_json(), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _json(text: bytes) -> Response:
    return Response(text, media_type="application/json")


def _tags(request: Request) -> set[str]:
    """Return the entity tags of If-None-Match; a weak one names the same estimate."""
    given = ",".join(request.headers.getlist("if-none-match"))
    return {tag.strip().removeprefix("W/") for tag in given.split(",")} - {""}


def _invalid(detail: str) -> Problem:
    return Problem(422, "invalid-request", detail)


def _check_names(request: Request, names: set[str]) -> None:
    """Refuse parameters of other names: a range that is mistyped must not be taken for all epochs."""
    given = [name for name, _ in request.query_params.multi_items()]
    if set(given) - names or len(set(given)) < len(given):
        raise _invalid(f"The only parameters are {', '.join(sorted(names))}, each at most once.")


def _span(task: Task, start: str | None, end: str | None) -> Span:
    try:
        first = None if start is None else read_epoch(task, start, "from")
        last = None if end is None else read_epoch(task, end, "to") - 1
    except ParameterError:
        raise _invalid(f"from and to take: {_TIME[0].lower()}{_TIME[1:]}") from None
    return Span(first, last)
