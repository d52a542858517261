"""The contract of every store: its list of tasks, closing them, versions, check and vacuum."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.server.store import Outcome, Store, StoredKey
from arcwise.tasks import Task
from tests.support.store_samples import CLOSED, COUNTED, DELAY, HEADING, REPLAYED, TASKS, batch, counted
from tests.support.stores import Opener


def test_tasks_are_listed_in_the_order_of_their_first_registration(opener: Opener) -> None:
    late = Task("late", Interval(0, 1), 2.0)
    with opener() as store, opener() as other:
        other.register([late, DELAY])
        found = store.tasks()
        assert [each.task.id for each in found] == [task.id for task in [*TASKS, late]]
        assert [(each.closed, each.open_from) for each in found] == [(None, 0)] * 4
        assert store.add([batch(late, [1])]) == [COUNTED]  # registered by another process


def test_a_closed_task_takes_no_reports_and_keeps_its_counts(opener: Opener) -> None:
    first, second = batch(DELAY, [1]), batch(DELAY, [2], number=1)
    with opener() as store, opener() as other:
        assert store.add([first, batch(HEADING, [1])]) == [COUNTED, COUNTED]
        assert other.close_task(DELAY.id, 5_000)
        assert not other.close_task(DELAY.id, 6_000)
        assert store.add([first, second, batch(HEADING, [2], number=1)]) == [CLOSED, CLOSED, COUNTED]
        store.register(TASKS)  # as every start of a server does: it opens nothing
        assert {each.task.name: each.closed for each in store.tasks()}["delay"] == 5_000
        assert store.counts(DELAY).tolist() == counted(DELAY, [1])
        assert other.open_task(DELAY.id)
        assert not other.open_task(DELAY.id)
        assert store.add([first, second]) == [REPLAYED, COUNTED]
        assert not store.close_task("ab" * 32, 5_000)  # an unregistered task
        assert not store.open_task("ab" * 32)


def test_of_two_tasks_of_a_name_one_is_opened_whoever_asks(opener: Opener) -> None:
    with opener() as one, opener() as two:
        if type(one).open_alone is Store.open_alone:
            pytest.skip("stores of this kind are for one process")
        for each in range(8):
            pair = [Task(f"same {each}", Interval(0, high), 1.0) for high in (1, 2)]
            both = threading.Barrier(2)

            def open_one(store: Store, task: Task, again: bool, both: threading.Barrier = both) -> bool:
                both.wait()
                try:
                    return store.open_alone(task, again=again)
                except ParameterError:
                    return False

            for again in (False, True):
                with ThreadPoolExecutor(2) as threads:
                    assert sorted(threads.map(open_one, (one, two), pair, (again, again))) == [False, True]
                names = [found.task.name for found in one.tasks() if found.closed is None]
                assert names.count(f"same {each}") == 1
                one.register(pair)
                for task in pair:
                    one.close_task(task.id, 5_000)
        assert not one.open_alone(pair[0], again=False)  # known tasks stay closed
        assert one.open_alone(pair[0], again=True)
        assert not one.open_alone(pair[0], again=True)


def test_no_writer_counts_after_a_task_was_closed(opener: Opener) -> None:
    stop = threading.Event()
    outcomes: list[Outcome] = []

    def write(number: int) -> None:
        with opener() as mine:
            while not stop.is_set():
                outcomes.extend(mine.add([batch(DELAY, [3], number=number)]))
                number += 2
                time.sleep(0.001)  # so that the others have their turns

    # Opened before anybody writes: opening a new file waits its turn, and SQLite's turns are not fair.
    with opener() as store, ThreadPoolExecutor(2) as threads:
        writers = [threads.submit(write, offset) for offset in range(2)]
        try:
            while store.report_count(DELAY) < 20:
                time.sleep(0.001)
            store.close_task(DELAY.id, 5_000)
            version = store.report_count(DELAY)
            while outcomes.count(CLOSED) < 20:
                time.sleep(0.001)
        finally:
            stop.set()
        for writer in writers:
            writer.result()
        assert store.report_count(DELAY) == version == outcomes.count(COUNTED)


def test_the_version_changes_with_the_counts_and_only_then(opener: Opener) -> None:
    with opener() as store, opener() as other:
        assert store.report_count(DELAY) == 0
        other.add([batch(DELAY, [1, 1, 2]), batch(DELAY, [4], number=1, epoch=102)])
        assert store.report_count(DELAY) == 4
        assert store.add([batch(DELAY, [1, 1, 2])]) == [REPLAYED]
        store.prune(DELAY, before=101)
        store.close_task(DELAY.id, 5_000)
        assert store.report_count(DELAY) == 4
        assert store.report_count(HEADING) == 0
        assert [each.open_from for each in store.tasks()] == [101, 0, 0]


@pytest.mark.slow
def test_administration_while_a_writer_writes(store: Store) -> None:
    stop = threading.Event()
    added: list[Outcome] = []

    def write() -> None:
        while not stop.is_set():
            added.extend(store.add([batch(DELAY, [3], number=len(added))]))

    with ThreadPoolExecutor(1) as thread:
        writing = thread.submit(write)
        try:
            while not added and not writing.done():
                time.sleep(0.001)
            for n in range(20):
                assert store.close_task(HEADING.id, n)
                assert store.open_task(HEADING.id)
                store.vacuum()
                store.add_key(StoredKey(f"k{n}", bytes(32), "read", None, "", n, None))
        finally:
            stop.set()
        writing.result()
    assert added == [COUNTED] * len(added)
    assert store.counts(DELAY).sum() == len(added)


def test_a_whole_store_has_no_problems_and_keeps_everything_through_a_vacuum(store: Store) -> None:
    store.add([batch(DELAY, [n % 200], number=n, epoch=n // 500) for n in range(2000)])
    store.prune(DELAY, before=3)
    store.vacuum()
    assert store.size > 0
    assert store.check() == []
    assert store.counts(DELAY).sum() == 2000
    assert store.add([batch(DELAY, [9], number=1999, epoch=3)]) == [REPLAYED]
