"""A store as a stream of records, and as a file of JSON lines that any store can merge.

The first line has the format and the origins of the reports. Then each task is followed by its counts and,
if requested, its batch ids. The last line shows that nothing is missing. Keys are not exported.
"""

from __future__ import annotations

import json
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.errors import ArcwiseError, ParameterError
from arcwise.server.store.counting import exact_sum
from arcwise.server.store.sources import checked_name
from arcwise.tasks import Task
from arcwise.tasks.files import each_once

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping
    from typing import TextIO

    from arcwise.typing import IntArray

_FORMAT = 1
_MOST = 2**62
_MOST_READ = 2**63
"""No store accepts numbers this large; smaller ones are left to the merge, which has better messages."""
_MAX_EPOCH = 2**32
_LONGEST_LINE = 1 << 26
"""Most characters of a line. The longest lines hold tasks: 8 MiB at most over HTTP, perhaps more in files."""


class Header(NamedTuple):
    """The first record of an export.

    `origins` are the random ids (16 bytes) of the stores that counted the reports: the store that exports,
    and all that were merged into it. `reports` is the number of reports, and `ids` says whether batch ids
    follow. `sources` has the names of the sources that some of the counts came from, and the Unix time at
    which each was replaced. `clock` is `Store.clock` of the exporting store if that store releases epochs,
    else None. A store without a clock takes this clock over. A server then knows which epochs have closed
    since the export and may have been released by the exporting store.
    """

    origins: tuple[bytes, ...]
    reports: int
    ids: bool
    sources: tuple[tuple[str, int], ...] = ()
    clock: int | None = None


_NONE: Mapping[int, int] = MappingProxyType({})


class TaskState(NamedTuple):
    """A task, whose counts and batch ids follow. `closed` and `open_from` are as in `StoredTask`.

    `decided` is `Decided.before`, and `released` is the result of `Store.released`: reports by epoch.
    """

    task: Task
    closed: int | None
    open_from: int
    decided: int = 0
    released: Mapping[int, int] = _NONE


class Counts(NamedTuple):
    """Reports per code, shape (K,), of an epoch of the last `TaskState`; a `source` of None means servers."""

    epoch: int
    counts: IntArray
    source: str | None = None


class BatchIds(NamedTuple):
    """Ids (16 bytes) of some batches of an epoch of the last `TaskState`; `source` is as in `Counts`."""

    epoch: int
    ids: list[bytes]
    source: str | None = None


Record = Header | TaskState | Counts | BatchIds


def write_export(file: TextIO, records: Iterable[Record]) -> None:
    """Write records as JSON lines."""
    lines, checksum = 0, sha256()
    for record in records:
        line = json.dumps(_to_json(record), separators=(",", ":")) + "\n"
        file.write(line)
        checksum.update(line.encode())
        lines += 1
    file.write(json.dumps({"end": lines, "sha256": checksum.hexdigest()}) + "\n")


def _to_json(record: Record) -> dict[str, Any]:
    if isinstance(record, Header):
        origins = [origin.hex() for origin in record.origins]
        head = {"arcwise_export": _FORMAT, "origins": origins, "reports": record.reports, "ids": record.ids}
        head |= {"sources": dict(record.sources)} if record.sources else {}
        return head | ({} if record.clock is None else {"clock": record.clock})
    if isinstance(record, TaskState):
        state = {"task": record.task.to_json(), "closed": record.closed, "open_from": record.open_from}
        # Pairs, because the keys of an object would be strings.
        releases = {"decided": record.decided, "released": sorted(record.released.items())}
        return state | (releases if record.decided else {})
    source = {} if record.source is None else {"source": record.source}
    if isinstance(record, Counts):
        return {"epoch": record.epoch, "counts": record.counts.tolist()} | source
    return {"epoch": record.epoch, "batches": [name.hex() for name in record.ids]} | source


def read_export(file: TextIO, name: str) -> Iterator[Record]:
    """Yield the records of a file; errors call the file `name`.

    Raises `ParameterError` when the file is not an export, or its end is missing.
    """
    task: Task | None = None
    sources: set[str] = set()
    missing = number = 0
    checksum = sha256()
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), ""), start=1):
        try:
            if len(line) == _LONGEST_LINE:
                raise ValueError
            fields = json.loads(line, object_pairs_hook=each_once)
            if "end" in fields:
                # Earlier versions wrote no checksum.
                whole = {"end": number - 1}, {"end": number - 1, "sha256": checksum.hexdigest()}
                if fields not in whole or missing or file.read(1):
                    raise ValueError
                return
            checksum.update(line.encode())
            record = _from_json(fields, task, sources, first=number == 1)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ArcwiseError) as error:
            raise ParameterError(f"{name}, line {number}: not a valid arcwise export record") from error
        if isinstance(record, TaskState):
            task = record.task
        elif isinstance(record, Header):
            missing = record.reports
            sources = {name for name, _ in record.sources}
        elif isinstance(record, Counts):
            missing -= exact_sum(record.counts)
        yield record
    raise ParameterError(f"{name} is incomplete: it ends after {number} lines; copy it again")


def _from_json(fields: dict[str, Any], task: Task | None, sources: Container[str], *, first: bool) -> Record:
    if first:
        if fields["arcwise_export"] != _FORMAT:
            raise ValueError
        origins = tuple(bytes.fromhex(origin) for origin in fields["origins"])
        if not origins or any(len(origin) != 16 for origin in origins) or type(fields["ids"]) is not bool:
            raise ValueError
        replaced = tuple(
            (checked_name(name), _whole(time, _MOST)) for name, time in fields.get("sources", {}).items()
        )
        clock = None if fields.get("clock") is None else _whole(fields["clock"], _MOST)
        return Header(origins, _whole(fields["reports"], _MOST_READ << 16), fields["ids"], replaced, clock)
    if "task" in fields:
        found, closed = Task.from_json(fields["task"]), fields["closed"]
        closed = None if closed is None else _whole(closed, _MOST)
        open_from, decided = (
            _whole(number, _MAX_EPOCH) for number in (fields["open_from"], fields.get("decided", 0))
        )
        released = each_once(
            [(_whole(epoch, decided), _whole(n, _MOST_READ)) for epoch, n in fields.get("released", [])]
        )
        return TaskState(found, closed, open_from, decided, released)
    if task is None:
        raise ValueError
    epoch, source = _whole(fields["epoch"], _MAX_EPOCH), fields.get("source")
    if source is not None and source not in sources:
        raise ValueError
    if "counts" in fields:
        counts = [_whole(count, _MOST_READ) for count in fields["counts"]]
        if len(counts) != task.mechanism.kernel.codes:
            raise ValueError
        return Counts(epoch, np.array(counts, np.int64), source)
    ids = [bytes.fromhex(name) for name in fields["batches"]]
    if not ids or any(len(name) != 16 for name in ids):
        raise ValueError
    return BatchIds(epoch, ids, source)


def _whole(number: object, below: int) -> int:
    if type(number) is not int or not 0 <= number < below:
        raise ValueError
    return number
