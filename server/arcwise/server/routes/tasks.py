"""GET /v1/tasks and the paths below /v1/tasks/{task}, for readers."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Request, Response

from arcwise.server.access.gate import require
from arcwise.server.catalogue import name_in
from arcwise.server.estimates.computations import PICTURES
from arcwise.server.estimates.question import parameters_of, read_question
from arcwise.server.estimates.representations import MEDIA_TYPES, disposition, negotiate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.server.estimates.question import Kind
    from arcwise.server.runtime import Runtime
    from arcwise.tasks import Task

_FORMS = {**MEDIA_TYPES, **PICTURES}

_Task = Annotated[
    str,
    Path(description="The task's id, or its name, percent-encoded, if exactly one open task has it."),
]

_QUESTIONS: dict[Kind, tuple[str, str]] = {
    "estimate": (
        "Estimate from all reports so far, or from some epochs",
        "`n`, and each estimate that the task allows, with value, low, high, method and notes.",
    ),
    "series": (
        "Estimates over time",
        "Points of merged epochs, in order and without gaps, each with its mean or its direction.",
    ),
    "difference": (
        "Compare with other epochs, or another task",
        "The numbers of the other reports minus the numbers of these reports, with intervals, and a test "
        "whether both come from one population.",
    ),
    "fit": (
        "Test whether honest reports explain the counts",
        "The p-value of the test, codes with a surplus, and how much unseen liars could change. Takes "
        "seconds.",
    ),
    "plan": (
        "Plan how many more reports a half-width needs",
        "The total and the additional number of reports that the interval of the mean or the direction "
        "needs to be as narrow as wanted.",
    ),
}
"""Summary and description of each kind of question; the kind is also the last part of the path."""

_FILES: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "estimate": ("estimate", ("json", "csv")),
    "picture": ("estimate", ("svg", "png")),
    "series": ("series", ("json", "csv", "svg", "png")),
    "difference": ("difference", ("json", "csv", "svg", "png")),
}
"""Downloads by file stem: the kind of question, and the forms of the file."""

_JSON_ONLY = ("fit", "plan")
_DRAWN_CSP = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Content security policy of a picture that is opened by itself: the picture can load and run nothing."""


def asked_task(runtime: Runtime, request: Request, text: str) -> Task:
    """Return the task with this id or name, if this request may read it.

    Raises `Problem` as `Gate.check` and `Catalogue.find` do. Nobody learns of a task that they may not read.
    """
    actor, catalogue = runtime.gate.sender(request.scope, "read"), runtime.catalogue
    if text in catalogue.tasks:
        require(actor, "read", text)
        return catalogue.tasks[text]
    mine = actor.readable(catalogue.named(text))
    if not mine:  # a key for some tasks gets the same refusal for a missing task as for a forbidden one
        require(actor, "read", text)
    return catalogue.find(text, mine)


def reader_routes(runtime: Runtime) -> APIRouter:
    """Return the routes for readers."""
    router = APIRouter(tags=["tasks"])
    texts: dict[str, bytes] = {}  # by task id
    making = asyncio.Lock()  # many requests for the same text would make it many times

    async def as_json(task_ids: Iterable[str]) -> list[bytes]:
        """Return the JSON of tasks, as in their files; it is kept, because tables are megabytes of digits."""
        ids = list(task_ids)
        for task_id in ids:
            if task_id not in texts:
                async with making:
                    if task_id not in texts:
                        texts[task_id] = await asyncio.to_thread(_text, runtime.catalogue.tasks[task_id])
        return [texts[task_id] for task_id in ids]

    @router.get(
        "/v1/tasks",
        summary="List the tasks",
        response_model=dict[str, Any],
    )
    async def list_tasks(request: Request) -> Response:
        """List every task as in its file, and when closed tasks were closed, in Unix seconds.

        A task with a central statement also has `readers`: the guarantee against each kind of reader, the
        local epsilon first.
        """
        tasks, closed = runtime.catalogue.tasks, runtime.catalogue.closed
        mine = runtime.gate.readable(request.scope, tasks)
        shut = json.dumps({task_id: closed[task_id] for task_id in mine if task_id in closed}).encode()
        return _json(b'{"tasks":[%b],"closed":%b}' % (b",".join(await as_json(mine)), shut))

    @router.get("/v1/tasks/{task}", summary="Show one task", response_model=dict[str, Any])
    async def show_task(request: Request, task: _Task) -> Response:
        """Show one task, as in its file.

        A task with a central statement also has `readers`: the guarantee against each kind of reader, the
        local epsilon first.
        """
        known = asked_task(runtime, request, name_in(request.scope, task))
        return _json(*await as_json([known.id]))

    async def answered(
        request: Request, segment: str, kind: Kind, form: str = "", file: str = ""
    ) -> Response:
        """Answer a question, in the form that Accept asks for or as a file."""
        task = asked_task(runtime, request, name_in(request.scope, segment))
        against = request.query_params.getlist("against") if kind == "difference" else []
        other = asked_task(runtime, request, against[0]) if len(against) == 1 else None
        question = read_question(task, request.query_params.multi_items(), kind, other=other)
        if not form:
            form = "json" if kind in _JSON_ONLY else negotiate(request.headers.get("accept"))
        reader = runtime.gate.reader(request.scope)
        answer = await runtime.estimates.answer(
            task, question, form, _tags(request), other=other, reader=reader
        )
        # private: shared caches must not keep an answer to a key. no-cache: each use revalidates the tag.
        vary = "Authorization, Cookie" if file else "Accept, Authorization, Cookie"
        headers = {"ETag": answer.tag, "Cache-Control": "private, no-cache", "Vary": vary}
        if answer.body is None:
            return Response(status_code=304, headers=headers)
        if file:
            headers["X-Content-Type-Options"] = "nosniff"
            headers["Content-Disposition"] = disposition(task.name, f"{file}.{form}", shown=form in PICTURES)
            if form in PICTURES:
                headers["Content-Security-Policy"] = _DRAWN_CSP
        return Response(answer.body, headers=headers, media_type=_FORMS[form])

    def add_question(kind: Kind) -> None:
        summary, description = _QUESTIONS[kind]
        forms = ("json",) if kind in _JSON_ONLY else tuple(MEDIA_TYPES)

        @router.get(
            f"/v1/tasks/{{task}}/{kind}",
            summary=summary,
            description=description,
            operation_id=f"show_{kind}",
            responses=_responses(forms),
            openapi_extra={"parameters": parameters_of(kind)},
        )
        async def show(request: Request, task: _Task) -> Response:
            return await answered(request, task, kind)

    def add_file(stem: str) -> None:
        kind, forms = _FILES[stem]
        words = "picture" if stem == "picture" else kind
        form_in_path = Path(description="Form of the file.", json_schema_extra={"enum": list(forms)})

        @router.get(
            f"/v1/tasks/{{task}}/{stem}.{{form}}",
            summary=f"Download the {words} as a file",
            description=f"As /v1/tasks/{{task}}/{kind}, with a file name. PNG needs the extra plots.",
            operation_id=f"download_{stem}",
            responses=_responses(forms),
            openapi_extra={"parameters": parameters_of(kind)},
        )
        async def download(request: Request, task: _Task, form: str = form_in_path) -> Response:
            if form not in forms:
                raise HTTPException(404)
            return await answered(request, task, kind, form, stem)

    for kind in _QUESTIONS:
        add_question(kind)
    for stem in _FILES:
        add_file(stem)
    return router


_SCHEMAS: dict[str, dict[str, Any]] = {
    "json": {"type": "object"},
    "csv": {"type": "string"},
    "svg": {"type": "string"},
    "msgpack": {"type": "string", "format": "binary"},
    "png": {"type": "string", "format": "binary"},
}


def _responses(forms: Iterable[str]) -> dict[int | str, dict[str, Any]]:
    content = {_FORMS[form]: {"schema": _SCHEMAS[form]} for form in forms}
    return {
        200: {
            "description": "With an ETag. JSON of a task with a central statement has `readers`: the "
            "guarantee against each kind of reader, the local epsilon first",
            "content": content,
        },
        304: {"description": "The content that an ETag in If-None-Match names has not changed"},
    }


def _text(task: Task) -> bytes:
    shown = task.to_json() | ({} if task.central is None else {"readers": task.readers})
    return json.dumps(shown, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _json(text: bytes) -> Response:
    return Response(text, media_type="application/json")


def _tags(request: Request) -> set[str]:
    """Return the entity tags of If-None-Match; a weak tag names the same estimate."""
    given = ",".join(request.headers.getlist("if-none-match"))
    return {tag.strip().removeprefix("W/") for tag in given.split(",")} - {""}
