"""Servers killed with SIGKILL under load: every acknowledged report is there exactly once.

`tests/soak/kill_server.py` is the long form.
"""

import contextlib
import random
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from arcwise.server.store import Outcome
from arcwise.wire import Batch, decode_batch
from tests.soak.kills.batches import CAPACITY, TASKS, Batches
from tests.soak.kills.soak import Kind, Soak, kinds
from tests.soak.kills.tally import ACKNOWLEDGED, SENT, Number, Tally
from tests.soak.kills.verdict import verdict, wrong_ids
from tests.soak.kills.workers import EndedError, Worker
from tests.support.stores import URLS, opened

ALL = {
    "sqlite": [Kind.RUNNING, Kind.STARTING, Kind.DRAINING],
    "postgres": [Kind.RUNNING, Kind.PAIR, Kind.STARTING],
}
WORKERS = {"sqlite": 1, "postgres": 2}


@pytest.mark.slow
@pytest.mark.parametrize("store", ALL)
def test_nothing_acknowledged_is_lost_or_counted_twice(store: str, tmp_path: Path) -> None:
    with (
        URLS[store](tmp_path / "kill") as url,
        Soak(tmp_path, url, workers=WORKERS[store], senders=12, seed=9) as soak,
    ):
        for kind in ALL[store]:
            soak.end(kind)
        soak.wait_for(250)
        figures = soak.finish()  # compares every batch with the store's counts and ids
    assert set(figures.kills) | ({Kind.DRAINING} if figures.drained else set()) >= set(ALL[store])
    assert max(figures.in_flight) > 1  # otherwise, the kills would prove nothing
    assert figures.lost > 0
    assert figures.looks >= 2  # at the end, and when all workers were dead
    assert figures.replays > 0
    assert figures.twins > 0


@pytest.mark.slow
@pytest.mark.parametrize("store", ALL)
def test_archive_and_counts_agree_after_kills(store: str, tmp_path: Path) -> None:
    with (
        URLS[store](tmp_path / "kill") as url,
        Soak(tmp_path, url, workers=WORKERS[store], senders=12, seed=10, archive=True) as soak,
    ):
        for kind in (Kind.RUNNING, Kind.RUNNING, Kind.ALL):
            soak.end(kind)
        soak.wait_for(250)
        figures = soak.finish()  # compares every batch with the files and with the queue for them
    assert figures.archived == figures.batches >= 250


@pytest.mark.slow
def test_nothing_acknowledged_through_relay_and_gateway_is_lost_or_counted_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kill.db'}"
    with Soak(tmp_path, url, workers=1, senders=8, seed=11, oblivious=True) as soak:
        for kind in (Kind.RUNNING, Kind.RELAY):
            soak.end(kind)
        soak.wait_for(100)
        figures = soak.finish()
    assert set(figures.kills) == {Kind.RUNNING, Kind.RELAY}
    assert max(figures.in_flight) > 1
    assert figures.lost > 0
    assert figures.batches >= 100


class Store:
    """A store with the counts that a test sets, and senders of ten batches."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kill.db"
        self.url = f"sqlite:///{self.path}"
        self.batches = Batches(TASKS[0].epoch(time.time()), seed=1)
        self.tally = Tally(folder / "tally", CAPACITY)
        self.tally.numbers[Number.MADE] = 10
        for number in range(10):
            self.tally.states[number] = ACKNOWLEDGED

    def batch(self, number: int) -> Batch:
        return decode_batch(self.batches.request(number).partition(b"\r\n\r\n")[2])

    def add(self, *batches: Batch) -> None:
        with opened(self.url, TASKS) as store:
            assert set(store.add(batches)) == {Outcome.COUNTED}

    def add_all_but(self, *numbers: int) -> None:
        self.add(*(self.batch(number) for number in range(10) if number not in numbers))

    def wrong(self) -> list[str]:
        return verdict(self.url, self.batches, self.tally).wrong

    def wrong_ids(self) -> list[str]:
        return wrong_ids(self.url, self.batches, self.tally)


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.tally.close()


def again(batch: Batch, codes: bytes, batch_id: bytes = bytes(16)) -> Batch:
    return Batch(batch.task_id, batch_id, batch.epoch, codes)


def test_what_was_sent_and_counted_is_right(judged: Store) -> None:
    judged.add_all_but()
    assert judged.wrong() == judged.wrong_ids() == []


def test_what_was_not_acknowledged_may_be_counted_or_not(judged: Store) -> None:
    judged.add_all_but(3)
    for number in (3, 4):
        judged.tally.states[number] = SENT
    found = verdict(judged.url, judged.batches, judged.tally)
    assert found == ([], 2, 1)


def test_a_loss_is_seen(judged: Store) -> None:
    judged.add_all_but(3)
    (wrong,) = judged.wrong()
    assert wrong.startswith("batch 3 (task right, epoch ")
    assert wrong.endswith(", codes 2 and 3) was acknowledged, counted 0 times")
    (wrong,) = judged.wrong_ids()[:-1]
    assert "5 ids were sent, and 4 are there" in wrong
    assert judged.wrong_ids()[-1] == "50 reports were sent, and 45 are exported"


def test_a_double_count_is_seen_beside_a_loss(judged: Store) -> None:
    judged.add_all_but(3)
    judged.add(again(judged.batch(5), judged.batch(5).codes))
    lost, doubled = judged.wrong()
    assert "was acknowledged, counted 0 times" in lost
    assert doubled.endswith(", codes 4 and 5) was sent under one id, counted 2 times")
    assert judged.wrong_ids()  # another id than it was sent under


def test_a_part_of_a_batch_is_seen(judged: Store) -> None:
    judged.add_all_but(3)
    judged.add(again(judged.batch(3), judged.batch(3).codes[:4], judged.batch(3).batch_id))
    torn, shared = judged.wrong()
    assert torn.endswith("its codes are counted 1 and 1 times, which is no whole number of batches")
    assert shared.endswith(" is counted 0 times, and 1 of the counted batches hold it")


def test_a_count_that_was_overwritten_is_seen(judged: Store) -> None:
    judged.add_all_but()
    with contextlib.closing(sqlite3.connect(judged.path)) as connection, connection:
        (per_code,) = connection.execute("SELECT per_code FROM counts WHERE task = 1").fetchone()
        counts = np.frombuffer(per_code, "<i8").copy()
        assert counts[-4:].tolist() == [2, 1, 1, 1]
        counts[-4] = 1
        given = (counts.tobytes(),)
        connection.execute("UPDATE counts SET reports = reports - 1, per_code = ? WHERE task = 1", given)
        connection.execute("UPDATE total SET reports = reports - 1 WHERE task = 1")
    (wrong,) = judged.wrong()
    assert wrong.startswith("task left, epoch ")
    assert wrong.endswith(" is counted 1 times, and 2 of the counted batches hold it")


def test_what_nobody_sent_is_seen(judged: Store) -> None:
    judged.add_all_but()
    judged.add(judged.batch(11))
    (wrong,) = judged.wrong()
    assert wrong.endswith("was never sent, counted 1 times")
    strange = Batch(judged.batch(0).task_id, bytes(16), judged.batches.newest + 1, bytes(2))
    judged.add(strange)
    assert f"task left, epoch {judged.batches.newest + 1}: reports that nobody sent" in judged.wrong()


def test_a_store_that_is_not_whole_is_seen(judged: Store) -> None:
    judged.add_all_but()
    with contextlib.closing(sqlite3.connect(judged.path)) as connection, connection:
        connection.execute("UPDATE total SET reports = reports + 1")
    assert any(sentence.startswith("the store's check: ") for sentence in judged.wrong())


def test_a_worker_that_ends_by_itself_is_seen(tmp_path: Path) -> None:
    worker = Worker([sys.executable, "-c", "raise SystemExit('no tasks')"], 20_000, tmp_path / "log")
    worker.start()
    with pytest.raises(EndedError, match="ended by itself with 1; its last words:\nno tasks"):
        worker.wait()
    worker.discard()


def test_a_mix_of_kills_has_as_many_as_were_asked_for() -> None:
    generator = random.Random(1)
    for workers in (1, 2, 4):
        chosen = Counter(kinds(200, workers, 20, generator))
        assert chosen[Kind.DATABASE] == chosen[Kind.REPLIES] == 20
        several = {Kind.PAIR: 2, Kind.ALL: workers, Kind.DATABASE: 0, Kind.REPLIES: 0}
        assert 200 <= sum(count * several.get(kind, 1) for kind, count in chosen.items()) < 200 + workers
        assert set(chosen) == set(Kind) - {Kind.RELAY} - ({Kind.PAIR} if workers == 1 else set())
        assert Kind.RELAY in kinds(200, workers, 20, generator, oblivious=True)
