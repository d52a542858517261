"""POST /v1/tasks/{task_id}/reports: a plain ASGI endpoint inside the FastAPI app.

The hot path of the server. FastAPI's own handler, with its dependency injection and response models, costs
three times as much as all of this together.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import numpy as np

from arcwise.errors import StoreError, WireError
from arcwise.server.problems import Problem
from arcwise.server.store import Busy
from arcwise.wire import MEDIA_TYPE, code_width, decode_batch

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
_ACCEPTED_HEAD = {"type": "http.response.start", "status": 204, "headers": []}
_ACCEPTED_BODY = {"type": "http.response.body", "body": b""}
_BODY_SECONDS = 30.0
_FEW = 512
_BUSY = Problem(
    503,
    "store-busy",
    "The store cannot take the batch now; nothing was stored. Send the same bytes again later.",
    headers={"Retry-After": "1"},
)


class Ingest:
    """Reads a batch, checks it against its task, hands it to the writer, answers when it is durable.

    204: the batch is counted, now or earlier. Everything else is a problem document, and nothing is stored.
    """

    def __init__(self, tasks: Iterable[Task], *, retention: int, max_body_bytes: int) -> None:
        self._tasks = {
            task.id: (task, code_width(task.mechanism.kernel.codes), task.mechanism.kernel.codes)
            for task in tasks
        }
        self._retention = retention
        self._max_body = max_body_bytes
        self.writer: Writer | None = None  # set while the app runs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            task_id: str = scope["path_params"]["task_id"]
            body = await self._body(scope, receive)
            batch = self._checked(task_id, body)
            if self.writer is None:
                raise Busy
            await self.writer.add(batch)
        except Problem as problem:
            await problem.response()(scope, receive, send)
        except (Busy, StoreError):
            await _BUSY.response()(scope, receive, send)
        else:
            await send(_ACCEPTED_HEAD)
            await send(_ACCEPTED_BODY)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        content_type = b""
        for name, value in scope["headers"]:
            if name == b"content-type":
                content_type = value
            elif name == b"content-length" and int(value) > self._max_body:
                raise self._too_large()
        if content_type.partition(b";")[0].strip().lower() != _MEDIA_TYPE:
            raise Problem(415, "media-type", f"The body must be of the type {MEDIA_TYPE}.")
        message = await receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            self._check_size(len(body))
            return body
        try:
            return await asyncio.wait_for(self._rest(body, receive), _BODY_SECONDS)
        except asyncio.TimeoutError:
            raise Problem(
                408, "slow-body", f"The body did not arrive within {_BODY_SECONDS:g} seconds."
            ) from None

    async def _rest(self, first: bytes, receive: Receive) -> bytes:
        body = bytearray(first)
        more = True
        while more:
            self._check_size(len(body))
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "incomplete-body", "The connection ended before the body did.")
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self._check_size(len(body))
        return bytes(body)

    def _check_size(self, size: int) -> None:
        if size > self._max_body:
            raise self._too_large()

    def _too_large(self) -> Problem:
        return Problem(
            413,
            "too-large",
            f"A body takes at most {self._max_body} bytes; send smaller batches.",
            headers={"Connection": "close"},
        )

    def _checked(self, task_id: str, body: bytes) -> Batch:
        found = self._tasks.get(task_id)
        if found is None:
            raise Problem(
                404, "unknown-task", "The server has no such task; GET /v1/tasks lists those it has."
            )
        task, width, codes = found
        try:
            batch = decode_batch(body)
        except WireError as error:
            raise Problem(400, "malformed-batch", f"Not a batch: {error}.") from None
        if batch.task_id.hex() != task_id:
            raise Problem(400, "wrong-task", "The task id in the body is not the one in the path.")
        epoch = task.epoch(time.time())
        if batch.epoch < epoch - self._retention:
            raise Problem(410, "epoch-closed", "The batch's epoch is closed; its reports are not counted.")
        if batch.epoch > epoch + 1:
            raise Problem(
                422, "epoch-ahead", "The batch's epoch lies in the future; check the device's clock."
            )
        if len(batch.codes) % width or _largest(batch.codes, width) >= codes:
            raise Problem(
                422, "bad-codes", f"The codes are not all integers of {width} byte(s) below {codes}."
            )
        return batch


def _largest(packed: bytes, width: int) -> int:
    if width == 1 and len(packed) <= _FEW:
        return max(packed)  # quicker than numpy for a few bytes
    return int(np.frombuffer(packed, "u1" if width == 1 else "<u2").max())
