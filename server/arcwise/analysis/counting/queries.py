"""The query in terms of Ibis: checks, the choice among batches with the same id, and counts.

A subquery first counts the ids of batches and reads no other column. Nearly all batches have a unique id and
are counted directly; only batches that share an id are sorted. The query never uses the number or the
position of a row, which differ between engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.analysis.counting.rules import (
    ACCEPTED,
    AHEAD,
    BAD_CODES,
    CONFLICTING,
    MALFORMED,
    REPLAYED,
    TOO_MANY,
    UNKNOWN_TASK,
)
from arcwise.wire import BATCH_ID_BYTES, MAX_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.analysis.counting.rules import Rules


class Source(NamedTuple):
    """Batches in an engine, one for each row of an Ibis table.

    Two batches with the same id have the same value in the column `key`; only batches that share it are
    compared. `check` adds columns to a table of this form: "reason", "task" (its number, if the batch is
    accepted), "epoch", "batch_id", "codes" (an array of integers) and "reports".
    """

    table: Any
    key: str
    check: Callable[[Any], Any]


def of_columns(table: Any, rules: Rules, dialect: str) -> Source:
    """Return the source of a table with the columns task_id, epoch, batch_id and codes."""
    import ibis

    batch_id, codes = table.batch_id, table.codes
    if not batch_id.type().is_binary():
        text = batch_id.cast("string").replace("-", "").lower()
        batch_id = ibis.cases((text.re_search(f"^[0-9a-f]{{{2 * BATCH_ID_BYTES}}}$"), text))
    if not codes.type().is_array():
        codes = ibis.cases((codes.notnull(), ibis.array([codes])))
    # Leave a table of this form unchanged: some engines materialise an expression that is used three times.
    if not batch_id.equals(table.batch_id):
        table = table.select("task_id", "epoch", batch_id=batch_id, codes=codes)
    elif not codes.equals(table.codes):
        table = table.mutate(codes=codes)
    return Source(table, "batch_id", lambda batches: _checked(batches, rules, dialect))


def _checked(batches: Any, rules: Rules, dialect: str) -> Any:
    import ibis

    task_id, epoch, batch_id, codes = (batches[name] for name in ("task_id", "epoch", "batch_id", "codes"))
    ids = [task.id for task in rules.tasks]
    reports = codes.length().cast("int64").fill_null(0)
    malformed = task_id.isnull() | epoch.isnull() | batch_id.isnull() | (reports == 0)
    malformed |= (epoch < 0) | (epoch > MAX_EPOCH)
    if batch_id.type().is_binary():
        malformed |= _byte_length(dialect)(batch_id) != BATCH_ID_BYTES

    def within(numbers: Any) -> list[tuple[Any, int]]:
        """Return a pair for each distinct number: a condition for tasks with this number, and the number."""
        return [
            (task_id.isin([ids[task] for task in np.flatnonzero(numbers == number)]), int(number))
            for number in np.unique(numbers)
        ]

    reason = ibis.cases(
        (malformed, MALFORMED),
        (~task_id.isin(ids), UNKNOWN_TASK),
        (ibis.or_(*((theirs & (epoch > last)) for theirs, last in within(rules.last))), AHEAD),
        (reports > rules.max_batch_codes, TOO_MANY),
        # One case after the other, so that each case examines only the codes of its own tasks.
        (
            ibis.cases(
                *(
                    (theirs, codes.filter(_outside(size)).length() > 0)
                    for theirs, size in within(rules.codes)
                ),
                else_=False,
            ),
            BAD_CODES,
        ),
        else_=ACCEPTED,
    )
    number = ibis.cases(*((task_id == name, place) for place, name in enumerate(ids)), else_=-1)
    return batches.mutate(reason=reason.cast("int8"), task=number.cast("int16"), reports=reports)


def _outside(size: int) -> Callable[[Any], Any]:
    return lambda code: code.isnull() | (code < 0) | (code >= size)


def _byte_length(dialect: str) -> Any:
    import ibis

    name = {"trino": "length", "clickhouse": "length"}.get(dialect, "octet_length")

    @ibis.udf.scalar.builtin(name=name, signature=(("binary",), "int64"))
    def byte_length(data): ...  # type: ignore[no-untyped-def]

    return byte_length


def _batches(source: Source, dialect: str) -> Any:
    """Return all batches, each with its final reason, including REPLAYED and CONFLICTING."""
    import ibis

    key = source.key
    times = source.table.group_by(key).agg(times=lambda batches: batches.count())
    repeated = times.filter(times.times > 1).select(key)
    single = source.check(source.table.anti_join(repeated, key))
    several = source.check(source.table.semi_join(repeated, key))
    window = ibis.window(
        group_by=[several.reason == ACCEPTED, several.task, several.batch_id],
        order_by=[several.epoch, _order(several.codes, dialect)],
    )
    several = several.mutate(row=ibis.row_number().over(window), place=ibis.rank().over(window))
    chosen = ibis.cases(
        (several.reason != ACCEPTED, several.reason),
        (several.row == 0, ACCEPTED),
        (several.place == 0, REPLAYED),
        else_=CONFLICTING,
    )
    names = ["reason", "task", "epoch", "batch_id", "codes", "reports"]
    several = several.mutate(reason=chosen.cast("int8"))
    return single.select(names).union(several.select(names), distinct=False)


def _order(codes: Any, dialect: str) -> Any:
    """Return an expression that orders lists of codes as Python does, even if the engine cannot."""
    if dialect not in {"bigquery", "snowflake"}:
        return codes
    return codes.map(lambda code: code.cast("string").lpad(5, "0")).join("")


def count_query(source: Source, dialect: str) -> Any:
    """Return the query for rows (reason, task, epoch, code, times).

    For accepted batches, the rows count each code by task and epoch. For other batches `code` is the number
    of reports in a batch, `times` the number of batches with this number of reports, and `task` and `epoch`
    are 0.
    """
    import ibis

    batches = _batches(source, dialect)
    accepted = batches.reason == ACCEPTED
    lost = ibis.array([batches.reports.cast("int32")])
    rows = batches.select(
        "reason",
        task=accepted.ifelse(batches.task, 0).cast("int16"),
        epoch=accepted.ifelse(batches.epoch.cast("int64"), 0),
        code=accepted.ifelse(batches.codes.cast("array<int32>"), lost).unnest(),
    )
    return rows.group_by(["reason", "task", "epoch", "code"]).agg(times=lambda each: each.count())


def id_query(source: Source, dialect: str) -> Any:
    """Return the query for rows (task, epoch, batch_id) of the batches in the counts."""
    batches = _batches(source, dialect)
    return batches.filter(batches.reason == ACCEPTED).select("task", "epoch", "batch_id")
