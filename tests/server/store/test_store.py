"""The contract of every store: counts, batch ids and epochs."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from arcwise.domains import Interval
from arcwise.errors import StoreError
from arcwise.server.store import Store, StoredAction, StoredSession, open_store
from arcwise.tasks import Task
from arcwise.wire import Batch
from tests.support.store_samples import CLOSED, COUNTED, DELAY, HEADING, NOW, REPLAYED, WIDE, batch, counted
from tests.support.stores import Opener, opened


def test_batches_of_several_tasks_and_epochs_add_up(store: Store) -> None:
    assert store.counts_by_epoch(DELAY) == {}
    assert store.counts(DELAY).tolist() == counted(DELAY, [])
    assert store.add([batch(DELAY, [1, 1, 2]), batch(HEADING, [5], number=1)]) == [COUNTED] * 2
    more = [batch(DELAY, [2, 3], number=2), batch(DELAY, [203], number=3, epoch=101)]
    assert store.add(more) == [COUNTED] * 2
    assert store.counts(DELAY).tolist() == counted(DELAY, [1, 1, 2, 2, 3, 203])
    assert store.counts(HEADING).tolist() == counted(HEADING, [5])
    by_epoch = store.counts_by_epoch(DELAY)
    assert {epoch: counts.tolist() for epoch, counts in by_epoch.items()} == {
        100: counted(DELAY, [1, 1, 2, 2, 3]),
        101: counted(DELAY, [203]),
    }
    two_bytes = [0, 255, 256, WIDE.mechanism.kernel.codes - 1]
    store.add([batch(WIDE, two_bytes)])
    assert store.counts(WIDE).tolist() == counted(WIDE, two_bytes)


def test_reports_by_epoch_are_in_the_order_of_epochs(store: Store) -> None:
    assert store.reports_by_epoch(DELAY) == {}
    assert [each.newest for each in store.tasks()] == [None] * 3
    store.add([batch(DELAY, [1, 1], number=1, epoch=102), batch(DELAY, [2], number=2, epoch=7)])
    store.add([batch(DELAY, [203], number=3, epoch=102), batch(HEADING, [5], number=4, epoch=0)])
    assert list(store.reports_by_epoch(DELAY).items()) == [(7, 1), (102, 3)]
    assert store.reports_by_epoch(HEADING) == {0: 1}
    assert store.reports_by_epoch(WIDE) == {}
    assert [each.newest for each in store.tasks()] == [102, 0, None]


def test_reports_of_a_range_of_epochs(store: Store) -> None:
    epochs = [0, 7, 8, 9, 2**32 - 1]
    store.add([batch(DELAY, [1], number=epoch, epoch=epoch) for epoch in epochs])
    ranges = [(None, None), (7, 9), (8, None), (None, 8), (0, 0), (9, 7), (2**32 - 1, 2**40), (10, 2**32 - 2)]
    for first, last in ranges:
        within = [epoch for epoch in epochs if (first or 0) <= epoch <= (2**63 if last is None else last)]
        assert store.reports_by_epoch(DELAY, first, last) == dict.fromkeys(within, 1)


def test_sums_over_groups_of_epochs(store: Store) -> None:
    nothing = counted(DELAY, [])
    assert store.sums(DELAY, {100: 1}, 2).tolist() == [nothing] * 2
    for epoch in range(100, 104):
        store.add([batch(DELAY, [epoch - 100, 203], number=epoch, epoch=epoch)])
    every_code = list(range(DELAY.mechanism.kernel.codes))
    store.add([batch(DELAY, every_code, number=9, epoch=103), batch(HEADING, [5], number=10)])
    sums = store.sums(DELAY, {100: 2, 101: 0, 103: 2, 999: 1}, 4)
    assert sums.dtype == np.int64
    third = counted(DELAY, [0, 203, 3, 203, *every_code])
    assert sums.tolist() == [counted(DELAY, [1, 203]), nothing, third, nothing]
    assert store.sums(DELAY, {}, 1).tolist() == [nothing]
    assert store.sums(DELAY).tolist() == [store.counts(DELAY).tolist()]


def test_the_secret_is_the_stores_own(opener: Opener, tmp_path: Path) -> None:
    with opener() as first, opener() as second, opened(f"sqlite:///{tmp_path / 'other.db'}", []) as other:
        assert len(first.secret) == 32
        assert first.secret == second.secret
        other.merge(first.export(ids=True), NOW)
        assert other.secret not in (first.secret, bytes(32))
        assert repr(first.secret) not in repr(list(first.export(ids=True)))


def test_an_id_counts_once_for_a_task_and_its_first_content_wins(opener: Opener) -> None:
    with opener() as store:
        assert store.add([batch(DELAY, [1])]) == [COUNTED]
        assert store.add([batch(DELAY, [1])]) == [REPLAYED]
        assert store.add([batch(DELAY, [7, 7], epoch=101), batch(HEADING, [1])]) == [REPLAYED, COUNTED]
        in_one_call = [
            *(batch(DELAY, [2], number=1), batch(DELAY, [9], number=1)),
            *(batch(DELAY, [3], number=2, epoch=101), batch(DELAY, [8], number=2)),
            batch(DELAY, [4], number=3),
        ]
        assert store.add(in_one_call) == [COUNTED, REPLAYED, COUNTED, REPLAYED, COUNTED]
    with opener() as store:  # also after a restart
        assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2, 3, 4])
        assert store.add([batch(DELAY, [1])]) == [REPLAYED]


@pytest.mark.parametrize("known", [[], [0], [1024, 2499]])
def test_a_large_group_of_several_tasks_and_epochs_with_and_without_replays(
    store: Store, known: list[int]
) -> None:
    store.add([batch(DELAY, [9], number=number) for number in known])
    group = [batch(DELAY, [number % 7], number=number, epoch=100 + number % 2) for number in range(2500)]
    group += [batch(HEADING, [5], number=number) for number in range(3)]
    new = [COUNTED if number not in known else REPLAYED for number in range(2500)] + [COUNTED] * 3
    assert store.add(group) == new
    assert store.add(group) == [REPLAYED] * 2503
    codes = [number % 7 for number in range(2500) if number not in known] + [9] * len(known)
    assert store.counts(DELAY).tolist() == counted(DELAY, codes)
    assert store.counts(HEADING).tolist() == counted(HEADING, [5] * 3)
    assert store.check() == []


def test_pruning_forgets_ids_keeps_counts_and_closes_what_it_forgot(opener: Opener) -> None:
    old, new = batch(DELAY, [1], epoch=10), batch(DELAY, [2], number=1, epoch=21)
    other = batch(HEADING, [3], epoch=10)
    with opener() as store:
        store.add([old, new, other])
        assert store.prune(DELAY, before=20) == 1
    with opener() as store:  # the store, not the process, remembers forgotten ids
        assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2])
        assert store.add([old, new, other]) == [CLOSED, REPLAYED, REPLAYED]
        assert store.add([batch(DELAY, [5], number=9, epoch=19)]) == [CLOSED]
        assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2])


def test_pruning_leaves_the_last_day_before_the_newest_epoch_open(store: Store) -> None:
    """A device may be a day ahead, so the newest epoch may be tomorrow's."""
    quarter = Task("quarter", Interval(0, 1), 1.0, epoch_seconds=6 * 3600)
    store.register([quarter])
    for task, day in ((DELAY, 1), (quarter, 4)):
        assert store.prune(task, before=10**6) == 0
        epochs = [10, 20 - day - 1, 20 - day, 20]
        store.add([batch(task, [1], number=epoch, epoch=epoch) for epoch in epochs])
        assert store.prune(task, before=10**6) == 2
        assert store.prune(task, before=10**6) == 0
        again = [batch(task, [2], number=epoch, epoch=epoch) for epoch in epochs]
        assert store.add(again) == [CLOSED, CLOSED, REPLAYED, REPLAYED]
        assert store.add([batch(task, [2], number=99, epoch=20 - day)]) == [COUNTED]


def test_what_was_closed_stays_closed(store: Store, tmp_path: Path) -> None:
    store.add([batch(DELAY, [1], epoch=10), batch(DELAY, [1], number=1, epoch=30)])
    store.prune(DELAY, before=20)
    for before in (5, 0, -1, 19, 20):
        assert store.prune(DELAY, before=before) == 0
        assert store.add([batch(DELAY, [1], epoch=19)]) == [CLOSED]
    with opened(f"sqlite:///{tmp_path / 'other.db'}", [DELAY]) as other:
        other.add([batch(DELAY, [1], number=7, epoch=9), batch(DELAY, [1], number=8, epoch=30)])
        other.prune(DELAY, before=12)
        other.merge(store.export(ids=True), NOW)
        assert other.add([batch(DELAY, [1], number=9, epoch=19)]) == [CLOSED]
    with opened(f"sqlite:///{tmp_path / 'third.db'}", [DELAY]) as third:
        third.add([batch(DELAY, [1], number=5, epoch=30)])
        store.merge(third.export(ids=True), NOW)  # of a store that has closed nothing
    assert store.add([batch(DELAY, [1], number=9, epoch=19)]) == [CLOSED]
    state = store.tasks()[0]
    assert (state.open_from, state.newest) == (20, 30)


def test_the_time_that_was_believed_never_goes_back(opener: Opener, tmp_path: Path) -> None:
    with opener() as first, opener() as second, opened(f"sqlite:///{tmp_path / 'other.db'}", []) as other:
        assert first.clock() is None
        assert first.advance_clock(1_000) == 1_000
        assert second.clock() == 1_000
        assert second.advance_clock(900) == 1_000
        assert second.advance_clock(2_000) == 2_000
        other.merge(first.export(ids=True), NOW)
        assert other.clock() is None  # it is independent of reports
    with opener() as again:
        assert again.clock() == 2_000


def test_a_group_is_stored_whole_or_not_at_all(store: Store) -> None:
    stranger = Batch(bytes(32), bytes(16), 100, b"\x00")
    with pytest.raises(KeyError):
        store.add([batch(DELAY, [1]), stranger])
    assert store.counts(DELAY).sum() == 0
    assert store.add([batch(DELAY, [1])]) == [COUNTED]


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


def test_several_processes_that_make_a_store_at_once_make_one(url: str) -> None:
    start = threading.Barrier(4)

    def make(_number: int) -> int:
        start.wait()
        with closing(open_store(url)) as store:
            store.register([DELAY])
            return store.report_count(DELAY)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(make, range(4))) == [0] * 4


USES: dict[str, Callable[[Store], object]] = {
    "keys": lambda store: store.keys(),
    "tasks": lambda store: store.tasks(),
    "counts": lambda store: store.counts(DELAY),
    "add": lambda store: store.add([batch(DELAY, [1], number=1)]),
    "close_task": lambda store: store.close_task(DELAY.id, 1),
    "add_session": lambda store: store.add_session(StoredSession(bytes(32), "k1", 1_000, 1_000, 5_000)),
    "session": lambda store: store.session(bytes(32)),
    "begin_action": lambda store: store.begin_action(StoredAction(1_000, "k1", "close task", "", "unknown")),
    "actions": lambda store: store.actions(1),
    "recall": lambda store: store.recall("min_reports"),
}


def test_a_closed_store_is_not_opened_again_by_who_comes_late(opener: Opener) -> None:
    with opener() as store:
        store.add([batch(DELAY, [1])])
        store.close()
    for use in USES.values():
        with pytest.raises(StoreError, match="closed"):
            use(store)
