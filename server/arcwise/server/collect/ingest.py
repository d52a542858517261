"""POST /v1/tasks/{task_id}/reports: a plain ASGI endpoint inside the FastAPI app.

This is the hot path of the server. FastAPI's own handler, with its dependency injection and response models,
costs three times as much as this whole endpoint.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arcwise.analysis.timeseries.epochs import DAYS_AHEAD, epochs_in
from arcwise.errors import StoreError, WireError
from arcwise.server.collect.bodies import SMALL_BODY, Bodies
from arcwise.server.collect.event_loop import Ready, Turns
from arcwise.server.estimates.releasing import Releasing
from arcwise.server.problems import PRIVATE, Problem, internal_error, store_busy, unknown_task
from arcwise.server.store import Busy, Outcome, Writer
from arcwise.wire import MEDIA_TYPE, code_format, decode_batch

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from arcwise.server.access.gate import Gate
    from arcwise.server.catalogue import Catalogue
    from arcwise.server.collect.clock import EpochClock
    from arcwise.server.collect.event_loop import Done, Taker
    from arcwise.server.estimates.releasing import Lateness
    from arcwise.server.process.metrics import Metrics
    from arcwise.server.settings import Settings
    from arcwise.server.store.writer import Adds
    from arcwise.tasks import Task
    from arcwise.wire import Batch

INGEST_PATH = "/v1/tasks/{task_id}/reports"
GATEWAY_PATH: Final = "/.well-known/ohttp-gateway"
"""Path of a server's gateway according to RFC 9540, for reports from relays."""

_BEFORE, _, _AFTER = INGEST_PATH.partition("{task_id}")
_PATH_LENGTH = len(_BEFORE) + 64 + len(_AFTER)

_MEDIA_TYPE = MEDIA_TYPE.encode("ascii")
_COUNTED = (Outcome.COUNTED, Outcome.REPLAYED)
_FEW = 512

COUNTED: Final = Ready(HTTPStatus.NO_CONTENT, ((b"nel", PRIVATE["NEL"].encode()),))
"""The answer to a report that was counted, now or earlier."""


def task_in(path: str) -> str | None:
    """Return the id in a path that is `INGEST_PATH` for an id of the right length; None for other paths."""
    if len(path) == _PATH_LENGTH and path.startswith(_BEFORE) and path.endswith(_AFTER):
        return path[len(_BEFORE) : -len(_AFTER)]
    return None


def task_in_end(path: str) -> str | None:
    """Return the id in a path that ends as `task_in` requires; a proxy may strip what comes before it."""
    return task_in(path[-_PATH_LENGTH:])


class _Rules(NamedTuple):
    """The conditions that a batch of a task must meet, worked out once per task."""

    task: Task
    codes: int
    packed_as: np.dtype[Any]
    lateness: Lateness
    epochs_ahead: int


class Ingest:
    """Reads a batch, checks it against its task, hands it to the writer, and answers when it is durable.

    204: the batch is counted, now or earlier. Every other answer is a problem document, and nothing is
    stored. After a failure of the store it is not always known whether the batch was stored; it still counts
    only once.
    """

    def __init__(
        self, catalogue: Catalogue, gate: Gate, metrics: Metrics, clock: EpochClock, settings: Settings
    ) -> None:
        self._catalogue = catalogue
        self._clock = clock
        self._turns = Turns(lambda: self.waiting > 0, at_once=8, pause=0.005)  # each takes 100 us
        self.gate = gate
        self._metrics = metrics
        self._releasing = Releasing.of(settings)
        self._max_codes = settings.max_batch_codes
        self._rules: dict[str, _Rules] = {}
        self.bodies = Bodies(
            most=settings.max_body_bytes,
            most_at_once=settings.max_reading_bytes,
            seconds=settings.body_seconds,
        )
        self._max_waiting_bytes = settings.max_waiting_bytes
        self._writer: Writer | None = None  # set while it runs

    def start(self, store: Adds) -> None:
        """Hand batches to a store from now on; before this, and after `stop`, every batch gets 503."""
        self._writer = Writer(store, max_waiting_bytes=self._max_waiting_bytes, watcher=self._metrics)

    async def stop(self) -> None:
        """Accept nothing more, and write everything that was accepted."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close()

    @property
    def waiting(self) -> int:
        """Number of batches that wait for the store."""
        return self._writer.waiting if self._writer else 0

    @property
    def waiting_bytes(self) -> int:
        """Memory that the batches waiting for the store take, at most `max_waiting_bytes`."""
        return self._writer.waiting_bytes if self._writer else 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request that the router has matched."""
        await self.serve(scope["path_params"]["task_id"], scope, receive, send)

    async def serve(self, task_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request for a task; every failure is answered with a problem document."""
        body = b""
        try:
            self._admit(task_id, scope)
            body = await self.bodies.read(scope, receive)
            outcome = await self._running().add(*self._checked(task_id, body))
        except Exception as error:
            await self.refusal(error, body)(scope, receive, send)
        else:
            await self.answer(outcome, scope, receive, send)

    async def answer(self, outcome: Outcome | Exception, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with the outcome of its batch, or with the error that prevented an outcome."""
        if outcome in _COUNTED:
            await COUNTED(scope, receive, send)
            return
        if outcome is Outcome.CLOSED:
            outcome = _epoch_closed()
        elif isinstance(outcome, (Busy, StoreError)):
            outcome = store_busy(
                "The store cannot take the batch now. Send the same bytes again later: they count once."
            )
        problem = outcome if isinstance(outcome, Problem) else internal_error()
        self._metrics.refused(problem.kind)
        await problem.response()(scope, receive, send)
        try:
            if isinstance(outcome, Exception) and outcome is not problem:
                raise outcome  # the server logs it
        finally:
            del outcome  # otherwise this frame and the error would keep each other in memory

    def taker(self, scope: Scope) -> Taker | None:
        """Return the function that takes a fully received report; None if the request is not a report."""
        task_id = task_in(scope["path"]) if scope["method"] == "POST" else None
        return None if task_id is None else partial(self.take, task_id)

    def take(self, task_id: str, scope: Scope, body: bytes, done: Done) -> None:
        """Take a report with its body, without an asyncio task of its own; see `Taker`."""
        try:
            self._admit(task_id, scope)
            self.bodies.check_size(len(body))
            self._running().put(*self._checked(task_id, body), partial(self._settle, done))
        except Exception as error:
            done(self.refusal(error, body))

    def refusal(self, error: Exception, body: bytes) -> ASGIApp:
        """Return an app that refuses a request: in turn, or immediately if its body takes much memory."""
        if isinstance(error, Problem):
            error = error.with_traceback(None)  # its frames would keep the bytes that were read
        return partial(self._answer_in_turn if len(body) <= SMALL_BODY else self.answer, error)

    async def _answer_in_turn(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer in turn, so that refusals of many connections do not delay reports."""
        if await self._turns.wait(scope):
            await self.answer(error, scope, receive, send)

    def _admit(self, task_id: str, scope: Scope) -> None:
        self.gate.check(scope, "ingest", task_id)
        _check_type(scope)

    def _running(self) -> Writer:
        if self._writer is None:
            raise Busy
        return self._writer

    def _settle(self, done: Done, outcome: Outcome | StoreError) -> None:
        answer: ASGIApp = COUNTED if outcome in _COUNTED else partial(self.answer, outcome)
        done(answer)

    def _checked(self, task_id: str, body: bytes) -> tuple[Batch, int]:
        """Return a batch that its task can count, and the number of codes of the task."""
        rules = self._rules.get(task_id) or self._learn(task_id)
        try:
            batch = decode_batch(body)
        except WireError as error:
            raise Problem(400, "malformed-batch", f"Not a batch: {error}.") from None
        if batch.task_id.hex() != task_id:
            raise Problem(400, "wrong-task", "The task id in the body is not the one in the path.")
        if task_id in self._catalogue.closed:
            raise Problem(410, "task-closed", "The task is closed; its reports are not counted any more.")
        now = self._clock.now()
        # The believed time is never later than the clock, and reading it costs more, so it is read only if
        # needed.
        if batch.epoch < rules.lateness.first_open(now) and (
            batch.epoch < rules.lateness.first_open(self._clock.believed())
        ):
            raise _epoch_closed()
        if batch.epoch > (last := rules.task.epoch(now) + rules.epochs_ahead):
            raise self._ahead(task_id, last)
        width = rules.packed_as.itemsize
        if len(batch.codes) // width > self._max_codes:
            raise Problem(413, "too-many-codes", f"A batch may have at most {self._max_codes} codes.")
        if len(batch.codes) % width or _largest(batch.codes, rules.packed_as) >= rules.codes:
            raise Problem(
                422,
                "bad-codes",
                f"The codes are not all integers of {width} byte(s) below {rules.codes}.",
            )
        return batch, rules.codes

    def _ahead(self, task_id: str, last: int) -> Problem:
        """Return the problem of a batch after the `last` accepted epoch, which a wrong clock causes."""
        if self._clock.is_behind or self._catalogue.newest.get(task_id, last) > last:
            return Problem(
                503,
                "clock-behind",
                "The server's clock is behind. Send the same bytes again later: they count once.",
                headers={"Retry-After": "60"},
            )
        return Problem(422, "epoch-ahead", "The batch's epoch lies in the future; check the device's clock.")

    def _learn(self, task_id: str) -> _Rules:
        task = self._catalogue.tasks.get(task_id)
        if task is None:
            raise unknown_task()
        codes = task.mechanism.kernel.codes
        self._metrics.name_task(task_id, task.name, np.dtype(code_format(codes)).itemsize)
        rules = self._rules[task_id] = _Rules(
            task,
            codes,
            np.dtype(code_format(codes)),
            self._releasing.lateness(task),
            epochs_in(DAYS_AHEAD, task),
        )
        return rules


def _check_type(scope: Scope) -> None:
    for name, value in scope["headers"]:
        if name == b"content-type" and (
            value == _MEDIA_TYPE or value.partition(b";")[0].strip().lower() == _MEDIA_TYPE
        ):
            return
    raise Problem(415, "media-type", f"The Content-Type of the body must be {MEDIA_TYPE}.")


def _epoch_closed() -> Problem:
    return Problem(
        410, "epoch-closed", "The batch's epoch, or its task, is closed; its reports are not counted."
    )


def _largest(packed: bytes, packed_as: np.dtype[Any]) -> int:
    if packed_as.itemsize == 1 and len(packed) <= _FEW:
        return max(packed)  # this is quicker than numpy for a few bytes
    return int(np.frombuffer(packed, packed_as).max())
