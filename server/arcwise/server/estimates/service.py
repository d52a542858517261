"""Estimates for readers: one at a time, off the event loop, and cached until the counts change."""

from __future__ import annotations

import asyncio
import heapq
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from arcwise.analysis.timeseries.epochs import Span, epochs_across, span_to_dict
from arcwise.errors import MissingExtraError, ParameterError, StoreError
from arcwise.server.access.rates import MOST_OF_READER, Shares
from arcwise.server.estimates import computations
from arcwise.server.estimates.cache import Cache, Cached, digest_of, tag_of
from arcwise.server.estimates.parts import check_points, epochs_needed, in_whole_blocks, parts_of
from arcwise.server.estimates.question import REPEATED
from arcwise.server.estimates.representations import render
from arcwise.server.estimates.worker_process import WorkerProcess
from arcwise.server.problems import Problem, estimates_busy, store_busy
from arcwise.tasks.central import CLOSED_EPOCHS

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence
    from contextlib import AbstractContextManager

    from arcwise.server.estimates.parts import Part
    from arcwise.server.estimates.question import Question
    from arcwise.server.store import Store
    from arcwise.tasks import Task
    from arcwise.typing import IntArray

    Result = TypeVar("Result")

PAGE_AGE = 10.0
"""Least seconds for which a page shows the same answer, even if there are new reports; see `document`."""

_PAGE_TIMES = 20.0
"""A page shows an answer for this many times its computing time: pages take a twentieth of a core at most."""

_MAX_WAITING = 64
_LOOKS = 5
_WARM_SECONDS = 1.0
"""Wait after the start, so that the first reports go first: warming up takes a core for most of a second."""


class Answer(NamedTuple):
    """An entity tag, and the body that the tag names; the body is None if the reader already has it."""

    tag: str
    body: bytes | None


class Shown(NamedTuple):
    """The part of a task's counts that readers may see.

    `counts` has shape (parts, K). `parts` says which epochs each row covers and what is withheld from it, and
    `digest` identifies parts and counts.
    """

    digest: bytes
    parts: Sequence[Part]
    counts: IntArray


class Estimates:
    """Computes estimates on its own thread and keeps the last one of each task.

    There is only one thread: an estimate takes a good part of a second of a core, and readers must not take
    the cores away from reports. An estimate depends on the counts alone and is computed again when they
    change. Readers can ask any number of other questions, so only a few of their answers are kept.

    Every estimate or point that is shown, and the difference of any two of them, has at least `min_reports`
    reports; blocks of `min_reports_days` days with fewer reports are withheld (`blocks_of`). If `is_live` is
    false for a task, readers see only its released epochs. With `own_process` the thread waits for a process
    that computes. `measure` returns a context manager for each computation; it is given the kind of the
    question, or "picture".
    """

    def __init__(
        self,
        store: Callable[[], Store],
        *,
        min_reports: int = 0,
        min_reports_days: int = 7,
        is_live: Callable[[Task], bool] = lambda _task: True,
        own_process: bool = False,
        measure: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._store = store
        self._measure = measure
        self._min_reports = min_reports
        self._days = min_reports_days
        self._is_live = is_live
        self._worker = WorkerProcess() if own_process else None
        self._compute = self._worker.compute if self._worker else computations.compute
        self._draw = self._worker.picture if self._worker else computations.picture
        self._executor: ThreadPoolExecutor | None = None
        self._line: list[tuple[int, int, str, asyncio.Future[None]]] = []
        self._numbers = count()
        self._shares = Shares()
        self._computing: str | None = None  # the reader whose question is being computed
        self._cache = Cache()

    def start(self) -> None:
        """Begin to answer questions, on the event loop; before this, and after `close`, readers get 503."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="arcwise-estimates")
        if self._worker is not None:
            asyncio.get_running_loop().call_later(_WARM_SECONDS, self._warm, self._worker)

    def _warm(self, worker: WorkerProcess) -> None:
        if self._executor is not None:
            self._executor.submit(worker.warm)

    async def answer(
        self,
        task: Task,
        question: Question,
        form: str,
        known: Container[str],
        *,
        other: Task | None = None,
        reader: str = "",
    ) -> Answer:
        """Return the answer to a question about a task, from the counts as they are now.

        `form` is a name in `MEDIA_TYPES` or `PICTURES`, and `known` holds the entity tags that the reader
        has. `other` is the task of the other reports of a difference, by default the same task. The work uses
        the share of computing time of `reader`; all pages have one share, "". Raises `Problem`: 503 when too
        many questions wait or the store cannot be read, 422 for too many points, 501 for a picture that needs
        an extra which is not installed.
        """
        return await self.run(partial(self._answer, task, question, form, known, other), reader)

    async def document(
        self, task: Task, question: Question, *, max_age: float = 0.0, other: Task | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Return the entity tag and the JSON object of an answer; raises as `answer` does.

        An answer is returned again for `max_age` seconds, or for twenty times its computing time if that is
        longer. So a question takes at most a twentieth of a core for any number of pages. With a `max_age` of
        0 the answer is from the counts as they are now.
        """

        def computed() -> tuple[str, dict[str, Any]]:
            # Look again: if ten pages wait, the turn of the first page computes the answer for all ten.
            kept = self._fresh(question, max_age) or self._current(task, question, None, other)
            return self._opened(question, kept)

        kept = self._fresh(question, max_age)
        return await self.run(computed) if kept is None else self._opened(question, kept)

    def _opened(self, question: Question, kept: Cached) -> tuple[str, dict[str, Any]]:
        assert kept.body is not None  # noqa: S101 (narrows the type for the checker)
        return tag_of(kept.digest, question, "json", self._min_reports), json.loads(kept.body)

    def _fresh(self, question: Question, max_age: float) -> Cached | None:
        """Return the cached answer to a question, if it has a body and is recent enough for a page."""
        kept = self._cache.get(question) if max_age > 0 else None
        if kept is None or kept.body is None or not kept.revision[0]:  # an answer without reports is cheap
            return None
        age = time.monotonic() - kept.made
        return kept if age < max(max_age, _PAGE_TIMES * kept.seconds) else None

    async def run(self, compute: Callable[[], Result], reader: str = "") -> Result:
        """Call a function on the thread of estimates when its reader's turn comes, and return its result.

        Raises a 503 `Problem` when the function cannot read the store, or too many questions of this reader
        wait. The same happens when too many questions of all readers wait, and no other reader has more of
        them.
        """
        if self._executor is None:
            raise store_busy("The server is not running.")
        self._make_room(reader)
        try:
            await self._turn(reader)
            try:
                if self._executor is None:  # it was closed in the meantime
                    raise store_busy("The server is not running.")
                return await asyncio.get_running_loop().run_in_executor(self._executor, compute)
            finally:
                self._next()
        except StoreError:
            raise store_busy("The store cannot be read now.") from None

    async def _turn(self, reader: str) -> None:
        """Wait for the turn of a reader's question."""
        number = self._shares.turn(reader)
        if self._computing is None:
            self._computing = reader
            self._shares.begin(number)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._line, (number, next(self._numbers), reader, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:  # the turn has just come
                self._next()
            raise

    def _make_room(self, reader: str) -> None:
        """Raise if no further question may wait; in a full line, the busiest reader's last one gives way."""
        self._line = [each for each in self._line if not each[3].done()]
        heapq.heapify(self._line)
        waiting = Counter(each[2] for each in self._line)
        if self._computing is not None:
            waiting[self._computing] += 1
        if waiting[reader] >= MOST_OF_READER:
            raise estimates_busy()
        if waiting.total() < _MAX_WAITING:
            return
        longest, most = waiting.most_common(1)[0]
        if most <= waiting[reader] + 1:
            raise estimates_busy()
        max(each for each in self._line if each[2] == longest)[3].set_exception(estimates_busy())

    def _next(self) -> None:
        """Let the next question be computed."""
        self._computing = None
        while self._line and self._computing is None:
            number, _, reader, turn = heapq.heappop(self._line)
            if not turn.done():  # it is done if its reader is gone or it made room
                self._computing = reader
                self._shares.begin(number)
                turn.set_result(None)

    def shown_counts(self, task: Task, span: Span | None, *, every: Any = 0) -> Shown:
        """Return the part of a task's counts that readers may see; call it in `run`.

        `every` is the length of a point in epochs or months, or 0 for a single sum. Raises `StoreError` when
        sources were replaced or dropped during each of several attempts.
        """
        store = self._store()
        for _ in range(_LOOKS):
            replaced = store.revision(task)[1]
            shown = self._look(store, task, span, every)
            if store.revision(task)[1] == replaced:
                return shown
        raise StoreError("sources are replaced again and again")

    def _look(self, store: Store, task: Task, span: Span | None, every: Any) -> Shown:
        """Return the counts that readers may see; valid only if no source is replaced or dropped meanwhile.

        The counts are read after the numbers of reports. If a source were replaced in between, an epoch that
        had enough reports could have too few in its counts.
        """
        # The numbers of reports decide which epochs are shown; the counts of other epochs are not read.
        is_live = self._is_live(task)
        needed = epochs_needed(task, span, self._days)
        if is_live:
            reports = store.reports_by_epoch(task, *needed)
        else:
            before = store.decided(task).before  # read first: epochs decided later are ignored
            released = store.released(task, *needed)
            reports = in_whole_blocks(task, released, before, self._min_reports, self._days)
        parts = parts_of(task, reports, span, every, self._min_reports, self._days)
        rows = {epoch: row for row, part in enumerate(parts) for epoch in part.epochs}
        counts = store.sums(task, rows, len(parts))
        return Shown(digest_of(store.secret, parts, counts, live=is_live), parts, counts)

    def _answer(
        self, task: Task, question: Question, form: str, known: Container[str], other: Task | None
    ) -> Answer:
        def tag(digest: bytes) -> str:
            return tag_of(digest, question, form, self._min_reports)

        def is_held(digest: bytes) -> bool:
            return "*" in known or tag(digest) in known

        kept = self._current(task, question, is_held, other)
        if kept.body is None or is_held(kept.digest):
            return Answer(tag(kept.digest), None)
        if form == "json":
            return Answer(tag(kept.digest), kept.body)
        return Answer(tag(kept.digest), self._rendered(json.loads(kept.body), form))

    def _rendered(self, document: dict[str, Any], form: str) -> bytes:
        if form not in computations.PICTURES:
            return render(document, form)
        try:
            with self._measure("picture"):
                return self._draw(document, form)
        except MissingExtraError:
            raise Problem(
                501,
                "extra-missing",
                "This server draws no PNG: it needs the extra plots, pip install 'arcwise[plots]'. The SVG "
                "needs no extra.",
            ) from None
        except ParameterError:
            raise Problem(
                404, "no-picture", "There is no picture yet: it needs reports that determine a number."
            ) from None

    def _current(
        self,
        task: Task,
        question: Question,
        is_held: Callable[[bytes], bool] | None,
        other: Task | None,
    ) -> Cached:
        """Return the answer from the counts as they are now; without a body if the reader has it."""
        second = other or task
        revision = [self._revision(task)]  # cheap, unlike reading the counts of a year of many workers
        if question.kind == "difference":
            revision.append(self._revision(second))
        kept = self._cache.get(question)
        if (
            kept is None
            or kept.revision != tuple(revision)
            or not (kept.body or (is_held and is_held(kept.digest)))
        ):
            begun = time.monotonic()
            shown = [self.shown_counts(task, question.span, every=question.every)]
            if question.kind == "difference":
                shown.append(self.shown_counts(second, question.other_span))
            digest = b"".join(each.digest for each in shown)
            body = kept.body if kept is not None and kept.digest == digest else None
            seconds = kept.seconds if kept is not None else 0.0
            if body is None and not (is_held and is_held(digest)):
                with self._measure(question.kind):
                    document = self._document(task, question, shown, second)
                body = json.dumps(document, allow_nan=False).encode()
                seconds = time.monotonic() - begun
            kept = Cached(tuple(revision), digest, body, seconds, time.monotonic())
            self._cache.keep(question, kept)
        return kept

    def _revision(self, task: Task) -> tuple[int, int]:
        store = self._store()
        return store.revision(task) if self._is_live(task) else store.decided(task)

    def _document(
        self, task: Task, question: Question, shown: Sequence[Shown], other: Task
    ) -> dict[str, Any]:
        parts, counts = shown[0].parts, shown[0].counts
        if question.kind == "series":
            document = self._over_time(task, parts, counts, question)
        else:
            document = self._computed(task, question, shown, other)
            if question.span is not None:
                document["epochs"] = span_to_dict(task, question.span)
        if not self._is_live(task):
            document["release"] = CLOSED_EPOCHS
        if task.central is not None:
            document["readers"] = task.readers
        if self._min_reports > 1:
            document["min_reports"] = self._min_reports
            for each, part in zip(document.get("points", [document]), parts, strict=True):
                each["withheld"] = part.withheld
                # The blocks that cross the ends of the range.
                each["joined"] = [list(block) for block in part.across]
            if question.kind == "difference":
                document["difference"]["withheld"] = shown[1].parts[0].withheld
        return document

    def _computed(
        self, task: Task, question: Question, shown: Sequence[Shown], other: Task
    ) -> dict[str, Any]:
        sums = [each.counts[0] for each in shown]
        epochs = [epochs_across(each.parts[0].epochs) for each in shown]
        if question.kind == "estimate":
            options = question.options(*_ESTIMATE)
            if not sums[0].any():
                return computations.no_estimate(task, options)
            if epochs[0] > 1:
                options["epochs"] = epochs[0]
            return self._compute("estimate", (task,), sums, options)
        if question.kind == "difference":
            options = question.options(*_ESTIMATE) | {"epochs": epochs[0], "other_epochs": epochs[1]}
            return self._compute("difference", (task, other), sums, options)
        if question.kind == "fit":
            return self._compute("fit", (task,), sums, question.options(*REPEATED) | {"epochs": epochs[0]})
        return self._compute("plan", (task,), sums, question.options("level", "target", "half_width"))

    def _over_time(
        self, task: Task, parts: Sequence[Part], sums: IntArray, question: Question
    ) -> dict[str, Any]:
        options = question.options(*_SERIES)
        filled = int(sums.any(axis=1).sum())
        if not filled:
            spans = [(part.span.first or 0, part.span.last or 0) for part in parts]
            return computations.no_series(task, spans, question.every, options)
        check_points(task, question, filled)
        span = Span(parts[0].span.first, parts[-1].span.last)
        by_epoch = {part.span.first or 0: row for part, row in zip(parts, sums, strict=True) if row.any()}
        options |= {"every": question.every, **span._asdict()}
        return self._compute("series", (task,), (by_epoch,), options)

    def close(self) -> None:
        """Start no further estimate and wait for the running one."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)
        if self._worker is not None:
            self._worker.close()


_ESTIMATE = ("level", "between", "target", *REPEATED, "bands", "origin", "quantiles")
_SERIES = ("level", "between", "target", *REPEATED, "origin", "quantiles", "simultaneous")
