"""POST /v1/tasks/{task_id}/reports: a plain ASGI endpoint inside the FastAPI app.

The hot path of the server. FastAPI's own handler, with its dependency injection and response models, costs
three times as much as all of this together.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.errors import StoreError, WireError
from arcwise.server.problems import Problem, store_busy, unknown_task
from arcwise.server.settings import epochs_in
from arcwise.server.store import Busy, Outcome
from arcwise.wire import MEDIA_TYPE, code_format, decode_batch

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Receive, Scope, Send

    from arcwise.server.store import Writer
    from arcwise.tasks import Task
    from arcwise.wire import Batch

__all__ = ["INGEST_OPENAPI", "INGEST_PATH", "Ingest"]

INGEST_PATH = "/v1/tasks/{task_id}/reports"
INGEST_OPENAPI = {
    "post": {
        "summary": "Take a batch of reports",
        "description": "204 after a durable commit; also when the batch had been counted before.",
        "operationId": "take_reports",
        "parameters": [
            {"name": "task_id", "in": "path", "required": True, "schema": {"type": "string"}},
        ],
        "requestBody": {
            "required": True,
            "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        },
        "responses": {
            "204": {"description": "Counted, now or earlier"},
            "default": {
                "description": "Nothing was stored",
                "content": {"application/problem+json": {"schema": {"type": "object"}}},
            },
        },
    }
}

_MEDIA_TYPE = MEDIA_TYPE.encode("ascii")
_ACCEPTED_BODY = {"type": "http.response.body", "body": b""}
_BODY_SECONDS = 30.0
_DAYS_AHEAD = 1
_FEW = 512


class _Rules(NamedTuple):
    """What a batch of a task must satisfy, worked out once."""

    task: Task
    codes: int
    packed_as: np.dtype[Any]
    epochs_back: int
    epochs_ahead: int


class Ingest:
    """Reads a batch, checks it against its task, hands it to the writer, answers when it is durable.

    204: the batch is counted, now or earlier. Everything else is a problem document, and nothing is stored.
    """

    def __init__(self, tasks: Iterable[Task], *, retention_days: int, max_body_bytes: int) -> None:
        self._rules = {
            task.id: _Rules(
                task,
                task.mechanism.kernel.codes,
                np.dtype(code_format(task.mechanism.kernel.codes)),
                epochs_in(retention_days, task),
                epochs_in(_DAYS_AHEAD, task),  # devices' clocks and time zones are what they are
            )
            for task in tasks
        }
        self._max_body = max_body_bytes
        self.writer: Writer | None = None  # set while the app runs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            await self._take(scope, receive)
        except Problem as problem:
            await problem.response()(scope, receive, send)
        else:
            # Made anew for every answer: middleware adds headers to it.
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send(_ACCEPTED_BODY)

    async def _take(self, scope: Scope, receive: Receive) -> None:
        task_id: str = scope["path_params"]["task_id"]
        body = await self._body(scope, receive)
        batch = self._checked(task_id, body)
        try:
            if self.writer is None:
                raise Busy
            outcome = await self.writer.add(batch)
        except (Busy, StoreError):
            raise store_busy(
                "The store cannot take the batch now; nothing was stored. Send the same bytes again later."
            ) from None
        if outcome is Outcome.CLOSED:
            raise _epoch_closed()

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        content_type = b""
        for name, value in scope["headers"]:
            if name == b"content-type":
                content_type = value
            elif name == b"content-length" and int(value) > self._max_body:
                raise self._too_large()
        if content_type.partition(b";")[0].strip().lower() != _MEDIA_TYPE:
            raise Problem(415, "media-type", f"The body must be of the type {MEDIA_TYPE}.")
        try:
            async with timeout(_BODY_SECONDS):
                return await self._read(receive)
        except asyncio.TimeoutError:
            raise Problem(
                408,
                "slow-body",
                f"The body did not arrive within {_BODY_SECONDS:g} seconds.",
                headers={"Connection": "close"},
            ) from None

    async def _read(self, receive: Receive) -> bytes:
        more = True
        parts: list[bytes] = []
        size = 0
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "incomplete-body", "The connection ended before the body did.")
            part = message.get("body", b"")
            more = message.get("more_body", False)
            size += len(part)
            if size > self._max_body:
                raise self._too_large()
            parts.append(part)
        return b"".join(parts)

    def _too_large(self) -> Problem:
        return Problem(
            413,
            "too-large",
            f"A body takes at most {self._max_body} bytes; send smaller batches.",
            headers={"Connection": "close"},
        )

    def _checked(self, task_id: str, body: bytes) -> Batch:
        rules = self._rules.get(task_id)
        if rules is None:
            raise unknown_task()
        try:
            batch = decode_batch(body)
        except WireError as error:
            raise Problem(400, "malformed-batch", f"Not a batch: {error}.") from None
        if batch.task_id.hex() != task_id:
            raise Problem(400, "wrong-task", "The task id in the body is not the one in the path.")
        epoch = rules.task.epoch(time.time())
        if batch.epoch < epoch - rules.epochs_back:
            raise _epoch_closed()
        if batch.epoch > epoch + rules.epochs_ahead:
            raise Problem(
                422, "epoch-ahead", "The batch's epoch lies in the future; check the device's clock."
            )
        width = rules.packed_as.itemsize
        if len(batch.codes) % width or _largest(batch.codes, rules.packed_as) >= rules.codes:
            raise Problem(
                422,
                "bad-codes",
                f"The codes are not all integers of {width} byte(s) below {rules.codes}.",
            )
        return batch


def _epoch_closed() -> Problem:
    return Problem(410, "epoch-closed", "The batch's epoch is closed; its reports are not counted.")


def _largest(packed: bytes, packed_as: np.dtype[Any]) -> int:
    if packed_as.itemsize == 1 and len(packed) <= _FEW:
        return max(packed)  # quicker than numpy for a few bytes
    return int(np.frombuffer(packed, packed_as).max())
