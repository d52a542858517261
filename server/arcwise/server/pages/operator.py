"""The operator page: whether reports arrive, forms to manage tasks and keys, and the audit log."""

from __future__ import annotations

import asyncio
import math
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from arcwise.errors import StoreError
from arcwise.server.access.administration import MAX_TASK_BYTES
from arcwise.server.access.gate import require
from arcwise.server.access.keys import SCOPES
from arcwise.server.access.login import read_form
from arcwise.server.access.origins import check_same_origin
from arcwise.server.pages.overview import State
from arcwise.server.pages.rendering import SECURITY_HEADERS, page_number, page_tag
from arcwise.server.pages.viewer import Viewer
from arcwise.server.problems import Problem, store_busy
from arcwise.tasks import DAY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from arcwise.server.access.gate import Actor
    from arcwise.server.runtime import Runtime
    from arcwise.server.store import StoredAction, StoredKey

_REFRESH = 5
_ACTIONS = 50
_PER_PAGE = 50
_RECENT = ((60, "the last minute"), (300, "the last 5 minutes"), (900, "the last 15 minutes"))
_SCOPES = {
    "ingest": "send reports",
    "read": "see estimates",
    "metrics": "read /metrics",
    "admin": "manage tasks and keys, see everything",
}
_DONE = {
    "task": "The task is now served.",
    "known": "The task was already served.",
    "closed": "The task is closed: its reports are no longer counted.",
    "opened": "The task is open again.",
    "revoked": "The key is revoked.",
}
"""Messages of the page after a change, by the word in its address."""

_CORRECTED = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)
"""Statuses of problems that the sender of a form can correct: the form is shown again."""

_FORM_BYTES = 3 * MAX_TASK_BYTES + 1024
"""Limit for a form with a task: in a form, a character can take three bytes."""


class OperatorPages:
    """Shows the state of the server to operators, and changes tasks and keys for them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def show(self, request: Request) -> Response:
        """Return the operator page."""
        viewer = Viewer.of(self._runtime, request)
        if self._runtime.read_only:
            raise HTTPException(404)
        if not viewer.operates:
            require(viewer.actor, "admin")
        return await self._page(request, viewer, message=_DONE.get(request.query_params.get("done", ""), ""))

    async def add_task(self, request: Request) -> Response:
        """Serve the task in the form."""

        async def change(actor: Actor, form: dict[str, list[str]]) -> str:
            _, is_new = await self._runtime.administration.make_task(
                actor, form.get("task", [""])[0].encode()
            )
            return "task" if is_new else "known"

        return await self._changed(request, change, most=_FORM_BYTES)

    def changing(
        self, change: Callable[[Actor, str], Awaitable[None]], done: str
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a form that changes the subject in its path; `done` is a key of `_DONE`."""

        async def endpoint(request: Request) -> Response:
            async def changed(actor: Actor, _form: dict[str, list[str]]) -> str:
                await change(actor, *request.path_params.values())
                return done

            return await self._changed(request, changed)

        return endpoint

    async def make_key(self, request: Request) -> Response:
        """Make a key and show it; it is never shown again."""

        async def change(actor: Actor, form: dict[str, list[str]]) -> Response:
            tasks = [task_id for task_id in form.get("tasks", []) if task_id] or None
            scope, label = (form.get(name, [""])[0].strip() for name in ("scope", "label"))
            secret, key = await self._runtime.administration.make_key(actor, scope, tasks=tasks, label=label)
            shown = {
                "viewer": Viewer.of(self._runtime, request),
                "key": secret,
                "label": key.label,
                "scope": key.scope,
                "good_for": self._good_for(key),
            }
            return await self._runtime.pages.response(request, "new_key.html", shown, secret=True)

        return await self._changed(request, change, most=_FORM_BYTES)

    async def _changed(
        self,
        request: Request,
        change: Callable[[Actor, dict[str, list[str]]], Awaitable[str | Response]],
        *,
        most: int = 4096,
    ) -> Response:
        """Do what a form asks for, if it comes from a page of this server and an admin sent it."""
        check_same_origin(request.scope, self._runtime.public_url)
        viewer = Viewer.of(self._runtime, request)
        require(viewer.actor, "admin")
        form = await read_form(self._runtime, request, most)
        try:
            done = await change(viewer.actor, form)
        except Problem as problem:
            if problem.status not in _CORRECTED:
                raise
            self._runtime.metrics.refused(problem.kind)
            text = form.get("task", [""])[0]
            return await self._page(
                request, viewer, trouble=problem.detail, task_text=text, status=problem.status
            )
        if not isinstance(done, str):
            return done
        # 303: the browser follows with GET, so a reload does not repeat the change.
        headers = {**SECURITY_HEADERS, "Cache-Control": "no-store"}
        return RedirectResponse(f"/operator?done={done}", 303, headers)

    async def _page(
        self,
        request: Request,
        viewer: Viewer,
        *,
        message: str = "",
        trouble: str = "",
        task_text: str = "",
        status: int = 200,
    ) -> Response:
        runtime = self._runtime
        catalogue = runtime.catalogue
        ids = list(catalogue.tasks)
        number, pages = page_number(request, len(ids), _PER_PAGE)
        here = ids[(number - 1) * _PER_PAGE : number * _PER_PAGE]

        midnight = runtime.clock.time() // DAY * DAY

        def read() -> tuple[dict[str, tuple[int, int]], list[tuple[int, StoredAction]]]:
            store, reports = runtime.store(), {}
            for each in here:
                task = catalogue.tasks[each]
                today = store.reports_by_epoch(task, task.epoch(midnight))
                reports[each] = sum(today.values()), store.report_count(task)
            return reports, store.actions(_ACTIONS)

        try:
            reports, actions = await asyncio.to_thread(read)
        except StoreError:
            raise store_busy("The store cannot be read now.") from None
        keys = runtime.gate.keys
        names = {key.id: key.label or key.id for key in keys}
        shown: dict[str, Any] = {
            "viewer": viewer,
            "writes": viewer.writes,
            "message": message,
            "trouble": trouble,
            "task_text": task_text,
            "states": self._states(),
            **self._figures(),
            "tasks": [
                {
                    "id": each,
                    "name": catalogue.tasks[each].name,
                    "closed": catalogue.closed.get(each),
                    "today": reports[each][0],
                    "long": catalogue.tasks[each].epoch_seconds > DAY,
                    "reports": reports[each][1],
                }
                for each in here
            ],
            "task_page": number,
            "task_pages": pages,
            "choices": [{"id": each, "name": catalogue.tasks[each].name} for each in ids],
            "keys": [
                {
                    "id": key.id,
                    "label": key.label,
                    "scope": key.scope,
                    "tasks": self._good_for(key),
                    "created": key.created,
                    "revoked": key.revoked,
                    "mine": key.id == viewer.actor.key_id,
                }
                for key in keys
            ],
            "scopes": [(scope, _SCOPES[scope]) for scope in SCOPES],
            "audit": [
                {
                    "at": action.time,
                    "who": names.get(action.key_id, action.key_id) or "a command",
                    "what": action.action + ("" if action.outcome == "done" else f" ({action.outcome})"),
                    "to": self._subject(action, names),
                }
                for _, action in actions
            ],
            "audit_days": runtime.settings.audit_retention_days,
            "refresh": _REFRESH,
        }
        seen = {name: value for name, value in shown.items() if name != "viewer"}
        tag = (
            page_tag("operator", viewer.shown, viewer.actor.key_id, seen) if status == HTTPStatus.OK else None
        )
        return await runtime.pages.response(
            request, "operator.html", shown, status=status, tag=tag, reader=viewer.reader
        )

    def _good_for(self, key: StoredKey) -> str:
        if key.tasks is None:
            return "all"
        tasks = self._runtime.catalogue.tasks
        return ", ".join(tasks[each].name if each in tasks else each[:12] for each in key.tasks)

    def _subject(self, action: StoredAction, names: dict[str, str]) -> str:
        task = self._runtime.catalogue.tasks.get(action.subject)
        if task is not None:
            return f"{task.name} ({task.id[:12]})"
        name = names.get(action.subject)
        return f"{name} ({action.subject})" if name and name != action.subject else action.subject

    def _states(self) -> list[State]:
        trouble = self._runtime.trouble()
        return [State("good", "takes reports") if trouble is None else State("bad", trouble.rstrip("."))]

    def _figures(self) -> dict[str, Any]:
        runtime = self._runtime
        recent = {seconds: runtime.metrics.recent(seconds) for seconds, _ in _RECENT}
        last = recent[900]
        ingest = runtime.ingest
        tiles = (
            ("Queue", f"{ingest.waiting:,}", f"batches, {_size(ingest.waiting_bytes)}"),
            ("Commit, median", _time(last.commit_median), "in 15 minutes"),
            ("Commit, slowest", _time(last.commit_worst), "in 15 minutes"),
            ("Commits that failed", f"{last.failed:,}", "in 15 minutes"),
            ("Store", _size(runtime.store_bytes), "on disk"),
        )
        return {
            "tiles": [{"label": label, "value": value, "about": about} for label, value, about in tiles],
            "recent": [
                {
                    "words": words,
                    "reports": recent[seconds].reports,
                    "rate": f"{recent[seconds].reports / max(recent[seconds].seconds, 1.0):,.1f}",
                }
                for seconds, words in _RECENT
            ],
            "refused": list(last.refused.items()),
        }


def _size(number: float) -> str:
    if math.isnan(number):
        return "not known yet"
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "none"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
