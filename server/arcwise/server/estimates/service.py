"""Estimates for readers: one at a time, off the event loop, and none twice for the same counts."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from arcwise.analysis import estimate
from arcwise.analysis.timeseries.epochs import Span, no_reports, span_to_dict
from arcwise.analysis.timeseries.series import series
from arcwise.errors import StoreError
from arcwise.server.estimates.cache import Cache, Cached, Question, digest_of, tag_of
from arcwise.server.estimates.parts import epochs_needed, parts_of
from arcwise.server.estimates.representations import render
from arcwise.server.estimates.worker_process import WorkerProcess
from arcwise.server.problems import Problem, store_busy

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from arcwise.server.estimates.parts import Part
    from arcwise.server.store import Store
    from arcwise.tasks import Task
    from arcwise.typing import IntArray

    Result = TypeVar("Result")

__all__ = ["Answer", "Estimates"]

_MAX_WAITING = 16
_WARM_SECONDS = 1.0
"""After the start, when the first reports are in: what warms up takes a core for most of a second."""


class Answer(NamedTuple):
    """An entity tag, and the body that it names; None where the reader has it already."""

    tag: str
    body: bytes | None


class Estimates:
    """Computes estimates on a thread of its own and keeps each task's last one.

    One thread: an estimate takes a good part of a second of a core, and readers must not take the cores from
    those who report. An estimate depends on nothing but the counts: it is made again when they change. Of
    series and of estimates of some epochs, of which readers can ask for any number, a few are kept.

    Parameters
    ----------
    store
        Returns the store, or raises `StoreError`.
    min_reports
        Reports that an estimate, or a point of a series, must have to be shown; so must the difference of any
        two of them. Blocks of epochs with fewer are withheld (`blocks_of`).
    min_reports_days
        How long those blocks are.
    own_process
        Compute in a process of their own; the thread waits for it.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        *,
        min_reports: int = 0,
        min_reports_days: int = 7,
        own_process: bool = False,
    ) -> None:
        self._store = store
        self._min_reports = min_reports
        self._days = min_reports_days
        self._worker = WorkerProcess() if own_process else None
        self._executor: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._cache = Cache()

    def start(self) -> None:
        """Get ready, on the event loop; before this, and after `close`, every estimate is a 503."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="arcwise-estimates")
        if self._worker is not None:
            asyncio.get_running_loop().call_later(_WARM_SECONDS, self._warm, self._worker)

    def _warm(self, worker: WorkerProcess) -> None:
        if self._executor is not None:
            self._executor.submit(worker.warm)

    async def answer(
        self, task: Task, form: str, known: Container[str], *, span: Span | None = None, every: int = 0
    ) -> Answer:
        """Return the estimates of a task.

        Parameters
        ----------
        task
            Of which task.
        form
            The representation: a name in `MEDIA_TYPES`.
        known
            Entity tags that the reader has.
        span
            From the reports of these epochs; None: of all.
        every
            A series of points of so many epochs; 0: one estimate.

        Raises
        ------
        Problem
            503 when too many are waiting, or the store cannot be read; 422 for too many points.
        """
        return await self._run(partial(self._answer, task, form, known, span, every))

    async def _run(self, compute: Callable[[], Result]) -> Result:
        if self._executor is None:
            raise store_busy("The server is not running.")
        if self._waiting >= _MAX_WAITING:
            raise Problem(
                503,
                "estimates-busy",
                "Too many estimates are being computed; try again later.",
                headers={"Retry-After": "2"},
            )
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, compute)
        except StoreError:
            raise store_busy("The store cannot be read now.") from None
        finally:
            self._waiting -= 1

    def _answer(self, task: Task, form: str, known: Container[str], span: Span | None, every: int) -> Answer:
        question = Question(task.id, span, every)

        def tag(digest: bytes) -> str:
            return tag_of(digest, question, form, self._min_reports)

        def is_held(digest: bytes) -> bool:
            return "*" in known or tag(digest) in known

        store = self._store()
        revision = store.revision(task)  # cheap; the counts of a year of many workers are not
        kept = self._cache.get(question)
        if kept is None or kept.revision != revision or not (kept.document or is_held(kept.digest)):
            # By the numbers of reports alone: no counts are read of what is too much, or withheld.
            reports = store.reports_by_epoch(task, *epochs_needed(task, span, self._days))
            parts = parts_of(task, reports, span, every, self._min_reports, self._days)
            rows = {epoch: row for row, part in enumerate(parts) for epoch in part.epochs}
            sums = store.sums(task, rows, len(parts))
            digest = digest_of(store.secret, parts, sums)
            document = kept.document if kept is not None and kept.digest == digest else None
            if document is None and not is_held(digest):
                document = self._document(question, task, parts, sums)
            kept = Cached(revision, digest, document)
        self._cache.keep(question, kept)
        if kept.document is None or is_held(kept.digest):
            return Answer(tag(kept.digest), None)
        return Answer(tag(kept.digest), render(kept.document, form))

    def _document(
        self, question: Question, task: Task, parts: Sequence[Part], sums: IntArray
    ) -> dict[str, Any]:
        if question.every:
            document = self._over_time(task, parts, sums, question.every)
        else:
            document = self._estimated(task, sums[0])
            if question.span is not None:
                document["epochs"] = span_to_dict(task, question.span)
        if self._min_reports > 1:
            document["min_reports"] = self._min_reports
            for shown, part in zip(document.get("points", [document]), parts, strict=True):
                shown["withheld"] = part.withheld  # and what is joined across the ends of what was asked for
                shown["joined"] = [list(block) for block in part.across]
        return document

    def _estimated(self, task: Task, counts: IntArray) -> dict[str, Any]:
        if not counts.any():
            return no_reports(task)
        return self._worker.estimate(task, counts) if self._worker else estimate(task, counts).to_dict()

    def _over_time(self, task: Task, parts: Sequence[Part], sums: IntArray, every: int) -> dict[str, Any]:
        if not sums.any():
            points = [span_to_dict(task, part.span) | {"n": 0} for part in parts]
            return no_reports(task) | {"every": every, "points": points}
        span = Span(parts[0].span.first, parts[-1].span.last)
        by_epoch = {part.span.first or 0: row for part, row in zip(parts, sums, strict=True) if row.any()}
        if self._worker:
            return self._worker.series(task, by_epoch, every, span)
        return series(task, by_epoch, every=every, first=span.first, last=span.last).to_dict()

    def close(self) -> None:
        """Start no further estimate and wait for the one that is running."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)
        if self._worker is not None:
            self._worker.close()
