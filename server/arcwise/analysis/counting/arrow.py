"""Wire bodies in Arrow arrays: the functions that engines run, on their threads and executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.counting.bodies import check_bodies, read_fields
from arcwise.analysis.counting.rules import ACCEPTED
from arcwise.wire import BATCH_ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from arcwise.analysis.counting.bodies import Fields
    from arcwise.analysis.counting.rules import Rules
    from arcwise.typing import BoolArray, IntArray


def body_keys(bodies: Any) -> Any:
    """Return the batch id of each body as an Arrow array; null where there is no batch."""
    return _ids(read_fields(*_parts(bodies)))


def checked_bodies(rules: Rules, bodies: Any) -> Any:
    """Return what `check_bodies` says of each body: an Arrow array of structs, as `Source` has them."""
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
    """Return what Spark calls with batches of a column of bodies (mapInArrow)."""

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
