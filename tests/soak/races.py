"""All changes of a store in parallel: each counted batch is there once, and releases stay as they were.

On one store, two threads add batches and two import sources and drop them. One thread each closes and
releases epochs, merges other stores and forgets ids, and deletes the data of a task. Each has the store open
separately. Every answer is recorded. At the end the store must hold exactly the counted reports, epoch by
epoch, and each released epoch must hold the reports that it was released with. The program exits with 1
otherwise.

    python -m tests.soak.races [--seconds 30] [--seed 1] [--store sqlite|postgres|both]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from arcwise.errors import ParameterError, StoreError
from arcwise.server.store.export import Counts, TaskState
from tests.support.store_samples import CLOSED, COUNTED, DELAY, HEADING, WIDE, batch, lake
from tests.support.stores import URLS, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.server.store import Store
    from arcwise.tasks import Task

CONTESTED = (DELAY, HEADING)


class Found(NamedTuple):
    """Faults, the number of actions by kind, and the seconds of each call of `add`."""

    wrong: list[str]
    done: Counter[str]
    waits: list[float]


class Race:
    """One store that does not exist yet, and the answers that its users got.

    The seed is that of all random choices; the machine decides the order of the threads.
    """

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self.url, self.folder, self.seed = url, folder, seed  # the folder is for stores that are merged
        self.epoch = 100
        self.numbers = count(1)
        self.counted: Counter[tuple[str, int]] = Counter()
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.waits: list[float] = []
        self.lock = threading.Lock()

    def run(self, seconds: float) -> Found:
        """Let all of them act for this long, and compare."""
        until = time.monotonic() + seconds
        sources = self.source("lake"), self.source("sea")
        acts = [self.add, self.add, *sources, self.close, self.tidy, self.delete]
        threads = [
            threading.Thread(target=self._act, args=(act, random.Random(f"{self.seed} {place}"), until))
            for place, act in enumerate(acts)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._compare()
        return Found(self.wrong, self.done, sorted(self.waits))

    def _act(self, act: Callable[[Store, random.Random], str], draw: random.Random, until: float) -> None:
        with opened(self.url) as store:
            while time.monotonic() < until:
                try:
                    did = act(store, draw)
                except ParameterError:
                    did = f"{act.__name__} (refused)"
                except StoreError as error:  # others held it for too long
                    did = f"{act.__name__} ({error.__cause__ or error})"
                except BaseException as error:
                    self.wrong.append(f"{act.__name__}: {error!r}")
                    raise
                with self.lock:
                    self.done[did] += 1

    def add(self, store: Store, draw: random.Random) -> str:
        batches = [
            batch(draw.choice(CONTESTED), [draw.randrange(4)], number=number, epoch=self._near(draw))
            for number in islice(self.numbers, draw.randint(1, 20))
        ]
        begun = time.perf_counter()
        while True:
            try:
                outcomes = store.add(batches)
            except StoreError:  # it may have been counted
                continue
            break
        with self.lock:
            self.waits.append(time.perf_counter() - begun)
            for each, outcome in zip(batches, outcomes, strict=True):
                if outcome is not CLOSED:
                    self.counted[each.task_id.hex(), each.epoch] += 1
        return "add"

    def source(self, name: str) -> Callable[[Store, random.Random], str]:
        first = 10**9 * (1 + len(name))

        def imported(store: Store, draw: random.Random) -> str:
            if draw.random() < 0.2:
                store.drop_source(name)
                return "drop"
            numbers = [first + next(self.numbers) for _ in range(draw.choice([5, 300]))]
            batches = [batch(draw.choice(CONTESTED), [1], number=n, epoch=self._near(draw)) for n in numbers]
            store.replace_source(name, *lake(*batches))
            return "replace"

        return imported

    def close(self, store: Store, draw: random.Random) -> str:
        task, kind = draw.choice(CONTESTED), draw.random()
        time.sleep(0.1 * draw.random())
        if kind < 0.5:
            store.release(task, self.epoch - draw.randrange(3))
            return "release"
        if kind < 0.7:
            store.close_task(task.id, 1)
            time.sleep(0.1 * draw.random())
            store.open_task(task.id)
            return "close"
        if kind < 0.8:
            store.prune(task, self.epoch - 2)
            return "prune"
        self.epoch += 1
        return "next epoch"

    def tidy(self, store: Store, draw: random.Random) -> str:
        time.sleep(0.2 * draw.random())
        kind = draw.random()
        if kind < 0.3:
            with opened(self.url):
                return "register"
        if kind < 0.5:
            store.vacuum()
            return "vacuum"
        if kind < 0.6:
            self.wrong += store.check()
            return "check"
        epoch = self.epoch
        numbers = [10**12 + next(self.numbers) for _ in range(20)]
        with opened(f"sqlite:///{self.folder / f'{numbers[0]}.db'}") as other:
            other.add([batch(HEADING, [1], number=number, epoch=epoch) for number in numbers])
            left_out = store.merge(other.export(ids=True), int(time.time()))
        with self.lock:
            self.counted[HEADING.id, epoch] += len(numbers) - left_out
        return "merge"

    def delete(self, store: Store, draw: random.Random) -> str:
        numbers = [10**14 + next(self.numbers) for _ in range(200)]
        store.open_task(WIDE.id)
        outcomes = store.add([batch(WIDE, [1], number=n, epoch=100 + n % 50) for n in numbers])
        store.close_task(WIDE.id, 1)
        deleted = store.delete_data(WIDE.id)
        if deleted.reports != outcomes.count(COUNTED) or store.report_count(WIDE):
            self.wrong.append(f"{deleted} of {Counter(outcomes)}")
        time.sleep(0.1 * draw.random())
        return "delete"

    def _near(self, draw: random.Random) -> int:
        return self.epoch + draw.randint(-4, 3)

    def _compare(self) -> None:
        """Record where the store differs from the answers that its users got."""
        with opened(self.url) as store, closing(store.export(ids=False)) as records:
            self.wrong += store.check()
            held: Counter[tuple[str, int]] = Counter()
            task: Task | None = None
            for record in records:
                if isinstance(record, TaskState):
                    task = record.task
                elif isinstance(record, Counts) and record.source is None and task in CONTESTED:
                    assert task is not None
                    held[task.id, record.epoch] = int(record.counts.sum())
            self.wrong += [
                f"task {key[:8]}, epoch {epoch}: {held[key, epoch]} reports, not {self.counted[key, epoch]}"
                for key, epoch in held.keys() | self.counted.keys()
                if held[key, epoch] != self.counted[key, epoch]
            ]
            for task in CONTESTED:
                reports = store.reports_by_epoch(task)
                self.wrong += [
                    f"{task.name}, epoch {epoch}: released with {number} reports, has {reports.get(epoch)}"
                    for epoch, number in store.released(task).items()
                    if reports.get(epoch, 0) != number
                ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=[*URLS, "both"], default="both")
    given = parser.parse_args()
    wrong = False
    for kind in URLS if given.store == "both" else [given.store]:
        with tempfile.TemporaryDirectory() as name, URLS[kind](Path(name) / "store") as url:
            found = Race(url, Path(name), given.seed).run(given.seconds)
        waits = [1000 * found.waits[int(share * (len(found.waits) - 1))] for share in (0.5, 0.99, 1.0)]
        print(f"{kind}: {', '.join(f'{times} x {what}' for what, times in found.done.most_common())}")
        print("add, ms: median {:.1f}, 99 % {:.1f}, longest {:.1f}".format(*waits))
        print("\n".join(found.wrong) or "nothing is wrong", flush=True)
        wrong |= bool(found.wrong)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
