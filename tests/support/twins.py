"""The two kinds of client, a blocking one and one of an event loop, for tests of both."""

from __future__ import annotations

import asyncio
import inspect
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx

from arcwise.client import AsyncHttpxTransport, AsyncUplink, HttpxTransport, Uplink
from tests.support.recorder import AsyncRecorder
from tests.support.unlimited import AsyncClient, Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from tests.support.recorder import Recorder

__all__ = ["Twin"]


class Twin:
    """One of the two kinds: its objects, for use from code that blocks.

    Attributes
    ----------
    kind
        "sync" or "async".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.loop = asyncio.new_event_loop()

    def client(self, server: object, **options: Any) -> Any:
        return self._made((Client, AsyncClient), server, **options)

    def uplink(self, url: str, **options: Any) -> Any:
        return self._made((Uplink, AsyncUplink), url, **options)

    def http(self, *given: Any, **options: Any) -> Any:
        """Return a transport by httpx."""
        return self._made((HttpxTransport, AsyncHttpxTransport), *given, **options)

    def httpx(self, **options: Any) -> Any:
        """Return a client of httpx, as an app has one."""
        return self._made((httpx.Client, httpx.AsyncClient), **options)

    def transport(self, recorder: Recorder) -> Any:
        """Return a transport that records."""
        return recorder if self.kind == "sync" else AsyncRecorder(recorder)

    def until(self, condition: Callable[[], object]) -> None:
        """Let threads, or the loop, go on until a condition holds."""
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            if self.kind == "sync":
                time.sleep(0.002)
            else:
                self.loop.run_until_complete(asyncio.sleep(0.002))

    def close(self) -> None:
        """End the loop as `asyncio.run` does."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
            with suppress(asyncio.CancelledError):
                self.loop.run_until_complete(task)
        self.loop.close()

    def _made(self, kinds: tuple[type, type], *given: Any, **options: Any) -> Any:
        if self.kind == "sync":
            return kinds[0](*given, **options)

        async def make() -> Any:
            return kinds[1](*map(_inner, given), **{name: _inner(each) for name, each in options.items()})

        return Waited(self, self.loop.run_until_complete(make()))


class Waited:
    """An object of the loop; calls wait for its coroutines."""

    def __init__(self, twin: Twin, inner: Any) -> None:
        self._twin = twin
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in ("pending", "counters"):  # properties of the blocking kind
            return self._wait(found)
        return partial(self._wait, found) if callable(found) else found

    def _wait(self, function: Callable[..., Any], *given: Any, **options: Any) -> Any:
        async def call() -> Any:
            told = function(*given, **options)
            return await told if inspect.isawaitable(told) else told

        return self._twin.loop.run_until_complete(call())

    def __enter__(self) -> Self:
        self._wait(self._inner.__aenter__)
        return self

    def __exit__(self, *error: object) -> None:
        self._wait(self._inner.__aexit__, *error)


def _inner(each: Any) -> Any:
    return each._inner if isinstance(each, Waited) else each
