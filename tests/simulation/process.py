"""One process on a device: the real client, with its sender's steps and its requests simulated."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from arcwise.client import FileLedger, Outcome, Uplink
from arcwise.client.file.database import Database
from tests.simulation.books import Charge, costs_of, read
from tests.simulation.world import CAPS, GROUP, SOLO, Draws, Killed, Replay, value_of
from tests.support.unlimited import Client

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    from arcwise.client.file.held import HeldConnection
    from tests.simulation.device import Device

__all__ = ["Process"]

URL = "http://127.0.0.1"
MOST_STEPS = 300
"""A sender that checks the queue this often without time passing is in a busy loop."""

_SYNCHRONOUS_FULL = 2


class _Database(Database):
    """A ledger's file whose device sees what is durable, and can crash before every statement."""

    def __init__(self, device: Device) -> None:
        self._device = device
        super().__init__(device.path, relaxed=device.model.relaxed, busy_timeout=5.0)

    def _connect(self) -> HeldConnection:
        connection = super()._connect()
        self.fill()
        connection.set_trace_callback(self._device.statement)
        return connection

    def fill(self) -> None:
        """Stop the file from growing, or let it grow again, according to the device."""
        if self._connection is not None:
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            most = pages if self._device.no_more_pages else 1 << 30
            self._connection.execute(f"PRAGMA max_page_count = {most}").fetchall()

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        with super().writing(durable=durable) as connection:
            yield connection
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        if synchronous == _SYNCHRONOUS_FULL:
            self._device.synced(connection)


class _Ledger(FileLedger):
    """A ledger in such a file."""

    def __init__(self, device: Device) -> None:
        self._database = self.database = _Database(device)


class _Uplink(Uplink):
    """The real uplink without its thread: the fleet makes its steps when the thread would."""

    due = math.inf
    """The time at which the thread, if there were one, would look at the queue."""
    _begun = False

    def _start(self) -> None:
        self._check_open()
        if not self._begun:
            self._begun = True
            self.due = 0.0

    def _wake(self) -> None:
        super()._wake()
        self.due = 0.0 if self._begun else math.inf

    def _after_fork(self) -> None:
        super()._after_fork()
        self._begun = False
        self.due = math.inf


class Process:
    """A process, which is also the transport of its client."""

    def __init__(self, device: Device, pid: int) -> None:
        self.device = device
        self.pid = pid
        self.alive = True
        self.sending = False
        self._steps = (0.0, 0)

    def open(self) -> None:
        device = self.device
        self.ledger = _Ledger(device)
        try:
            self.uplink = _Uplink(
                URL, ledger=self.ledger, transport=self, environment=device.world, **device.model.options
            )
            self.draws = {
                SOLO.name: Draws(SOLO, device.world.chance),
                GROUP.name: Draws(GROUP.tasks[0], device.world.chance),
            }
            self.clients = {
                name: Client(
                    self.uplink, tasks=[SOLO, GROUP], ledger=self.ledger, caps=CAPS, randomness=draws
                )
                for name, draws in self.draws.items()
            }
        except BaseException:
            self.ledger.close()
            raise

    def end(self) -> None:
        self.uplink.close(0)
        self.ledger.close()

    def die(self) -> None:
        """Die without cleaning up."""
        self.alive = False
        self.ledger.close()

    # The transport

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[int, str | None]:
        if not self.alive or self.device.remains is not None:
            raise Killed
        with self.device.disk(full=False):
            try:
                return self.device.network.post(self, url, body, headers)
            except (ConnectionError, TimeoutError):
                raise
            except Exception as error:  # a failed check, which the client would take for network trouble
                self.device.failure = error
                raise Killed from error

    def close(self) -> None:
        """Do nothing: there are no connections."""

    # What it does

    def step(self) -> None:
        """Let the sender look at the queue."""
        now = self.device.world.now
        self._steps = now, self._steps[1] + 1 if self._steps[0] == now else 1
        assert self._steps[1] < MOST_STEPS, "a busy sender"
        self.uplink.due = math.inf
        self.sending = True
        try:
            wait = self.uplink._step()
        finally:
            self.sending = False
        if wait > 0:  # at least the resolution of the world's time
            wait = max(wait, 0.001)
        self.uplink.due = min(self.uplink.due, self.device.world.now + wait)

    def report(self, name: str, number: int) -> Outcome | None:
        """Report a number to a task or to every task of the group, and check the outcome."""
        device, draws = self.device, self.draws[name]
        draws.log.clear()
        value: Any = value_of(number)
        if name == GROUP.name:
            value = {task.name: value for task in GROUP.tasks}
        before = read(device.path)
        outcome: Outcome | None = device.act(self, lambda: self.clients[name].report(name, value))
        try:
            tasks = (SOLO,) if name == SOLO.name else GROUP.choose(Replay(draws.log))
        except StopIteration:  # it did not get this far
            tasks = ()
        costs, reports = costs_of(tasks), frozenset((task.id, number) for task in tasks)
        if outcome is None:  # killed meanwhile
            device.doubtful = Charge(0.0, costs, reports) if tasks else None
            return None
        contents = read(device.path)
        if outcome is Outcome.ACCEPTED:
            assert contents.now >= max(before.now, device.wall)
            device.books.enter(Charge(contents.now, costs, reports))
            assert reports <= set(contents.queued)
        else:
            assert contents._replace(now=0.0) == before._replace(now=0.0), "refused, and something changed"
        assert (outcome is Outcome.OPTED_OUT) == before.opted_out or outcome is Outcome.FAILED
        if outcome is Outcome.CAPPED:
            assert device.books.forbids(costs, max(before.now, device.wall)), "capped for nothing"
        elif outcome is Outcome.FULL:
            assert before.pending + len(tasks) > device.model.options["max_pending"]
        elif outcome is Outcome.FAILED:
            assert device.full
        return outcome
