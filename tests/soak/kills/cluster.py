"""Workers on one store, and the senders that report to them."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.soak.kills.batches import CAPACITY, TASKS, Batches
from tests.soak.kills.relays import Relay, make_keys
from tests.soak.kills.senders import Job, send
from tests.soak.kills.tally import ACKNOWLEDGED, Number, Tally
from tests.soak.kills.workers import Worker, free_ports, serve_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typing_extensions import Self

__all__ = ["Cluster", "Violation"]

_SPAWN = multiprocessing.get_context("spawn")
_TAKE_SECONDS = 60.0


class Violation(AssertionError):
    """A promise that was not kept; the message says which."""


class Cluster:
    """Workers and senders, while entered.

    Parameters
    ----------
    folder
        For task files, logs and what senders tell.
    store
        The store's URL, as workers have it.
    workers
        How many, at most 12.
    senders
        How many requests there are at once.
    seed
        Of the batches and the senders.
    archive
        Where the workers write an archive; None: nowhere.
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
        archive: Path | None = None,
        oblivious: bool = False,
    ) -> None:
        self.batches = Batches(TASKS[0].epoch(time.time()), seed)
        tasks = folder / "tasks"
        tasks.mkdir()
        for task in TASKS:
            task.save(tasks / f"{task.name}.json")
        ports = free_ports(2 * workers, random.Random())
        command = serve_command(tasks, store)
        if archive is not None:
            command += ["--archive", str(archive), "--archive-seconds", "0.1"]
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
            stack.callback(self._close)  # nothing is left of a start that fails
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
        """How many batches there are so far."""
        return self.tally.numbers[Number.MADE]

    def expect_all(self) -> None:
        """Raise `Violation` when a sender met a wrong answer, `EndedError` when a worker ended by itself."""
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
        """How many requests to a worker wait for their answer."""
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
