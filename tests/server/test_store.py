"""The contract of every store. A new store is one more entry in `stores`."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError, StoreError
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.store import Outcome, Store, open_store
from arcwise.tasks import Task
from arcwise.wire import Batch, pack_codes

DELAY = Task("delay", Interval(0, 1), 1.0)
HEADING = Task("heading", Circle(360), 1.0)
WIDE = Task("wide", Interval(0, 1), 1.0, mechanism=OptimalPiecewise(Interval(0, 1), 1.0, nodes=300))

COUNTED, REPLAYED, CLOSED = Outcome.COUNTED, Outcome.REPLAYED, Outcome.CLOSED

Opener = Callable[[], Store]


@pytest.fixture(params=["sqlite"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Return a function that opens the same store again and again."""
    urls = {"sqlite": f"sqlite:///{tmp_path / 'counts.db'}"}

    def open_again() -> Store:
        store = open_store(urls[request.param])
        store.register([DELAY, HEADING, WIDE])
        return store

    return open_again


@pytest.fixture
def store(opener: Opener) -> Iterator[Store]:
    opened = opener()
    yield opened
    opened.close()


def batch(task: Task, codes: list[int], *, number: int = 0, epoch: int = 100) -> Batch:
    width = 1 if task.mechanism.kernel.codes <= 256 else 2
    return Batch(bytes.fromhex(task.id), number.to_bytes(16, "big"), epoch, pack_codes(codes, width))


def counted(task: Task, codes: list[int]) -> list[int]:
    counts: list[int] = np.bincount(codes, minlength=task.mechanism.kernel.codes).tolist()
    return counts


def test_an_empty_store_counts_nothing(store: Store) -> None:
    assert store.counts_by_epoch(DELAY) == {}
    assert store.counts(DELAY).tolist() == [0] * DELAY.mechanism.kernel.codes


def test_batches_of_several_tasks_and_epochs_add_up(store: Store) -> None:
    assert store.add([batch(DELAY, [1, 1, 2]), batch(HEADING, [5], number=1)]) == [COUNTED, COUNTED]
    assert store.add([batch(DELAY, [2, 3], number=2), batch(DELAY, [203], number=3, epoch=101)]) == [
        COUNTED,
        COUNTED,
    ]
    assert store.counts(DELAY).tolist() == counted(DELAY, [1, 1, 2, 2, 3, 203])
    assert store.counts(HEADING).tolist() == counted(HEADING, [5])
    by_epoch = store.counts_by_epoch(DELAY)
    assert {epoch: counts.tolist() for epoch, counts in by_epoch.items()} == {
        100: counted(DELAY, [1, 1, 2, 2, 3]),
        101: counted(DELAY, [203]),
    }


def test_two_byte_codes(store: Store) -> None:
    codes = [0, 255, 256, WIDE.mechanism.kernel.codes - 1]
    store.add([batch(WIDE, codes)])
    assert store.counts(WIDE).tolist() == counted(WIDE, codes)


def test_a_replay_is_counted_once_and_the_first_content_wins(store: Store) -> None:
    assert store.add([batch(DELAY, [1])]) == [COUNTED]
    assert store.add([batch(DELAY, [1])]) == [REPLAYED]
    assert store.add([batch(DELAY, [7, 7], epoch=101)]) == [REPLAYED]
    assert store.counts(DELAY).tolist() == counted(DELAY, [1])


def test_a_duplicate_within_one_call_is_counted_once(store: Store) -> None:
    assert store.add([batch(DELAY, [1]), batch(DELAY, [9]), batch(DELAY, [2], number=1)]) == [
        COUNTED,
        REPLAYED,
        COUNTED,
    ]
    assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2])


def test_ids_of_different_tasks_do_not_meet(store: Store) -> None:
    assert store.add([batch(DELAY, [1]), batch(HEADING, [1])]) == [COUNTED, COUNTED]


def test_counts_and_ids_survive_a_restart(opener: Opener) -> None:
    first = opener()
    first.add([batch(DELAY, [4, 4])])
    first.close()
    second = opener()
    assert second.counts(DELAY).tolist() == counted(DELAY, [4, 4])
    assert second.add([batch(DELAY, [4, 4])]) == [REPLAYED]
    second.close()


def test_pruning_forgets_ids_keeps_counts_and_closes_what_it_forgot(opener: Opener) -> None:
    store = opener()
    old, new = batch(DELAY, [1], epoch=10), batch(DELAY, [2], number=1, epoch=20)
    other = batch(HEADING, [3], epoch=10)
    store.add([old, new, other])
    assert store.prune(DELAY, before=20) == 1
    store.close()
    store = opener()  # what was forgotten is remembered by the store, not by the process
    assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2])
    assert store.add([old, new, other]) == [CLOSED, REPLAYED, REPLAYED]
    assert store.add([batch(DELAY, [5], number=9, epoch=19)]) == [CLOSED]
    assert store.prune(DELAY, before=5) == 0  # it does not open again
    assert store.add([old]) == [CLOSED]
    assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2])
    store.close()


def test_pruning_with_a_clock_far_ahead_leaves_the_newest_epoch_open(store: Store) -> None:
    assert store.prune(DELAY, before=10**6) == 0
    store.add([batch(DELAY, [1], epoch=10), batch(DELAY, [2], number=1, epoch=20)])
    assert store.prune(DELAY, before=10**6) == 1
    assert store.add([batch(DELAY, [2], number=1, epoch=20), batch(DELAY, [3], number=2, epoch=20)]) == [
        REPLAYED,
        COUNTED,
    ]


def test_a_group_is_stored_whole_or_not_at_all(store: Store) -> None:
    stranger = Batch(bytes(32), bytes(16), 100, b"\x00")
    with pytest.raises(KeyError):
        store.add([batch(DELAY, [1]), stranger])
    assert store.counts(DELAY).sum() == 0
    assert store.add([batch(DELAY, [1])]) == [COUNTED]


def test_several_writers_on_one_store_lose_nothing(opener: Opener) -> None:
    """Each opens the store for itself, as processes do, and all send the same ids at the same time."""

    def write(counts: list[int]) -> None:
        mine = opener()
        new = sum(
            mine.add([batch(DELAY, [n % 200], number=n), batch(DELAY, [n % 200], number=n + 1)]).count(
                COUNTED
            )
            for n in range(100)
        )
        counts.append(new)
        mine.close()

    new: list[int] = []
    threads = [threading.Thread(target=write, args=(new,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = opener()
    assert sum(new) == 101
    assert store.counts(DELAY).sum() == 101
    store.close()


def test_readers_see_whole_groups_while_a_writer_writes(store: Store) -> None:
    stop = threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(int(store.counts(DELAY).sum()))

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(200):
        store.add([batch(DELAY, [1, 2, 3], number=2 * n), batch(DELAY, [4, 5], number=2 * n + 1)])
    stop.set()
    reader.join()
    assert seen == sorted(seen)
    assert all(total % 5 == 0 for total in seen)


class TestSQLite:
    """What only the SQLite store can do wrong."""

    def test_every_commit_is_synced(self, tmp_path: Path) -> None:
        store = open_store(f"sqlite:///{tmp_path / 'a.db'}")
        connection: sqlite3.Connection = store._writer  # type: ignore[attr-defined]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        store.close()

    def test_a_full_disk_stores_nothing_of_the_group_and_heals(self, tmp_path: Path) -> None:
        store = open_store(f"sqlite:///{tmp_path / 'a.db'}")
        store.register([DELAY])
        store.add([batch(DELAY, [1])])
        connection: sqlite3.Connection = store._writer  # type: ignore[attr-defined]
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        group = [batch(DELAY, [2], number=n) for n in range(1, 2000)]
        with pytest.raises(StoreError, match="full"):
            store.add(group)
        assert store.counts(DELAY).sum() == 1
        connection.execute("PRAGMA max_page_count = 1000000")
        assert store.add(group) == [COUNTED] * 1999
        store.close()

    def test_another_programs_database_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "other.db"
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE theirs (x)")
        other.close()
        with pytest.raises(StoreError, match="not one of arcwise"):
            open_store(f"sqlite:///{path}")

    def test_a_newer_schema_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "new.db"
        open_store(f"sqlite:///{path}").close()
        newer = sqlite3.connect(path)
        newer.execute("PRAGMA user_version = 99")
        newer.close()
        with pytest.raises(StoreError, match="schema 99"):
            open_store(f"sqlite:///{path}")

    def test_a_file_that_is_no_database(self, tmp_path: Path) -> None:
        path = tmp_path / "text.db"
        path.write_text("hello " * 1000)
        with pytest.raises(StoreError, match="cannot open"):
            open_store(f"sqlite:///{path}")

    @pytest.mark.parametrize(
        "url", ["sqlite:///:memory:", "sqlite:///", "counts.db", "mysql:///a", "sqlite://a"]
    )
    def test_a_url_that_names_no_store(self, url: str) -> None:
        with pytest.raises(ParameterError, match="store must be sqlite:///FILE"):
            open_store(url)
