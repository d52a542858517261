"""Batches of reports, and sending them over HTTP."""

from __future__ import annotations

import secrets
import time
from types import MappingProxyType
from typing import TYPE_CHECKING

from arcwise.wire import MEDIA_TYPE, Batch, encode_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import httpx

    from arcwise.tasks import Task

__all__ = ["body_of", "report"]


def body_of(
    task: Task, codes: Iterable[int] = b"\x07", *, epoch: int | None = None, number: int | None = None
) -> bytes:
    """Return the body of a batch, by default of now, under a random id unless it has a number."""
    batch_id = secrets.token_bytes(16) if number is None else number.to_bytes(16, "big")
    at = task.epoch(time.time()) if epoch is None else epoch
    return encode_batch(Batch(bytes.fromhex(task.id), batch_id, at, bytes(codes)))


async def report(
    http: httpx.AsyncClient,
    task: Task,
    body: bytes | None = None,
    *,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> httpx.Response:
    """Send the body of a batch, or a report of now."""
    return await http.post(
        f"/v1/tasks/{task.id}/reports",
        content=body_of(task) if body is None else body,
        headers={"content-type": MEDIA_TYPE, **headers},
    )
