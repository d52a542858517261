"""Transports that record batches instead of sending them."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from arcwise.wire import Batch, decode_batch

if TYPE_CHECKING:
    from collections.abc import Mapping


class Post(NamedTuple):
    url: str
    body: bytes
    headers: dict[str, str]
    timeout: float

    @property
    def batch(self) -> Batch:
        return decode_batch(self.body)


class Recorder:
    """A transport that answers from a script, and 204 once that is used up."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.script: deque[int | tuple[int, str] | BaseException] = deque()
        self.by_task: dict[str, int] = {}
        self.go = threading.Event()
        self.go.set()
        self.busy = threading.Event()
        self.closed = 0

    def answer(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[int, str | None]:
        post = Post(url, body, dict(headers), timeout)
        self.posts.append(post)
        answer: int | tuple[int, str] | BaseException = self.by_task.get(post.batch.task_id.hex(), 204)
        if self.script:
            answer = self.script.popleft()
        if isinstance(answer, BaseException):
            raise answer
        return (answer, None) if isinstance(answer, int) else answer

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[int, str | None]:
        self.busy.set()
        assert self.go.wait(60)
        return self.answer(url, body, headers, timeout)

    def close(self) -> None:
        self.closed += 1

    @property
    def codes(self) -> int:
        """Return the number of one-byte codes that were acknowledged or not, each batch counted once."""
        return sum(
            len(batch.codes) for batch in {post.batch.batch_id: post.batch for post in self.posts}.values()
        )


class AsyncRecorder:
    """A `Recorder` for an event loop."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.cancelled = 0

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[int, str | None]:
        self.recorder.busy.set()
        try:
            while not self.recorder.go.is_set():
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.recorder.answer(url, body, headers, timeout)

    async def close(self) -> None:
        self.recorder.close()
