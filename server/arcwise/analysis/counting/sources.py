"""The places where batches are stored, and the engines that count them there."""

from __future__ import annotations

import glob
import tempfile
import uuid
from contextlib import ExitStack, contextmanager
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlparse

from arcwise.analysis.counting.bodies import (
    BATCH_ID,
    BEGINNING,
    body_keys,
    checked_batches,
    checked_bodies,
)
from arcwise.analysis.counting.queries import Source, of_columns
from arcwise.errors import ParameterError
from arcwise.extras import check_extra
from arcwise.urls import libpq_settings
from arcwise.wire import BATCH_ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from arcwise.analysis.counting.rules import Rules

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
# The result of `checked_bodies`, in the types of each engine.
_NAMES = ("reason", "task", "epoch", "batch_id", "codes", "reports")
_DUCKDB = ("TINYINT", "SMALLINT", "BIGINT", "BLOB", "INT[]", "BIGINT")
_ENGINES = {"_duckdb", "duckdb", "ibis", "psycopg", "py4j", "pyarrow", "pyspark", "sqlite3"}
# Casts alone would round 4.7 to a code and accept 0x3. Later checks reject nulls and negative numbers.
_CODE = r"(-?[0-9]+|null|NULL)"
_INTEGER = r"^\s*-?[0-9]+\s*$"
_LIST = rf"^\s*\[\s*{_CODE}(\s*,\s*{_CODE})*\s*\]\s*$"
_IBIS = ("int8", "int16", "int64", "binary", "array<int32>", "int64")
_SPARK = ("tinyint", "smallint", "bigint", "binary", "array<int>", "bigint")


class _Files(tuple[str, ...]):
    """Paths of files, or the name of one table."""

    __slots__ = ()


def locate(table: Any, *, named: bool) -> Any:
    """Return the table given to `count_table`, with patterns and folders replaced by files.

    With `named`, a single string may also be the name of a table.
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
    """Return the files of a path, a pattern or a folder; remote paths are returned unchanged."""
    if "://" in path:
        return [path]
    if Path(path).is_dir():
        path = f"{glob.escape(path.rstrip('/'))}/**/*.parquet"
    elif Path(path).exists() or not glob.has_magic(path):
        if _kind(path) is not None and not Path(path).exists():
            raise ParameterError(f"table must exist: there is no file {path}")
        return [path]
    found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (also for absolute patterns)
    if not found:
        raise ParameterError(f"table must name at least one file: no file matches {path}")
    return found


def _kind(path: str) -> str | None:
    name = path.lower()
    for end in (".gz", ".zst"):
        name = name.removesuffix(end)
    return next((kind for end, kind in _SUFFIXES.items() if name.endswith(end)), None)


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turn an engine's error about a table that it cannot read into a `ParameterError` of one line."""
    try:
        yield
    except ParameterError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _ENGINES:
            raise
        text = str(error)
        words = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
        hint = ""
        if "httpfs" in text:
            hint = "; run INSTALL httpfs in DuckDB once, where there is a network"
        elif "schema" in text.lower() or "cast" in text.lower():
            hint = "; all files must have columns of the types of the layout"
        raise ParameterError(f"the engine of this table cannot count: {words}{hint}") from error


@contextmanager
def open_source(
    located: Any,
    rules: Rules,
    layout: str,
    engine: Any,
    **limits: Any,
) -> Iterator[tuple[Source, Any]]:
    """Yield the source to count and its Ibis backend; afterwards close and remove all temporary objects.

    `located` comes from `locate`; the other arguments are those of `count_table`, with `memory_limit` and
    `threads` in `limits`.
    """
    import ibis

    with ExitStack() as stack:
        if isinstance(located, ibis.Table):
            if engine is not None:
                raise ParameterError("engine must be left out for an Ibis table, which has its own")
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
            # DuckDB inlines a view wherever it is read, but would keep a common table expression in memory. A
            # user's own database stays unchanged.
            source = source._replace(table=backend.create_view(_name(), source.table))
        yield source, backend


def _backend(engine: Any, limits: Mapping[str, Any], stack: ExitStack) -> Any:
    """Return the Ibis backend of `engine`: a backend, a URL, or a Spark session."""
    import ibis

    if engine is None or engine == "duckdb":
        check_extra("lake", "duckdb", user="count_table")
        given = {name: value for name, value in limits.items() if value is not None}
        # DuckDB creates the folder when it runs out of memory, and removes it when it is closed.
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
    if urlparse(f"{url.partition(':')[0]}:").scheme in {"postgresql", "postgres"}:  # as Ibis does
        check_extra("postgres", "psycopg", user="this engine")
        import psycopg

        libpq_settings(url, "engine", psycopg.conninfo.conninfo_to_dict)
        connection = stack.enter_context(psycopg.connect(url, autocommit=True))
        return ibis.postgres.from_connection(connection)
    options = {}
    parsed = urlparse(url)
    if parsed.scheme in {"duckdb", "sqlite"}:
        file = Path(parsed.netloc + parsed.path)
        if file.name and file.name != ":memory:" and not parsed.path.startswith("md:"):
            if not parsed.netloc.startswith(("md:", "motherduck:")) and not file.exists():
                raise ParameterError(
                    f"engine must name a file that exists: there is no {file}; "
                    f"{parsed.scheme}://FILE is relative, {parsed.scheme}:///FOLDER/FILE absolute"
                )
            if parsed.scheme == "duckdb":
                options["read_only"] = True
    try:
        backend = ibis.connect(url, **options)
    except ValueError as error:
        raise ParameterError(
            "engine must be duckdb, spark, or a URL that Ibis knows, such as postgresql://USER@HOST/DATABASE"
        ) from error
    stack.callback(backend.disconnect)
    return backend


def _table(backend: Any, located: Any, layout: str, stack: ExitStack) -> Any:
    """Return the Ibis table for files, a table's name, or data in memory."""
    if isinstance(located, _Files):
        return _read(backend, located, layout, stack)
    if backend.name != "duckdb":
        raise ParameterError("table must be the name of a table or of files that the engine reads")
    name = _name()
    backend.con.register(name, _arrow(located))  # read in place, without a copy
    return backend.table(name)


def _read(backend: Any, files: Sequence[str], layout: str, stack: ExitStack) -> Any:
    import ibis
    from ibis.common.exceptions import TableNotFound

    kind = _kind(files[0])
    if kind is None:
        *place, name = files[0].split(".")
        try:
            return backend.table(name, database=".".join(place) or None)
        except TableNotFound as error:
            raise ParameterError(f"there is no table {files[0]!r} in the {backend.name} database") from error
    if kind == "parquet" and backend.name == "pyspark":
        return _spark_view(backend, backend._session.read.parquet(*files), stack)
    if backend.name == "duckdb":  # DuckDB reads each name as a pattern
        files = [path if "://" in path else glob.escape(path) for path in files]
    if kind == "parquet":
        return _parquet(backend, files, layout)
    if backend.name != "duckdb":
        raise ParameterError("table must be Parquet files, or a table's name, unless the engine is DuckDB")
    if layout == "bodies":
        raise ParameterError("layout must be 'columns' for CSV and JSON lines: bodies are bytes")
    # Read all columns as text: the first rows must not decide that an id of digits is a number.
    if kind == "csv":
        texts = backend.read_csv(list(files), all_varchar=True, hive_partitioning=False)
    else:
        columns = dict.fromkeys(LAYOUTS[layout], "VARCHAR")
        # A line that is not JSON, such as a truncated one, is a row of nulls, and so a malformed batch.
        texts = backend.read_json(
            list(files),
            columns=columns,
            format="newline_delimited",
            ignore_errors=True,
            hive_partitioning=False,
        )
    _check_columns(texts, layout)
    epoch = ibis.cases((texts.epoch.re_search(_INTEGER), texts.epoch)).try_cast("int64")
    codes = texts.codes  # null unless all elements are integers
    codes = ibis.cases((codes.re_search(_LIST), codes), (codes.re_search(_INTEGER), "[" + codes + "]"))
    return texts.select("task_id", "batch_id", epoch=epoch, codes=codes.try_cast("array<int64>"))


def _parquet(backend: Any, files: Sequence[str], layout: str) -> Any:
    """Return the table of Parquet files, each column with a type that holds the values of all files."""
    if backend.name != "duckdb":
        return backend.read_parquet(list(files))
    # A folder name such as epoch=20000 would replace a column of the files themselves.
    table = backend.read_parquet(list(files), union_by_name=True, hive_partitioning=False)
    if any(name not in table.columns for name in LAYOUTS[layout]):
        table = backend.read_parquet(list(files), union_by_name=True)
    if layout == "columns" and len(files) > 1:
        # DuckDB would silently convert text to bytes.
        found = backend.con.execute(
            "SELECT converted_type IS NOT DISTINCT FROM 'UTF8' OR coalesce(logical_type, '') LIKE 'String%', "
            "min(file_name) FROM parquet_schema(?) WHERE name = 'batch_id' GROUP BY 1 ORDER BY 1",
            [list(files)],
        ).fetchall()
        if len(found) > 1:
            raise ParameterError(
                "batch_id must be of one type in all files: "
                f"it is bytes in {found[0][1]} and text in {found[1][1]}"
            )
    return table


def _arrow(table: Any) -> Any:
    import pyarrow as pa

    if hasattr(table, "collect") and not hasattr(table, "__arrow_c_stream__"):  # a lazy frame of Polars
        table = table.collect()
    if hasattr(table, "to_arrow") and not hasattr(table, "__arrow_c_stream__"):  # an older frame of Polars
        table = table.to_arrow()
    try:
        found = table if isinstance(table, pa.Table) else pa.table(table)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise ParameterError(
            "table must be files, an Ibis, Arrow or Spark table, a frame of pandas or Polars, or with "
            f"engine= a table's name; got {type(table).__name__}"
        ) from error
    # DuckDB lets pyarrow filter data in memory, and pyarrow cannot filter views, which Polars creates.
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    fields = [each.with_type(plain.get(each.type, each.type)) for each in found.schema]
    return found.cast(pa.schema(fields, found.schema.metadata))


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
    # If the body has the clients' usual layout, SQL finds the id in half the time that a function takes.
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
