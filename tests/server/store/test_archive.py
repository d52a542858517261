"""`arcwise serve --archive`: counts and files agree to the integer, despite crashes in between."""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from arcwise.analysis import count_table
from arcwise.errors import MissingExtraError, ParameterError, StoreError
from arcwise.server import create_app
from arcwise.server.archive import archiver as module
from arcwise.server.archive.archiver import Archiver
from arcwise.server.archive.folder import Folder
from arcwise.server.store import Store, _class_of
from arcwise.server.store.staging import ArchiveFile, StagedSize, StagingStore, staging
from arcwise.wire import MEDIA_TYPE, Batch, encode_batch
from tests.soak.kills.verdict import archived_batches
from tests.support.cases import mostly_slow
from tests.support.commands import good, run
from tests.support.store_samples import CLOSED, COUNTED, DELAY, HEADING, REPLAYED, TASKS, WIDE, batch, counted
from tests.support.stores import URLS, Opener, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx
    from fastapi import FastAPI

    from arcwise.tasks import Task


@pytest.fixture(params=list(URLS))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a store that does not exist yet and can feed an archive."""
    with URLS[request.param](tmp_path / "counts") as url:
        if not issubclass(_class_of(url), StagingStore):
            pytest.skip("stores of this kind feed no archive")
        yield url


@pytest.fixture
def store(store: Store) -> StagingStore:
    return staging(store)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def writing(store: StagingStore, path: Path) -> Archiver:
    return archiver(store, path)


def archiver(store: Store, path: Path, **options: Any) -> Archiver:
    given: dict[str, Any] = {"seconds": 0.0, "retention_days": 0, "most_bytes": 1 << 30}
    return Archiver(store, path, **given | {"believed": time.time} | options)


def refused(store: Store, path: Path, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        archiver(store, path)


def rows(path: Path) -> list[tuple[str, int, bytes, tuple[int, ...]]]:
    """Return the rows in the files of an archive, in order."""
    return [row for file in sorted(path.rglob("*.parquet")) for row in archived_batches(file)]


def agree(store: Store, path: Path) -> None:
    """Check that counts, ids and files agree."""
    found = rows(path)
    assert len({(task, name) for task, _, name, _ in found}) == len(found)
    for task in TASKS:
        by_epoch: dict[int, list[int]] = {}
        for key, epoch, _, codes in found:
            if key == task.id:
                by_epoch.setdefault(epoch, []).extend(codes)
        counts = {epoch: row.tolist() for epoch, row in store.counts_by_epoch(task).items()}
        assert counts == {epoch: counted(task, codes) for epoch, codes in by_epoch.items()}


def test_what_is_counted_waits_and_what_is_not_does_not(store: StagingStore) -> None:
    first, second = batch(DELAY, [3, 1]), batch(WIDE, [300], number=1, epoch=101)
    assert store.add_staged([first, second]) == [COUNTED, COUNTED]
    assert store.add_staged([first]) == [REPLAYED]
    third = batch(DELAY, [2], number=2)
    assert store.add_staged([first, third, third]) == [REPLAYED, COUNTED, REPLAYED]
    store.close_task(DELAY.id, 9_000)
    assert store.add_staged([batch(DELAY, [2], number=3)]) == [CLOSED]
    store.open_task(DELAY.id)
    assert store.add([batch(DELAY, [2], number=4)]) == [COUNTED]
    waiting = store.staged(-1, 10, 1000)
    assert {each.batch for each in waiting} == {first, second, third}
    assert store.staged_size() == StagedSize(3, 300 + 2 + 2 + 1)
    assert [each.number for each in waiting] == sorted(each.number for each in waiting)
    assert store.staged(waiting[0].number, 10, 1000) == waiting[1:]
    assert store.staged(-1, 2, 1000) == waiting[:2]
    assert store.staged(-1, 10, 2) == waiting[: 1 + (len(waiting[0].batch.codes) < 2)]
    store.unstage([each.number for each in waiting[:2]], None)
    assert store.staged(-1, 10, 1000) == waiting[2:]
    assert store.check() == []


@pytest.mark.parametrize("replays", [0, 1])
def test_large_groups(store: StagingStore, replays: int) -> None:
    group = [batch(DELAY, [n % 7] * (1 + n % 3), number=n, epoch=100 + n % 2) for n in range(1500)]
    store.add_staged(group + group[:replays])
    assert {each.batch for each in store.staged(-1, 5000, 1 << 20)} == set(group)
    assert store.staged_size().batches == 1500


def test_archive_and_counts_agree(store: StagingStore, path: Path, writing: Archiver) -> None:
    group = [batch(DELAY, [n % 7, n % 5], number=n, epoch=100 + n % 2) for n in range(40)]
    writing.add([*group, batch(WIDE, [300, 0, 479], number=1), batch(HEADING, [1], number=2)])
    writing.turn()
    agree(store, path)
    assert len(rows(path)) == 42
    writing.add([group[0], batch(DELAY, [9], number=99)])
    writing.turn()
    agree(store, path)
    assert store.staged_size() == StagedSize(0, 0)
    assert store.begun_files() == []
    assert writing.written == 43
    found = count_table(path, TASKS)
    assert not found.rejected
    counts = {(bytes.fromhex(task_id), epoch): row for (task_id, epoch), row in found.counts.items()}
    ids = [(bytes.fromhex(task_id), epoch, name) for task_id, epoch, name in found.batch_ids]
    with pytest.raises(ParameterError, match="43 batches are counted by the server"):
        store.replace_source("archive", counts, ids)
    with opened(f"sqlite:///{path.with_name('lake.db')}") as lake:
        lake.replace_source("archive", counts, ids)
        agree(lake, path)
        for task in TASKS:
            expected = {epoch: row.tolist() for epoch, row in lake.counts_by_epoch(task).items()}
            assert {epoch: row.tolist() for epoch, row in found.by_epoch(task).items()} == expected


def test_files_tell_nothing_of_when_and_in_which_order_batches_came(
    store: StagingStore, path: Path, writing: Archiver
) -> None:
    writing.add([batch(DELAY, [1], number=n) for n in range(300)])
    old = os.umask(0)
    try:
        writing.turn()
    finally:
        os.umask(old)
    (file,) = path.rglob("*.parquet")
    assert file.stat().st_mtime_ns == DELAY.epoch_seconds * 100 * 10**9
    assert file.parent == path / DELAY.id / "100"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    folders = [path, *(each for each in path.rglob("*") if each.is_dir())]
    assert {stat.S_IMODE(each.stat().st_mode) for each in folders} == {0o700}
    assert stat.S_IMODE((path / "_arcwise_archive").stat().st_mode) == 0o600
    table = parquet.read_table(file)
    assert table.schema.to_string(show_schema_metadata=False) == (
        "task_id: string\nepoch: int64\nbatch_id: fixed_size_binary[16]\ncodes: list<element: uint16>\n"
        "  child 0, element: uint16"
    )
    numbers = [int.from_bytes(name, "big") for name in table.column("batch_id").to_pylist()]
    assert sorted(numbers) == list(range(300))
    assert numbers != sorted(numbers)  # with odds of 300! to one


class Crash(BaseException):
    """The simulated end of the process."""


def crash(
    monkeypatch: pytest.MonkeyPatch, writing: Archiver, owner: object, name: str, *, after: bool, calls: int
) -> None:
    """Make a function's call the last event of a turn, or of the next turn of its class."""
    real = getattr(owner, name)
    left = [calls]

    def dying(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and not after:
            raise Crash
        result = real(*arguments, **named)
        if left[0] == 0:
            raise Crash
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dying)
        with pytest.raises(Crash):
            writing.turn()


STEPS = [
    ("store", "begin_files", 1),
    ("folder", "write", 1),
    ("folder", "write", 2),
    ("os", "fsync", 2),
    ("folder", "sync", 1),
    ("store", "unstage", 1),
    ("store", "end_files", 1),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("owner", "name", "calls"), mostly_slow(STEPS, every=3))
def test_a_crash_at_any_step_loses_nothing_and_doubles_nothing(
    opener: Opener,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: str,
    name: str,
    calls: int,
    after: bool,
) -> None:
    group = [batch(DELAY, [n % 7], number=n, epoch=100 + n % 3) for n in range(30)]
    with opener() as first:
        writing = archiver(first, path)
        writing.add(group)
        target = {"store": writing._store, "folder": writing._folder, "os": os}[owner]
        crash(monkeypatch, writing, target, name, after=after, calls=calls)
        writing._folder.unlock()
    with opener() as second:
        writing = archiver(second, path)
        writing.add([batch(DELAY, [1], number=99), group[5]])
        writing.turn()
        agree(second, path)
        assert len(rows(path)) == 31
        assert staging(second).staged_size().batches == 0
        assert not list(path.rglob("*.part"))


def test_one_process_writes_at_a_time(opener: Opener, path: Path) -> None:
    with opener() as first, opener() as second:
        one, two = archiver(first, path), archiver(second, path)
        one.turn()
        two.add([batch(DELAY, [1])])
        two.turn()
        assert rows(path) == []
        assert two.waiting.batches == 1
        one.turn()
        assert len(rows(path)) == 1
        two.add([batch(DELAY, [1], number=1)])
        one._folder.unlock()  # its process has ended
        two.turn()
        agree(second, path)


def test_batches_are_gathered_until_it_is_time_or_there_are_enough(
    store: StagingStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = archiver(store, path, seconds=3600.0)
    writing.turn()
    writing.add([batch(DELAY, [1], number=n) for n in range(3)])
    writing.turn()
    assert rows(path) == []
    monkeypatch.setattr(module, "_MOST_BATCHES", 4)
    writing.add([batch(DELAY, [1], number=n) for n in range(3, 6)])
    writing.turn()
    assert len(rows(path)) == 6
    writing.add([batch(DELAY, [1], number=6)])
    writing.turn()
    writing.turn(last=True)
    agree(store, path)


def test_a_folder_that_is_another_one_is_not_written_to(
    store: StagingStore, path: Path, writing: Archiver
) -> None:
    writing.turn()
    writing.add([batch(DELAY, [1])])
    path.rename(path.with_name("moved"))  # as if its disk were not mounted
    with pytest.raises(OSError, match="No such file"):
        writing.turn()
    path.mkdir()
    with pytest.raises(OSError, match="No such file"):
        writing.turn()
    refused(store, path, "is not the archive of this store: is its disk mounted")
    path.rmdir()
    path.with_name("moved").rename(path)
    writing.turn()
    agree(store, path)
    (path / "_arcwise_archive").write_text("00" * 16)
    refused(store, path, "is not the archive of this store")


def test_an_archive_begins_in_an_empty_folder(store: StagingStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(store, tmp_path, "must be a new folder or an empty one at first")
    refused(store, tmp_path / "no" / "archive", r"cannot use the archive .*: No such file")
    refused(store, tmp_path / "file", r"cannot use the archive .*: ")
    archiver(store, tmp_path / "archive")
    refused(store, tmp_path / "other", "is not the archive of this store")
    assert store.archive_id(bytes(16)) != bytes(16)
    store.forget_archive()
    archiver(store, tmp_path / "another")


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_a_marker_is_a_file_of_the_folder(store: StagingStore, path: Path, kind: str) -> None:
    path.mkdir()
    marker = path / "_arcwise_archive"
    if kind == "pipe":
        os.mkfifo(marker)
    elif kind == "folder":
        marker.mkdir()
    else:
        marker.symlink_to(elsewhere := path.with_name("elsewhere"))
        if kind == "link":
            elsewhere.write_text("")
    refused(store, path, "archive")
    assert store.archive_id() is None


@pytest.mark.usefixtures("writing")
def test_a_crash_between_the_marker_and_the_store_is_made_good(store: StagingStore, path: Path) -> None:
    known = store.archive_id()
    store.forget_archive()
    archiver(store, path)
    assert store.archive_id() == known


def test_a_full_disk_stops_the_archive_and_not_the_counting(
    store: StagingStore,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    writing = archiver(store, path, seconds=0.01)
    full = threading.Event()
    real = Folder.write

    def write(self: Folder, file: ArchiveFile, task: Task, batches: list[Batch]) -> None:
        if not full.is_set():
            real(self, file, task, batches)
            return
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Folder, "write", write)
    full.set()
    writing.start()
    try:
        assert writing.add([batch(DELAY, [1])]) == [COUNTED]
        wait_until(lambda: writing.failing)
        assert writing.add([batch(DELAY, [2], number=1)]) == [COUNTED]
        assert f"cannot write the archive {path}: No space left on device" in caplog.text
        full.clear()
        wait_until(lambda: writing.written == 2 and not writing.failing)
    finally:
        writing.stop()
    agree(store, path)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_waits_is_bounded(store: StagingStore, path: Path) -> None:
    writing = archiver(store, path, most_bytes=1000)
    first, second, third = ([batch(DELAY, [1] * 500, number=number)] for number in range(3))
    assert writing.add(first) == writing.add(second) == [COUNTED]
    words = r"1,200 bytes wait for the archive .*, which cannot be written as fast"
    with pytest.raises(StoreError, match=words):
        writing.add(third)
    assert store.report_count(DELAY) == 1000
    writing.turn()
    assert writing.add(third) == [COUNTED]
    writing.turn()
    agree(store, path)


TEN_DAYS: dict[str, Any] = {"retention_days": 10, "believed": lambda: float(DELAY.epoch_seconds * 120)}


def test_files_are_kept_as_long_as_asked_for(store: StagingStore, path: Path) -> None:
    writing = archiver(store, path, **TEN_DAYS)
    writing.add([batch(DELAY, [1], number=epoch, epoch=epoch) for epoch in (108, 109, 110, 120)])
    writing.turn()
    assert sorted(epoch for _, epoch, *_ in rows(path)) == [110, 120]
    assert (path / "_arcwise_archive").exists()


def test_what_cannot_be_removed_is_named_and_the_rest_goes(
    store: StagingStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writing = archiver(store, path, **TEN_DAYS)
    (elsewhere := path.with_name("elsewhere")).mkdir()
    (path / DELAY.id).mkdir()
    (path / DELAY.id / "5").symlink_to(elsewhere)
    (path / DELAY.id / "6").write_text("")
    (path / WIDE.id).write_text("")
    writing.add([batch(DELAY, [1], number=epoch, epoch=epoch) for epoch in (4, 7, 108, 120)])
    writing.add([batch(HEADING, [1], epoch=9)])
    writing.turn()
    assert [epoch for _, epoch, *_ in rows(path)] == [120]
    assert elsewhere.exists()
    for what in (f"{DELAY.id}/5", f"{DELAY.id}/6", WIDE.id):
        assert f"cannot remove {path / what}, which is older than archive_retention_days: " in caplog.text


def test_a_server_on_another_archive_says_so_in_one_line(tmp_path: Path, path: Path, url: str) -> None:
    with opened(url) as store:
        archiver(store, path)
    other = tmp_path / "other"
    DELAY.save(tmp_path / "delay.json")
    given = ["serve", "--store", url, "--tasks", str(tmp_path), "--port", "0", "--archive", str(other)]
    told = run(*given)
    assert told.exit_code == 1
    assert told.stdout == ""
    (line,) = told.stderr.splitlines()
    assert line.startswith(f"Error: {other} is not the archive of this store: is its disk mounted?")


async def post(http: httpx.AsyncClient, batch: Batch) -> httpx.Response:
    return await http.post(
        f"/v1/tasks/{batch.task_id.hex()}/reports",
        content=encode_batch(batch),
        headers={"content-type": MEDIA_TYPE},
    )


def test_a_server_archives_what_it_accepts(with_app: Callable[..., None], path: Path, url: str) -> None:
    today = DELAY.epoch(time.time())
    sent = [batch(DELAY, [1, 2, 3], number=n, epoch=today) for n in range(3)]

    async def scenario(http: httpx.AsyncClient, app: FastAPI) -> None:
        assert [(await post(http, each)).status_code for each in [*sent, sent[0]]] == [204] * 4
        told = (await http.get("/metrics")).text
        assert "arcwise_archive_failing 0.0" in told
        waiting = app.state.runtime.archiver.waiting.batches
        assert f"arcwise_archive_staged_batches {float(waiting)}" in told
        assert waiting >= 3 - app.state.runtime.archiver.written

    with_app([DELAY], scenario, store=url, archive=path)
    with opened(url) as store:
        agree(store, path)
    assert len(rows(path)) == 3


def test_a_full_backlog_is_a_503_and_not_ready(with_app: Callable[..., None], path: Path) -> None:
    codes = [1] * 600_000
    sent = [batch(DELAY, codes, number=n, epoch=DELAY.epoch(time.time())) for n in range(3)]

    async def scenario(http: httpx.AsyncClient, app: FastAPI) -> None:
        wait_until(lambda: app.state.runtime.archiver._written_at > 0)
        gone = path.rename(path.with_name("gone"))
        answers = [await post(http, each) for each in sent]
        assert [answer.status_code for answer in answers] == [204, 204, 503]
        assert answers[2].headers["retry-after"] == "1"
        assert (await http.get("/health/ready")).status_code == 503
        gone.rename(path)

    with_app([DELAY], scenario, archive=path, archive_max_staged_bytes=1 << 20)


def test_a_worker_without_the_archive_of_its_store_says_so(
    with_app: Callable[..., None], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def nothing(_http: httpx.AsyncClient, _app: FastAPI) -> None:
        pass

    with_app([DELAY], nothing)
    with_app([DELAY], nothing, archive=path)
    assert "the store has an archive" not in caplog.text
    with_app([DELAY], nothing)
    assert "the store has an archive, but the batches of this worker will be missing in it" in caplog.text


def test_without_pyarrow_the_server_says_what_to_install(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"an archive needs pyarrow: pip install 'arcwise\[lake\]'"):
        create_app(tasks=[DELAY], archive=path)


def test_an_archive_can_be_forgotten(url: str, tmp_path: Path) -> None:
    with opened(url) as store:
        archiver(store, tmp_path / "archive").add([batch(DELAY, [1])])
    assert "1 batches wait for the archive" in good("store", "info", url)
    told = good("store", "forget-archive", url)
    assert told == "the archive is forgotten; 1 batches wait for another one\n"
    with opened(url) as store:
        archiver(store, tmp_path / "another").turn()
        agree(store, tmp_path / "another")


def test_who_still_writes_a_forgotten_archive_touches_nothing_of_the_next(
    store: StagingStore, tmp_path: Path
) -> None:
    """Numbers of waiting batches are used again, so a new batch has the number of a written one."""
    one = archiver(store, tmp_path / "one")
    one.add([batch(DELAY, [1])])
    write = one._folder.write
    others: list[Archiver] = []

    def late(*given: Any) -> None:
        write(*given)
        assert not store.forget_archive(begun_too=False)
        store.forget_archive()
        others.append(archiver(store, tmp_path / "two"))
        others[0].turn()
        store.add_staged([batch(DELAY, [2], number=1)])

    one._folder.write = late  # type: ignore[method-assign, assignment]
    with pytest.raises(StoreError, match="has forgotten this archive"):
        one.turn()
    one._folder.write = write  # type: ignore[method-assign]
    assert [each.batch for each in store.staged(-1, 10, 100)] == [batch(DELAY, [2], number=1)]
    with pytest.raises(StoreError, match="has forgotten this archive"):
        one.turn()
    others[0].turn()
    agree(store, tmp_path / "two")


@pytest.fixture
def second(tmp_path: Path) -> Iterator[StagingStore]:
    """Yield another store."""
    with opened(f"sqlite:///{tmp_path / 'second.db'}") as store:
        yield staging(store)


def test_of_two_stores_that_begin_in_one_folder_one_is_refused(
    store: StagingStore, second: StagingStore, path: Path
) -> None:
    archiver(store, path)  # has written no file yet
    refused(second, path, "is the archive of another store: name a new folder")
    assert second.archive_id() is None
    archiver(second, path.with_name("own"))
    archiver(store, path).turn()  # its own, again


def test_of_two_stores_that_begin_at_the_same_moment_one_is_refused(
    store: StagingStore, second: StagingStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def overtaken(draft: Path, marker: Path) -> None:
        monkeypatch.setattr(os, "link", real)
        archiver(second, path)
        real(draft, marker)

    monkeypatch.setattr(os, "link", overtaken)
    refused(store, path, "is the archive of another store")
    archiver(second, path)


def test_an_archive_of_an_earlier_version_opens(store: StagingStore, path: Path, writing: Archiver) -> None:
    """Its marker holds only the id."""
    writing.add([batch(DELAY, [1])])
    writing.turn()
    writing._folder.unlock()
    marker = path / "_arcwise_archive"
    marker.write_text(marker.read_text().splitlines()[0] + "\n")
    again = archiver(store, path)
    again.add([batch(DELAY, [2], number=1)])
    again.turn()
    agree(store, path)
    assert len(rows(path)) == 2


LINKS = {"of a task": f"{DELAY.id}", "of an epoch": f"{DELAY.id}/5"}


@pytest.mark.parametrize("what", LINKS)
def test_a_folder_that_is_a_link_is_not_followed(
    store: StagingStore, path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    elsewhere = path.with_name("elsewhere")
    for epoch in ("5", "100"):
        (elsewhere / epoch).mkdir(parents=True)
        (elsewhere / epoch / "mine.parquet").write_text("precious")
    writing = archiver(store, path, **TEN_DAYS)
    link = path / LINKS[what]
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere if what == "of a task" else elsewhere / "5")
    refused(store, path, f"{link} is a symbolic link")
    writing.turn()
    kept = f"cannot remove {link}, which is older than archive_retention_days: it is a symbolic"
    assert kept in caplog.text
    writing.add([batch(DELAY, [1], epoch=int(link.name) if what == "of an epoch" else 119)])
    with pytest.raises(OSError, match="it is a symbolic link or not a folder"):
        writing.turn()
    with pytest.raises(OSError, match="it is a symbolic link or not a folder"):
        writing._folder.remove_task(DELAY.id) if what == "of a task" else writing._folder.sync(
            [ArchiveFile("x", bytes.fromhex(DELAY.id), 5)]
        )
    assert {file.read_text() for file in elsewhere.rglob("*.parquet")} == {"precious"}
    assert len(list(elsewhere.rglob("*"))) == 4
    link.unlink()
    writing.turn()
    assert store.staged_size().batches == 0


def test_deleting_a_task_takes_a_link_in_it_and_not_what_it_leads_to(path: Path, writing: Archiver) -> None:
    (elsewhere := path.with_name("elsewhere")).mkdir()
    (elsewhere / "mine.parquet").write_text("precious")
    writing.add([batch(DELAY, [1])])
    writing.turn()
    (path / DELAY.id / "100" / "link").symlink_to(elsewhere)
    (path / DELAY.id / "100" / "inner").mkdir()
    writing._folder.remove_task(DELAY.id)
    assert not (path / DELAY.id).exists()
    assert (elsewhere / "mine.parquet").read_text() == "precious"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


def spoil(file: Path) -> None:
    """Overwrite the pages, and leave the footer intact."""
    content = bytearray(file.read_bytes())
    content[4:300] = bytes(296)
    file.write_bytes(content)


def other_columns(file: Path) -> None:
    parquet.write_table(parquet.read_table(file, columns=["codes"]), file)


def linked(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/passwd")


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def other_ids(file: Path) -> None:
    table = parquet.read_table(file)
    lists = pa.array([[1]] * len(table), pa.list_(pa.int8()))
    parquet.write_table(table.set_column(2, "batch_id", lists), file)


def thousands_of_thousands(file: Path) -> None:
    """Repeat the first row until a few kilobytes expand to more than the memory."""
    first = parquet.read_table(file).slice(0, 1)
    parquet.write_table(first.take(pa.array(np.zeros(1_000_001, np.int32))), file)


def flipped(file: Path) -> None:
    """Flip a bit of an id: without checksums it would be the id of a batch that nobody sent."""
    content = bytearray(file.read_bytes())
    content[parquet.ParquetFile(file).metadata.row_group(0).column(2).dictionary_page_offset + 200] ^= 1
    file.write_bytes(content)


def other_codes(file: Path) -> None:
    table = parquet.read_table(file)
    long = pa.array([b"0" * 3000] * len(table))
    parquet.write_table(table.set_column(3, "codes", long), file)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "cut off": cut,
    "spoilt": spoil,
    "another one": other_columns,
    "other ids": other_ids,
    "a changed bit": flipped,
    "other codes": other_codes,
    "too many rows": thousands_of_thousands,
    "a link": linked,
    "a pipe": pipe,
}


@pytest.mark.parametrize("how", mostly_slow(DAMAGE, every=3))
def test_a_damaged_file_that_was_begun_is_set_aside(
    store: StagingStore,
    path: Path,
    writing: Archiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    how: str,
) -> None:
    writing.add([batch(DELAY, [n % 7], number=n, epoch=100) for n in range(30)])
    crash(monkeypatch, writing, writing._store, "unstage", after=False, calls=1)
    writing._folder.unlock()
    (file,) = path.rglob("*.parquet")
    DAMAGE[how](file)
    again = archiver(store, path)
    again.add([batch(DELAY, [1], number=99)])
    again.turn()
    assert len(rows(path)) == 31
    agree(store, path)
    assert again.set_aside == 1
    assert store.begun_files() == []
    found = count_table(path, TASKS)
    assert (found.reports, found.rejected) == (31, ())
    (aside,) = path.rglob("*.damaged")
    assert aside.name == f"_{file.name}.damaged"
    assert f"a file of the archive is damaged and is now {aside}: those of its batches that" in caplog.text


def test_a_file_that_cannot_be_read_now_is_not_taken_for_damaged(
    path: Path, writing: Archiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing.add([batch(DELAY, [1])])
    crash(monkeypatch, writing, writing._store, "unstage", after=False, calls=1)
    with monkeypatch.context() as patch:
        real = os.open

        def busy(name: Any, *arguments: Any, **named: Any) -> int:
            if str(name).endswith(".parquet"):
                raise OSError(24, "Too many open files")
            return real(name, *arguments, **named)

        patch.setattr(os, "open", busy)
        with pytest.raises(OSError, match="Too many open files"):
            writing.turn()
    writing.turn()
    assert len(rows(path)) == 1
    assert writing.set_aside == 0


def test_metrics_say_how_long_batches_have_waited_and_how_often_writing_failed(
    with_app: Callable[..., None], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(http: httpx.AsyncClient, app: FastAPI) -> None:
        archiver = app.state.runtime.archiver

        async def shown(name: str) -> float:
            (found,) = re.findall(f"(?m)^arcwise_archive_{name} (.*)", (await http.get("/metrics")).text)
            return float(found)

        wait_until(lambda: archiver._written_at > 0)
        assert await shown("failures_total") == await shown("set_aside_total") == 0
        gone = path.rename(path.with_name("gone"))
        await post(http, batch(DELAY, [1], epoch=DELAY.epoch(time.time())))
        before = await shown("oldest_seconds")
        wait_until(lambda: archiver.failures > 1)
        assert await shown("oldest_seconds") > before > 0
        assert await shown("failures_total") > 1
        gone.rename(path)
        wait_until(lambda: not archiver.failing)
        assert await shown("oldest_seconds") == 0
        assert f"the archive {path} can be written again" in caplog.text

    with_app([DELAY], scenario, archive=path, archive_seconds=0.05)
