"""The actions of admin keys: make, close and open tasks, make and revoke keys. The audit log records each."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from arcwise.errors import ArcwiseError, CertificateError, ParameterError, StoreError
from arcwise.kernels.base import MAX_CODES
from arcwise.server.access.gate import require
from arcwise.server.access.keys import SCOPES, new_key
from arcwise.server.estimates.releasing import check_statement
from arcwise.server.problems import Problem, store_busy, unknown_task
from arcwise.server.store import StoredAction
from arcwise.tasks import Task
from arcwise.tasks.files import each_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from arcwise.server.access.gate import Actor, Gate
    from arcwise.server.catalogue import Catalogue
    from arcwise.server.collect.clock import Clock
    from arcwise.server.store import Store, StoredKey

MAX_TASK_BYTES = 8 << 20
"""Most bytes of a task's file: a table of a megabyte of integers takes some three megabytes as digits."""

_MOST_COMMAS = 2 * MAX_CODES + 1000
_MOST_BEGUN = 1000
"""Limits on a task's file: on the numbers of commas (between rows and output values), colons and brackets."""

_Result = TypeVar("_Result")


def audited(
    store: Store,
    action: str,
    subject: str,
    change: Callable[[], _Result],
    *,
    now: float,
    key_id: str = "",
) -> _Result:
    """Change a store and record the change in the audit log; return the result of the change.

    The entry is written first, with the outcome "unknown", which stays if the process dies. If it cannot be
    written, `StoreError` is raised and nothing is changed. If a change returns False, the outcome is
    "unchanged".
    """
    number = store.begin_action(StoredAction(int(now), key_id, action, subject, "unknown"))
    try:
        result = change()
    except BaseException:
        with suppress(StoreError):
            store.end_action(number, "failed")
        raise
    store.end_action(number, "unchanged" if result is False else "done")
    return result


class Administration:
    """Changes tasks and keys for holders of an admin key, or of a session that began with an admin key.

    Every method raises `Problem`: 401 or 403 for anyone without such a key, 503 when the store cannot be
    changed. When a method returns, its change is in effect in this worker; other workers follow within ten
    seconds. `refresh` reads keys and tasks from the store into `gate` and `catalogue`.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        refresh: Callable[[], object],
        catalogue: Catalogue,
        gate: Gate,
        clock: Clock,
    ) -> None:
        self._store = store
        self._refresh = refresh
        self._catalogue = catalogue
        self._gate = gate
        self._clock = clock

    async def make_task(self, actor: Actor, text: bytes) -> tuple[Task, bool]:
        """Serve a task, given as the JSON of its file; return it, and whether it is new.

        Raises `Problem`: 422 when the task is invalid or its central statement is not true, 409 when another
        open task has its name.
        """
        require(actor, "admin")
        task = await asyncio.to_thread(_read_task, text)
        if task.id in self._catalogue.tasks:
            return task, False
        await asyncio.to_thread(_check_statement, task)
        return task, await self._open(actor, "make task", task, again=False)

    async def close_task(self, actor: Actor, task_id: str) -> None:
        """Stop accepting reports of a task; when this returns, no worker counts any further report of it.

        Raises a 404 `Problem` when there is no such task.
        """
        self._task(actor, task_id)
        now = int(self._clock.time())
        await self._change(actor, "close task", task_id, lambda store: store.close_task(task_id, now))

    async def open_task(self, actor: Actor, task_id: str) -> None:
        """Accept reports of a closed task again.

        Raises `Problem`: 404 when there is no such task, 409 when another open task has its name.
        """
        await self._open(actor, "open task", self._task(actor, task_id), again=True)

    async def make_key(
        self, actor: Actor, scope: str, *, tasks: Iterable[str] | None = None, label: str = ""
    ) -> tuple[str, StoredKey]:
        """Make a key; return its text, which must be shown once and never cached, and its entry in the store.

        Raises `Problem`: 422 when `new_key` refuses the arguments, 404 when a task is unknown.
        """
        require(actor, "admin")
        good_for = None if tasks is None else list(tasks)
        if good_for is not None and not self._catalogue.tasks.keys() >= set(good_for):
            raise unknown_task()
        try:
            secret, key = new_key(scope, tasks=good_for, label=label, now=self._clock.time())
        except ParameterError:
            raise Problem(
                422,
                "invalid-key",
                f"The scope of a key is one of {', '.join(SCOPES)}, its label has at most 200 printable "
                "characters, and it is for all tasks or for at least one. Admin and metrics keys are for "
                "all tasks.",
            ) from None
        await self._change(actor, f"make {scope} key", key.id, lambda store: store.add_key(key))
        return secret, key

    async def revoke_key(self, actor: Actor, key_id: str) -> None:
        """Revoke a key and end its sessions; revoking it again changes nothing.

        Raises a 404 `Problem` when there is no such key.
        """
        require(actor, "admin")
        if all(key.id != key_id for key in self._gate.keys):
            raise Problem(404, "unknown-key", "The server does not have this key.")
        now = int(self._clock.time())
        await self._change(actor, "revoke key", key_id, lambda store: store.revoke_key(key_id, now))

    def _task(self, actor: Actor, task_id: str) -> Task:
        require(actor, "admin")
        task = self._catalogue.tasks.get(task_id)
        if task is None:
            raise unknown_task()
        return task

    async def _open(self, actor: Actor, action: str, task: Task, *, again: bool) -> bool:
        """Open a task unless another open task has its name; return whether that changed anything."""
        try:
            return await self._change(
                actor, action, task.id, lambda store: store.open_alone(task, again=again)
            )
        except ParameterError:
            raise Problem(
                409,
                "name-taken",
                "Another open task has this name. Give this task another name, or close the other task "
                "first; its devices then drop their unsent reports.",
            ) from None

    async def _change(
        self, actor: Actor, action: str, subject: str, change: Callable[[Store], _Result]
    ) -> _Result:
        def work() -> _Result:
            store, now = self._store(), self._clock.time()
            result = audited(store, action, subject, lambda: change(store), now=now, key_id=actor.key_id)
            self._refresh()
            return result

        try:
            return await asyncio.to_thread(work)
        except StoreError:
            raise store_busy("The store cannot be changed now.") from None


def _read_task(text: bytes) -> Task:
    _refuse_many_values(text)
    try:
        return Task.from_json(json.loads(text, object_pairs_hook=each_once))
    except (ArcwiseError, ValueError, RecursionError):
        # The reason would repeat the body; `arcwise task verify` gives it to the owner of the file.
        raise Problem(
            422,
            "invalid-task",
            "The body is not the file of a valid task; `arcwise task verify FILE` says why.",
        ) from None


def _refuse_many_values(text: bytes) -> None:
    """Raise `Problem` for more values than any task has, which would block the interpreter for seconds."""
    begun = text.count(b":") + text.count(b"[") + text.count(b"{")
    if begun > _MOST_BEGUN or text.count(b",") > _MOST_COMMAS:
        raise Problem(422, "invalid-task", "The body has more values than the file of any task.")


def _check_statement(task: Task) -> None:
    try:
        check_statement(task, "this task")  # the task's name was sent, so it is not repeated
    except CertificateError as error:
        raise Problem(422, "untrue-statement", f"The server does not accept the task: {error}.") from None
