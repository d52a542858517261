"""Decoding of thousands of wire bodies to columns, with the same decisions as `arcwise.wire.decode_batch`.

In a body as clients write it, the places of the fields depend only on the lengths of the epoch and of the
codes. Numpy reads such bodies. Any other body, which may still be a batch in a different msgpack encoding,
goes through `decode_batch` itself. Engines call the same code for bodies in Arrow arrays, on their threads
and executors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.analysis.counting.rules import ACCEPTED, AHEAD, BAD_CODES, MALFORMED, TOO_MANY, UNKNOWN_TASK
from arcwise.errors import WireError
from arcwise.wire import BATCH_ID_BYTES, MAX_BODY_BYTES, decode_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from arcwise.analysis.counting.rules import Rules
    from arcwise.typing import BoolArray, IntArray

    Bytes = NDArray[np.uint8]
    Codes = NDArray[np.uint8 | np.uint16]

_TASK, BATCH_ID, _EPOCH = 4, 38, 54
"""Where the ids and the epoch of a body begin; the epoch's length determines the later places."""
_HEAD = 64
"""The most bytes before the first code."""
BEGINNING = {0: b"\x95\x01\xc4\x20", 36: b"\xc4\x10"}
"""The bytes before the ids in every body that clients write, by their position."""
_SMALLEST = _EPOCH + 1 + 2 + 1


class Fields(NamedTuple):
    """The fields of n bodies; rows with `ok` False have no valid fields.

    `task_ids` and `batch_ids` are bytes of the shapes (n, 32) and (n, 16); all other fields have the shape
    (n,). The packed codes of a body are `sizes` bytes of the data, from `begins` on.
    """

    ok: BoolArray
    task_ids: Bytes
    batch_ids: Bytes
    epochs: IntArray
    begins: IntArray
    sizes: IntArray


class Bodies(NamedTuple):
    """The results of checking n bodies, in arrays of shape (n,), and the codes of the accepted ones.

    `reasons` holds `ACCEPTED` or one of `REASONS`; `tasks` the number of the task, -1 if unknown; `reports`
    the number of codes, 0 if unknown; `lengths` the number of codes of accepted bodies, and 0 for all others.
    `codes` holds the codes of the accepted bodies, one body after the other. A code has one byte if the codes
    of all tasks have one byte.
    """

    reasons: NDArray[np.int8]
    tasks: IntArray
    fields: Fields
    reports: IntArray
    lengths: IntArray
    codes: Codes


def read_fields(data: Bytes, offsets: IntArray, present: BoolArray | None = None) -> Fields:
    """Return the fields of bodies that follow each other in the data.

    `offsets`, shape (n + 1,), holds the start of each body and the end of the last one. `present`, shape
    (n,), is False for missing bodies; None means that all are present.
    """
    starts, lengths = offsets[:-1], np.diff(offsets)
    ok = lengths >= _SMALLEST
    ok &= lengths <= MAX_BODY_BYTES
    if not len(data):
        data = np.zeros(1, np.uint8)
    # The bytes after a short body are those of the next body. So check that the codes' length leads to the
    # body's own end.
    head = data[np.minimum(starts[:, None] + np.arange(_HEAD), len(data) - 1)]
    for place, part in BEGINNING.items():
        ok &= (head[:, place : place + len(part)] == np.frombuffer(part, np.uint8)).all(axis=1)
    wide = head[:, _EPOCH:].astype(np.int64)  # 10 bytes: up to 5 of the epoch, up to 5 of the codes' header
    first = wide[:, 0]
    epochs = np.select(
        [first < 0x80, first == 0xCC, first == 0xCD, first == 0xCE],
        [first, wide[:, 1], wide[:, 1] << 8 | wide[:, 2], _big_endian(wide[:, 1:5])],
        -1,
    )
    ok &= epochs >= 0
    at = np.select([first < 0x80, first == 0xCC, first == 0xCD], [1, 2, 3], 5)
    bins = np.take_along_axis(wide, at[:, None] + np.arange(5), 1)
    tag = bins[:, 0]
    sizes = np.select(
        [tag == 0xC4, tag == 0xC5, tag == 0xC6],
        [bins[:, 1], bins[:, 1] << 8 | bins[:, 2], _big_endian(bins[:, 1:5])],
        0,
    )
    at += _EPOCH + np.select([tag == 0xC4, tag == 0xC5], [2, 3], 5)
    ok &= (sizes > 0) & (at + sizes == lengths)
    if present is not None:
        ok &= present
    fields = Fields(
        ok,
        head[:, _TASK : _TASK + 32],
        head[:, BATCH_ID : BATCH_ID + 16],
        epochs,
        starts + at,
        np.where(ok, sizes, 0),
    )
    for row in np.flatnonzero(~ok if present is None else ~ok & present):
        _read_other(data[starts[row] : offsets[row + 1]].tobytes(), fields, int(row), int(offsets[row + 1]))
    return fields


def _big_endian(four: IntArray) -> Any:
    return four[:, 0] << 24 | four[:, 1] << 16 | four[:, 2] << 8 | four[:, 3]


def _read_other(body: bytes, fields: Fields, row: int, end: int) -> None:
    """Fill in the row of a body that is encoded in another way; `end` is the body's end in the data."""
    try:
        batch = decode_batch(body)
    except WireError:
        return
    fields.ok[row] = True
    fields.task_ids[row] = np.frombuffer(batch.task_id, np.uint8)
    fields.batch_ids[row] = np.frombuffer(batch.batch_id, np.uint8)
    fields.epochs[row] = batch.epoch
    fields.begins[row] = end - len(batch.codes)  # the last field, and nothing follows it
    fields.sizes[row] = len(batch.codes)


def check_bodies(data: Bytes, offsets: IntArray, rules: Rules, present: BoolArray | None = None) -> Bodies:
    """Decode bodies and check them, except whether their ids are new; see `read_fields` for the arguments."""
    fields = read_fields(data, offsets, present)
    tasks = np.where(fields.ok, _task_numbers(fields.task_ids, rules), -1)
    known = tasks >= 0
    widths = np.where(known, rules.widths[tasks], 1)
    reports = np.where(known, fields.sizes // widths, 0)
    reasons = np.select(
        [
            ~fields.ok,
            ~known,
            fields.epochs > rules.last[tasks],
            reports > rules.max_batch_codes,
            reports * widths != fields.sizes,
        ],
        [MALFORMED, UNKNOWN_TASK, AHEAD, TOO_MANY, BAD_CODES],
        ACCEPTED,
    ).astype(np.int8)
    rows = np.flatnonzero(reasons == ACCEPTED)
    codes = _unpacked(data, fields.begins[rows], reports[rows], widths[rows])
    if len(rows):
        largest = np.maximum.reduceat(codes, np.cumsum(reports[rows]) - reports[rows])
        bad = largest >= rules.codes[tasks[rows]]
        if bad.any():
            codes = codes[np.repeat(~bad, reports[rows])]
            reasons[rows[bad]] = BAD_CODES
    return Bodies(reasons, tasks, fields, reports, np.where(reasons == ACCEPTED, reports, 0), codes)


def _task_numbers(task_ids: Bytes, rules: Rules) -> Any:
    """Return the number of each task, shape (n,); -1 for tasks that are not in the rules."""
    known = np.frombuffer(b"".join(bytes.fromhex(task.id) for task in rules.tasks), np.uint8).reshape(-1, 32)
    # By the first eight bytes of the ids. Ids are SHA-256 hashes, so no two tasks share these bytes.
    words = known.view(np.uint64)[:, 0]
    order = np.argsort(words)
    asked = np.ascontiguousarray(task_ids).view(np.uint64)[:, 0]
    numbers = order[np.minimum(np.searchsorted(words[order], asked), len(order) - 1)]
    return np.where((known[numbers] == task_ids).all(axis=1), numbers, -1)


def _unpacked(data: Bytes, begins: IntArray, numbers: IntArray, widths: IntArray) -> Codes:
    """Return the codes as one array: `numbers` codes of `widths` bytes each from ascending `begins`."""
    sizes = numbers * widths
    # Runs of skipped bytes alternate with runs of codes: faster than an index for each code.
    runs = np.zeros(2 * len(begins) + 1, np.int64)
    runs[1::2] = sizes
    runs[0:-1:2] = np.diff(begins, prepend=0) - np.append(0, sizes)[:-1]
    runs[-1] = len(data) - runs.sum()
    taken: Bytes = data[np.repeat(np.arange(len(runs)) % 2 == 1, runs)]
    if (widths == 1).all():
        return taken
    if (widths == 2).all():
        pairs: NDArray[np.uint16] = taken.view("<u2")
        return pairs
    codes = np.empty(int(numbers.sum()), np.uint16)
    two = np.repeat(widths == 2, numbers)
    of_two = np.repeat(widths == 2, sizes)
    codes[two] = taken[of_two].view("<u2")
    codes[~two] = taken[~of_two]
    return codes


def body_keys(bodies: Any) -> Any:
    """Return the batch id of each body as an Arrow array; null unless the body is a batch."""
    return _ids(read_fields(*_parts(bodies)))


def checked_bodies(rules: Rules, bodies: Any) -> Any:
    """Return the result of `check_bodies` as an Arrow array of structs with the columns of `Source`."""
    import pyarrow as pa

    data, offsets, present = _parts(bodies)
    checked = check_bodies(data, offsets, rules, present)
    fields = checked.fields
    ends = pa.array(np.append(0, np.cumsum(checked.lengths)).astype(np.int32))
    columns = {
        "reason": pa.array(checked.reasons),
        "task": pa.array(checked.tasks.astype(np.int16)),
        "epoch": pa.array(np.where(checked.reasons == ACCEPTED, fields.epochs, 0)),
        "batch_id": _ids(fields),
        "codes": pa.ListArray.from_arrays(ends, pa.array(checked.codes.astype(np.int32))),
        "reports": pa.array(checked.reports),
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def checked_batches(rules: Rules) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return the function that Spark calls with batches of a column of bodies (mapInArrow)."""

    def convert(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            checked = checked_bodies(rules, batch.column(0))
            names = [field.name for field in checked.type]
            yield pa.RecordBatch.from_arrays(checked.flatten(), names)

    return convert


def _parts(bodies: Any) -> tuple[Any, IntArray, BoolArray | None]:
    """Return the bytes, the offsets and the validity of an Arrow array of binaries, which may be a slice."""
    import pyarrow as pa

    if isinstance(bodies, pa.ChunkedArray):
        bodies = bodies.combine_chunks()
    if isinstance(bodies, pa.ChunkedArray):  # returned by older versions
        bodies = bodies.chunk(0) if bodies.num_chunks else pa.array([], bodies.type)
    wide = pa.types.is_large_binary(bodies.type)
    _, offsets, data = bodies.buffers()
    ends = (
        np.zeros(1, np.int64)
        if offsets is None
        else np.frombuffer(offsets, np.int64 if wide else np.int32)[
            bodies.offset : bodies.offset + len(bodies) + 1
        ]
    )
    present = None if not bodies.null_count else np.asarray(bodies.is_valid())
    raw = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return raw[ends[0] : ends[-1]], ends.astype(np.int64) - ends[0], present


def _ids(fields: Fields) -> Any:
    import pyarrow as pa

    count = len(fields.ok)
    buffers = (
        np.packbits(fields.ok, bitorder="little"),
        np.arange(0, BATCH_ID_BYTES * (count + 1), BATCH_ID_BYTES, dtype=np.int32),
        np.ascontiguousarray(fields.batch_ids),
    )
    return pa.Array.from_buffers(pa.binary(), count, [pa.py_buffer(buffer) for buffer in buffers])
