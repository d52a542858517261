"""The content of a store, and of an archive, compared with the sent batches."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyarrow import parquet

from arcwise.server.store import open_store
from arcwise.server.store.export import BatchIds, Header, TaskState
from arcwise.server.store.staging import staging
from arcwise.wire import decode_batch
from tests.soak.kills.batches import REPORTS, TASKS
from tests.soak.kills.tally import ACKNOWLEDGED, SENT, Number

if TYPE_CHECKING:
    from pathlib import Path

    from arcwise.server.store import Store
    from arcwise.server.store.staging import StagingStore
    from arcwise.typing import BoolArray
    from arcwise.wire import Batch
    from tests.soak.kills.batches import Batches
    from tests.soak.kills.tally import Tally


_MOST = 20
"""Sentences of one kind; the number of further ones is stated."""


class Verdict(NamedTuple):
    """The result of a look into a store."""

    wrong: list[str]
    """Sentences; empty if everything is right."""
    unanswered: int
    """Batches that were sent and not acknowledged."""
    counted: int
    """How many of them are counted."""


def verdict(url: str, batches: Batches, tally: Tally) -> Verdict:
    """Check a store, which may be in use; its own check is part of it."""
    before = tally.snapshot()  # batches acknowledged by now must be counted
    with closing(open_store(url, create=False)) as store:
        counts = [store.counts_by_epoch(task) for task in TASKS]
        wrong = [f"the store's check: {problem}" for problem in store.check()]
    after = tally.snapshot()  # counted batches must have been sent by now
    times, parts = batches.times(counts)
    wrong += _some(parts)

    def told(which: BoolArray, what: str) -> list[str]:
        numbers = [int(number) for number in np.flatnonzero(which)]
        return _some([f"{batches.name(number)} {what}, counted {times[number]} times" for number in numbers])

    wrong += told((before == ACKNOWLEDGED) & (times == 0), "was acknowledged")
    wrong += told((times > 1) | (times < 0), "was sent under one id")
    wrong += told((times > 0) & (after == 0), "was never sent")
    unanswered = before == SENT
    return Verdict(wrong, int(unanswered.sum()), int((unanswered & (times > 0)).sum()))


def wrong_ids(url: str, batches: Batches, tally: Tally) -> list[str]:
    """Compare the ids in a store with those of all batches, once all of them are acknowledged."""
    made = tally.numbers[Number.MADE]
    expected: dict[tuple[str, int], set[bytes]] = {}
    for number in range(made):
        expected.setdefault(batches.cell(number), set()).add(batches.batch_id(number))
    with closing(open_store(url, create=False)) as store:
        found, reports = _ids(store)
    wrong = [
        f"task {name}, epoch {epoch}: {len(expected.get((name, epoch), ()))} ids were sent, and"
        f" {len(found.get((name, epoch), ()))} are there"
        for name, epoch in sorted(found.keys() | expected.keys())
        if sorted(expected.get((name, epoch), ())) != sorted(found.get((name, epoch), ()))
    ]
    if reports != REPORTS * made:
        wrong.append(f"{REPORTS * made} reports were sent, and {reports} are exported")
    return _some(wrong)


def _ids(store: Store) -> tuple[dict[tuple[str, int], list[bytes]], int]:
    found: dict[tuple[str, int], list[bytes]] = {}
    name, reports = "", 0
    with closing(store.export(ids=True)) as records:
        for record in records:
            if isinstance(record, Header):
                reports = record.reports
            elif isinstance(record, TaskState):
                name = record.task.name
            elif isinstance(record, BatchIds):
                found.setdefault((name, record.epoch), []).extend(record.ids)
    return found, reports


def _some(sentences: list[str]) -> list[str]:
    more = len(sentences) - _MOST
    return sentences if more <= 0 else [*sentences[:_MOST], f"... and {more} more of that kind"]


_Batch = tuple[str, int, bytes, tuple[int, ...]]
"""Task, epoch, id and codes."""


class Archived(NamedTuple):
    """The result of a look into an idle archive: sentences about faults, and numbers of batches.

    `begun` is the number of unfinished files.
    """

    wrong: list[str]
    in_files: int
    waiting: int
    begun: int


def archived(url: str, folder: Path, batches: Batches, made: int) -> Archived:
    """Compare each batch that a store counted with the first `made` that were sent, and with an archive."""
    sent = {_sent(batches, number) for number in range(made)}
    names = {(task, name) for task, _, name, _ in sent}
    with closing(open_store(url, create=False)) as opened:
        store = staging(opened)
        counted = _counted(store)
        waits = Counter(_waiting(store))
        begun = {file.name for file in store.begun_files()}
    files: Counter[_Batch] = Counter()
    unfinished: set[_Batch] = set()
    for path in folder.rglob("*.parquet"):
        rows = archived_batches(path)
        files.update(rows)
        if path.stem in begun:
            unfinished.update(rows)
    wrong = [f"{each[:3]}: is not what was sent" for each in (files | waits).keys() - sent]
    wrong += [f"{each}: counted, and not sent" for each in counted - names]
    for each in sent:
        places = files[each] + waits[each]
        if each in unfinished and places == 2 and files[each] == 1:
            places = 1  # the next archiver finds it in the file
        if places != ((each[0], each[2]) in counted):
            wrong.append(f"{each[:3]}: in files {files[each]} times, waits {waits[each]} times")
    return Archived(wrong[:20], files.total(), waits.total(), len(begun))


def _sent(batches: Batches, number: int) -> _Batch:
    return _fields(decode_batch(batches.request(number).partition(b"\r\n\r\n")[2]))


def _fields(batch: Batch) -> _Batch:
    codes = np.frombuffer(batch.codes, "<u2").tolist()
    return batch.task_id.hex(), batch.epoch, batch.batch_id, tuple(codes)


def _counted(store: StagingStore) -> set[tuple[str, bytes]]:
    found = set()
    task = ""
    with closing(store.export(ids=True)) as records:
        for record in records:
            if isinstance(record, TaskState):
                task = record.task.id
            elif isinstance(record, BatchIds):
                found |= {(task, name) for name in record.ids}
    return found


def _waiting(store: StagingStore) -> list[_Batch]:
    found: list[_Batch] = []
    after = -1
    while page := store.staged(after, 10_000, 1 << 30):
        after = page[-1].number
        found += [_fields(each.batch) for each in page]
    return found


def archived_batches(path: Path) -> list[_Batch]:
    """Return the batches in a file of an archive."""
    table = parquet.read_table(path)
    columns = [table.column(name).to_pylist() for name in ("task_id", "epoch", "batch_id", "codes")]
    return [(task, epoch, name, tuple(codes)) for task, epoch, name, codes in zip(*columns, strict=True)]
