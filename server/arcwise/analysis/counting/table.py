"""Counts of tables in a lake, a warehouse or memory, computed by their own engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from arcwise.analysis.counting.queries import count_query, id_query
from arcwise.analysis.counting.result import BatchCounts
from arcwise.analysis.counting.rules import ACCEPTED, make_rules, tally
from arcwise.analysis.counting.sources import LAYOUTS, engine_errors, locate, open_source
from arcwise.checks import explained
from arcwise.errors import ParameterError
from arcwise.extras import check_extra
from arcwise.wire import MAX_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from arcwise.analysis.counting.queries import Source
    from arcwise.tasks import Task
    from arcwise.typing import IntArray


@explained
def count_table(
    table: Any,
    tasks: Task | Iterable[Task],
    *,
    layout: Literal["columns", "bodies"] = "columns",
    engine: Any = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    now: float | None = None,
    max_batch_codes: int = MAX_BODY_BYTES,
) -> BatchCounts:
    """Count the reports in a table by task and epoch; the engine that holds the table does the work.

    The engine runs the whole query: only counts reach Python, not reports. Needs the extra ``arcwise[lake]``.
    Batches that a server would answer with an error are rejected for the same reason. A batch counts once for
    its task, in any epoch. The rows of a table have no order. So of several acceptable batches with one id,
    the batch with the smallest epoch is counted; among batches of this epoch, the batch with the smallest
    codes, compared as lists. The other batches are "replayed" if they are equal to the counted batch,
    otherwise "conflicting-batch".

    Parameters
    ----------
    table
        Files (a path, a pattern, a folder of Parquet, a list of these; Parquet, CSV or JSON lines, also in an
        object store that DuckDB reads), an Ibis table, a Spark or Arrow table, a frame of pandas or Polars.
        With `engine`, also the name of a table in it.
    tasks
        One task, or several.
    layout
        "columns": `task_id` (text, hex), `epoch` (integer), `batch_id` (16 bytes, or text of 32 hex digits),
        `codes` (a list of integers, or a single integer for a batch of one report). "bodies": wire bodies in
        `body` (bytes); DuckDB and Spark decode them.
    engine
        None or "duckdb": an embedded DuckDB; "spark"; a URL such as postgresql://USER@HOST/DATABASE, or any
        URL to which Ibis connects; an Ibis backend; a Spark session.
    memory_limit, threads
        The limits of the embedded DuckDB: memory, such as "1GB", and a number of threads. None means four
        fifths of the memory, and all cores. Data beyond the limit goes to the folder for temporary files.
    now
        The time in Unix seconds: epochs that begin more than a day later are "epoch-ahead". None means the
        current time; `math.inf` accepts every epoch.
    max_batch_codes
        Most codes of a batch; servers have a setting of the same name.

    Raises
    ------
    MissingExtraError
        When Ibis or the engine is not installed.
    ParameterError
        When an argument is out of its bounds, the table does not have the columns of the layout, or the
        engine cannot read it.
    """
    if layout not in LAYOUTS:
        raise ParameterError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    check_extra("lake", "ibis", "pyarrow", user="count_table")
    rules = make_rules(tasks, now, max_batch_codes)
    # Both queries read the same files: files that arrive later are in neither the counts nor the batch ids.
    located = locate(table, named=engine is not None)
    limits = {"memory_limit": memory_limit, "threads": threads}

    def ask(query: Callable[[Source, str], Any]) -> Any:
        with engine_errors(), open_source(located, rules, layout, engine, **limits) as (source, backend):
            return backend.to_pyarrow(query(source, backend.name))

    def ids() -> Iterator[tuple[str, int, bytes]]:
        for batch in ask(id_query).to_batches(max_chunksize=1 << 16):
            columns = (column.to_pylist() for column in batch.columns)
            for number, epoch, batch_id in zip(*columns, strict=True):
                key = batch_id if isinstance(batch_id, bytes) else bytes.fromhex(batch_id)
                yield rules.tasks[number].id, epoch, key

    reasons, numbers, epochs, codes, times = (column.to_numpy() for column in ask(count_query).columns)
    lost = reasons != ACCEPTED
    rejected = (each[lost].tolist() for each in (reasons, times, codes * times))
    keys = numbers.astype(np.int64) << 32 | epochs
    keys, codes, times = keys[~lost], codes[~lost], times[~lost]
    counts: dict[tuple[str, int], IntArray] = {}
    order = np.argsort(keys, kind="stable")
    each, starts = np.unique(keys[order], return_index=True)
    for key, rows in zip(each.tolist(), np.split(order, starts)[1:], strict=True):
        task = rules.tasks[key >> 32]
        total = counts[task.id, key & 0xFFFFFFFF] = np.zeros(task.mechanism.kernel.codes, np.int64)
        total[codes[rows]] = times[rows]
    return BatchCounts(rules.tasks, counts, tally(zip(*rejected, strict=True)), ids)
