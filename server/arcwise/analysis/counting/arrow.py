"""Wire bodies in Arrow arrays: the functions that engines run, on their threads and executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.counting.bodies import check_bodies, read_fields
from arcwise.analysis.counting.rules import ACCEPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from arcwise.analysis.counting.rules import Rules
    from arcwise.typing import BoolArray, IntArray

__all__ = ["body_keys", "checked_batches", "checked_bodies"]


def body_keys(bodies: Any) -> Any:
    """Return the task id and batch id of each body, 48 bytes, as an Arrow array; null where none is."""
    import pyarrow as pa

    fields = read_fields(*_parts(bodies))
    ids = np.hstack([fields.task_ids, fields.batch_ids])
    return pa.Array.from_buffers(
        pa.binary(),
        len(ids),
        [_bits(fields.ok), _steps(np.full(len(ids), 48)), pa.py_buffer(np.ascontiguousarray(ids))],
    )


def checked_bodies(rules: Rules, bodies: Any) -> Any:
    """Return what `check_bodies` says of each body, an Arrow array of structs: see `queries.CHECKED`."""
    import pyarrow as pa

    data, offsets, present = _parts(bodies)
    checked = check_bodies(data, offsets, rules, present)
    fields, n = checked.fields, len(checked.reasons)
    batch_ids = pa.Array.from_buffers(
        pa.binary(),
        n,
        [_bits(fields.ok), _steps(np.full(n, 16)), pa.py_buffer(np.ascontiguousarray(fields.batch_ids))],
    )
    ends = pa.array(np.append(0, np.cumsum(checked.lengths)).astype(np.int32))
    columns = {
        "reason": pa.array(checked.reasons),
        "task": pa.array(checked.tasks.astype(np.int16)),
        "epoch": pa.array(np.where(checked.reasons == ACCEPTED, fields.epochs, 0)),
        "batch_id": batch_ids,
        "codes": pa.ListArray.from_arrays(ends, pa.array(checked.codes.astype(np.int32))),
        "reports": pa.array(checked.reports),
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def checked_batches(rules: Rules) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return what Spark calls with batches of a column of bodies (mapInArrow): keys and all of the struct."""

    def convert(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            bodies = batch.column(0)
            checked = checked_bodies(rules, bodies)
            names = [field.name for field in checked.type]
            yield pa.RecordBatch.from_arrays([body_keys(bodies), *checked.flatten()], ["key", *names])

    return convert


def _parts(bodies: Any) -> tuple[Any, IntArray, BoolArray | None]:
    """Return the bytes, the offsets and the validity of an Arrow array of binaries, which may be a slice."""
    import pyarrow as pa

    if isinstance(bodies, pa.ChunkedArray):
        bodies = bodies.combine_chunks()
    if isinstance(bodies, pa.ChunkedArray):  # as older versions return
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
    return raw, ends.astype(np.int64), present


def _bits(valid: BoolArray) -> Any:
    import pyarrow as pa

    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _steps(lengths: IntArray) -> Any:
    import pyarrow as pa

    return pa.py_buffer(np.append(0, np.cumsum(lengths)).astype(np.int32))
