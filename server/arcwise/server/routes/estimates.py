"""Estimates for readers: one at a time, off the event loop, and none twice for the same counts."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from arcwise.errors import ParameterError, StoreError
from arcwise.server.estimators import estimate
from arcwise.server.estimators.epochs import Span, merged, no_reports, span_to_dict
from arcwise.server.estimators.series import point_starts, series
from arcwise.server.problems import Problem, store_busy
from arcwise.server.routes.apart import Apart
from arcwise.server.routes.forms import render
from arcwise.server.routes.kept import Documents, Kept, Question, digest_of, tag_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from arcwise.server.store import Store
    from arcwise.tasks import Task

    Result = TypeVar("Result")
    Counts = Mapping[int, NDArray[np.int64]]

__all__ = ["MAX_POINTS", "Answer", "Estimates"]

_MAX_WAITING = 16

MAX_POINTS = 400
"""Points of a series, a year of days: up to 0.2 s of a core, and seconds where reports decode with a bias."""


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
        Reports that an estimate, or a point of a series, must have to be shown.
    apart
        Compute in a process of their own; the thread waits for it.
    """

    def __init__(self, store: Callable[[], Store], *, min_reports: int = 0, apart: bool = False) -> None:
        self._store = store
        self._min_reports = min_reports
        self._apart = Apart() if apart else None
        self._executor: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._documents = Documents()

    def start(self) -> None:
        """Get ready; before this, and after `close`, every estimate is a 503."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="arcwise-estimates")

    async def answer(
        self, task: Task, form: str, known: Container[str], *, span: Span | None = None, every: int = 0
    ) -> Answer:
        """Return the estimates of a task.

        Parameters
        ----------
        task
            Of which task.
        form
            One of `FORMS`.
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
                "Too many estimates are being computed; ask again in a while.",
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
        version = store.version(task)  # cheap; the counts of a year of many workers are not
        kept = self._documents.get(question)
        if kept is None or kept.version != version or not (kept.document or is_held(kept.digest)):
            counts = self._counts(store, task, span, every)
            digest = digest_of(counts)
            document = kept.document if kept is not None and kept.digest == digest else None
            if document is None and not is_held(digest):
                document = self._document(task, counts, span, every)
            kept = Kept(version, digest, document)
        self._documents.keep(question, kept)
        if kept.document is None or is_held(kept.digest):
            return Answer(tag(kept.digest), None)
        return Answer(tag(kept.digest), render(kept.document, form))

    @staticmethod
    def _counts(store: Store, task: Task, span: Span | None, every: int) -> Counts:
        by_epoch = store.counts_by_epoch(task)
        if span is not None:
            by_epoch = {epoch: counts for epoch, counts in by_epoch.items() if epoch in span}
        if every:
            assert span is not None  # noqa: S101 (narrows the type for the checker)
            _check_points(task, by_epoch, span, every)
        return by_epoch

    def _document(self, task: Task, by_epoch: Counts, span: Span | None, every: int) -> dict[str, Any]:
        if span is None:
            return self._estimated(task, by_epoch, Span(None, None))
        if every:
            return self._over_time(task, by_epoch, span, every)
        return self._estimated(task, by_epoch, span) | {"epochs": span_to_dict(task, span)}

    def _estimated(self, task: Task, by_epoch: Counts, span: Span) -> dict[str, Any]:
        counts = merged(task, by_epoch, span)
        n = int(counts.sum())
        if n and n >= self._min_reports:
            return self._apart.estimate(task, counts) if self._apart else estimate(task, counts).to_dict()
        return no_reports(task) | ({"n": n, "min_reports": self._min_reports} if n else {})

    def _over_time(self, task: Task, by_epoch: Counts, span: Span, every: int) -> dict[str, Any]:
        if not by_epoch:
            return no_reports(task) | {"every": every, "points": []}
        if self._apart:
            document = self._apart.series(task, by_epoch, every, span)
        else:
            document = series(task, by_epoch, every=every, first=span.first, last=span.last).to_dict()
        if self._min_reports:
            few = [point for point in document["points"] if 0 < point["n"] < self._min_reports]
            for point in few:
                for name in set(point) - {"first", "last", "start", "end", "n"}:
                    del point[name]
            if few:  # the test of a change is about all of them
                document.pop("change", None)
                document["min_reports"] = self._min_reports
        return document

    def close(self) -> None:
        """Start no further estimate and wait for the one that is running."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)
        if self._apart is not None:
            self._apart.close()


def _check_points(task: Task, epochs: Mapping[int, Any], span: Span, every: int) -> None:
    if not epochs:
        return
    try:
        allowed = len(point_starts(task, epochs, every=every, span=span)) <= MAX_POINTS
    except ParameterError:  # far more, or one that has no end
        allowed = False
    if not allowed:
        raise Problem(
            422,
            "too-many-points",
            f"A series has at most {MAX_POINTS} points, and none ends after the year 9999: ask for other "
            "epochs in a point, or for fewer epochs.",
        )
