"""A device of the fleet: its clock, its disk, and up to three processes that share one ledger."""

from __future__ import annotations

import resource
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.client import FileLedger
from arcwise.client.file import database
from arcwise.errors import LedgerError
from tests.simulation.books import Books, Charge, Contents, read
from tests.simulation.process import Process
from tests.simulation.world import Killed, World

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.simulation.network import Fate, Network

__all__ = ["MOST_PROCESSES", "Device", "Model"]

MOST_PROCESSES = 3


class Model(NamedTuple):
    """The options that the app on a device was built with."""

    relaxed: bool
    options: dict[str, Any]


class Device:
    """One device. All actions of its processes go through `act`, where they may die.

    Attributes
    ----------
    weather
        What happens to the next requests.
    clock_error
        The seconds by which the wall clock is ahead.
    no_more_pages, largest_file
        The limits of a full disk: SQLite's own, and the size of the largest file in bytes.
    fuse
        The number of SQL statements after which everything on the device is killed.
    remains
        The files as they were when everything was killed; later changes never happened.
    failure
        The error of a check that failed during a request.
    orphaned
        Whether a process may have left reports that no running process knows of.
    """

    def __init__(self, folder: Path, world: World, network: Network, model: Model) -> None:
        self._folder = folder
        self._crashes = 0
        self.world = world
        self.network = network
        self.model = model
        self.books = Books()
        self.processes: list[Process] = []
        self.weather: deque[Fate] = deque()
        self.clock_error = 0.0
        self.booted = world.now - 1000.0
        self.no_more_pages = False
        self.largest_file: int | None = None
        self.fuse: int | None = None
        self.remains: dict[str, bytes] | None = None
        self.orphaned = False
        self.doubtful: Charge | None = None
        self.failure: Exception | None = None
        self._crashed = self._lost_power = False
        FileLedger(self.path, create=True).close()
        self._durable = self._files()

    @property
    def path(self) -> Path:
        return self._folder / f"ledger{self._crashes}.db"

    def _files(self) -> dict[str, bytes]:
        files = {suffix: self.path.with_name(self.path.name + suffix) for suffix in ("", "-wal")}
        return {suffix: file.read_bytes() for suffix, file in files.items() if file.exists()}

    @property
    def wall(self) -> float:
        return self.world.now + self.clock_error

    # The disk

    @property
    def full(self) -> bool:
        return self.no_more_pages or self.largest_file is not None

    def fill(self, *, pages: bool, room: int | None) -> None:
        """Let the disk be full: no more pages in the database, or only this many more bytes in its log."""
        self.no_more_pages = pages
        self.largest_file = None if room is None else len(self._files().get("-wal", b"")) + room
        for process in self.processes:
            process.ledger.database.fill()
        self._bury()  # a statement more may have been one too many

    @contextmanager
    def disk(self, *, full: bool) -> Iterator[None]:
        """Apply the limit of the largest file to running code, or remove it."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        soft = self.largest_file if full and self.largest_file is not None else before[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def synced(self, connection: sqlite3.Connection) -> None:
        """Record that everything committed so far is on the disk."""
        if self.remains is None:
            self._durable = self._files()
            self.books.durable = dict(connection.execute("SELECT account, epsilon FROM accounts"))

    # Crashes

    def statement(self, _sql: str) -> None:
        """Kill everything before this statement if the fuse ends here."""
        if self.fuse is not None and self.remains is None:
            self.fuse -= 1
            if self.fuse <= 0:
                self.remains = self._files()

    def lose(self, process: Process, *, power: bool) -> None:
        """Kill one process, or all of them with the power."""
        if not power and len(self.processes) > 1:
            process.die()
            self.processes.remove(process)
            self.orphaned = True
        elif self.remains is None:
            self._lost_power |= power
            self.remains = self._after_power_loss() if power else self._files()

    def kill(self, process: Process) -> None:
        """Kill one process while it is idle."""
        self.lose(process, power=False)
        self._bury()

    def lose_power(self) -> None:
        """Kill all processes, and lose all or some of the data that was not synced."""
        self._lost_power = True
        self.remains = self._after_power_loss()
        self._bury()

    def _after_power_loss(self) -> dict[str, bytes]:
        durable, files = self._durable, self._files()
        log, synced = files.get("-wal", b""), durable.get("-wal", b"")
        if files[""] != durable[""] or not log.startswith(synced):
            return durable  # the log has been checkpointed since, or restarted
        cut = self.world.chance.randint(len(synced), len(log))
        unwritten = bytes(len(log) - cut) if self.world.chance.random() < 0.5 else b""
        return {"": files[""], "-wal": log[:cut] + unwritten}

    def _bury(self) -> None:
        """If all are killed, end them: the files that they left are the device's next state."""
        if self.remains is None or self.world.busy:
            return
        for process in self.processes:
            process.die()
        self.processes.clear()
        self._crashes += 1
        for suffix, data in self.remains.items():
            self.path.with_name(self.path.name + suffix).write_bytes(data)
        if self._lost_power:
            self._durable = self.remains
            self.booted = self.world.now
        self._crashed = True
        self.remains = self.fuse = None

    # Life

    def act(self, process: Process, deed: Callable[[], Any]) -> Any:
        """Let a process do something; return the result, or None if it died meanwhile."""
        try:
            with self.world.run(process), self.disk(full=True):
                result = deed()
        except Killed:
            if self.failure is not None:
                raise self.failure from None
            result = None
        except LedgerError:
            self._bury()
            raise
        if self.remains is not None:
            result = None
        elif process.alive:
            assert process.ledger._database._broken is None
        self._bury()
        return result

    def start(self) -> Process | None:
        """Start a process; return None if the disk is too full for that, or if it died immediately."""
        taken = {process.pid for process in self.processes}
        process = Process(self, min(set(range(1, MOST_PROCESSES + 1)) - taken))
        self.processes.append(process)
        try:
            self.act(process, process.open)
        except LedgerError:
            assert self.full
            if process in self.processes:
                self.processes.remove(process)
            return None
        if process.alive and self._crashed:
            contents = read(self.path)
            self.books.recover(
                contents, may_lose=self._lost_power and self.model.relaxed, doubtful=self.doubtful
            )
            if self._lost_power:
                self.books.durable = contents.accounts
            self._crashed = self._lost_power = False
            self.doubtful = None
        if process.alive:
            self.orphaned = False  # a process that begins looks at the queue
        return process if process.alive else None

    def fork(self, process: Process) -> None:
        """Fork: the parent's files are closed over it, and the child's sender does not run yet."""

        def handlers() -> None:
            database.fork_hooks.before()
            database.fork_hooks.after()

        self.act(process, handlers)
        orphaned = self.orphaned
        child = self.start() if process.alive else None
        if child is not None:
            child.uplink._after_fork()
            self.orphaned = orphaned

    def stop(self, process: Process) -> None:
        """Let a process end properly; its unsent reports stay in the file."""
        self.act(process, process.end)
        if process.alive:
            process.die()
            self.processes.remove(process)
            self.orphaned = True

    def others_step(self, process: Process) -> None:
        """Let the other processes go on while this one waits for an answer."""
        for other in tuple(self.processes):
            if other is not process and other.alive and not other.sending and self.remains is None:
                self.act(other, other.step)

    def due(self) -> Process | None:
        """Return the process with the sender that looks at the queue next."""
        return min(self.processes, key=lambda process: process.uplink.due, default=None)

    def check(self) -> Contents | None:
        """Check the file against the charges, if a process runs."""
        if not self.processes:
            return None
        contents = read(self.path)
        self.books.check(contents)
        charged = {report for charge in self.books.charges for report in charge.reports}
        lost = charged - set(contents.queued) - self.network.counted()
        assert len(lost) <= contents.dropped, "neither queued, counted nor dropped"
        return contents
