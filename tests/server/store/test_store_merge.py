"""The contract of every store: exports and merges, between all kinds of stores and through files."""

import io
import json
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from arcwise.errors import ArcwiseError, ParameterError
from arcwise.server.store import Store, StoredKey, open_store
from arcwise.server.store.export import Counts, Header, Record, TaskState, read_export
from tests.support.store_samples import (
    CLOSED,
    COUNTED,
    DELAY,
    HEADING,
    NOW,
    REPLAYED,
    TASKS,
    WIDE,
    batch,
    counted,
)
from tests.support.stores import MOVES, Opener, exported, opened


def fill(store: Store) -> None:
    store.add([batch(DELAY, [1, 1, 2]), batch(DELAY, [203], number=1, epoch=101)])
    store.add([batch(WIDE, [300], number=2)])
    store.add([batch(DELAY, [7], number=n, epoch=99) for n in range(10, 5010)])
    store.add([batch(HEADING, [4], number=3)])
    store.prune(DELAY, before=100)
    store.close_task(HEADING.id, 5_000)
    store.add_key(StoredKey("k", bytes(32), "read", None, "", 1, None))


@pytest.mark.parametrize("move", MOVES)
def test_everything_but_the_keys_arrives(store: Store, other: Store, move: str) -> None:
    fill(store)
    other.merge(MOVES[move](store.export(ids=True)), NOW)
    for task in TASKS:
        found = {epoch: counts.tolist() for epoch, counts in other.counts_by_epoch(task).items()}
        assert found == {epoch: counts.tolist() for epoch, counts in store.counts_by_epoch(task).items()}
        assert other.report_count(task) == store.report_count(task)
    assert other.tasks() == store.tasks()
    assert other.keys() == []
    assert other.check() == []
    again = [batch(DELAY, [1, 1, 2]), batch(DELAY, [7], number=10, epoch=99), batch(HEADING, [4], number=3)]
    assert other.add(again) == [REPLAYED, CLOSED, CLOSED]


def test_counts_are_added_to_those_that_are_there(store: Store, other: Store) -> None:
    other.register([DELAY])
    other.add([batch(DELAY, [1], number=77), batch(DELAY, [5], number=78, epoch=102)])
    store.add([batch(DELAY, [1, 2])])
    other.merge(store.export(ids=True), NOW)
    assert other.counts(DELAY).tolist() == counted(DELAY, [1, 1, 2, 5])
    assert other.add([batch(DELAY, [6], number=79)]) == [COUNTED]
    assert other.report_count(DELAY) == 5
    assert other.check() == []


def refused(target: Store, records: Iterator[Record], words: str, now: int = NOW) -> None:
    """Check that a merge is refused with these words."""
    with pytest.raises(ParameterError, match=words):
        target.merge(records, now)
    if isinstance(records, Generator):
        records.close()


def test_a_store_is_merged_once_by_whatever_way_it_comes(store: Store, other: Store, tmp_path: Path) -> None:
    store.add([batch(DELAY, [1])])
    text = exported(store.export(ids=False))
    other.merge(read_export(io.StringIO(text), "a"), NOW)
    store.add([batch(DELAY, [2], number=1)])
    with opened(f"sqlite:///{tmp_path / 'third.db'}") as third:
        third.merge(other.export(ids=False), NOW + 1)
        for target, records, words in (
            (other, read_export(io.StringIO(text), "a"), "were merged on 1970-05-31"),
            (other, store.export(ids=True), "were merged on 1970-05-31"),
            (store, read_export(io.StringIO(text), "a"), "these reports come from this same store"),
            (store, other.export(ids=False), "these reports come from this"),  # in a cycle
            (third, store.export(ids=True), "were merged on"),  # it is in the other store's counts
        ):
            refused(target, records, words, NOW + 1)
        assert third.counts(DELAY).tolist() == counted(DELAY, [1])
    assert other.counts(DELAY).tolist() == counted(DELAY, [1])
    assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2])


def test_batches_that_both_counted_are_refused_and_nothing_is_merged(store: Store, other: Store) -> None:
    other.register(TASKS)
    other.add([batch(DELAY, [1], number=5)])
    store.add([batch(HEADING, [9]), batch(DELAY, [1], number=5), batch(DELAY, [2], number=6)])
    refused(other, store.export(ids=True), "at least 1 batches are in both")
    assert other.counts(DELAY).tolist() == counted(DELAY, [1])
    assert other.counts(HEADING).sum() == 0
    other.merge(store.export(ids=False), NOW)  # nothing of the first try is left, not even its origin
    assert other.counts(DELAY).tolist() == counted(DELAY, [1, 1, 2])


def test_an_export_is_of_one_moment(opener: Opener, other: Store) -> None:
    with opener() as store, opener() as writer:
        writer.add([batch(DELAY, [1]), batch(WIDE, [1], number=1)])
        records = store.export(ids=True)
        moment = [next(records)]
        writer.add([batch(DELAY, [2], number=2), batch(WIDE, [2], number=2)])
        moment += records
    other.merge(iter(moment), NOW)
    assert other.counts(DELAY).tolist() == counted(DELAY, [1])
    assert other.counts(WIDE).tolist() == counted(WIDE, [1])
    assert other.add([batch(WIDE, [2], number=2)]) == [COUNTED]


def damaged(text: str) -> Iterator[str]:
    lines = text.splitlines(keepends=True)
    yield ""
    yield "hello\n"
    yield "".join(lines[:-1])  # cut off
    yield "".join(lines[:-2] + lines[-1:])  # a line is missing
    yield text + "more\n"
    for number, line in enumerate(lines[:-1]):
        fields = json.loads(line)
        for key in fields:
            wrong: list[object] = [[], "x", -1, 2**70, {"a": 1}, 1.5]
            for bad in wrong:
                if fields[key] != bad:
                    broken = json.dumps({**fields, key: bad}) + "\n"
                    yield "".join([*lines[:number], broken, *lines[number + 1 :]])


def test_a_file_that_is_damaged_changes_nothing(store: Store, tmp_path: Path) -> None:
    store.add([batch(DELAY, [1])])
    text = exported(store.export(ids=True))
    cases = list(damaged(text))
    assert len(cases) > 50
    with closing(open_store(f"sqlite:///{tmp_path / 'clean.db'}")) as clean:
        for case in cases:
            said = r"a, line \d+: not a valid|a is incomplete: it ends after"
            refused(clean, read_export(io.StringIO(case), "a"), said)
            assert clean.tasks() == []
        clean.merge(read_export(io.StringIO(text), "a"), NOW)
        assert clean.counts(DELAY).tolist() == counted(DELAY, [1])


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Store]:
    with opened(f"sqlite:///{tmp_path / 'source.db'}") as store:
        fill(store)
        yield store


def test_workers_on_postgresql_count_while_a_merge_gathers(postgres_url: str, source: Store) -> None:
    with closing(open_store(postgres_url)) as target, opened(postgres_url, [DELAY]) as worker:
        added = []

        def slowly() -> Iterator[Record]:
            with closing(source.export(ids=True)) as records:
                for number, record in enumerate(records):
                    yield record
                    # Of an epoch that the merge will close, and of one that stays open.
                    both = [batch(DELAY, [9], number=9000 + 2 * number + e, epoch=99 + e) for e in (0, 1)]
                    added.extend(worker.add(both))
                    worker.register([HEADING])

        target.merge(slowly(), NOW)
        assert len(added) > 8
        assert set(added) == {COUNTED}
        assert target.check() == []
        both = source.counts(DELAY) + counted(DELAY, [9] * len(added))
        assert target.counts(DELAY).tolist() == both.tolist()
        again = batch(DELAY, [1, 1, 2]), batch(DELAY, [9], number=9000, epoch=99), batch(WIDE, [3], number=2)
        assert worker.add(again) == [REPLAYED, CLOSED, REPLAYED]


def test_of_two_merges_of_one_source_at_once_one_is_refused(postgres_url: str, source: Store) -> None:
    with closing(open_store(postgres_url)) as one, closing(open_store(postgres_url)) as two:

        def overtaken() -> Iterator[Record]:
            with closing(source.export(ids=True)) as records:
                yield from records
            with closing(source.export(ids=True)) as records:
                two.merge(records, NOW)

        refused(one, overtaken(), "merging them again would count them twice")
        assert one.counts(DELAY).tolist() == source.counts(DELAY).tolist()
        assert one.check() == []


def records(*reports: int, epoch: int = 100, origin: bytes = bytes(16)) -> list[Record]:
    """Return an export of DELAY with an epoch for each number, which is its number of reports of code 3."""
    found: list[Record] = [Header((origin,), sum(reports), ids=False), TaskState(DELAY, None, 0)]
    for number in reports:
        counts = np.zeros(DELAY.mechanism.kernel.codes, np.int64)
        counts[3] = number
        found.append(Counts(epoch, counts))
        epoch += 1
    return found


MOST = 2**52
TOO_MANY: dict[str, list[Record]] = {
    "of one code": records(MOST + 1),
    "that wrap to a few": records(*[2**62] * 4),
    "of the task in two epochs": records(MOST, 1),
    "of the task in one epoch": [*records(), Counts(100, np.full(DELAY.mechanism.kernel.codes, 2**62))],
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("what", TOO_MANY)
def test_more_reports_than_can_be_added_up_are_refused(store: Store, move: str, what: str) -> None:
    total = sum(sum(each.counts.tolist()) for each in TOO_MANY[what] if isinstance(each, Counts))
    coming = [Header((bytes(16),), total, ids=False), *TOO_MANY[what][1:]]
    store.add([batch(DELAY, [1])])
    refused(store, MOVES[move](iter(coming)), r"at most 2\^52 = 4,503,599,627,370,496")
    assert store.counts(DELAY).tolist() == counted(DELAY, [1])
    assert store.report_count(DELAY) == 1
    assert store.check() == []


def test_reports_that_are_there_already_count_towards_the_most(store: Store) -> None:
    store.add([batch(DELAY, [1])])
    too_many = "would have 4,503,599,627,370,497 reports"
    refused(store, iter(records(5, -1)), "counts must be at least 0, got -1")
    refused(store, iter(records(MOST)), too_many)
    store.merge(records(MOST - 2), NOW)
    refused(store, iter(records(2, origin=b"o" * 16)), too_many)
    store.merge(records(1, origin=b"o" * 16), NOW)
    assert store.report_count(DELAY) == MOST
    assert store.check() == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE batch SET epoch = ''",
        "UPDATE batch SET id = 'x' WHERE epoch = 1",
        "UPDATE task SET definition = 0",
        "DELETE FROM state",
        "UPDATE counts SET codes = 'x'",
        "UPDATE counts SET per_code = x'00'",
        "UPDATE counts SET epoch = 9e99 WHERE epoch = 1",
        "UPDATE task SET open_from = 'x'",
    ],
)
def test_a_file_with_odd_values_is_refused_in_words(tmp_path: Path, damage: str) -> None:
    with opened(f"sqlite:///{tmp_path / 'odd.db'}", [DELAY]) as odd:
        odd.add([batch(DELAY, [1], number=number, epoch=epoch) for number, epoch in enumerate((1, 2))])
    with closing(sqlite3.connect(tmp_path / "odd.db")) as connection, connection:
        connection.execute(damage)
    target = open_store(f"sqlite:///{tmp_path / 'target.db'}")
    with closing(open_store(f"sqlite:///{tmp_path / 'odd.db'}")) as odd, closing(target):
        with pytest.raises(ArcwiseError):
            target.merge(odd.export(ids=True), NOW)
        assert target.tasks() == []
        for read in (odd.tasks, odd.sources, lambda: odd.counts_by_epoch(DELAY), lambda: odd.revision(DELAY)):
            with suppress(ArcwiseError):
                read()
