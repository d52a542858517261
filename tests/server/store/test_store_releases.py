"""The contract of stores that release closed epochs: decided once, frozen, the same for all readers."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import psycopg
import pytest

from arcwise.errors import ParameterError
from arcwise.server.estimates.releasing import released_records
from arcwise.server.store import Store
from arcwise.server.store.export import BatchIds, read_export
from arcwise.server.store.releases import Closing, Decided
from tests.support import commands
from tests.support.store_samples import CLOSED, COUNTED, DELAY, HEADING, NOW, TASKS, batch, counted
from tests.support.stores import MOVES, Opener, opened


@pytest.fixture(autouse=True)
def _releases(store: Store) -> None:
    if type(store).release is Store.release:
        pytest.skip("stores of this kind release no epochs")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    """Yield an empty store without tasks."""
    with opened(f"sqlite:///{tmp_path / 'other.db'}", []) as store:
        yield store


def run(*args: str) -> str:
    """Return the output of a command, whether it succeeds or not."""
    return commands.run(*args).output


def reported(store: Store, reports: dict[int, int], *, first: int = 0) -> None:
    """Report this many times in each epoch, one report per batch."""
    batches = [(epoch, k) for epoch, n in reports.items() for k in range(n)]
    sent = [batch(DELAY, [k % 7], number=first + i, epoch=epoch) for i, (epoch, k) in enumerate(batches)]
    assert set(store.add(sent)) == {COUNTED}


def test_closed_epochs_with_enough_reports_are_released_and_no_others(store: Store, opener: Opener) -> None:
    assert store.decided(DELAY) == Decided(0, 0)
    reported(store, {90: 5, 91: 2, 93: 3, 95: 9})
    assert store.released(DELAY) == {}
    assert store.release(DELAY, 94, least=3) == Closing(released=2, small=1)
    with opener() as another:
        for each in (store, another):
            assert each.released(DELAY) == {90: 5, 93: 3}
            assert each.released(DELAY, 91) == {93: 3}
            assert each.released(DELAY, 0, 92) == {90: 5}
            assert each.decided(DELAY) == Decided(94, 0)
            assert each.decided(HEADING) == Decided(0, 0)
        assert another.add([batch(DELAY, [1], number=99, epoch=93)]) == [CLOSED]
    assert store.check() == []


def test_what_is_decided_is_never_decided_again(store: Store) -> None:
    reported(store, {90: 5, 91: 2, 95: 1})
    store.release(DELAY, 93, least=3)
    assert store.release(DELAY, 92, least=1) == Closing()  # also after the clock went back
    assert store.release(DELAY, 93, least=1) == Closing()
    assert store.release(DELAY, 94, least=1) == Closing()
    assert store.released(DELAY) == {90: 5}
    assert store.decided(DELAY) == Decided(94, 0)
    ids = [record.epoch for record in store.export(ids=True) if isinstance(record, BatchIds)]
    assert ids == [95]  # those of closed epochs are forgotten


def test_the_newest_epoch_is_closed_too_and_nothing_of_a_task_without_reports(store: Store) -> None:
    """A finished survey is released to its end; a clock that was wrong at its start closes nothing."""
    assert store.release(DELAY, 500) == Closing()
    assert store.decided(DELAY) == Decided(0, 0)
    reported(store, {100: 1})
    assert store.release(DELAY, 101) == Closing(released=1)


def test_what_an_earlier_state_may_have_released_is_not_released(store: Store) -> None:
    reported(store, {90: 5, 91: 5, 92: 5})
    assert store.release(DELAY, 93, least=3, unsure_before=92) == Closing(released=1, unsure=2)
    assert store.released(DELAY) == {92: 5}


def test_an_epoch_that_was_pruned_before_is_decided_with_the_first_that_close(store: Store) -> None:
    reported(store, {80: 4, 99: 1})
    store.prune(DELAY, 90)
    assert store.release(DELAY, 91) == Closing(released=1)
    assert store.released(DELAY) == {80: 4}


@pytest.mark.parametrize("move", MOVES)
def test_a_merge_brings_releases_as_they_are(store: Store, other: Store, move: str) -> None:
    reported(store, {90: 5, 91: 2, 95: 2})
    store.release(DELAY, 93, least=3)
    store.advance_clock(NOW - 300)
    assert other.merge(MOVES[move](store.export(ids=True)), NOW) == 0
    assert other.released(DELAY) == {90: 5}
    assert other.decided(DELAY).before == 93
    assert other.add([batch(DELAY, [1], number=99, epoch=91)]) == [CLOSED]
    assert other.release(DELAY, 94, least=1) == Closing()
    assert other.clock() == NOW - 300  # so that its server knows what may have closed since
    assert other.check() == []


@pytest.mark.parametrize("ids", [True, False])
def test_a_merge_adds_nothing_to_a_released_epoch(store: Store, other: Store, ids: bool) -> None:
    other.register(TASKS)
    reported(other, {90: 4, 91: 1, 96: 1}, first=1000)
    reported(store, {90: 5, 95: 2})
    store.release(DELAY, 93)
    before = store.counts_by_epoch(DELAY)[90].tolist()
    assert store.merge(other.export(ids=ids), NOW) == 4
    assert store.released(DELAY) == {90: 5}
    assert store.counts_by_epoch(DELAY)[90].tolist() == before
    # Closed epochs that were not released are counted, and never shown.
    assert store.reports_by_epoch(DELAY) == {90: 5, 91: 1, 95: 2, 96: 1}
    assert store.release(DELAY, 94) == Closing()
    assert store.report_count(DELAY) == 9
    assert store.check() == []


def test_an_epoch_that_is_released_there_and_has_reports_here_is_never_shown(
    store: Store, other: Store
) -> None:
    """Its counts here would be the counts that were shown there plus a few more."""
    other.register(TASKS)
    reported(other, {90: 4, 91: 3}, first=1000)
    other.release(DELAY, 93)
    reported(store, {90: 1, 95: 1})
    assert store.merge(other.export(ids=True), NOW) == 0
    assert store.released(DELAY) == {91: 3}
    changes = store.decided(DELAY)
    assert changes.before == 93
    assert changes.changes > 0  # cached results of servers are computed again
    assert store.release(DELAY, 94) == Closing()
    assert store.check() == []


def test_a_source_changes_no_released_epoch_and_is_not_dropped_from_one(store: Store) -> None:
    key = bytes.fromhex(DELAY.id)
    given = {(key, 90): np.array(counted(DELAY, [1, 2]))}
    ids = [(key, 90, bytes(16))]
    store.replace_source("lake", given, ids)
    store.add([batch(DELAY, [3], number=5, epoch=95)])
    assert store.release(DELAY, 93) == Closing(released=1)
    report = store.replace_source("lake", {(key, 90): np.array(counted(DELAY, [1, 2, 3]))}, ids)
    assert [change.epoch for change in report.closed] == [90]
    with pytest.raises(ParameterError, match="source lake has counts in 1 released epochs"):
        store.drop_source("lake", closed_too=True)
    assert store.released(DELAY) == {90: 2}
    assert store.counts_by_epoch(DELAY)[90].sum() == 2


def test_deleting_the_data_of_a_task_takes_its_releases_back(store: Store) -> None:
    reported(store, {90: 5, 95: 2})
    store.release(DELAY, 93)
    store.close_task(DELAY.id, 86_400)
    before = store.decided(DELAY)
    store.delete_data(DELAY.id)
    assert store.released(DELAY) == {}
    assert store.decided(DELAY) != before
    assert store.check() == []


def test_check_finds_a_release_that_has_changed(store: Store, url: str) -> None:
    reported(store, {90: 5, 95: 2})
    store.release(DELAY, 93)
    path = url.removeprefix("sqlite:///")
    with closing(psycopg.connect(url) if path == url else sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE released SET reports = 4")
    assert store.check() == [f"task {DELAY.id}, epoch 90: released with 4 reports, but has 5"]


def test_an_export_of_what_is_released_has_nothing_else(
    store: Store, other: Store, url: str, tmp_path: Path
) -> None:
    key = bytes.fromhex(DELAY.id)
    store.replace_source("lake", {(key, 90): np.array(counted(DELAY, [1, 2]))}, [(key, 90, bytes(16))])
    reported(store, {90: 3, 91: 1, 93: 5, 95: 9}, first=10)
    store.release(DELAY, 94, least=2)
    file = tmp_path / "released.jsonl"
    assert "wrote" in run("store", "export", url, str(file), "--released")
    assert "lake" not in file.read_text()
    with file.open() as text:
        other.merge(read_export(text, "released.jsonl"), NOW)
    assert other.reports_by_epoch(DELAY) == other.released(DELAY) == {90: 5, 93: 5}
    assert other.check() == []
    refused = run("store", "export", url, str(file), "--released", "--ids")
    assert "--ids does not go with --released" in refused
    assert "released  2 epochs; the other numbers are live" in run("store", "info", url)


def test_commands_say_that_their_numbers_are_live_where_the_server_shows_closed_epochs(
    store: Store, url: str, tmp_path: Path
) -> None:
    """The store remembers the setting, even before it has decided anything."""
    reported(store, {90: 3})
    DELAY.save(tmp_path / "delay.json")
    for closed in (0, 1):
        store.remember("closed_epochs", closed)
        shown = run("store", "info", url)
        told = run("estimate", str(tmp_path / "delay.json"), "--store", url)
        assert ("released  0 epochs; the other numbers are live" in shown) == closed
        assert ("delay: live counts, including epochs that are not released" in told) == closed


def test_an_export_of_what_is_released_shows_blocks_as_readers_see_them(store: Store, other: Store) -> None:
    reported(store, {91: 1, 92: 5, 97: 2, 98: 9, 104: 9})
    store.release(DELAY, 105)
    store.remember("min_reports", 6)
    store.remember("min_reports_days", 7)
    other.merge(released_records(store), NOW)
    assert other.reports_by_epoch(DELAY) == {91: 6, 97: 11}  # Mondays are 88, 95, 102
