"""A cluster whose processes are ended in several ways and started again, and its store compared."""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING, Any

from tests.soak.kills.archive import Archived, archived
from tests.soak.kills.cluster import Cluster, Violation
from tests.soak.kills.kinds import Figures, Kind
from tests.soak.kills.tally import Number
from tests.soak.kills.verdict import verdict, wrong_ids
from tests.soak.kills.workers import DRAIN_SECONDS, Worker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.soak.kills.database import CrashingDatabase

__all__ = ["Soak"]

_MOMENTS = 0.4
"""Seconds within which a worker that takes batches is killed."""


class Soak(Cluster):
    """A cluster whose processes are ended and started again; `options` are those of `Cluster`.

    Parameters
    ----------
    database
        The store's server, where it is to fail too; workers reach it through its proxy.
    archive
        Have the workers write an archive, and compare it too.
    """

    def __init__(
        self,
        folder: Path,
        store: str,
        *,
        seed: int,
        database: CrashingDatabase | None = None,
        archive: bool = False,
        **options: Any,
    ) -> None:
        self.figures = Figures()
        self._store = store
        self._database = database
        self._random = random.Random(seed)  # what the machine does at which moment is not repeated
        self._archive = folder / "archive" if archive else None
        self._begun = time.monotonic()
        reached = store if database is None else database.proxy.url
        super().__init__(folder, reached, seed=seed, archive=self._archive, **options)

    def end(self, kind: Kind) -> None:
        """End processes in one way at a random moment, and start them again."""
        self.expect_all()
        if kind is Kind.STARTING:
            self._kill_starting()
        elif kind is Kind.DRAINING:
            self._kill_draining()
        elif kind is Kind.RELAY:
            self._kill_relay()
        elif kind is Kind.DATABASE:
            self._crash()
        elif kind is Kind.REPLIES:
            self._lose_replies()
        else:
            everybody = len(self.workers)
            victims = self._serving({Kind.RUNNING: 1, Kind.PAIR: 2, Kind.ALL: everybody}[kind])
            self._kill(victims, kind)
            if len(victims) == everybody:
                self._look_in_the_dark()
            for victim in victims:
                victim.start()

    def wait_for(self, batches: int) -> None:
        """Wait until so many batches were made."""
        while self.made < batches:
            self.expect_all()
            time.sleep(0.01)

    def finish(self) -> Figures:
        """Have every batch acknowledged, end the workers, and compare everything."""
        self.end_load()
        self._look()
        if (found := self._look_into_the_archive()) is not None:
            self.figures.archived = found.in_files
            if found.waiting or found.begun:
                raise Violation(
                    f"{found.waiting} batches and {found.begun} files are left when all is written"
                )
        if wrong := wrong_ids(self._store, self.batches, self.tally):
            raise Violation("\n".join(wrong))
        for number in (Number.REPLAYS, Number.TWINS, Number.BUSY, Number.LOST):
            setattr(self.figures, number.name.lower(), self.tally.numbers[number])
        self.figures.batches = self.made
        self.figures.seconds = time.monotonic() - self._begun
        return self.figures

    def _look(self) -> tuple[int, int]:
        """Compare the store; return the batches without an answer, and how many of them are counted."""
        found = verdict(self._store, self.batches, self.tally)
        self.figures.looks += 1
        if found.wrong:
            raise Violation("\n".join(found.wrong))
        return found.unanswered, found.counted

    def _look_in_the_dark(self) -> None:
        time.sleep(0.1)  # the senders read the last answers
        unanswered, counted = self._look()
        self.figures.unanswered += unanswered
        self.figures.counted += counted
        if (found := self._look_into_the_archive()) is not None:
            self.figures.waiting += found.waiting
            self.figures.begun += found.begun

    def _look_into_the_archive(self) -> Archived | None:
        if self._archive is None:
            return None
        found = archived(self._store, self._archive, self.batches, self.made)
        if found.wrong:
            raise Violation("\n".join(found.wrong))
        return found

    def _serving(self, count: int) -> list[Worker]:
        """Return workers that take batches, after a while at random."""
        workers = self._random.sample(self.workers, count)
        self.wait_until_taken(workers)
        time.sleep(self._random.uniform(0, _MOMENTS))
        return workers

    def _kill(self, victims: list[Worker], kind: Kind) -> None:
        self.figures.in_flight += [self.in_flight(victim) for victim in victims if victim.ready()]
        for victim in victims:
            victim.kill()
        for victim in victims:
            victim.expect_killed()
        self.figures.kills[kind] += len(victims)

    def _kill_starting(self) -> None:
        starting = [worker for worker in self.workers if not worker.ready()]
        if not starting:
            starting = self._serving(1)
            self._kill(starting, Kind.RUNNING)
            starting[0].start()
        victim = self._random.choice(starting)
        time.sleep(self._random.uniform(0, 1.2 * victim.took))
        self._kill([victim], Kind.STARTING)
        victim.start()

    def _kill_draining(self) -> None:
        (victim,) = self._serving(1)
        victim.terminate()
        time.sleep(self._random.uniform(0, DRAIN_SECONDS + 0.2))
        in_flight = self.in_flight(victim)
        victim.kill()
        code = victim.reap()
        if code == -signal.SIGKILL:
            self.figures.kills[Kind.DRAINING] += 1
            self.figures.in_flight.append(in_flight)
        elif code == -signal.SIGTERM:
            self.figures.drained += 1
        else:
            raise Violation(f"the worker on port {victim.port} ended with {code} after SIGTERM")
        victim.start()

    def _kill_relay(self) -> None:
        (worker,) = self._serving(1)
        relay = self.relays[self.workers.index(worker)]
        relay.wait()
        self.figures.in_flight.append(self.in_flight(worker))
        relay.kill()
        relay.expect_killed()
        self.figures.kills[Kind.RELAY] += 1
        relay.start()

    def _crash(self) -> None:
        assert self._database is not None, "there is no database that may crash"
        workers = self._serving(len(self.workers))
        how = self._random.choice([signal.SIGKILL, signal.SIGQUIT])
        self.figures.in_flight_at_crashes.append(sum(map(self.in_flight, workers)))
        self._database.crash(how)
        self.figures.crashes[how.name] += 1
        victims = self._random.sample(workers, self._random.randrange(2))
        self._kill(victims, Kind.DATABASE)
        time.sleep(self._random.uniform(0, 0.3))
        self._database.start()
        for victim in victims:
            victim.start()
        self._look()
        self.wait_until_taken(workers)  # those that live find the database again by themselves

    def _lose_replies(self) -> None:
        assert self._database is not None, "there is no database that may lose replies"
        workers = self._serving(len(self.workers))
        before = self._database.proxy.lost
        self._database.proxy.lose(len(workers))
        self.wait_until_taken(workers)
        self.figures.replies_lost += self._database.proxy.lost - before
