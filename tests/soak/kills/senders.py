"""The load: many senders in a separate process, each with a connection to every worker.

As behind a proxy, a batch goes to any worker. If the answer does not come or is 503, it goes to another one
with the same bytes, until it is answered 204; through a relay it is encrypted again. Some batches are sent
again although they were acknowledged, some by two requests at the same moment. Others are not repeated,
because sending again would repair a loss and hide it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from typing import TYPE_CHECKING, NamedTuple, cast

import httptools
import uvloop

from arcwise.oblivious import decode_key_configs
from arcwise.oblivious.binary_http import decode_response
from tests.soak.kills.batches import CAPACITY, Batches
from tests.soak.kills.tally import ACKNOWLEDGED, SENT, Number, Tally
from tests.soak.kills.workers import sealed

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path


_ANSWER_SECONDS = 60.0
_FINISH_SECONDS = 120.0
_WAIT_SECONDS = 0.05
"""The longest time before a batch is tried at another worker."""
_RELAY_WAIT_SECONDS = 1.0
"""The same through relays, which answer immediately if a worker is dead, and need CPU to do so."""
_EVERY = 16
"""One batch out of this many may be sent again after its acknowledgement; another is sent twice together."""


class Job(NamedTuple):
    """The instructions for the senders: their number, the ports, the batches, and where to report.

    The ports are those of the workers; with a gateway's `key_config`, of the relays before them.
    """

    senders: int
    ports: tuple[int, ...]
    batches: Batches
    tally: Path
    key_config: bytes = b""


class _WrongAnswerError(Exception):
    """An answer that no correct server gives."""


class _Link(asyncio.Protocol):
    """A connection: one request at a time."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._body = b""
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        self.open = True

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if not self._parser.should_keep_alive():
            self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), self._body))

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError())

    async def post(self, request: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        self._body = b""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await asyncio.wait_for(self._answer, _ANSWER_SECONDS)

    def close(self) -> None:
        self.open = False
        self._transport.close()


class _Sender:
    """Sends one batch after the other."""

    def __init__(self, job: Job, tally: Tally, seed: int) -> None:
        self._job = job
        self._tally = tally
        self._random = random.Random(seed)
        self._links: dict[tuple[int, int], _Link] = {}
        self._gateway = decode_key_configs(job.key_config)[0] if job.key_config else None

    async def run(self) -> None:
        """Send until asked to finish."""
        while not self._tally.numbers[Number.FINISH]:
            number = self._next()
            await self._deliver(number)
            if self._tally.states[number] == ACKNOWLEDGED:
                self._tally.numbers[Number.REPLAYS] += 1
            self._tally.states[number] = ACKNOWLEDGED
        for link in self._links.values():
            link.close()

    def _next(self) -> int:
        """Return the number of a new batch, or of one that was acknowledged."""
        numbers, states = self._tally.numbers, self._tally.states
        made = numbers[Number.MADE]
        if made and self._random.randrange(_EVERY) == 0:
            number = self._random.randrange(0, made, _EVERY)
            if states[number] == ACKNOWLEDGED:
                return number
        if made == CAPACITY:
            raise RuntimeError("all batches are sent; there must be more epochs for a soak of this length")
        states[made] = SENT
        numbers[Number.MADE] = made + 1
        return made

    async def _deliver(self, number: int) -> None:
        request = self._job.batches.request(number)
        workers = len(self._job.ports)
        worker = self._random.randrange(workers)
        while True:
            other = (worker + self._random.randrange(1, workers)) % workers if workers > 1 else worker
            if number % _EVERY == _EVERY // 2:
                both = await asyncio.gather(self._try(worker, 0, request), self._try(other, 1, request))
                self._tally.numbers[Number.TWINS] += all(both)
                done = any(both)
            else:
                done = await self._try(worker, 0, request)
            if done:
                return
            longest = _RELAY_WAIT_SECONDS if self._gateway else _WAIT_SECONDS
            await asyncio.sleep(self._random.uniform(0, longest))
            worker = other

    async def _try(self, worker: int, lane: int, request: bytes) -> bool:
        """Send a request to a worker; return whether it was acknowledged."""
        numbers = self._tally.numbers
        link = self._links.get((worker, lane))
        try:
            if link is None or not link.open:
                loop = asyncio.get_running_loop()
                _, link = await loop.create_connection(_Link, "127.0.0.1", self._job.ports[worker])
                self._links[worker, lane] = link
        except OSError:
            return False
        numbers[Number.IN_FLIGHT + worker] += 1
        try:
            if self._gateway is None:
                status, body = await link.post(request)
            else:
                outside, sent = sealed(self._gateway, request)
                status, body = await link.post(outside)
                if status == 200:
                    status, _, body = decode_response(sent.open_answer(body))
                elif status == 204:
                    raise _WrongAnswerError("a relay acknowledged a batch, which only the gateway may do")
                elif status == 502:
                    raise ConnectionError  # the relay's own connection to the worker failed
        except ConnectionError:
            numbers[Number.LOST] += 1
            return False
        except asyncio.TimeoutError:
            raise _WrongAnswerError(f"no answer within {_ANSWER_SECONDS:g} seconds") from None
        finally:
            numbers[Number.IN_FLIGHT + worker] -= 1
        if status not in (204, 503):
            raise _WrongAnswerError(f"answered {status}: {body.decode(errors='replace')}")
        numbers[Number.BUSY if status == 503 else Number.TAKEN + worker] += 1
        return status == 204


async def _all(job: Job, tally: Tally) -> None:
    senders = [
        asyncio.create_task(_Sender(job, tally, job.batches.seed + place).run())
        for place in range(job.senders)
    ]
    running = asyncio.gather(*senders)
    finish_by = None
    loop = asyncio.get_running_loop()
    while True:
        done, _ = await asyncio.wait([running], timeout=0.5)
        if done:
            return await running  # type: ignore[return-value]
        parent = multiprocessing.parent_process()
        if parent is None or not parent.is_alive():
            raise RuntimeError("nobody waits for these senders any more")
        if tally.numbers[Number.FINISH]:
            finish_by = finish_by or loop.time() + _FINISH_SECONDS
            if loop.time() > finish_by:
                raise _WrongAnswerError(f"batches are not acknowledged after {_FINISH_SECONDS:g} seconds")


def send(job: Job, told: Connection) -> None:
    """Send until asked to finish; return a description of the fault, or None."""
    tally = Tally(job.tally, CAPACITY)
    try:
        uvloop.run(_all(job, tally))
    except Exception as error:
        told.send(f"{type(error).__name__}: {error}")
    else:
        told.send(None)
