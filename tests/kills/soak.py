"""Workers on one store under load, killed in several ways and started again."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from typing import TYPE_CHECKING

from kills.batches import CAPACITY, TASKS, Batches
from kills.figures import Figures
from kills.kinds import Kind
from kills.senders import Job, send
from kills.tally import ACKNOWLEDGED, Number, Tally
from kills.verdict import verdict, wrong_ids
from kills.workers import DRAIN_SECONDS, Worker, free_ports, serve_command

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from kills.database import CrashingDatabase

__all__ = ["Soak", "Violation"]

_SPAWN = multiprocessing.get_context("spawn")
_TAKE_SECONDS = 60.0


class Violation(AssertionError):
    """A promise that was not kept; the message says which."""


class Soak:
    """Workers and senders, while entered.

    Parameters
    ----------
    folder
        For task files, logs and what senders tell.
    store
        The store's URL.
    workers
        How many, at most 12.
    senders
        How many requests there are at once.
    seed
        Of everything that is drawn; what the machine does at which moment is not repeated.
    database
        The store's server, where it is to fail too; workers reach it through its proxy.
    """

    def __init__(
        self,
        folder: Path,
        store: str,
        *,
        workers: int,
        senders: int,
        seed: int,
        database: CrashingDatabase | None = None,
    ) -> None:
        self._store = store
        self._database = database
        self._random = random.Random(seed)
        self.figures = Figures()
        self._batches = Batches(TASKS[0].epoch(time.time()), seed)
        tasks = folder / "tasks"
        tasks.mkdir()
        for task in TASKS:
            task.save(tasks / f"{task.name}.json")
        ports = free_ports(workers, random.Random())
        command = serve_command(tasks, store if database is None else database.proxy.url)
        self._workers = [Worker(command, port, folder / f"worker-{port}.log") for port in ports]
        self._tally = Tally(folder / "tally", CAPACITY)
        self._told, sender = _SPAWN.Pipe(duplex=False)
        job = Job(senders, ports, self._batches, folder / "tally")
        self._load = _SPAWN.Process(target=send, args=(job, sender), daemon=True)
        self._sender = sender

    def __enter__(self) -> Soak:
        self._begun = time.monotonic()
        for worker in self._workers:
            worker.start()
        for worker in self._workers:
            worker.wait()
        self._load.start()
        self._sender.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._load.pid is not None:
            self._load.kill()
            self._load.join()
        for worker in self._workers:
            worker.discard()
        self._told.close()
        self._tally.close()

    def end(self, kind: Kind) -> None:
        """End processes in one way at a random moment, and start them again."""
        self._expect_senders()
        for worker in self._workers:
            worker.ready()  # or has it ended by itself?
        if kind is Kind.STARTING:
            self._kill_starting()
        elif kind is Kind.DRAINING:
            self._kill_draining()
        elif kind is Kind.DATABASE:
            self._crash()
        elif kind is Kind.REPLIES:
            self._lose_replies()
        else:
            count = {Kind.RUNNING: 1, Kind.PAIR: 2, Kind.ALL: len(self._workers)}[kind]
            victims = self._serving(count)
            self._kill(victims, kind)
            if count == len(self._workers):
                self._look_in_the_dark()
            for victim in victims:
                victim.start()

    def finish(self) -> Figures:
        """Have every batch acknowledged, end the workers, and compare everything."""
        numbers = self._tally.numbers
        numbers[Number.FINISH] = 1
        for worker in self._workers:
            worker.wait()
        if (said := self._told.recv()) is not None:
            raise Violation(f"the senders: {said}")
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            if (code := worker.reap()) != -signal.SIGTERM:
                raise Violation(f"the worker on port {worker.port} ended with {code} after SIGTERM")
        made = numbers[Number.MADE]
        if bytes(self._tally.states[:made]) != bytes([ACKNOWLEDGED]) * made:
            raise Violation("the senders ended before everything was acknowledged")
        self.look()
        if wrong := wrong_ids(self._store, self._batches, self._tally):
            raise Violation("\n".join(wrong))
        figures = self.figures
        figures.batches, figures.replays = made, numbers[Number.REPLAYS]
        figures.twins, figures.busy = numbers[Number.TWINS], numbers[Number.BUSY]
        figures.lost = numbers[Number.LOST]
        figures.seconds = time.monotonic() - self._begun
        return figures

    @property
    def made(self) -> int:
        """How many batches there are so far."""
        return self._tally.numbers[Number.MADE]

    def wait_for(self, batches: int) -> None:
        """Wait until there are so many batches."""
        while self.made < batches:
            self._expect_senders()
            time.sleep(0.01)

    def look(self) -> tuple[int, int]:
        """Compare the store with what was sent; return unanswered batches, and how many of them are counted.

        Raises
        ------
        Violation
            When they do not agree.
        """
        found = verdict(self._store, self._batches, self._tally)
        self.figures.looks += 1
        if found.wrong:
            raise Violation("\n".join(found.wrong))
        return found.unanswered, found.counted

    def _expect_senders(self) -> None:
        if self._told.poll():
            raise Violation(f"the senders: {self._told.recv()}")

    def _serving(self, count: int) -> list[Worker]:
        """Return workers that take batches, after a while at random."""
        places = self._random.sample(range(len(self._workers)), count)
        for place in places:
            self._workers[place].wait()
            self._wait_until_taken(place)
        time.sleep(self._random.uniform(0, 0.4))
        return [self._workers[place] for place in places]

    def _wait_until_taken(self, place: int) -> None:
        taken = self._tally.numbers[Number.TAKEN + place]
        until = time.monotonic() + _TAKE_SECONDS
        while self._tally.numbers[Number.TAKEN + place] == taken:
            self._expect_senders()
            if time.monotonic() > until:
                raise Violation(f"a worker acknowledged nothing for {_TAKE_SECONDS:g} seconds")
            time.sleep(0.005)

    def _in_flight(self, worker: Worker) -> int:
        return self._tally.numbers[Number.IN_FLIGHT + self._workers.index(worker)]

    def _kill(self, victims: list[Worker], kind: Kind) -> None:
        self.figures.in_flight += [self._in_flight(victim) for victim in victims if victim.ready()]
        for victim in victims:
            victim.kill()
        for victim in victims:
            if (code := victim.reap()) != -signal.SIGKILL:
                raise Violation(f"the worker on port {victim.port} ended by itself with {code}")
        self.figures.kills[kind] += len(victims)

    def _kill_starting(self) -> None:
        starting = [worker for worker in self._workers if not worker.ready()]
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
        in_flight = self._in_flight(victim)
        victim.terminate()
        time.sleep(self._random.uniform(0, DRAIN_SECONDS + 0.2))
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

    def _crash(self) -> None:
        assert self._database is not None, "there is no database that may crash"
        self._serving(len(self._workers))
        how = self._random.choice([signal.SIGKILL, signal.SIGQUIT])
        self.figures.in_flight_at_crashes.append(sum(map(self._in_flight, self._workers)))
        self._database.crash(how)
        self.figures.crashes[how.name] += 1
        victims = self._random.sample(self._workers, self._random.randrange(2))
        self._kill(victims, Kind.DATABASE)
        time.sleep(self._random.uniform(0, 0.3))
        self._database.start()
        for victim in victims:
            victim.start()
        self.look()
        self._wait_until_all_take()  # those that live find the database again by themselves

    def _lose_replies(self) -> None:
        assert self._database is not None, "there is no database that may lose replies"
        self._serving(len(self._workers))
        before = self._database.proxy.lost
        self._database.proxy.lose(len(self._workers))
        self._wait_until_all_take()
        self.figures.replies_lost += self._database.proxy.lost - before

    def _wait_until_all_take(self) -> None:
        for place, worker in enumerate(self._workers):
            worker.wait()
            self._wait_until_taken(place)

    def _look_in_the_dark(self) -> None:
        time.sleep(0.1)  # the senders read the last answers
        unanswered, counted = self.look()
        self.figures.unanswered += unanswered
        self.figures.counted += counted
