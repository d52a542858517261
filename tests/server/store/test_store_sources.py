"""The contract of every store: sources, whose counts of an epoch are replaced and never added up."""

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from arcwise.errors import ParameterError
from arcwise.server.estimates.service import Estimates
from arcwise.server.store import SourceChange, SourceTask, Store, StoredSource
from arcwise.server.store.export import BatchIds
from arcwise.tasks import Task
from arcwise.typing import IntArray
from tests.support.store_samples import (
    CLOSED,
    COUNTED,
    DELAY,
    HEADING,
    NOW,
    REPLAYED,
    WIDE,
    batch,
    counted,
    lake,
)
from tests.support.stores import MOVES, Opener

CODES = DELAY.mechanism.kernel.codes
KEY = bytes.fromhex(DELAY.id)
ONE = np.bincount([1], minlength=CODES)
ID, OTHER_ID = bytes(16), bytes([1] * 16)


def held(store: Store, task: Task) -> dict[int, list[int]]:
    return {epoch: counts.tolist() for epoch, counts in store.counts_by_epoch(task).items()}


def test_every_read_includes_what_a_source_has(store: Store) -> None:
    store.add([batch(DELAY, [1, 1]), batch(DELAY, [2], number=1, epoch=102)])
    given = batch(DELAY, [1, 3], number=10), batch(DELAY, [203], number=11, epoch=101)
    report = store.replace_source("lake", *lake(*given, batch(WIDE, [300], number=12)), now=NOW)
    changes = [(DELAY.id, 100, 0, 2), (DELAY.id, 101, 0, 1), (WIDE.id, 100, 0, 1)]
    assert report.changed == tuple(SourceChange(*change) for change in sorted(changes))
    assert (report.name, report.unchanged, report.closed, report.added) == ("lake", 0, (), 4)
    assert held(store, DELAY) == {
        100: counted(DELAY, [1, 1, 1, 3]),
        101: counted(DELAY, [203]),
        102: counted(DELAY, [2]),
    }
    assert store.reports_by_epoch(DELAY) == {100: 4, 101: 1, 102: 1}
    assert store.counts(DELAY).tolist() == counted(DELAY, [1, 1, 1, 2, 3, 203])
    assert store.sums(DELAY, {100: 1, 101: 0}, 2).tolist() == [
        counted(DELAY, [203]),
        counted(DELAY, [1, 1, 1, 3]),
    ]
    assert [store.report_count(task) for task in (DELAY, HEADING, WIDE)] == [6, 0, 1]
    assert [each.newest for each in store.tasks()] == [102, None, 100]
    assert store.sources() == [
        StoredSource("lake", NOW, (SourceTask(DELAY.id, 100, 101, 2, 3), SourceTask(WIDE.id, 100, 100, 1, 1)))
    ]
    assert store.check() == []


def test_a_source_is_replaced_and_never_added_to(opener: Opener) -> None:
    first, second = batch(DELAY, [1], number=1), batch(DELAY, [2, 2], number=2)
    elsewhere = batch(DELAY, [5], number=3, epoch=101)
    with opener() as store:
        store.replace_source("lake", *lake(first, elsewhere))
        store.replace_source("other", *lake(batch(DELAY, [7], number=4)))
    with opener() as store:
        report = store.replace_source("lake", *lake(first, second))
        assert report.changed == (SourceChange(DELAY.id, 100, 1, 3),)
        assert held(store, DELAY) == {100: counted(DELAY, [1, 2, 2, 7]), 101: counted(DELAY, [5])}
        report = store.replace_source("lake", *lake(second, first, elsewhere))
        assert (report.changed, report.unchanged, report.added) == ((), 2, 0)
        report = store.replace_source("lake", *lake(batch(DELAY, [9], number=1)))
        assert report.changed == (SourceChange(DELAY.id, 100, 3, 1),)
        assert report.added == -2
        assert held(store, DELAY) == {100: counted(DELAY, [7, 9]), 101: counted(DELAY, [5])}
        assert store.report_count(DELAY) == 3
        assert store.check() == []


def test_zeros_empty_an_epoch_and_set_its_batches_free(store: Store) -> None:
    mine = batch(DELAY, [1], number=1)
    store.replace_source("lake", *lake(mine))
    store.replace_source("lake", {(KEY, 100): ONE * 0}, [])
    assert held(store, DELAY) == {}
    assert store.reports_by_epoch(DELAY) == {}
    assert [source.tasks for source in store.sources()] == [()]
    assert store.add([mine]) == [COUNTED]
    assert store.check() == []


def test_a_batch_of_a_source_is_a_replay_to_the_server_until_it_leaves_the_source(store: Store) -> None:
    mine, left = batch(DELAY, [1], number=1), batch(DELAY, [2], number=2)
    store.replace_source("lake", *lake(mine, left))
    again = [batch(DELAY, [8], number=3), mine, batch(DELAY, [1], number=2, epoch=101)]
    assert store.add(again) == [COUNTED, REPLAYED, REPLAYED]
    assert store.add([mine]) == [REPLAYED]
    assert held(store, DELAY) == {100: counted(DELAY, [1, 2, 8])}
    store.replace_source("lake", *lake(mine))
    assert held(store, DELAY) == {100: counted(DELAY, [1, 8])}
    assert store.add([mine, left]) == [REPLAYED, COUNTED]
    assert held(store, DELAY) == {100: counted(DELAY, [1, 2, 8])}


def test_batches_that_the_server_counted_are_refused_and_nothing_changes(store: Store) -> None:
    heading = batch(HEADING, [1], number=9)
    store.add([*(batch(DELAY, [1], number=n) for n in range(3)), heading])
    mine = batch(DELAY, [5], number=20, epoch=99)
    store.replace_source("lake", *lake(mine))
    before = held(store, DELAY)
    both = [batch(DELAY, [1], number=n, epoch=101) for n in (0, 1)]
    with pytest.raises(ParameterError) as caught:
        store.replace_source("lake", *lake(mine, batch(DELAY, [6], number=21), *both, heading))
    first, second = sorted([(DELAY.id, 101, 2), (HEADING.id, 100, 1)])
    assert str(caught.value) == (
        f"3 batches are counted by the server (task {first[0]}, epoch {first[1]}: {first[2]}; "
        f"task {second[0]}, epoch {second[1]}: {second[2]}), and would count twice. "
        "Remove them from the source. Nothing was changed"
    )
    assert held(store, DELAY) == before
    assert store.add([batch(DELAY, [6], number=21), mine]) == [COUNTED, REPLAYED]
    assert store.check() == []


def test_batches_of_another_source_are_refused(store: Store) -> None:
    mine = batch(DELAY, [5], number=1)
    store.replace_source("lake", *lake(mine))
    with pytest.raises(
        ParameterError, match=r"1 batches are counted by source lake \(task \w+, epoch 100: 1"
    ):
        store.replace_source("warehouse", *lake(mine, batch(DELAY, [6], number=2)))
    assert [source.name for source in store.sources()] == ["lake"]
    store.replace_source("lake", *lake(mine))
    moved = {(KEY, 100): ONE * 0, (KEY, 101): np.bincount([5], minlength=CODES)}
    store.replace_source("lake", moved, [(KEY, 101, mine.batch_id)])
    assert held(store, DELAY) == {101: counted(DELAY, [5])}
    assert store.check() == []


def test_an_epoch_whose_batches_are_all_elsewhere_now_is_emptied(store: Store) -> None:
    alone, other = batch(DELAY, [5], number=1), batch(DELAY, [6], number=2, epoch=101)
    pair = [batch(HEADING, [1], number=n, epoch=50) for n in (1, 2)]
    store.replace_source("lake", *lake(alone, other, *pair))
    earlier = batch(DELAY, [5], number=1, epoch=99)
    apart = [batch(HEADING, [1], number=n, epoch=50 + n) for n in (1, 2)]
    report = store.replace_source("lake", *lake(earlier, other, *apart))
    assert (SourceChange(DELAY.id, 100, 1, 0) in report.changed, report.added) == (True, 0)
    assert held(store, DELAY) == {99: counted(DELAY, [5]), 101: counted(DELAY, [6])}
    assert store.reports_by_epoch(HEADING) == {51: 1, 52: 1}
    report = store.replace_source("lake", *lake(earlier, other, *apart))
    assert (report.changed, report.unchanged) == ((), 4)
    assert store.add([alone, earlier, other]) == [REPLAYED] * 3
    assert store.check() == []


def test_one_batch_that_moves_does_not_empty_an_epoch_with_others(store: Store) -> None:
    mine, other = batch(DELAY, [5], number=1), batch(DELAY, [6], number=2)
    store.replace_source("lake", *lake(mine, other))
    again = batch(DELAY, [5], number=1, epoch=101)
    said = r"counted by this source, in epochs that are closed or not in these counts .* count it together"
    with pytest.raises(ParameterError, match=said):
        store.replace_source("lake", *lake(again))
    assert held(store, DELAY) == {100: counted(DELAY, [5, 6])}
    store.replace_source("lake", *lake(other, again))
    assert held(store, DELAY) == {100: counted(DELAY, [6]), 101: counted(DELAY, [5])}


def test_a_batch_does_not_leave_a_closed_epoch(store: Store) -> None:
    old, new = batch(DELAY, [1], number=1, epoch=10), batch(DELAY, [2], number=2, epoch=20)
    store.replace_source("lake", *lake(old, new))
    store.prune(DELAY, before=15)
    report = store.replace_source("lake", *lake(old, batch(DELAY, [2], number=2, epoch=14)))
    assert report.closed == (SourceChange(DELAY.id, 14, 0, 1),)
    assert store.reports_by_epoch(DELAY) == {10: 1, 20: 1}
    assert store.check() == []


def test_nothing_changes_in_a_closed_epoch(store: Store) -> None:
    old, new = batch(DELAY, [1], number=1, epoch=10), batch(DELAY, [2], number=2, epoch=20)
    store.replace_source("lake", *lake(old, new))
    store.add([batch(DELAY, [3], number=3, epoch=11)])
    assert store.prune(DELAY, before=15) == 2  # of the source, and of the server
    grown = batch(DELAY, [4], number=4, epoch=10), batch(DELAY, [4, 4], number=5, epoch=11)
    more = batch(DELAY, [6], number=6, epoch=20)
    report = store.replace_source("lake", *lake(old, *grown, new, more))
    assert report.changed == (SourceChange(DELAY.id, 20, 1, 2),)
    assert report.closed == (SourceChange(DELAY.id, 10, 1, 2), SourceChange(DELAY.id, 11, 0, 2))
    assert "1 epochs changed (+1 reports), 0 unchanged, 2 closed and left as they were (+3" in str(report)
    assert store.reports_by_epoch(DELAY) == {10: 1, 11: 1, 20: 2}
    report = store.replace_source("lake", *lake(old, new, more))
    assert (report.changed, report.unchanged, report.closed) == ((), 2, ())
    assert store.add([old, grown[0], new]) == [CLOSED, CLOSED, REPLAYED]
    assert store.check() == []


def test_nothing_of_a_closed_task_changes(store: Store) -> None:
    mine, more = batch(DELAY, [1], number=1), batch(DELAY, [2], number=2)
    store.replace_source("lake", *lake(mine))
    store.close_task(DELAY.id, 5_000)
    report = store.replace_source("lake", *lake(mine, more, batch(HEADING, [1], number=3)))
    assert report.closed == (SourceChange(DELAY.id, 100, 1, 2),)
    assert [store.report_count(task) for task in (DELAY, HEADING)] == [1, 1]
    store.open_task(DELAY.id)
    assert store.add([mine, more]) == [REPLAYED, COUNTED]


def test_the_revision_changes_with_the_counts_even_if_their_number_does_not(store: Store) -> None:
    store.replace_source("lake", *lake(batch(DELAY, [1], number=1)))
    seen = [store.revision(DELAY)]
    for change in (
        lambda: store.replace_source("lake", *lake(batch(DELAY, [2], number=1))),
        lambda: store.replace_source("lake", *lake(batch(DELAY, [3], number=1))),
        lambda: store.drop_source("lake"),
        lambda: store.replace_source("lake", *lake(batch(DELAY, [4], number=1))),
        lambda: store.add([batch(DELAY, [1], number=2)]),
    ):
        change()
        seen.append(store.revision(DELAY))
    assert len(set(seen)) == len(seen)
    assert [reports for reports, _ in seen] == [1, 1, 1, 0, 1, 2]


@pytest.mark.parametrize(
    ("counts", "ids", "said"),
    [
        ({(bytes(32), 1): ONE}, [], f"task {bytes(32).hex()} is not in the store"),
        ({(KEY, 1): ONE[1:]}, [], f"epoch 1 must be {CODES} integers.* of shape"),
        ({(KEY, 1): ONE / 1}, [], f"must be {CODES} integers, .*got float64"),
        ({(KEY, 1): -ONE}, [], "counts must be at least 0, got -1"),
        ({(KEY, 1): ONE << 54}, [], "would have 18,014,398,509,481,984 reports"),
        ({(KEY, 2**32): ONE}, [], r"epoch must be from 0 to 2\^32 - 1, got 4294967296"),
        ({(KEY, -1): ONE}, [], "got -1 of task"),
        ({(KEY, 1): ONE}, [(KEY, 1, b"short")], "a batch id must be 16 bytes, got 5"),
        ({(KEY, 1): ONE}, [], "has 1 reports in 0 batches: give the ids of all batches"),
        ({(KEY, 1): ONE}, [(KEY, 1, ID), (KEY, 1, OTHER_ID)], "has 1 reports in 2 batches"),
        ({(KEY, 1): ONE * 0}, [(KEY, 1, ID)], "has 0 reports in 1 batches"),
        ({(KEY, 1): ONE * 2}, [(KEY, 1, ID)] * 2, "1 batch ids are given twice"),
        ({(KEY, 1): ONE}, [(KEY, 1, ID), (KEY, 2, ID)], "1 batch ids are given twice"),
        ({(KEY, 1): ONE}, [(KEY, 1, ID), (KEY, 2, OTHER_ID)], "1 batch ids of task .* epoch 2, but no"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_is_refused(
    store: Store, counts: dict[tuple[bytes, int], IntArray], ids: list[tuple[bytes, int, bytes]], said: str
) -> None:
    with pytest.raises(ParameterError, match=said):
        store.replace_source("lake", counts, ids)
    assert store.sources() == []
    assert store.report_count(DELAY) == 0
    assert store.check() == []


@pytest.mark.parametrize("name", ["", "-lake", "a lake", "läke", "x" * 65, "a\n"])
def test_a_name_that_is_none_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ParameterError, match="the name of a source must be 1 to 64 letters"):
        store.replace_source(name, *lake(batch(DELAY, [1])))


def test_ids_that_cannot_be_read_to_their_end_change_nothing(store: Store) -> None:
    counts, ids = lake(batch(DELAY, [1], number=1))

    def broken() -> Iterable[tuple[bytes, int, bytes]]:
        yield from ids
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        store.replace_source("lake", counts, broken())
    assert store.sources() == []
    store.replace_source("lake", counts, ids)
    assert store.report_count(DELAY) == 1


def test_many_batches(store: Store) -> None:
    many = [batch(DELAY, [n % 7], number=n, epoch=100 + n % 3) for n in range(10_000)]
    store.replace_source("lake", *lake(*many[:9_000]))
    report = store.replace_source("lake", *lake(*many))
    assert (len(report.changed), report.added) == (3, 1_000)
    assert store.counts(DELAY).tolist() == counted(DELAY, [n % 7 for n in range(10_000)])
    assert set(store.add(many[::100])) == {REPLAYED}


def test_dropping_a_source(store: Store) -> None:
    mine = batch(DELAY, [1, 1], number=1)
    store.add([batch(DELAY, [3], number=2)])
    store.replace_source("lake", *lake(mine, batch(WIDE, [300], number=3)))
    with pytest.raises(ParameterError, match="the store has no source 'sea'"):
        store.drop_source("sea")
    assert store.drop_source("lake") == 3
    assert store.sources() == []
    assert held(store, DELAY) == {100: counted(DELAY, [3])}
    assert held(store, WIDE) == {}
    assert store.add([mine]) == [COUNTED]
    assert store.check() == []


def test_counts_of_closed_epochs_are_dropped_only_if_asked_for(store: Store) -> None:
    old, new = batch(DELAY, [1], number=1, epoch=10), batch(DELAY, [2], number=2, epoch=20)
    store.replace_source("lake", *lake(old, new))
    store.prune(DELAY, before=15)
    with pytest.raises(ParameterError, match="source lake has counts in 1 closed epochs"):
        store.drop_source("lake")
    assert store.report_count(DELAY) == 2
    assert store.drop_source("lake", closed_too=True) == 2
    assert store.report_count(DELAY) == 0
    assert store.check() == []


@pytest.mark.parametrize("move", MOVES)
def test_a_merge_keeps_sources_apart(store: Store, other: Store, move: str) -> None:
    mine, server = batch(DELAY, [1], number=1), batch(DELAY, [2], number=2)
    store.replace_source("lake", *lake(mine, batch(DELAY, [1], number=4, epoch=101)), now=NOW)
    store.add([server])
    other.register([DELAY])
    other.replace_source("sea", *lake(batch(DELAY, [7], number=7)), now=NOW - 1_000)
    other.merge(MOVES[move](store.export(ids=True)), NOW)
    assert held(other, DELAY) == {100: counted(DELAY, [1, 2, 7]), 101: counted(DELAY, [1])}
    found = [(source.name, source.replaced) for source in other.sources()]
    assert found == [("lake", NOW), ("sea", NOW - 1_000)]
    assert other.add([mine, server]) == [REPLAYED, REPLAYED]
    other.replace_source("lake", *lake(mine, batch(DELAY, [3], number=3)))
    assert held(other, DELAY) == {100: counted(DELAY, [1, 2, 3, 7]), 101: counted(DELAY, [1])}
    with pytest.raises(ParameterError, match="1 batches are counted by the server"):
        other.replace_source("lake", *lake(mine, server))
    assert other.check() == []


def test_a_source_of_both_stores_is_refused(store: Store, other: Store) -> None:
    store.replace_source("lake", *lake(batch(DELAY, [1], number=1)))
    other.register([DELAY])
    other.replace_source("lake", *lake(batch(DELAY, [2], number=2)))
    with (
        pytest.raises(ParameterError, match="both stores have a source lake"),
        closing(store.export(ids=True)) as records,
    ):
        other.merge(records, int(time.time()))
    assert other.report_count(DELAY) == 1
    other.drop_source("lake")
    other.merge(store.export(ids=True), int(time.time()))
    assert other.counts(DELAY).tolist() == counted(DELAY, [1])


def test_a_merge_without_ids_leaves_a_source_that_can_be_replaced(store: Store, other: Store) -> None:
    mine = batch(DELAY, [1], number=1)
    store.replace_source("lake", *lake(mine))
    with closing(store.export(ids=True)) as records:
        other.merge((record for record in records if not isinstance(record, BatchIds)), int(time.time()))
    report = other.replace_source("lake", *lake(mine))
    assert report.unchanged == 1
    assert other.add([mine]) == [REPLAYED]
    assert other.report_count(DELAY) == 1


def test_adding_while_a_source_is_replaced(opener: Opener) -> None:
    """Servers continue meanwhile; afterwards they treat the batches of the source as replays."""
    contested = [batch(DELAY, [1], number=n) for n in range(600)]
    theirs = [batch(DELAY, [2], number=1_000 + n) for n in range(600)]
    with opener() as adding, opener() as replacing, ThreadPoolExecutor(1) as threads:
        added = threads.map(adding.add, (theirs[start : start + 50] for start in range(0, 600, 50)))
        replacing.replace_source("lake", *lake(*contested))
        assert set(adding.add(contested)) == {REPLAYED}
        assert [set(outcomes) for outcomes in added] == [{COUNTED}] * 12
        assert adding.counts(DELAY).tolist() == counted(DELAY, [1] * 600 + [2] * 600)
        assert adding.check() == []


@pytest.mark.parametrize("turn", range(3))
def test_of_a_server_and_a_source_with_the_same_batches_one_counts_them(opener: Opener, turn: int) -> None:
    contested = [batch(DELAY, [1], number=n) for n in range(400)]
    counts, ids = lake(*contested)
    with opener() as adding, opener() as replacing, ThreadPoolExecutor(1) as threads:
        begin = threading.Barrier(2)

        def replace() -> str:
            begin.wait()
            try:
                replacing.replace_source("lake", counts, ids[::-1])
            except ParameterError as error:
                return str(error)
            return ""

        replaced = threads.submit(replace)
        begin.wait()
        for start in range(turn, 400, 7):
            adding.add(contested[start : start + 7])
        adding.add(contested)
        told = replaced.result()
        assert adding.counts(DELAY).tolist() == counted(DELAY, [1] * 400)
        assert len(adding.sources()) == (0 if told else 1)
        assert not told or "batches are counted by the server" in told
        assert adding.check() == []


def test_a_source_that_is_dropped_between_two_looks_leaves_no_small_group(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If an epoch has enough reports only with the source, readers must not see the rest without it."""
    store.add([batch(DELAY, [1, 2, 3])])
    store.replace_source("lake", *lake(batch(DELAY, [4] * 200, number=1)))
    estimates = Estimates(lambda: store, is_live=lambda _: True, min_reports=100, min_reports_days=1)
    assert estimates.shown_counts(DELAY, None).counts.sum() == 203
    sums = store.sums

    def late(*given: Any) -> IntArray:
        if store.sources():
            store.drop_source("lake")
        return sums(*given)

    monkeypatch.setattr(store, "sums", late)
    assert estimates.shown_counts(DELAY, None).counts.sum() == 0
