"""Transports that record requests instead of sending them, for an app's own tests."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from arcwise.checks import explained
from arcwise.wire import decode_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from arcwise.client.transport import Response
    from arcwise.wire import Batch


class RecordedRequest(NamedTuple):
    """A request that would have left the device, with every byte except those that HTTP itself adds.

    Attributes
    ----------
    url
        The URL that the request is for.
    body
        The batch.
    headers
        The headers of the request by name.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, MemoryLedger, RecordingTransport, Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> transport = RecordingTransport()
    >>> with Client(
    ...     "https://reports.example", tasks=[heading], ledger=MemoryLedger(), transport=transport
    ... ) as client:
    ...     accepted = client.report("heading", 350.5)
    >>> sorted(transport.requests[0].headers)
    ['Content-Type', 'User-Agent']
    """

    url: str
    body: bytes
    headers: dict[str, str]


class _Recording:
    @explained
    def __init__(self, answers: Iterable[int] = ()) -> None:
        self.requests: list[RecordedRequest] = []
        self._answers = deque(answers)

    @property
    def batches(self) -> list[Batch]:
        """The batches that were sent, in the order of their requests."""
        return [decode_batch(request.body) for request in self.requests]

    def _record(self, url: str, body: bytes, headers: Mapping[str, str]) -> Response:
        self.requests.append(RecordedRequest(url, body, dict(headers)))
        return (self._answers.popleft() if self._answers else 204), None


class RecordingTransport(_Recording):
    """A transport that records every request and sends nothing, for tests of apps.

    Parameters
    ----------
    answers
        The HTTP statuses to answer with, one after another; 204 after the last.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, MemoryLedger, Task
    >>> transport = RecordingTransport([503])
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> with Client(
    ...     "https://reports.example", tasks=[heading], ledger=MemoryLedger(), transport=transport
    ... ) as client:
    ...     accepted = client.report("heading", 350.5)
    >>> first, again = transport.batches  # the server was in trouble, so the batch was sent twice
    >>> first == again
    True
    """

    def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Response:
        """Keep one request and answer it."""
        return self._record(url, body, headers)

    def close(self) -> None:
        """Do nothing."""


class AsyncRecordingTransport(_Recording):
    """`RecordingTransport` for an `AsyncClient`.

    Examples
    --------
    >>> import asyncio
    >>> from arcwise.client import AsyncClient, Caps, Circle, MemoryLedger, Task
    >>> transport = AsyncRecordingTransport()
    >>> async def main():
    ...     heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    ...     async with AsyncClient(
    ...         "https://reports.example", tasks=[heading], ledger=MemoryLedger(), transport=transport
    ...     ) as client:
    ...         await client.report("heading", 350.5)
    >>> asyncio.run(main())
    >>> len(transport.batches)
    1
    """

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Response:
        """Keep one request and answer it."""
        return self._record(url, body, headers)

    async def close(self) -> None:
        """Do nothing."""
