"""The contract of every store: counts, batch ids and epochs."""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from arcwise.domains import Interval
from arcwise.errors import StoreError
from arcwise.server.store import Store, open_store
from arcwise.tasks import Task
from arcwise.wire import Batch
from tests.support.store_samples import CLOSED, COUNTED, DELAY, HEADING, NOW, REPLAYED, WIDE, batch, counted

Opener = Callable[[], Store]


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


def test_reports_by_epoch_are_in_the_order_of_epochs(store: Store) -> None:
    assert store.reports_by_epoch(DELAY) == {}
    store.add([batch(DELAY, [1, 1], number=1, epoch=102), batch(DELAY, [2], number=2, epoch=7)])
    store.add([batch(DELAY, [203], number=3, epoch=102), batch(HEADING, [5], number=4, epoch=50)])
    assert list(store.reports_by_epoch(DELAY).items()) == [(7, 1), (102, 3)]
    assert store.reports_by_epoch(HEADING) == {50: 1}
    assert store.reports_by_epoch(WIDE) == {}


def test_reports_of_a_range_of_epochs(store: Store) -> None:
    epochs = [0, 7, 8, 9, 2**32 - 1]
    store.add([batch(DELAY, [1], number=epoch, epoch=epoch) for epoch in epochs])
    ranges = [(None, None), (7, 9), (8, None), (None, 8), (0, 0), (9, 7), (2**32 - 1, 2**40), (10, 2**32 - 2)]
    for first, last in ranges:
        within = [epoch for epoch in epochs if (first or 0) <= epoch <= (2**63 if last is None else last)]
        assert store.reports_by_epoch(DELAY, first, last) == dict.fromkeys(within, 1)


def test_sums_over_groups_of_epochs(store: Store) -> None:
    assert store.sums(DELAY, {100: 1}, 2).tolist() == [[0] * DELAY.mechanism.kernel.codes] * 2
    for epoch in range(100, 104):
        store.add([batch(DELAY, [epoch - 100, 203], number=epoch, epoch=epoch)])
    every_code = list(range(DELAY.mechanism.kernel.codes))
    store.add([batch(DELAY, every_code, number=9, epoch=103), batch(HEADING, [5], number=10)])
    sums = store.sums(DELAY, {100: 2, 101: 0, 103: 2, 999: 1}, 4)
    assert sums.dtype == np.int64
    nothing = [0] * len(every_code)
    assert sums.tolist() == [
        counted(DELAY, [1, 203]),
        nothing,
        counted(DELAY, [0, 203, 3, 203, *every_code]),
        nothing,
    ]
    assert store.sums(DELAY, {}, 1).tolist() == [nothing]
    assert store.sums(DELAY).tolist() == [store.counts(DELAY).tolist()]


def test_the_secret_is_the_stores_own(opener: Opener, tmp_path: Path) -> None:
    with contextlib.closing(opener()) as first, contextlib.closing(opener()) as second:
        assert len(first.secret) == 32
        assert first.secret == second.secret
        with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'other.db'}")) as other:
            other.merge(first.export(ids=True), NOW)
            assert other.secret not in (first.secret, bytes(32))
        assert repr(first.secret) not in repr(list(first.export(ids=True)))


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


def test_of_a_duplicate_in_two_epochs_the_first_content_wins(store: Store) -> None:
    group = [batch(DELAY, [1], number=1), batch(DELAY, [2], number=2, epoch=101)]
    again = [batch(DELAY, [3], number=2), batch(DELAY, [4], number=3)]
    assert store.add(group + again) == [COUNTED, COUNTED, REPLAYED, COUNTED]
    assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2, 4])


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
    old, new = batch(DELAY, [1], epoch=10), batch(DELAY, [2], number=1, epoch=21)
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


def test_pruning_leaves_the_last_day_before_the_newest_epoch_open(store: Store) -> None:
    """A device may be a day ahead, so the newest epoch may be that of tomorrow."""
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
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'other.db'}")) as other:
        other.register([DELAY])
        other.add([batch(DELAY, [1], number=7, epoch=9), batch(DELAY, [1], number=8, epoch=30)])
        other.prune(DELAY, before=12)
        other.merge(store.export(ids=True), NOW)
        assert other.add([batch(DELAY, [1], number=9, epoch=19)]) == [CLOSED]
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'third.db'}")) as third:
        third.register([DELAY])
        third.add([batch(DELAY, [1], number=5, epoch=30)])
        store.merge(third.export(ids=True), NOW)  # of one that has closed nothing
    assert store.add([batch(DELAY, [1], number=9, epoch=19)]) == [CLOSED]
    state = store.tasks()[0]
    assert (state.open_from, state.newest) == (20, 30)


def test_the_time_that_was_believed_never_goes_back(opener: Opener, tmp_path: Path) -> None:
    with contextlib.closing(opener()) as first, contextlib.closing(opener()) as second:
        assert first.clock() is None
        assert first.advance_clock(1_000) == 1_000
        assert second.clock() == 1_000
        assert second.advance_clock(900) == 1_000
        assert second.advance_clock(2_000) == 2_000
        with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'other.db'}")) as other:
            other.merge(first.export(ids=True), NOW)
            assert other.clock() is None  # it is no matter of reports
    with contextlib.closing(opener()) as again:
        assert again.clock() == 2_000


def test_tasks_know_their_newest_epoch(store: Store) -> None:
    assert [each.newest for each in store.tasks()] == [None] * 3
    store.add([batch(DELAY, [1], epoch=7), batch(DELAY, [1], number=1, epoch=3)])
    store.add([batch(WIDE, [1], number=2, epoch=0)])
    assert [each.newest for each in store.tasks()] == [7, None, 0]


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


def test_several_processes_that_make_a_store_at_once_make_one(url: str) -> None:
    start = threading.Barrier(4)
    versions: list[int] = []

    def make() -> None:
        start.wait()
        with contextlib.closing(open_store(url)) as store:
            store.register([DELAY])
            versions.append(store.report_count(DELAY))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert versions == [0] * 4


def test_reports_are_counted_while_ids_are_forgotten(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcwise.server.store.sqlite.upkeep._STEP", 500)
    store = opener()
    many, group = 10_000, 2500
    for start in range(0, many, group):
        store.add([batch(DELAY, [1], number=start + n, epoch=10) for n in range(group)])
    store.add([batch(DELAY, [2], number=many, epoch=20)])
    forgotten: list[int] = []
    pruning = threading.Thread(target=lambda: forgotten.append(store.prune(DELAY, before=20)))
    pruning.start()
    added = 0
    while pruning.is_alive():
        added += 1
        assert store.add([batch(DELAY, [3], number=many + added, epoch=20)]) == [COUNTED]
    pruning.join()
    assert forgotten == [many]
    assert store.counts(DELAY).tolist() == counted(DELAY, [1] * many + [2] + [3] * added)
    assert store.add([batch(DELAY, [1], number=0, epoch=10)]) == [CLOSED]
    assert store.add([batch(DELAY, [3], number=many + 1, epoch=20)]) == [REPLAYED]
    assert store.check() == []
    store.close()


def test_a_closed_store_is_not_opened_again_by_who_comes_late(opener: Callable[[], Store]) -> None:
    store = opener()
    store.add([batch(DELAY, [1])])
    store.close()
    store.close()
    late: list[Callable[[], object]] = [
        store.keys,
        store.tasks,
        lambda: store.counts(DELAY),
        lambda: store.add([batch(DELAY, [1], number=1)]),
        lambda: store.close_task(DELAY.id, 1),
    ]
    for use in late:
        with pytest.raises(StoreError, match="closed"):
            use()
