"""Workers on one store and the senders that report to them, ended in several ways and started again."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tests.soak.kills.batches import CAPACITY, TASKS, Batches
from tests.soak.kills.senders import Job, send
from tests.soak.kills.tally import ACKNOWLEDGED, Number, Tally
from tests.soak.kills.verdict import Archived, archived, verdict, wrong_ids
from tests.soak.kills.workers import DRAIN_SECONDS, Relay, Worker, free_ports, make_keys, serve_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typing_extensions import Self

    from tests.soak.kills.database import CrashingDatabase


class Kind(Enum):
    """A way to end processes."""

    RUNNING = "serving"
    STARTING = "starting"
    DRAINING = "draining"
    PAIR = "two at once"
    ALL = "all at once"
    RELAY = "of its relay"
    """The relay before a worker is killed, and not the worker."""
    DATABASE = "with the database"
    """The database crashes, by either of two signals, and in half of the cases a worker is killed too."""
    REPLIES = "replies lost"
    """Nothing is killed: every worker loses a reply of the database, and its connection."""


_SHARES = {Kind.RUNNING: 9, Kind.STARTING: 4, Kind.DRAINING: 4, Kind.PAIR: 3, Kind.ALL: 2, Kind.RELAY: 4}


def kinds(
    kills: int, workers: int, faults: int, generator: random.Random, *, oblivious: bool = False
) -> list[Kind]:
    """Return this many kills of workers, or slightly more, and both kinds of database faults, mixed.

    Kills of relays are included on the `oblivious` path only.
    """
    among = [
        kind
        for kind in _SHARES
        if (kind is not Kind.PAIR or workers > 1) and (kind is not Kind.RELAY or oblivious)
    ]
    weights = [_SHARES[kind] for kind in among]
    killed = {Kind.PAIR: 2, Kind.ALL: workers}
    chosen: list[Kind] = []
    while kills > 0:
        kind = generator.choices(among, weights)[0]
        chosen.append(kind)
        kills -= killed.get(kind, 1)
    chosen += [Kind.DATABASE, Kind.REPLIES] * faults
    generator.shuffle(chosen)
    return chosen


@dataclass
class Figures:
    """The result: numbers of kills by kind, of batches and of requests."""

    kills: Counter[Kind] = field(default_factory=Counter)
    """SIGKILLs of workers."""
    drained: int = 0
    """Workers that ended by SIGTERM before the SIGKILL came."""
    crashes: Counter[str] = field(default_factory=Counter)
    """Crashes of the database, by signal."""
    replies_lost: int = 0
    """Replies of the database that were lost to workers that lived on."""
    in_flight: list[int] = field(default_factory=list)
    """Requests without an answer at each kill of a worker that took requests."""
    in_flight_at_crashes: list[int] = field(default_factory=list)
    """The same at each crash of the database, for all workers."""
    looks: int = 0
    """How often the store was compared with the sent batches."""
    unanswered: int = 0
    """Batches not acknowledged when all workers were dead, in total."""
    counted: int = 0
    """How many of them were counted nevertheless: their commit came before the kill, their answer did not."""
    archived: int = 0
    """Batches in the archive at the end, each of them once; 0 without an archive."""
    waiting: int = 0
    """Batches that waited for the archive when all workers were dead, in total."""
    begun: int = 0
    """Unfinished files of the archive at those times, in total."""
    batches: int = 0
    replays: int = 0
    """Batches that were acknowledged again; this and the following are as in `Number`."""
    twins: int = 0
    busy: int = 0
    lost: int = 0
    seconds: float = 0.0


_SPAWN = multiprocessing.get_context("spawn")
_TAKE_SECONDS = 60.0
_MOMENTS = 0.4
"""Seconds within which a worker that takes batches is killed."""


class Violation(AssertionError):
    """A broken promise; the message says which."""


class Soak:
    """Workers and senders, while entered; their processes are ended and started again.

    Parameters
    ----------
    folder
        For task files, logs, the senders' reports, and an archive.
    store
        The store's URL.
    workers
        The number of workers, at most 12.
    senders
        The number of parallel requests.
    seed
        The seed of the batches and the senders.
    database
        The store's server, if it is to fail too; workers reach it through its proxy.
    archive
        Have the workers write an archive, and compare it too.
    oblivious
        Send through relays, one before each worker, to the workers' gateways.
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
        archive: bool = False,
        oblivious: bool = False,
    ) -> None:
        self.figures = Figures()
        self._store = store
        self._database = database
        self._random = random.Random(seed)  # the machine's timing is not repeated
        self._archive = folder / "archive" if archive else None
        self._begun = time.monotonic()
        self.batches = Batches(TASKS[0].epoch(time.time()), seed)
        tasks = folder / "tasks"
        tasks.mkdir()
        for task in TASKS:
            task.save(tasks / f"{task.name}.json")
        ports = free_ports(2 * workers, random.Random())
        command = serve_command(tasks, store if database is None else database.proxy.url)
        if self._archive is not None:
            command += ["--archive", str(self._archive), "--archive-seconds", "0.1"]
        key_config = b""
        if oblivious:
            keys = folder / "gateway.keys"
            key_config = make_keys(keys)
            command += ["--open", "--gateway-keys", str(keys)]
        self.workers = [Worker(command, port, folder / f"worker-{port}.log") for port in ports[:workers]]
        before = zip(self.workers, ports[workers:], strict=True)
        self.relays = [
            Relay(worker.port, port, folder / f"relay-{port}.log") for worker, port in before if oblivious
        ]
        reached = tuple(each.port for each in self.relays or self.workers)
        self.tally = Tally(folder / "tally", CAPACITY)
        self._told, self._teller = _SPAWN.Pipe(duplex=False)
        job = Job(senders, reached, self.batches, folder / "tally", key_config)
        self._load = _SPAWN.Process(target=send, args=(job, self._teller), daemon=True)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._close)  # a start that fails leaves nothing
            for worker in self._processes:
                worker.start()
            for worker in self._processes:
                worker.wait()
            self._load.start()
            self._teller.close()
            stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._close()

    @property
    def _processes(self) -> list[Worker]:
        return [*self.workers, *self.relays]

    def _close(self) -> None:
        if self._load.pid is not None:
            self._load.kill()
            self._load.join()
        for worker in self._processes:
            worker.discard()
        self._told.close()
        self.tally.close()

    @property
    def made(self) -> int:
        """Return the number of batches so far."""
        return self.tally.numbers[Number.MADE]

    def expect_all(self) -> None:
        """Raise `Violation` if a sender met a wrong answer, `EndedError` if a worker ended by itself."""
        if self._told.poll():
            words = [line for relay in self.relays for line in relay.last_words()]
            raise Violation("\n".join([f"the senders: {self._told.recv()}", *words]))
        for worker in self._processes:
            worker.ready()

    def wait_until_taken(self, workers: Sequence[Worker]) -> None:
        """Wait until these workers have started, and each has acknowledged a batch from now on."""
        for worker in workers:
            worker.wait()
            place = Number.TAKEN + self.workers.index(worker)
            taken = self.tally.numbers[place]
            until = time.monotonic() + _TAKE_SECONDS
            while self.tally.numbers[place] == taken:
                self.expect_all()
                if time.monotonic() > until:
                    raise Violation(f"a worker acknowledged nothing for {_TAKE_SECONDS:g} seconds")
                time.sleep(0.005)

    def in_flight(self, worker: Worker) -> int:
        """Return the number of requests to a worker that wait for their answer."""
        return self.tally.numbers[Number.IN_FLIGHT + self.workers.index(worker)]

    def end_load(self) -> None:
        """Have every batch acknowledged, and end the workers with SIGTERM."""
        for worker in self._processes:
            worker.wait()
        self.tally.numbers[Number.FINISH] = 1
        if (said := self._told.recv()) is not None:
            raise Violation(f"the senders: {said}")
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            if (code := worker.reap()) != -signal.SIGTERM:
                raise Violation(f"the worker on port {worker.port} ended with {code} after SIGTERM")
        if bytes(self.tally.states[: self.made]) != bytes([ACKNOWLEDGED]) * self.made:
            raise Violation("the senders ended before everything was acknowledged")

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
        """Wait until this many batches were made."""
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
        """Return workers that accept batches, after a random while."""
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
        self.wait_until_taken(workers)  # the surviving workers find the database again by themselves

    def _lose_replies(self) -> None:
        assert self._database is not None, "there is no database that may lose replies"
        workers = self._serving(len(self.workers))
        before = self._database.proxy.lost
        self._database.proxy.lose(len(workers))
        self.wait_until_taken(workers)
        self.figures.replies_lost += self._database.proxy.lost - before
