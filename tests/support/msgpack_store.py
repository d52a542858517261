"""A complete store in one msgpack file, read and written as a whole: the example of adding-a-store.md."""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np

from arcwise.errors import StoreError
from arcwise.server.store.base import MOST_SESSIONS, Outcome, Store
from arcwise.server.store.counting import count_codes, exact_sum
from arcwise.server.store.epochs import last_closable
from arcwise.server.store.export import BatchIds, Counts, Header, TaskState
from arcwise.server.store.incoming import checked_incoming
from arcwise.server.store.migrations import refuse_version
from arcwise.server.store.problems import (
    counts_problems,
    key_exists,
    load_task,
    refuse_known_batches,
    refuse_known_origins,
    refuse_more_than_most,
    task_problems,
)
from arcwise.server.store.records import StoredAction, StoredKey, StoredSession, StoredTask
from arcwise.server.store.sources import (
    checked_counts,
    checked_ids,
    checked_name,
    known_batches,
    left_epochs,
    plan_changes,
    refuse_ids_without_counts,
    refuse_known_sources,
    refuse_to_drop_closed,
    refuse_twice,
    stored_sources,
    unknown_source,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from arcwise.server.store.export import Record
    from arcwise.server.store.migrations import Migration
    from arcwise.server.store.records import SourceReport, StoredSource
    from arcwise.tasks import Task
    from arcwise.typing import IntArray
    from arcwise.wire import Batch

_SCHEMA = 1


class MsgpackStore(Store):
    """Counts in one file, which is made if it does not exist, unless `create` is False."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._url = url
        self._path = Path(url.removeprefix("msgpack:///"))
        self._closed = False
        self._tasks: dict[bytes, Task] = {}  # loading one checks its certificate: once is enough
        if not self._path.exists():
            if not create:
                raise StoreError(f"there is no store at {self._path}")
            with self._lock():
                if not self._path.exists():  # of two processes the second finds it made
                    self._write(
                        {
                            "schema": _SCHEMA,
                            "secret": os.urandom(32),
                            "clock": None,
                            "origins": {os.urandom(16): None},
                            "sources": {},
                            "replaced": 0,
                            "keys": [],
                            "sessions": {},
                            "actions": [],
                            "next_action": 1,
                            "remembered": {},
                            "tasks": {},
                        }
                    )
        refuse_version(url, self._read()["schema"], _SCHEMA)

    @classmethod
    def migrate(cls, url: str, to: int | None, *, dry_run: bool) -> list[Migration]:
        cls(url, create=False).close()
        return []  # there is one schema

    @contextmanager
    def _lock(self) -> Iterator[None]:
        try:
            with self._path.with_name(self._path.name + ".lock").open("a") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
                yield
        except OSError as error:
            raise StoreError(f"cannot write to {self._path}: {error.strerror}") from error

    def _read(self) -> dict[str, Any]:
        if self._closed:
            raise StoreError(f"cannot use {self._path}: the store is closed")
        try:
            state: dict[str, Any] = msgpack.unpackb(self._path.read_bytes(), strict_map_key=False)
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot read {self._path}: {error}") from error
        return state

    def _write(self, state: dict[str, Any]) -> None:
        draft = self._path.with_name(self._path.name + ".new")
        with open(draft, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(msgpack.packb(state))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)  # readers have the old state or the new one
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _change(self) -> Iterator[dict[str, Any]]:
        """Lend the state; what was changed is kept when the block ends without an error, and only then."""
        with self._lock():
            state = self._read()
            yield state
            self._write(state)

    def _entry(self, task: Task) -> dict[str, Any]:
        entry: dict[str, Any] = self._read()["tasks"].get(bytes.fromhex(task.id)) or _new_entry(task)
        return entry

    def _task(self, key: bytes, definition: bytes) -> Task:
        if key not in self._tasks:
            self._tasks[key] = load_task(key, definition)
        return self._tasks[key]

    @property
    def secret(self) -> bytes:
        return bytes(self._read()["secret"])

    def register(self, tasks: Iterable[Task]) -> None:
        with self._change() as state:
            for task in tasks:
                state["tasks"].setdefault(bytes.fromhex(task.id), _new_entry(task))

    def tasks(self) -> list[StoredTask]:
        return [
            StoredTask(
                self._task(key, entry["definition"]),
                entry["closed"],
                entry["open_from"],
                _newest(entry),
            )
            for key, entry in self._read()["tasks"].items()
        ]

    def close_task(self, task_id: str, now: int) -> bool:
        return self._set_closed(task_id, now)

    def open_task(self, task_id: str) -> bool:
        return self._set_closed(task_id, None)

    def _set_closed(self, task_id: str, closed: int | None) -> bool:
        with self._change() as state:
            entry = state["tasks"].get(bytes.fromhex(task_id))
            if entry is None or (entry["closed"] is None) == (closed is None):
                return False
            entry["closed"] = closed
            return True

    def add(self, batches: Sequence[Batch]) -> list[Outcome]:
        outcomes = []
        with self._change() as state:
            for batch in batches:
                entry = state["tasks"].get(batch.task_id)
                if entry is None:
                    raise KeyError(batch.task_id.hex())
                if entry["closed"] is not None or batch.epoch < entry["open_from"]:
                    outcomes.append(Outcome.CLOSED)
                elif batch.batch_id in entry["ids"]:
                    outcomes.append(Outcome.REPLAYED)
                else:
                    task = self._task(batch.task_id, entry["definition"])
                    entry["ids"][batch.batch_id] = batch.epoch, None
                    _add_counts(entry, batch.epoch, count_codes([batch.codes], task.mechanism.kernel.codes))
                    outcomes.append(Outcome.COUNTED)
        return outcomes

    def counts_by_epoch(self, task: Task) -> dict[int, IntArray]:
        total: dict[int, IntArray] = {}
        for epoch, _, counts in _counts(self._entry(task)):
            total[epoch] = total.get(epoch, 0) + counts
        return total

    def reports_by_epoch(
        self, task: Task, first: int | None = None, last: int | None = None
    ) -> dict[int, int]:
        return {
            epoch: int(counts.sum())
            for epoch, counts in self.counts_by_epoch(task).items()
            if epoch >= (first or 0) and (last is None or epoch <= last)
        }

    def sums(self, task: Task, groups: Mapping[int, int] | None = None, rows: int = 1) -> IntArray:
        total = np.zeros((rows, task.mechanism.kernel.codes), np.int64)
        for epoch, _, counts in _counts(self._entry(task)):
            if groups is None or epoch in groups:
                total[0 if groups is None else groups[epoch]] += counts
        return total

    def report_count(self, task: Task) -> int:
        return int(self._entry(task)["reports"])

    def revision(self, task: Task) -> tuple[int, int]:
        return self.report_count(task), self._read()["replaced"]

    def prune(self, task: Task, before: int) -> int:
        with self._change() as state:
            entry = state["tasks"][bytes.fromhex(task.id)]
            newest = _newest(entry)
            if newest is None:
                return 0
            before = min(before, last_closable(task, newest))
            entry["open_from"] = max(entry["open_from"], before)
            known = len(entry["ids"])
            entry["ids"] = {name: held for name, held in entry["ids"].items() if held[0] >= before}
            return known - len(entry["ids"])

    def replace_source(
        self,
        name: str,
        counts: Mapping[tuple[bytes, int], IntArray],
        batch_ids: Iterable[tuple[bytes, int, bytes]],
        *,
        now: int | None = None,
    ) -> SourceReport:
        now = int(time.time()) if now is None else now
        new = checked_counts(counts, self.tasks(), now)
        given = [row for chunk in checked_ids(batch_ids) for row in chunk]
        refuse_twice(len(given) - len({(key, batch_id) for key, _, batch_id in given}))
        with self._change() as state:
            state["sources"][checked_name(name)] = now
            state["replaced"] += 1
            tasks = state["tasks"]
            held = {
                (key, epoch): row
                for key, entry in tasks.items()
                for epoch, source, row in _counts(entry)
                if source == name
            }
            states = {key: (entry["open_from"], entry["closed"]) for key, entry in tasks.items()}
            moved: Counter[tuple[bytes, int, int]] = Counter()
            for key, epoch, batch_id in given:
                there = tasks[key]["ids"].get(batch_id) if key in tasks else None
                if there is not None and there[1] == name and there[0] != epoch:
                    moved[key, epoch, there[0]] += 1
            batches = Counter(
                (key, epoch)
                for key, entry in tasks.items()
                for epoch, source in entry["ids"].values()
                if source == name
            )
            new |= left_epochs(((*cells, number) for cells, number in moved.items()), batches, new, states)
            plan = plan_changes(name, new, held, states)
            refuse_ids_without_counts(plan, new, Counter((key, epoch) for key, epoch, _ in given))
            for key, entry in tasks.items():
                entry["ids"] = {
                    batch_id: (epoch, source)
                    for batch_id, (epoch, source) in entry["ids"].items()
                    if source != name or (key, epoch) not in plan.open
                }
            known: Counter[tuple[str | None, bytes, int]] = Counter()
            for key, epoch, batch_id in given:
                if (key, epoch) in plan.open:
                    there = tasks[key]["ids"].setdefault(batch_id, (epoch, name))
                    if there is not None and there != (epoch, name):
                        known[there[1], key, epoch] += 1
            if known:
                raise known_batches([(*cell, batches) for cell, batches in known.items()], name)
            for (key, epoch), row in plan.changed.items():
                _set_counts(tasks[key], epoch, name, row)
            for key in plan.added:
                refuse_more_than_most(key.hex(), tasks[key]["reports"])
        return plan.report

    def sources(self) -> list[StoredSource]:
        state = self._read()
        rows: list[tuple[Any, ...]] = []
        for name, replaced in sorted(state["sources"].items()):
            rows.append((name, replaced, *[None] * 5))
            for key, entry in state["tasks"].items():
                if mine := [(epoch, row) for epoch, source, row in _counts(entry) if source == name]:
                    reports = sum(int(row.sum()) for _, row in mine)
                    rows.append((name, replaced, key, mine[0][0], mine[-1][0], len(mine), reports))
        return stored_sources(rows)

    def drop_source(self, name: str, *, closed_too: bool = False) -> int:
        dropped = closed = 0
        with self._change() as state:
            if state["sources"].pop(name, None) is None:
                raise unknown_source(name)
            state["replaced"] += 1
            for entry in state["tasks"].values():
                for epoch, source, row in _counts(entry):
                    if source == name:
                        dropped += int(row.sum())
                        closed += entry["closed"] is not None or epoch < entry["open_from"]
                        _set_counts(entry, epoch, name, np.zeros_like(row))
                entry["ids"] = {key: held for key, held in entry["ids"].items() if held[1] != name}
            refuse_to_drop_closed(name, 0 if closed_too else closed)
        return dropped

    def clock(self) -> int | None:
        clock: int | None = self._read()["clock"]
        return clock

    def advance_clock(self, to: int, *, reset: bool = False) -> int:
        with self._change() as state:
            state["clock"] = max(to, 0 if reset else state["clock"] or 0)
            return int(state["clock"])

    def add_key(self, key: StoredKey) -> None:
        with self._change() as state:
            if any(known[0] == key.id for known in state["keys"]):
                raise key_exists(key)
            state["keys"].append(astuple(key))

    def keys(self) -> list[StoredKey]:
        found = [
            StoredKey(name, digest, scope, None if tasks is None else tuple(tasks), *rest)
            for name, digest, scope, tasks, *rest in self._read()["keys"]
        ]
        return sorted(found, key=lambda key: (key.created, key.id))

    def revoke_key(self, key_id: str, now: int) -> bool:
        with self._change() as state:
            state["sessions"] = {
                digest: held for digest, held in state["sessions"].items() if held[0] != key_id
            }
            for key in state["keys"]:
                if key[0] == key_id and key[-1] is None:
                    key[-1] = now
                    return True
            return False

    def add_session(self, session: StoredSession) -> None:
        digest, *held = astuple(session)
        with self._change() as state:
            sessions = state["sessions"]
            mine = sorted((row[1], each) for each, row in sessions.items() if row[0] == session.key_id)
            for _, oldest in mine[: max(0, len(mine) - MOST_SESSIONS + 1)]:
                del sessions[oldest]
            sessions[digest] = held

    def session(self, digest: bytes) -> StoredSession | None:
        held = self._read()["sessions"].get(digest)
        return None if held is None else StoredSession(digest, *held)

    def see_session(self, digest: bytes, now: int) -> None:
        with self._change() as state:
            if held := state["sessions"].get(digest):
                held[2] = max(held[2], now)

    def end_session(self, digest: bytes) -> bool:
        with self._change() as state:
            return state["sessions"].pop(digest, None) is not None

    def prune_sessions(self, now: int, idle_seconds: int) -> int:
        with self._change() as state:
            before = state["sessions"]
            state["sessions"] = {
                digest: held
                for digest, held in before.items()
                if held[3] > now and held[2] > now - idle_seconds
            }
            return len(before) - len(state["sessions"])

    def begin_action(self, action: StoredAction) -> int:
        with self._change() as state:
            number = int(state["next_action"])
            state["next_action"] += 1
            state["actions"].append([number, *astuple(action)])
        return number

    def end_action(self, number: int, outcome: str) -> None:
        with self._change() as state:
            for entry in state["actions"]:
                if entry[0] == number:
                    entry[-1] = outcome

    def actions(self, most: int, before: int | None = None) -> list[tuple[int, StoredAction]]:
        found = [entry for entry in self._read()["actions"] if before is None or entry[0] < before]
        return [(number, StoredAction(*entry)) for number, *entry in found[::-1][:most]]

    def prune_actions(self, before: int) -> int:
        with self._change() as state:
            kept = [entry for entry in state["actions"] if entry[1] >= before]
            forgotten = len(state["actions"]) - len(kept)
            state["actions"] = kept
        return forgotten

    def remember(self, name: str, value: int) -> None:
        with self._change() as state:
            state["remembered"][name] = value

    def recall(self, name: str) -> int | None:
        value: int | None = self._read()["remembered"].get(name)
        return value

    def export(self, *, ids: bool) -> Generator[Record, None, None]:
        state = self._read()  # of one moment
        reports = sum(entry["reports"] for entry in state["tasks"].values())
        yield Header(tuple(state["origins"]), reports, ids, tuple(sorted(state["sources"].items())))
        for key, entry in state["tasks"].items():
            yield TaskState(self._task(key, entry["definition"]), entry["closed"], entry["open_from"])
            for epoch, source, counts in _counts(entry):
                yield Counts(epoch, counts, source)
            by_epoch: dict[tuple[int, str | None], list[bytes]] = {}
            for name, held in entry["ids"].items() if ids else ():
                by_epoch.setdefault(tuple(held), []).append(name)
            for (epoch, source), names in by_epoch.items():
                yield BatchIds(epoch, names, source)

    def merge(self, records: Iterable[Record], now: int) -> int:
        with self._change() as state:
            for record in checked_incoming(records, now):
                if isinstance(record, Header):
                    refuse_known_origins(record.origins, state["origins"])
                    state["origins"].update(dict.fromkeys(record.origins, now))
                    refuse_known_sources(dict(record.sources), state["sources"])
                    state["sources"].update(record.sources)
                elif isinstance(record, TaskState):
                    task = record.task
                    new = _new_entry(task) | {"closed": record.closed}
                    entry = state["tasks"].setdefault(bytes.fromhex(task.id), new)
                    entry["open_from"] = max(entry["open_from"], record.open_from)
                elif isinstance(record, Counts):
                    _add_counts(entry, record.epoch, record.counts, record.source)
                    refuse_more_than_most(task.id, entry["reports"])
                else:
                    refuse_known_batches(sum(name in entry["ids"] for name in record.ids))
                    entry["ids"].update(dict.fromkeys(record.ids, (record.epoch, record.source)))
        return 0  # reports that were left out: this store releases no epochs

    @property
    def size(self) -> int:
        return self._path.stat().st_size

    def check(self) -> list[str]:
        problems = []
        for key, entry in self._read()["tasks"].items():
            task, found = task_problems(key, entry["definition"])
            problems += found
            if task is not None:
                rows = ((epoch, counts) for epoch, _, counts in _counts(entry))
                problems += counts_problems(task, rows, entry["reports"])
        return problems

    def vacuum(self) -> None:
        """Do nothing: every change rewrites the file, so there is no space to free."""

    def close(self) -> None:
        self._closed = True


def _new_entry(task: Task) -> dict[str, Any]:
    return {
        "definition": task.to_bytes(),
        "closed": None,
        "open_from": 0,
        "reports": 0,
        "ids": {},
        "counts": {},
    }


def _add_counts(entry: dict[str, Any], epoch: int, counts: IntArray, source: str | None = None) -> None:
    before = entry["counts"].get(epoch, {}).get(source, bytes(counts.nbytes))
    _set_counts(entry, epoch, source, np.frombuffer(before, np.int64) + counts)


def _set_counts(entry: dict[str, Any], epoch: int, source: str | None, counts: IntArray) -> None:
    rows = entry["counts"].setdefault(epoch, {})
    if before := rows.pop(source, None):
        entry["reports"] -= exact_sum(np.frombuffer(before, np.int64))
    entry["reports"] += exact_sum(counts)
    if counts.any():
        rows[source] = counts.tobytes()
    if not rows:
        del entry["counts"][epoch]


def _counts(entry: dict[str, Any]) -> list[tuple[int, str | None, IntArray]]:
    return [
        (epoch, source, np.frombuffer(row, np.int64))
        for epoch, rows in sorted(entry["counts"].items())
        for source, row in rows.items()
    ]


def _newest(entry: dict[str, Any]) -> int | None:
    return max(entry["counts"], default=None)
