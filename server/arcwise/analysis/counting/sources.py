"""Where batches may lie, and the engine that counts them there."""

from __future__ import annotations

import glob
import tempfile
import uuid
from contextlib import ExitStack, contextmanager
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from arcwise.analysis.counting.arrow import body_keys, checked_batches, checked_bodies
from arcwise.analysis.counting.bodies import BATCH_ID, BEGINNING
from arcwise.analysis.counting.queries import Source, of_columns
from arcwise.errors import ParameterError
from arcwise.extras import check_extra
from arcwise.wire import BATCH_ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from arcwise.analysis.counting.rules import Rules

__all__ = ["LAYOUTS", "locate", "open_source"]

LAYOUTS: Final = {"columns": ("task_id", "epoch", "batch_id", "codes"), "bodies": ("body",)}
"""The columns of each layout."""

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
# What `checked_bodies` returns, in the words of each engine.
_NAMES = ("reason", "task", "epoch", "batch_id", "codes", "reports")
_DUCKDB = ("TINYINT", "SMALLINT", "BIGINT", "BLOB", "INT[]", "BIGINT")
_IBIS = ("int8", "int16", "int64", "binary", "array<int32>", "int64")
_SPARK = ("tinyint", "smallint", "bigint", "binary", "array<int>", "bigint")


class _Files(tuple[str, ...]):
    """Paths of files, or one name of a table."""

    __slots__ = ()


def locate(table: Any, *, named: bool) -> Any:
    """Return what `count_table` was given, with the files in place of patterns and folders.

    Parameters
    ----------
    table
        As it was given.
    named
        Whether it may be a table's name.

    Raises
    ------
    ParameterError
        When files are missing, or not of a kind that is known.
    """
    several = table if isinstance(table, (list, tuple)) else [table]
    if not several or not all(isinstance(each, (str, PathLike)) for each in several):
        return table
    paths = [fspath(each) for each in several]
    files = _Files(path for each in paths for path in _files(each))
    kinds = {_kind(path) for path in files}
    if kinds == {None} and named and len(files) == 1:
        return files
    if len(kinds) != 1 or None in kinds:
        raise ParameterError(
            "table must be Parquet, CSV or JSON lines, all files of one kind and named *.parquet, *.csv or "
            "*.jsonl; or the name of a table, with engine="
        )
    return files


def _files(path: str) -> list[str]:
    """Return the files that a path, a pattern or a folder means; what is not on this machine as it is."""
    if "://" in path:
        return [path]
    if Path(path).is_dir():
        path = f"{glob.escape(path.rstrip('/'))}/**/*.parquet"
    elif not glob.has_magic(path):
        if _kind(path) is not None and not Path(path).exists():
            raise ParameterError(f"table must exist: there is no file {path}")
        return [path]
    found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (absolute patterns, too)
    if not found:
        raise ParameterError(f"table must name at least one file: there is none of the form {path}")
    return found


def _kind(path: str) -> str | None:
    name = path.lower()
    for end in (".gz", ".zst"):
        name = name.removesuffix(end)
    return next((kind for end, kind in _SUFFIXES.items() if name.endswith(end)), None)


@contextmanager
def open_source(
    located: Any,
    rules: Rules,
    layout: str,
    engine: Any,
    **limits: Any,
) -> Iterator[tuple[Source, Any]]:
    """Yield what is to be counted and its Ibis backend; close and remove afterwards what was made for it.

    Parameters
    ----------
    located
        Of `locate`.
    rules
        Of the tasks that are counted.
    layout, engine, limits
        Those of `count_table`: limits are `memory_limit` and `threads`.

    Raises
    ------
    MissingExtraError
        When Ibis, or the engine, is not installed.
    ParameterError
        When the table or the engine is not of a kind that is known, columns are missing or of other types, or
        the engine cannot decode bodies.
    """
    import ibis

    with ExitStack() as stack:
        if isinstance(located, ibis.Table):
            if engine is not None:
                raise ParameterError("engine must be left out for an Ibis table, which has one")
            table, backend = located, located.get_backend()
        elif type(located).__module__.startswith("pyspark."):
            backend = ibis.pyspark.connect(located.sparkSession)
            table = _spark_view(backend, located, stack)
        else:
            backend = _backend(engine, limits, stack)
            table = _table(backend, located, layout, stack)
        _check_columns(table, layout)
        check = _of_bodies if layout == "bodies" else _of_columns
        source = check(table, backend, rules, stack)
        if engine in {None, "duckdb"} and backend.name == "duckdb" and not isinstance(located, ibis.Table):
            # DuckDB puts a view into each place that reads it, and would keep a common expression in memory.
            # Somebody's own database is left alone.
            source = source._replace(table=backend.create_view(_name(), source.table))
        yield source, backend


def _backend(engine: Any, limits: Mapping[str, Any], stack: ExitStack) -> Any:
    """Return the Ibis backend of an engine that may be one, a URL, or a Spark session."""
    import ibis

    if engine is None or engine == "duckdb":
        check_extra("lake", "duckdb", user="count_table")
        given = {name: value for name, value in limits.items() if value is not None}
        # DuckDB makes the folder when it runs out of memory, and removes it when it is closed.
        folder = Path(tempfile.gettempdir()) / _name()
        backend = ibis.duckdb.connect(temp_directory=str(folder), **given)
        stack.callback(backend.disconnect)
        return backend
    if any(value is not None for value in limits.values()):
        raise ParameterError("memory_limit and threads are for the embedded DuckDB: engine must be left out")
    if isinstance(engine, str):
        return _connected(engine, stack)
    if type(engine).__module__.startswith("pyspark."):
        return ibis.pyspark.connect(engine)
    if not isinstance(engine, ibis.backends.BaseBackend):
        raise ParameterError(
            f"engine must be a URL, an Ibis backend or a Spark session, got {type(engine).__name__}"
        )
    return engine


def _connected(url: str, stack: ExitStack) -> Any:
    import ibis

    if url == "spark":
        check_extra("lake", "pyspark", user="this engine")
        return ibis.pyspark.connect()
    if url.startswith(("postgresql://", "postgres://")):
        check_extra("postgres", "psycopg", user="this engine")
        import psycopg

        # psycopg reads the URL itself, with all that libpq takes in one.
        connection = stack.enter_context(psycopg.connect(url, autocommit=True))
        return ibis.postgres.from_connection(connection)
    try:
        backend = ibis.connect(url)
    except ValueError as error:
        raise ParameterError(
            "engine must be duckdb, spark, or a URL that Ibis knows, such as postgresql://USER@HOST/DATABASE"
        ) from error
    stack.callback(backend.disconnect)
    return backend


def _table(backend: Any, located: Any, layout: str, stack: ExitStack) -> Any:
    """Return the Ibis table of files, of a table's name, or of what lies in memory."""
    if isinstance(located, _Files):
        return _read(backend, located, layout, stack)
    if backend.name != "duckdb":
        raise ParameterError("table must be the name of a table, or of files, that the engine reads")
    name = _name()
    backend.con.register(name, _arrow(located))  # as it is, without a copy
    return backend.table(name)


def _read(backend: Any, files: Sequence[str], layout: str, stack: ExitStack) -> Any:
    kind = _kind(files[0])
    if kind is None:
        *place, name = files[0].split(".")
        return backend.table(name, database=".".join(place) or None)
    if kind == "parquet" and backend.name == "pyspark":
        return _spark_view(backend, backend._session.read.parquet(*files), stack)
    if kind == "parquet":
        return backend.read_parquet(list(files))
    if backend.name != "duckdb":
        raise ParameterError("table must be Parquet files, or a table's name, unless the engine is DuckDB")
    if layout == "bodies":
        raise ParameterError("layout must be 'columns' for CSV and JSON lines: bodies are bytes")
    # All as texts: what the first rows look like must not decide that an id of digits is a number.
    if kind == "csv":
        texts = backend.read_csv(list(files), all_varchar=True)
    else:
        columns = dict.fromkeys(LAYOUTS[layout], "VARCHAR")
        texts = backend.read_json(list(files), columns=columns, format="newline_delimited")
    _check_columns(texts, layout)
    codes = texts.codes  # null where one of them is not a number
    codes = codes.startswith("[").ifelse(codes, "[" + codes + "]").try_cast("array<int64>")
    return texts.select("task_id", "batch_id", epoch=texts.epoch.try_cast("int64"), codes=codes)


def _arrow(table: Any) -> Any:
    import pyarrow as pa

    if hasattr(table, "collect") and not hasattr(table, "__arrow_c_stream__"):  # a lazy frame of Polars
        table = table.collect()
    if hasattr(table, "to_arrow") and not hasattr(table, "__arrow_c_stream__"):  # an older frame of Polars
        table = table.to_arrow()
    try:
        return table if isinstance(table, pa.Table) else pa.table(table)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise ParameterError(
            "table must be files, an Ibis, Arrow or Spark table, a frame of pandas or Polars, or with "
            f"engine= a table's name; got {type(table).__name__}"
        ) from error


def _check_columns(table: Any, layout: str) -> None:
    missing = [name for name in LAYOUTS[layout] if name not in table.columns]
    if missing:
        raise ParameterError(
            f"table must have the columns {', '.join(LAYOUTS[layout])} for layout={layout!r}: "
            f"{', '.join(missing)} missing"
        )


def _of_columns(table: Any, backend: Any, rules: Rules, _stack: ExitStack) -> Source:
    task_id, epoch, batch_id, codes = (table[name].type() for name in LAYOUTS["columns"])
    code = codes.value_type if codes.is_array() else codes
    for name, kind, fits, words in (
        ("task_id", task_id, task_id.is_string(), "text: a task's id in hex"),
        ("epoch", epoch, epoch.is_integer(), "integers"),
        (
            "batch_id",
            batch_id,
            batch_id.is_binary() or batch_id.is_string() or batch_id.is_uuid(),
            "16 bytes, or text of 32 hex digits",
        ),
        ("codes", codes, code.is_integer(), "integers or lists of them"),
    ):
        if not fits:
            raise ParameterError(f"{name} must be a column of {words}; got {kind}")
    return of_columns(table, rules, backend.name)


def _of_bodies(table: Any, backend: Any, rules: Rules, stack: ExitStack) -> Source:
    import ibis

    if not table.body.type().is_binary():
        raise ParameterError(f"body must be a column of bytes, got {table.body.type()}")
    name = _name()
    if backend.name == "pyspark":
        fields = ", ".join(f"{field} {kind}" for field, kind in zip(_NAMES, _SPARK, strict=True))
        bodies = backend._session.sql(backend.compile(table.select("body")))
        decoded = bodies.mapInArrow(checked_batches(rules), fields)
        return Source(_spark_view(backend, decoded, stack), "batch_id", lambda batches: batches)
    if backend.name != "duckdb":
        raise ParameterError(
            f"layout must be 'columns' for {backend.name}: only DuckDB and Spark decode bodies"
        )
    register = partial(backend.con.create_function, type="arrow", null_handling="special")
    struct = ", ".join(f"{field} {kind}" for field, kind in zip(_NAMES, _DUCKDB, strict=True))
    # Lambdas, because DuckDB evaluates the annotations of functions.
    register(f"{name}_key", lambda bodies: body_keys(bodies), ["BLOB"], "BLOB")  # noqa: PLW0108
    stack.callback(backend.con.remove_function, f"{name}_key")
    register(f"{name}_check", lambda bodies: checked_bodies(rules, bodies), ["BLOB"], f"STRUCT({struct})")
    stack.callback(backend.con.remove_function, f"{name}_check")
    struct = ", ".join(f"{field}: {kind}" for field, kind in zip(_NAMES, _IBIS, strict=True))

    @ibis.udf.scalar.builtin(name=f"{name}_key", signature=(("binary",), "binary"))
    def other_key(body): ...  # type: ignore[no-untyped-def]

    @ibis.udf.scalar.builtin(name=f"{name}_check", signature=(("binary",), f"struct<{struct}>"))
    def check(body): ...  # type: ignore[no-untyped-def]

    @ibis.udf.scalar.builtin(name="array_slice", signature=(("binary", "int64", "int64"), "binary"))
    def slice_of(body, first, last): ...  # type: ignore[no-untyped-def]

    def checked(batches: Any) -> Any:
        found = batches.select("key", found=check(batches.body))
        return found.select("key", **{field: found.found[field] for field in _NAMES})

    body = table.body
    # Where a client wrote it, SQL finds the id in half the time of a function.
    usual = ibis.and_(
        *(slice_of(body, place + 1, place + len(part)) == part for place, part in BEGINNING.items())
    )
    key = usual.ifelse(slice_of(body, BATCH_ID + 1, BATCH_ID + BATCH_ID_BYTES), other_key(body))
    return Source(table.select("body", key=key), "key", checked)


def _spark_view(backend: Any, frame: Any, stack: ExitStack) -> Any:
    name = _name()
    frame.createOrReplaceTempView(name)
    stack.callback(frame.sparkSession.catalog.dropTempView, name)
    return backend.table(name)


def _name() -> str:
    return f"arcwise_{uuid.uuid4().hex}"
