"""The components of a running app: the store, the writer, estimates, and the keys and tasks of the store."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from arcwise.errors import StoreError
from arcwise.extras import check_extra
from arcwise.server.access.administration import Administration
from arcwise.server.access.gate import REFRESH_SECONDS, Gate
from arcwise.server.access.keys import SCOPES
from arcwise.server.access.sessions import Sessions
from arcwise.server.archive.archiver import Archiver
from arcwise.server.catalogue import Catalogue
from arcwise.server.collect.clock import EpochClock
from arcwise.server.collect.event_loop import Turns
from arcwise.server.collect.ingest import Ingest
from arcwise.server.estimates.releasing import Releasing, check_new
from arcwise.server.estimates.service import Estimates
from arcwise.server.pages.rendering import Pages
from arcwise.server.process.metrics import Metrics
from arcwise.server.store import Store, open_store
from arcwise.server.store.epochs import GAP_SECONDS
from arcwise.server.store.releases import least_released
from arcwise.server.store.staging import StagingStore
from arcwise.tasks import DAY
from arcwise.tasks.central import CLOSED_EPOCHS

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.server.collect.clock import Clock
    from arcwise.server.collect.gateway import Gateway
    from arcwise.server.settings import Settings
    from arcwise.tasks import Task

_SILENT_SECONDS = 4 * REFRESH_SECONDS
"""The store counts as out of reach this many seconds after it was last read successfully."""

_FULL = 0.9
"""Share of `max_waiting_bytes` above which the server is not ready."""

_CLOCK_SECONDS = 60.0
_TIDY_EVERY = 60
"""Number of updates of the believed time between two deletions of old batch ids."""
_TIDY_END_SECONDS = 5.0
"""Seconds that a stopping app waits while PostgreSQL deletes old ids; PostgreSQL can finish on its own."""

_log = logging.getLogger("arcwise.server")


class Runtime:
    """The components of an app other than its routes.

    With `read_only` it shows the store and changes nothing in it: it takes no reports, knows no keys and
    serves only this machine, regardless of `settings`. `store_bytes` is the size of the store on disk, at
    most a minute old. `keys_by_scope` counts the keys that are not revoked.
    """

    def __init__(self, settings: Settings, clock: Clock = time, *, read_only: bool = False) -> None:
        if settings.archive:
            check_extra("lake", "pyarrow", user="an archive")
        self.settings = settings
        self.pages = Pages()
        self.read_only = read_only
        self.clock = clock
        self._store: Store | None = None
        self.archiver: Archiver | None = None
        self.gate = Gate(
            open=None if read_only else settings.open,
            per_key=settings.requests_per_minute_per_key,
            per_address=settings.requests_per_minute_per_address,
            public_url=settings.public_url,
            clock=clock,
        )
        self.public_url = settings.public_url
        self.sessions = Sessions(
            self.store,
            seconds=settings.session_seconds,
            idle_seconds=settings.session_idle_seconds,
            public_url=settings.public_url,
            clock=clock,
        )
        self.catalogue = Catalogue(settings.served)
        self.metrics = Metrics(clock)
        self.releasing = Releasing.of(settings)
        self.estimates = Estimates(
            self.store,
            is_live=self.releasing.is_live,
            min_reports=settings.min_reports,
            min_reports_days=settings.min_reports_days,
            own_process=settings.estimates_apart,
            measure=self.metrics.estimating,
        )
        self.epoch_clock = EpochClock(clock)
        self.ingest = Ingest(self.catalogue, self.gate, self.metrics, self.epoch_clock, settings)
        self.gateway = self._gateway()
        self.administration = Administration(self.store, self.refresh, self.catalogue, self.gate, clock)
        self.turns = Turns(lambda: self.ingest.waiting > 0)
        self._released_before: dict[str, int] = {}
        self._decided_before: dict[str, int] = {}
        self._live_until = 0.0  # the believed time until which the store was shown live
        self._warned_of: set[str] = set()
        self._draining = False
        self._clock_side = ""
        self._read_at = -math.inf
        self._writable = True
        self.store_bytes = math.nan
        self.keys_by_scope = dict.fromkeys(SCOPES, 0)
        self._refreshing = threading.Lock()
        self._show_gauges()

    def _gateway(self) -> Gateway | None:
        if not self.settings.gateway_keys or self.read_only:
            return None
        # Imported only here, because its libraries come with an extra.
        from arcwise.server.collect.gateway import Gateway

        return Gateway(self.ingest, self.clock, self.settings)

    def _show_gauges(self) -> None:
        gauge, ingest = self.metrics.gauge, self.ingest
        gauge("arcwise_queue_batches", "Batches waiting for the store", lambda: ingest.waiting)
        gauge("arcwise_queue_bytes", "Bytes of batches waiting for the store", lambda: ingest.waiting_bytes)
        gauge("arcwise_store_bytes", "Bytes that the store takes on disk", lambda: self.store_bytes)
        gauge("arcwise_reading_bytes", "Bytes of bodies being received", lambda: ingest.bodies.held)
        if self.settings.archive:
            self._show_archive()
        gauge("arcwise_ready", "1 when reports can be accepted", lambda: self.trouble() is None)

    def _show_archive(self) -> None:
        def show(add: Callable[..., None], name: str, field: str, what: str) -> None:
            read: Callable[[Archiver | None], float] = attrgetter(field)
            add(f"arcwise_archive_{name}", what, lambda: read(self.archiver) if self.archiver else 0.0)

        gauge, counter = self.metrics.gauge, self.metrics.counter
        staged = "waiting for the archive, of all workers"
        oldest = "Longest time that a batch has waited for the archive; 0 where another worker writes"
        show(gauge, "staged_batches", "waiting.batches", f"Batches {staged}")
        show(gauge, "staged_bytes", "waiting.bytes", f"Bytes of batches {staged}")
        show(gauge, "failing", "failing", "1 when the last attempt to write the archive failed")
        show(gauge, "oldest_seconds", "oldest_seconds", oldest)
        show(counter, "failures", "failures", "Times that this worker failed to write the archive")
        show(counter, "set_aside", "set_aside", "Damaged files of the archive that this worker has set aside")
        show(counter, "batches", "written", "Batches that this worker has written to the archive")

    def store(self) -> Store:
        """Return the store; raise `StoreError` when the app is not running."""
        if self._store is None:
            raise StoreError("the app has not started: run it under a server, or enter its lifespan")
        return self._store

    async def start(self) -> None:
        """Open the store and start taking requests.

        Raises `StoreError` when the store cannot be opened, and `CertificateError` when the central statement
        of a task that is new to the store is not true.
        """
        settings = self.settings
        self._store = store = open_store(settings.store, read_only=self.read_only)
        try:
            if not self.read_only:
                check_new(store, settings.served)
                store.register(settings.served)
            self.refresh()
            self.show_store()
            if not self.read_only:
                self._begin(store)
        except BaseException:
            self._store = None
            store.close()
            raise
        self.estimates.start()
        if not self.read_only:
            self.ingest.start(self.archiver or store)
        if self.archiver is not None:
            self.archiver.start()
        self._watching = [asyncio.create_task(self._watch(), name="arcwise-watch")]
        if not self.read_only:  # separate tasks: a disk that hangs must not keep a revoked key valid
            self._watching.append(asyncio.create_task(self._try(), name="arcwise-try"))
        # Not on the writer's thread: pruning a large store takes minutes, and reports must go on meanwhile.
        self._stopping = threading.Event()
        self._tidying = threading.Thread(target=self._tidy, name="arcwise-tidy", daemon=True)
        self._tidying.start()

    def _begin(self, store: Store) -> None:
        """Do the steps at the start that are only for servers that take reports."""
        self.sessions.start()
        for name in ("min_reports", "min_reports_days"):  # commands on the store obey these settings too
            store.remember(name, getattr(self.settings, name))
        if store.recall("closed_epochs") == 0:  # a rebuilt store has no such time: its past is unknown
            self._live_until = (store.clock() or 0) - GAP_SECONDS  # workers close epochs once a minute
        self.keep_time()
        self._try_writing()
        self._warn_about_tasks()
        if store.is_readable_by_others:
            _log.warning(
                "other accounts of this machine can read the store's file, which holds live counts and the "
                "secret of logins: remove their access to it and to its copies (chmod 600)"
            )
        self.archiver = self._archiver(store)

    def _warn_about_tasks(self) -> None:
        """Log what operators should know about the stored tasks, one line each (`SparingHandler`)."""
        stored = self.store().tasks()
        if not stored:
            _log.warning(
                "this server has no task yet, so every report gets 404: start it with task files (--tasks), "
                "or send a task to POST /v1/tasks with an admin key"
            )
        by_name: dict[str, list[str]] = {}
        for entry in stored:
            if entry.closed is None:
                by_name.setdefault(entry.task.name, []).append(entry.task.id)
        same = [f"{name!r} is {' and '.join(ids)}" for name, ids in by_name.items() if len(ids) > 1]
        if same:
            _log.warning(
                "open tasks share a name (oldest first): %s. Each counts the reports of the devices that "
                "have it. When no device has an old task any more, close it: POST /v1/tasks/ID/close with an "
                "admin key",
                "; ".join(same),
            )

    def _warn_about_archive(self) -> None:
        """Log, once per task, that readers of the archive are not covered by its central statement."""
        if not self.settings.archive:
            return
        promising = {
            task_id: task for task_id, task in self.catalogue.tasks.items() if task.central is not None
        }
        names = [repr(task.name) for task_id, task in promising.items() if task_id not in self._warned_of]
        self._warned_of |= promising.keys()
        if names:
            _log.warning(
                "the archive keeps every batch of %s: the central statement does not hold for its readers; "
                "only the epsilon of each report does. Turn the archive off, or keep its folder from people "
                "who may see only released counts",
                ", ".join(names),
            )

    def _archiver(self, store: Store) -> Archiver | None:
        settings = self.settings
        if not settings.archive:
            if isinstance(store, StagingStore) and store.archive_id() is not None:
                _log.warning("the store has an archive, but the batches of this worker will be missing in it")
            return None
        return Archiver(
            store,
            Path(settings.archive),
            believed=self.epoch_clock.believed,
            seconds=settings.archive_seconds,
            retention_days=settings.archive_retention_days,
            most_bytes=settings.archive_max_staged_bytes,
        )

    async def stop(self) -> None:
        """Write everything that was accepted, then close the store."""
        for watching in self._watching:
            watching.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        await self.ingest.stop()
        if self.archiver is not None:
            await asyncio.to_thread(self.archiver.stop)
        self.pages.later.close()
        await asyncio.to_thread(self.estimates.close)
        self._stopping.set()
        store, self._store = self.store(), None
        await asyncio.to_thread(store.close)
        await asyncio.to_thread(self._tidying.join, _TIDY_END_SECONDS)

    def refresh(self) -> None:
        """Read keys and tasks from the store, on any thread; raise `StoreError` when that fails."""
        store = self.store()
        with self._refreshing:  # an older result must not replace a newer result
            keys = [] if self.read_only else store.keys()
            self.gate.load(keys)  # even if reading the tasks fails: a key may have been revoked
            good = [key.scope for key in keys if key.revoked is None]
            self.keys_by_scope = {scope: good.count(scope) for scope in SCOPES}
            self.metrics.keys(self.keys_by_scope)
            stored = store.tasks()
            lost = self.catalogue.tasks.keys() - {entry.task.id for entry in stored}
            if lost and not self.read_only:
                _log.warning(
                    "the store has lost %d tasks of this server, so it has gone back to an earlier state, as "
                    "after a failover to a replica that lagged: the tasks are registered again, but reports, "
                    "closed tasks and revoked keys may be lost too. Check arcwise key list",
                    len(lost),
                )
                store.register([self.catalogue.tasks[task_id] for task_id in sorted(lost)])
                stored = store.tasks()
            # Tasks that other workers added: this worker's writer must know them before a batch comes.
            new = [entry.task for entry in stored if entry.task.id not in self.catalogue.tasks]
            if new and not self.read_only:
                store.register(new)
            self.catalogue.load(stored)
            self._warn_about_archive()
            closed = len(self.catalogue.closed)
            self.metrics.tasks(len(self.catalogue.tasks) - closed, closed)
            self._read_at = self.clock.monotonic()
        if self.gateway is not None:
            self.gateway.refresh()

    def trouble(self) -> str | None:
        """Return why reports cannot be taken now, in words that reveal nothing; None when they can."""
        if self._store is None or self._draining:
            return "The server is starting or stopping."
        if self.clock.monotonic() - self._read_at > _SILENT_SECONDS:
            return "The store does not answer."
        if not self._writable:
            return "The store cannot be written."
        if self.ingest.waiting_bytes > _FULL * self.settings.max_waiting_bytes:
            return "The queue before the store is full."
        if self.archiver is not None and self.archiver.is_full:
            return "The queue of batches for the archive is full: see why the archive cannot be written."
        return None

    def drain(self) -> None:
        """Report "not ready" from now on; requests are still accepted until the server stops."""
        self._draining = True

    async def _watch(self) -> None:
        failing = False
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await asyncio.to_thread(self.refresh)
                failing = False
            except StoreError as error:
                if not failing:
                    _log.error("cannot read keys and tasks, so the last known ones stay in use: %s", error)
                failing = True
            except Exception:
                _log.exception("failed to read keys and tasks")

    async def _try(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await asyncio.to_thread(self._try_writing)
            except Exception:
                _log.exception("failed to try to write to the store")

    def _try_writing(self) -> None:
        """Check that the store can be written; while it cannot, the server is not ready."""
        try:
            self.store().try_writing()
        except StoreError as error:
            if self._writable:
                _log.error("not ready until the store can be written: %s", error)
            self._writable = False
        else:
            self._writable = True

    def _tidy(self) -> None:
        for turn in count():
            if self._stopping.is_set():
                return
            try:
                if not self.read_only:
                    self.keep_time()
                    self.close_epochs()
                self.show_store()
            except StoreError as error:
                if not self._stopping.is_set():
                    _log.error("cannot store the believed time; next attempt in a minute: %s", error)
            if turn % _TIDY_EVERY == 0 and not self.read_only:
                self.tidy()
            self._stopping.wait(_CLOCK_SECONDS)

    def show_store(self) -> None:
        """Update the size and the sources of the store in /metrics, on any thread.

        Raises `StoreError` when the store cannot be read.
        """
        names = {task_id: task.name for task_id, task in self.catalogue.tasks.items()}
        store = self.store()
        self.metrics.sources(store.sources(), names)
        self.store_bytes = store.size

    def keep_time(self) -> None:
        """Store this worker's believed time (`EpochClock`) and take over that of others, on any thread.

        Raises `StoreError` when the store cannot be read or written.
        """
        store = self.store()
        is_empty = not self.catalogue.newest and all(entry.newest is None for entry in store.tasks())
        self.epoch_clock.keep(store, is_empty=is_empty)

    def close_epochs(self) -> None:
        """Close the epochs that are over, for tasks that show closed epochs only, on any thread.

        Raises `StoreError` when the store fails; epochs that are not closed are not shown.
        """
        store, unsure_until = self.store(), self.epoch_clock.unsure_until
        for task in list(self.catalogue.tasks.values()):
            lateness = self.releasing.lateness(task)
            before = lateness.first_open(self.epoch_clock.believed())
            if self.releasing.is_live(task) or self._released_before.get(task.id) == before:
                continue
            least = least_released(task)
            unsure_before = 0 if unsure_until is None else lateness.first_open(unsure_until)
            decided_before = self._decided_before.get(task.id, 0)
            if store.decided(task).before < decided_before:
                # The store has gone back to an earlier state, such as the state of a replica that lagged.
                # Readers have seen these epochs, perhaps with other counts.
                unsure_before = max(unsure_before, decided_before)
            elif unsure_until is not None and not task.releases_closed_epochs:
                # Epochs that closed while all counts were shown live have the same counts in any copy made
                # since then, unless an operator merged data or reopened epochs with a longer retention.
                sure_before = min(before, lateness.first_open(self._live_until))
                store.release(task, sure_before, least=least)
            done = store.release(task, before, least=least, unsure_before=unsure_before)
            self._released_before[task.id] = before
            # Less than that while the task has no reports: then nothing is decided.
            self._decided_before[task.id] = store.decided(task).before
            if done.unsure:
                _log.warning(
                    "%d epochs of task %r are never shown: they closed while no server used this store, or "
                    "while its clock jumped ahead, or while a server caught up after one of these. If the "
                    "store was restored from a backup, they may have been released before",
                    done.unsure,
                    task.name,
                )
        store.remember("closed_epochs", int(self.releasing.release == CLOSED_EPOCHS))

    def tidy(self) -> None:
        """Delete the batch ids of closed epochs, old sessions and old actions, on any thread."""
        side = "ahead of" if self.epoch_clock.is_ahead else "behind" if self.epoch_clock.is_behind else ""
        if side and side != self._clock_side:
            _log.warning(
                "this machine's clock is more than a day %s the time that the store believes: check the "
                'clock (docs/howto/run-a-server.md, "A clock that is wrong")',
                side,
            )
        self._clock_side = side
        try:
            now = self.epoch_clock.believed()  # a clock that is briefly ahead must delete nothing
            self.sessions.prune(now)
            self.store().prune_actions(int(now) - self.settings.audit_retention_days * DAY)
        except StoreError as error:
            if not self._stopping.is_set():
                _log.error("cannot delete old sessions and entries of the audit log: %s", error)
        for task in self.catalogue.tasks.values():
            self._prune(task)

    def _prune(self, task: Task) -> None:
        # Older batches are refused by now, so their ids are no longer needed.
        oldest = self.releasing.lateness(task).first_open(self.epoch_clock.believed())
        try:
            self.store().prune(task, before=oldest)
        except Exception:
            # The store may have been closed meanwhile; after any other error the next attempt is in an hour.
            if not self._stopping.is_set():
                _log.exception("failed to delete the old batch ids of a task")
