"""`count_table` on engines that run here: the same integers and rejects as plain loops, on every engine."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ibis
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arcwise.analysis import count_batches, count_table
from arcwise.analysis.counting.rules import REASONS
from arcwise.analysis.counting.sources import LAYOUTS
from arcwise.errors import ParameterError
from tests.support.cases import mostly_slow
from tests.support.lake import (
    MOST_CODES,
    NOW,
    Row,
    arrow_table,
    bodies,
    expected,
    on_the_wire,
    same_counts,
    some_rows,
    tasks,
)
from tests.support.postgres import fresh_schema

RULES: dict[str, Any] = {"now": NOW, "max_batch_codes": MOST_CODES}
SEEDS = (1, pytest.param(2, marks=pytest.mark.slow))


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with fresh_schema() as url:
        yield url


def accepted_ids(rows: list[Row]) -> set[tuple[str | None, bytes | None]]:
    """Return the ids of batches of which one is counted."""
    _, rejected = expected(rows)
    assert set(rejected) == {
        "malformed-batch",
        "unknown-task",
        "epoch-ahead",
        "too-many-codes",
        "bad-codes",
        "replayed",
        "conflicting-batch",
    }
    return {(row.task_id, row.batch_id) for row in rows if row.codes and row.batch_id and expected([row])[0]}


@pytest.mark.parametrize("seed", SEEDS)
def test_duckdb_counts_an_arrow_table(seed: int) -> None:
    rows = some_rows(seed)
    result = count_table(arrow_table(rows), tasks(), **RULES)
    same_counts(result, *expected(rows))
    found = list(result.batch_ids)
    assert {(name, batch_id) for name, _, batch_id in found} == accepted_ids(rows)
    assert len(found) == len(accepted_ids(rows))
    assert {(name, epoch) for name, epoch, _ in found} == set(result.counts)


@pytest.mark.slow
def test_files_of_parquet_csv_and_json_lines_count_alike(tmp_path: Path) -> None:
    rows = some_rows(3)
    half = len(rows) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        pq.write_table(arrow_table(part), tmp_path / f"{number}.parquet")
        texts = arrow_table(part, text=True).to_pylist()
        lines = "".join(json.dumps(row) + "\n" for row in texts)
        (tmp_path / f"{number}.jsonl").write_text(lines, encoding="utf-8")
        cells = [[row[name] for name in ("task_id", "epoch", "batch_id")] for row in texts]
        codes = ["" if row["codes"] is None else json.dumps(row["codes"]) for row in texts]
        (tmp_path / f"{number}.csv").write_text(
            "task_id,epoch,batch_id,codes\n"
            + "".join(
                ",".join("" if cell is None else str(cell) for cell in row) + f',"{words}"\n'
                for row, words in zip(cells, codes, strict=True)
            ),
            encoding="utf-8",
        )
    counts, rejected = expected(rows)
    for source in (
        tmp_path / "*.parquet",
        tmp_path,
        [str(tmp_path / "0.parquet"), tmp_path / "1.parquet"],
        tmp_path / "*.jsonl",
        tmp_path / "*.csv",
    ):
        result = count_table(source if isinstance(source, list) else str(source), tasks(), **RULES)
        same_counts(result, counts, rejected)


@pytest.mark.slow
def test_frames_and_tables_count_alike() -> None:
    import polars

    rows = some_rows(4)
    table = arrow_table(rows)
    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    other = pa.table(
        {
            "task_id": table["task_id"].dictionary_encode(),
            "epoch": table["epoch"],
            "batch_id": table["batch_id"].cast(pa.large_binary()),
            "codes": table["codes"].cast(pa.large_list(pa.int64())),
            "more": pa.nulls(len(table)),
        }
    )
    for each in (frame, frame.lazy(), ibis.memtable(table), other):
        same_counts(count_table(each, tasks(), **RULES), *expected(rows))
    # Pandas makes floats of integers with nulls among them.
    whole = [row for row in rows if None not in row and None not in (row.codes or ())]
    same_counts(count_table(arrow_table(whole).to_pandas(), tasks(), **RULES), *expected(whole))
    sized = [row for row in rows if row.batch_id is None or len(row.batch_id) == 16]
    table = arrow_table(sized)
    table = table.set_column(2, "batch_id", table["batch_id"].cast(pa.binary(16)))
    same_counts(count_table(table, tasks(), **RULES), *expected(sized))


@pytest.mark.parametrize("seed", SEEDS)
def test_bodies_in_a_table_count_as_bodies_in_python(seed: int) -> None:
    # Ids that are too short are not bodies; nor is an epoch beyond 32 bits.
    rows = on_the_wire(some_rows(seed, nulls=False))
    raw = [*bodies(rows), b"", b"heading", bodies(rows[:1])[0] + b"x"]
    counts, rejected = expected(rows)
    batches, reports = rejected["malformed-batch"]
    lost = sum(len(row.codes or ()) for row in rows if expected([row])[1].get("malformed-batch"))
    rejected["malformed-batch"] = (batches + 4, reports - lost)  # and a null
    unknown, _ = rejected["unknown-task"]
    rejected["unknown-task"] = (unknown, 0)
    for kind in (pa.binary(), pa.large_binary()):
        table = pa.table({"body": pa.array([*raw, None], kind)})
        result = count_table(table.slice(0), tasks(), layout="bodies", **RULES)
        same_counts(result, counts, rejected)
    ids = sorted(batch_id for _, _, batch_id in result.batch_ids)
    in_python = count_batches(tasks(), raw, **RULES)
    assert ids == sorted(batch_id for _, _, batch_id in in_python.batch_ids)


def test_a_database_of_duckdb_is_left_as_it_was(tmp_path: Path) -> None:
    import duckdb

    rows = some_rows(8)
    raw = on_the_wire(some_rows(9, nulls=False))
    table, wire = arrow_table(rows), pa.table({"body": pa.array(bodies(raw), pa.binary())})
    file = tmp_path / "lake.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.register("arrow_rows", table)
        connection.register("arrow_wire", wire)
        connection.execute("CREATE TABLE reports AS SELECT * REPLACE (epoch::INT8 AS epoch) FROM arrow_rows")
        connection.execute(
            "CREATE TABLE texts AS SELECT * REPLACE (hex(batch_id) AS batch_id) FROM arrow_rows"
        )
        connection.execute("CREATE TABLE wire AS SELECT * FROM arrow_wire")
    url = f"duckdb://{file}?read_only=true"
    for name in ("reports", "main.texts"):
        same_counts(count_table(name, tasks(), engine=url, **RULES), *expected(rows))
    good = sum(sum(numbers) for numbers in expected(raw)[0].values())
    assert count_table("wire", tasks(), layout="bodies", engine=url, **RULES).reports == good
    backend = ibis.duckdb.connect(file)
    assert count_table(backend.table("wire"), tasks(), layout="bodies", **RULES).reports == good
    for left in ("duckdb_functions() WHERE function_name", "duckdb_views() WHERE view_name"):
        assert backend.raw_sql(f"SELECT count(*) FROM {left} LIKE 'arcwise%'").fetchall() == [(0,)]
    backend.disconnect()


@pytest.mark.parametrize("kind", ["int", pytest.param("smallint", marks=pytest.mark.slow)])
def test_postgresql_counts_a_table(postgres: str, kind: str) -> None:
    rows = some_rows(5)
    fill(postgres, f"reports_{kind}", f"batch_id bytea, codes {kind}[]", rows)
    result = count_table(f"reports_{kind}", tasks(), engine=postgres, **RULES)
    same_counts(result, *expected(rows))
    found = {(name, batch_id) for name, _, batch_id in result.batch_ids}
    assert found == accepted_ids(rows)


def test_postgresql_counts_one_code_a_row_and_ids_of_text(postgres: str) -> None:
    rows = [row for row in some_rows(6) if row.codes and row.batch_id and len(row.batch_id) == 16]
    single = [row._replace(codes=(row.codes or ())[:1]) for row in rows]
    for name, kind, ids in (
        ("uuids", "uuid", [str(row.batch_id.hex()) if row.batch_id else None for row in single]),
        ("texts", "text", [row.batch_id.hex().upper() if row.batch_id else None for row in single]),
    ):
        fill(postgres, name, f"batch_id {kind}, codes int", single, ids, single=True)
        same_counts(count_table(name, tasks(), engine=postgres, **RULES), *expected(single))


def fill(
    url: str, name: str, columns: str, rows: list[Row], ids: list[Any] | None = None, *, single: bool = False
) -> None:
    values = [
        (
            row.task_id,
            row.epoch,
            ids[place] if ids else row.batch_id,
            (row.codes[0] if row.codes else None) if single else (row.codes and list(row.codes)),
        )
        for place, row in enumerate(rows)
    ]
    if not single:
        values = [
            (*value[:3], [] if rows[place].codes == () else value[3]) for place, value in enumerate(values)
        ]
    with closing(psycopg.connect(url, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} (task_id text, epoch bigint, {columns})".encode())
        cursor.executemany(f"INSERT INTO {name} VALUES (%s, %s, %s, %s)".encode(), values)


def test_one_code_a_row_is_a_batch_of_its_own() -> None:
    task = tasks()[0]
    table = pa.table(
        {
            "task_id": [task.id] * 5,
            "epoch": [20_000] * 5,
            "batch_id": [bytes([number]) * 16 for number in (1, 2, 2, 3, 3)],
            "codes": pa.array([7, 7, 7, 4, 3], pa.uint8()),
        }
    )
    result = count_table(table, task, now=NOW)
    assert {code: int(result.of(task)[code]) for code in (3, 4, 7)} == {3: 1, 4: 0, 7: 2}
    assert [tuple(row) for row in result.rejected] == [("replayed", 1, 1), ("conflicting-batch", 1, 1)]


def test_what_cannot_be_counted_is_named() -> None:
    task = tasks()[0]
    table = arrow_table(some_rows(1, 10))
    for source, options, words in (
        (table.drop(["codes"]), {}, "codes missing"),
        (table, {"layout": "bodies"}, "body missing"),
        (
            table.set_column(3, "codes", pa.array(["a"] * len(table))),
            {},
            "codes must be a column of integers",
        ),
        (
            table.set_column(1, "epoch", pa.array([1.5] * len(table))),
            {},
            "epoch must be a column of integers",
        ),
        (table, {"layout": "rows"}, "layout must be one of"),
        (ibis.memtable(table), {"engine": "duckdb"}, "engine must be left out"),
        (table, {"engine": 7}, "engine must be a URL"),
        (table, {"engine": "nothing://x"}, "engine must be duckdb, spark"),
        ("reports.xml", {}, "table must be Parquet, CSV or JSON lines"),
        ("no/such/*.parquet", {}, "at least one file"),
        ("no/such.parquet", {}, "there is no file"),
        (object(), {}, "table must be files"),
        (table, {"now": -1.0}, "now must be"),
        (table, {"max_batch_codes": 0}, "max_batch_codes must be"),
    ):
        with pytest.raises(ParameterError, match=words):
            count_table(source, task, **options)
    for wrong in ([], [task, task], ["heading"]):
        with pytest.raises(ParameterError, match="tasks must"):
            count_table(table, wrong)  # type: ignore[arg-type]


def test_a_result_goes_to_the_estimators() -> None:
    rows = some_rows(7)
    each = tasks()
    result = count_table(arrow_table(rows), each, **RULES)
    task = each[0]
    today = task.epoch(NOW)
    assert result.of(task, str(today - 1), str(today)).tolist() == result.counts[task.id, today - 1].tolist()
    assert result.of(task).sum() == sum(counts.sum() for counts in result.by_epoch(task).values())
    assert result.estimate(task).n == result.of(task).sum()
    assert result.estimate(task, str(today), level=0.9).level == 0.9
    assert repr(result).startswith("<BatchCounts: ")
    assert "\n" not in repr(result)
    with pytest.raises(ParameterError, match="task must be one of"):
        result.of(tasks()[0].__class__("other", each[0].domain, epsilon=1.0))


DIALECTS = ("duckdb", "postgres", "pyspark", "clickhouse", "bigquery", "snowflake", "trino")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("batch_id", mostly_slow(["binary", "string"], every=2))
@pytest.mark.parametrize("codes", mostly_slow(["array<int32>", "int64"], every=2))
def test_the_query_compiles_for_every_engine(dialect: str, batch_id: str, codes: str) -> None:
    from arcwise.analysis.counting.queries import count_query, id_query, of_columns
    from arcwise.analysis.counting.rules import make_rules

    table = ibis.table(
        {"task_id": "string", "epoch": "int64", "batch_id": batch_id, "codes": codes}, name="reports"
    )
    source = of_columns(table, make_rules(tasks(), NOW, MOST_CODES), dialect)
    for query in (count_query(source, dialect), id_query(source, dialect)):
        assert ibis.to_sql(query, dialect=dialect).count("reports") >= 3


def test_the_analysis_imports_no_engine() -> None:
    code = (
        "import sys\nfrom arcwise.analysis import count_batches, count_table\n"
        "print(sorted({'ibis', 'duckdb', 'pyarrow', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def one_row(number: int, codes: Any, epoch: Any = 20_000) -> dict[str, Any]:
    batch_id = bytes([number]) * 16
    return {"task_id": tasks()[0].id, "epoch": epoch, "batch_id": batch_id, "codes": codes}


def write_rows(path: Path, *rows: dict[str, Any], codes: pa.DataType | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(rows))
    if codes is not None:
        table = table.set_column(3, "codes", table["codes"].cast(pa.list_(codes)))
    pq.write_table(table, path)


def test_a_name_that_exists_is_no_pattern(tmp_path: Path) -> None:
    write_rows(tmp_path / "lake[1]" / "x.parquet", one_row(1, [3]))
    write_rows(tmp_path / "lake1" / "x.parquet", one_row(2, [3, 4, 5]))
    write_rows(tmp_path / "a[1]*?.parquet", one_row(3, [3, 4]))
    write_rows(tmp_path / "a1xy.parquet", one_row(4, [3, 4, 5]))
    for name, reports in (("lake[1]", 1), ("lake[1]/x.parquet", 1), ("a[1]*?.parquet", 2), ("lake1", 3)):
        assert count_table(str(tmp_path / name), tasks(), now=NOW).reports == reports


def test_texts_that_are_not_integers_are_not_rounded(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    odd = [one_row(n, c) for n, c in enumerate([[4.7], [1, 2.0], True, 1e30, ["7"], "1,2", "0x3", "1e1"])]
    rows = [*odd, one_row(20, [3], 20000.6), one_row(21, [3]), one_row(22, 5), one_row(23, "[1, 2]")]
    lines = [json.dumps(row | {"batch_id": row["batch_id"].hex()}) for row in rows]
    lines.insert(3, lines[0][:50])  # cut off
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = count_table(file, tasks(), now=NOW)
    assert result.reports == 4
    assert [(row.reason, row.batches) for row in result.rejected] == [("malformed-batch", 10)]
    csv = tmp_path / "a.csv"
    cells = ["4.7", "0x3", "1e1", '"1,2"', '"[2.5,3]"', " 6", '"[1, 2]"']
    csv.write_text(
        "task_id,epoch,batch_id,codes\n"
        + "".join(f"{tasks()[0].id},20000,{number:032x},{cell}\n" for number, cell in enumerate(cells)),
        encoding="utf-8",
    )
    result = count_table(csv, tasks(), now=NOW)
    assert result.reports == 3
    assert [(row.reason, row.batches) for row in result.rejected] == [("malformed-batch", 5)]


def test_a_folder_does_not_replace_a_column(tmp_path: Path) -> None:
    write_rows(tmp_path / "a" / "epoch=19999" / "x.parquet", one_row(1, [3]))
    assert [epoch for _, epoch in count_table(tmp_path / "a", tasks(), now=NOW).counts] == [20_000]
    row = one_row(1, [3])
    del row["epoch"]
    write_rows(tmp_path / "b" / "epoch=19999" / "x.parquet", row)
    assert [epoch for _, epoch in count_table(tmp_path / "b", tasks(), now=NOW).counts] == [19_999]


def test_types_of_all_files_decide(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.parquet", one_row(1, [3]), codes=pa.uint8())
    write_rows(tmp_path / "b.parquet", one_row(2, [300]), codes=pa.int32())
    size = tasks()[0].mechanism.kernel.codes
    result = count_table(tmp_path, tasks(), now=NOW)
    assert result.reports == 1 + (size > 300)
    write_rows(tmp_path / "c.parquet", one_row(3, [3]) | {"batch_id": "0" * 32})
    with pytest.raises(ParameterError, match=r"bytes in .*a\.parquet and text in .*c\.parquet"):
        count_table(tmp_path, tasks(), now=NOW)


def test_what_an_engine_cannot_read_is_a_wrong_argument(tmp_path: Path) -> None:
    import duckdb

    file = tmp_path / "lake.duckdb"
    with pytest.raises(ParameterError, match=r"there is no .*lake\.duckdb"):
        count_table("reports", tasks(), engine=f"duckdb://{file}")
    assert not file.exists()
    duckdb.connect(str(file)).close()
    with pytest.raises(ParameterError, match="there is no table 'reports'"):
        count_table("reports", tasks(), engine=f"duckdb://{file}")
    (tmp_path / "x.parquet").write_bytes(b"junk")
    with pytest.raises(ParameterError, match="the engine of this table cannot count: "):
        count_table(tmp_path / "x.parquet", tasks())


TEXT = (Path(__file__).parents[2] / "docs" / "howto" / "lake.md").read_text("utf-8")


def test_the_page_names_every_column_and_reason() -> None:
    for name in (*REASONS.values(), *(column for columns in LAYOUTS.values() for column in columns)):
        assert f"`{name}`" in TEXT
