"""Failures that only the PostgreSQL store can have."""

import contextlib
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import psycopg
import pytest
from psycopg import Connection

from arcwise.domains import Interval
from arcwise.errors import ParameterError, StoreError
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.access.keys import new_key
from arcwise.server.store import Store, migrate_store, open_store
from arcwise.server.store.postgres import database, locks
from arcwise.server.store.postgres.store import PostgresStore
from arcwise.tasks import Task
from arcwise.wire import Batch
from tests.support.postgres import fresh_database
from tests.support.store_samples import CLOSED, COUNTED, DELAY, HEADING, REPLAYED, WIDE, batch, counted, lake
from tests.support.stores import opened

PASSWORD = "hunter2"


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with contextlib.closing(psycopg.connect(url, autocommit=True)) as opened:
        yield opened


def shards(connection: Connection) -> list[int]:
    return [shard for (shard,) in connection.execute("SELECT DISTINCT shard FROM counts ORDER BY 1")]


def test_each_process_adds_to_a_shard_of_its_own_until_it_ends(url: str, connection: Connection) -> None:
    with opened(url) as first:
        with opened(url) as second:
            first.add([batch(DELAY, [1])])
            second.add([batch(DELAY, [2], number=1)])
            first.vacuum()
            assert len(shards(connection)) == 2  # both are alive
            assert 0 not in shards(connection)
        until = time.monotonic() + 60  # it takes the database a moment to notice that the second one has gone
        while shards(connection)[0] != 0 and time.monotonic() < until:
            first.vacuum()
        assert len(shards(connection)) == 2
        assert shards(connection)[0] == 0  # the second one's
        with opened(url) as third:
            third.add([batch(DELAY, [3], number=2)])
        first.prune(DELAY, before=1)  # as a server does every hour
        assert len(shards(connection)) == 2
        first.add([batch(DELAY, [1], number=3)])
    with opened(url) as last:
        last.vacuum()
        assert shards(connection) == [0]
        assert last.counts(DELAY).tolist() == counted(DELAY, [1, 1, 2, 3])
        assert last.report_count(DELAY) == 4
        assert last.check() == []


def test_reports_are_counted_while_ids_are_forgotten(store: Store, connection: Connection) -> None:
    store.add([batch(DELAY, [1], number=n, epoch=10) for n in range(100)])
    store.add([batch(DELAY, [2], number=100, epoch=20)])
    forgotten: list[int] = []
    pruning = threading.Thread(target=lambda: forgotten.append(store.prune(DELAY, before=20)))
    with connection.transaction():
        connection.execute("SELECT FROM batch WHERE epoch = 10 LIMIT 1 FOR UPDATE")  # holds up pruning
        pruning.start()
        number = 200
        while store.add([batch(DELAY, [1], number=number, epoch=10)]) != [CLOSED]:
            number += 1
        assert store.add([batch(DELAY, [3], number=101, epoch=20)]) == [COUNTED]
        assert pruning.is_alive()
    pruning.join()
    assert forgotten == [100 + number - 200]
    assert store.check() == []


def until(connection: Connection, query: str, *given: object) -> None:
    """Wait until a query returns true."""
    deadline = time.monotonic() + 60
    while connection.execute(query.encode(), given).fetchone() != (True,):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def waiting(connection: Connection, number: int, *, lock: int = 7241, table: str = "task") -> None:
    """Wait until this many others wait for the lock of closings, or for another one, a row or a table."""
    query = """
        SELECT count(DISTINCT pid) = %s FROM pg_locks
        WHERE (locktype = 'advisory' AND NOT granted AND classid = %s AND objid = 'task'::regclass)
           OR ((locktype = 'tuple' OR NOT granted) AND relation = %s::regclass)
    """
    until(connection, query, number, lock, table)


def waiting_for_another(connection: Connection) -> None:
    """Wait until somebody waits for the end of this transaction."""
    waits = "NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    until(connection, f"SELECT count(*) > 0 FROM pg_locks WHERE {waits}")


def test_reports_go_on_while_somebody_waits_to_close_a_task(
    url: str, store: Store, connection: Connection
) -> None:
    with opened(url) as other, ThreadPoolExecutor(1) as threads:
        with connection.transaction():  # a slow statement of another process
            connection.execute("SELECT pg_advisory_xact_lock_shared(7241, 'task'::regclass::oid::integer)")
            closed = threads.submit(other.close_task, HEADING.id, 1)
            for number in range(3):
                waiting(connection, 1)
                assert store.add([batch(DELAY, [1], number=number)]) == [COUNTED]
                assert other.add([batch(DELAY, [1], number=number)]) == [REPLAYED]
            assert not closed.done()
        assert closed.result()
        assert store.add([batch(HEADING, [1], number=99)]) == [CLOSED]


def replace_lake(store: Store) -> object:
    return store.replace_source("lake", *lake(batch(DELAY, [2], number=2)))


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (replace_lake, None),
        (lambda store: store.drop_source("lake"), "closed"),
        (lambda store: store.delete_data(WIDE.id), None),
    ],
    ids=["replace", "drop", "delete"],
)
def test_nobody_waits_for_a_change_that_takes_long(
    url: str, connection: Connection, change: Callable[[Store], object], refusal: str | None
) -> None:
    """An epoch that is closed meanwhile stays unchanged."""
    with opened(url) as store, opened(url) as other, ThreadPoolExecutor(1) as threads:
        store.replace_source("lake", *lake(batch(DELAY, [1], number=1)))
        store.add([batch(WIDE, [1], number=2)])
        assert store.close_task(WIDE.id, 1)
        with connection.transaction():
            connection.execute("SELECT FROM batch FOR UPDATE")  # holds up deletions
            changed = threads.submit(change, store)
            waiting(connection, 1, table="batch")
            assert other.close_task(DELAY.id, 1)
            assert other.add([batch(HEADING, [1], number=3)]) == [COUNTED]
            assert not changed.done()
        if refusal is None:
            changed.result()
        else:
            with pytest.raises(ParameterError, match=refusal):
                changed.result()
        assert store.counts(DELAY).tolist() == counted(DELAY, [1])
        assert other.check() == []


_INSERT = """
    INSERT INTO batch (task, id, epoch) SELECT number, %s, 100 FROM task WHERE id = %s ON CONFLICT DO NOTHING
"""
FIRST, SECOND = (batch(DELAY, [1], number=number) for number in (1, 2))


def insert(connection: Connection, *batches: Batch) -> None:
    for each in batches:
        connection.execute(_INSERT, (each.batch_id, each.task_id))


def in_the_way(url: str) -> str:
    """Return the URL of the connection that a deadlock ends, which happens after two seconds."""
    return f"{url}%20-cdeadlock_timeout%3D2s"


def test_reports_that_were_in_the_way_of_an_import_are_counted(url: str, connection: Connection) -> None:
    with opened(in_the_way(url)) as store, ThreadPoolExecutor(1) as threads:
        connection.execute("SET deadlock_timeout = '60s'")
        insert(connection, SECOND)
        with connection.transaction():
            connection.execute("DELETE FROM batch")
            added = threads.submit(store.add, [FIRST, SECOND])
            waiting_for_another(connection)
            insert(connection, FIRST)
        assert added.result() == [REPLAYED, COUNTED]


def test_an_import_that_was_in_the_way_of_reports_is_made(url: str, connection: Connection) -> None:
    with opened(in_the_way(url)) as store, ThreadPoolExecutor(1) as threads:
        connection.execute("SET deadlock_timeout = '60s'")
        store.replace_source("lake", *lake(SECOND))
        with connection.transaction(force_rollback=True):
            insert(connection, FIRST)
            replaced = threads.submit(store.replace_source, "lake", *lake(FIRST))
            waiting_for_another(connection)
            insert(connection, SECOND)
        replaced.result()
        assert store.add([FIRST, SECOND]) == [REPLAYED, COUNTED]


def test_a_standby_is_left_as_soon_as_there_is_a_primary_but_commands_may_read_it() -> None:
    """For some moments after a failover, a name leads to the old primary, which is now a standby."""
    with fresh_database() as (url, be_standby), opened(url) as store:
        assert isinstance(store, PostgresStore)
        be_standby(True)
        with pytest.raises(StoreError, match="read-only"):
            store.add([batch(DELAY, [1])])
        for options in ({"create": False}, {"read_only": True}):
            with contextlib.closing(open_store(url, **options)) as shown:
                assert shown.report_count(DELAY) == 0
        be_standby(False)
        assert store.add([batch(DELAY, [1])]) == [COUNTED]
        assert store.report_count(DELAY) == 1
        links = [store._writer, store._reader]
        before = [link._connection for link in links]
        for connection in filter(None, before):  # a primary that became a standby without cutting connections
            connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(StoreError, match="read-only"):
            store.add([batch(DELAY, [1], number=1)])
        assert store.add([batch(DELAY, [1], number=1)]) == [COUNTED]
        assert store.report_count(DELAY) == 2
        assert all(link._connection is not old for link, old in zip(links, before, strict=True))


LOSE = """
DELETE FROM counts USING task WHERE task = number AND id = %(id)s;
DELETE FROM total USING task WHERE task = number AND id = %(id)s;
DELETE FROM batch USING task WHERE task = number AND task.id = %(id)s;
DELETE FROM task WHERE id = %(id)s;
"""


@pytest.mark.parametrize("cut", [True, False], ids=["connections cut", "behind a pooler"])
def test_no_report_of_a_task_that_a_failover_lost_is_acknowledged_or_counted_as_anothers(cut: bool) -> None:
    with fresh_database() as (url, _), opened(url) as store:
        assert isinstance(store, PostgresStore)
        assert store.add([batch(DELAY, [1])]) == [COUNTED]
        number = store._numbers[bytes.fromhex(DELAY.id)]
        with psycopg.connect(url, autocommit=True) as connection:
            for task in (DELAY, HEADING) if cut else (DELAY,):
                for statement in LOSE.strip().split("\n"):
                    connection.execute(statement.encode(), {"id": bytes.fromhex(task.id)})
            if cut:  # another task may have its number by now
                connection.execute(f"ALTER TABLE task ALTER number RESTART WITH {number}".encode())
                with contextlib.closing(open_store(url)) as other:
                    other.register([HEADING])
                connection.execute("ALTER TABLE task ALTER number RESTART WITH 100")
                connection.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
        with pytest.raises(KeyError if cut else StoreError):
            store.add([batch(DELAY, [1], number=1)])
        store._numbers = {bytes.fromhex(DELAY.id): number}  # as of a worker that added nothing meanwhile
        store.tasks()
        assert store._numbers == {}
        for work in (lambda: store.prune(DELAY, 1), lambda: store.release(DELAY, 1)):
            with pytest.raises(StoreError, match="gone back to an earlier state"):
                work()
        store.register([DELAY])
        assert store.add([batch(DELAY, [1], number=1)]) == [COUNTED]
        assert (store.report_count(DELAY), store.report_count(HEADING)) == (1, 0)
        assert store.check() == []


def test_a_database_without_an_encoding_gives_texts() -> None:
    without = "ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    with fresh_database(without) as (url, _), opened(url) as store:
        _, key = new_key("read", label="Zoë", now=0)
        store.add_key(key)
        assert store.keys() == [key]


def test_who_is_alone_and_suspended_keeps_nobody_waiting(
    store: Store, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_IDLE", "SET LOCAL idle_in_transaction_session_timeout = '100ms'")
    connection.execute("BEGIN")
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # like a merge with much data
    locks.alone(connection)
    assert store.add([batch(DELAY, [1])]) == [COUNTED]
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        connection.execute("COMMIT")


def test_no_report_waits_for_a_merge_that_waits_for_a_fold(
    url: str, connection: Connection, tmp_path: Path
) -> None:
    with (
        opened(url) as store,
        opened(f"sqlite:///{tmp_path / 'other.db'}") as other,
        ThreadPoolExecutor(1) as threads,
    ):
        other.add([batch(DELAY, [2], number=1)])
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(7243, 'task'::regclass::oid::integer)")
            merged = threads.submit(store.merge, list(other.export(ids=True)), 1_700_000_000)
            waiting(connection, 1, lock=7243)
            assert store.add([batch(DELAY, [1])]) == [COUNTED]
            assert not merged.done()
        merged.result()
        assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2])


def test_workers_that_tidy_at_the_same_moment_leave_the_ids_to_one_of_them(
    url: str, connection: Connection
) -> None:
    with (
        opened(url) as first,
        opened(url) as second,
        contextlib.closing(psycopg.connect(url)) as holder,
        ThreadPoolExecutor(2) as threads,
    ):
        first.add([batch(DELAY, [1], number=n, epoch=10) for n in range(100)])
        first.add([batch(DELAY, [2], number=100, epoch=20)])
        holder.execute("SELECT FROM batch WHERE epoch = 10 LIMIT 1 FOR UPDATE")  # a slow deletion
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(7241, 'task'::regclass::oid::integer)")
            pruned = [threads.submit(store.prune, DELAY, before=20) for store in (first, second)]
            waiting(connection, 2)  # both have seen that there is something to forget
        done, busy = wait(pruned, timeout=8, return_when=FIRST_COMPLETED)
        holder.rollback()
        assert [each.result() for each in done] == [0]
        assert [each.result() for each in busy] == [100]


@pytest.mark.parametrize("level", ["read%5C%20committed", "repeatable%5C%20read", "serializable"])
def test_a_task_that_is_closed_meanwhile_is_closed_at_every_isolation(
    url: str, connection: Connection, level: str
) -> None:
    with (
        opened(f"{url}%20-cdefault_transaction_isolation%3D{level}") as store,
        ThreadPoolExecutor(1) as threads,
    ):
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(7241, 'task'::regclass::oid::integer)")
            connection.execute("UPDATE task SET closed = 1")
            added = threads.submit(store.add, [batch(DELAY, [1])])
            waiting(connection, 1)
        assert added.result() == [CLOSED]
        assert store.report_count(DELAY) == 0


def test_nobody_waits_for_counts_who_looks_up_a_key(store: Store, connection: Connection) -> None:
    with ThreadPoolExecutor(3) as threads:
        store.add([batch(DELAY, [1])])
        with connection.transaction():
            connection.execute("LOCK TABLE counts")
            reports = threads.submit(store.reports_by_epoch, DELAY)
            sums, epochs = threads.submit(store.sums, DELAY), threads.submit(store.counts_by_epoch, DELAY)
            waiting(connection, 1, table="counts")
            assert store.keys() == []
            assert store.session(b"digest") is None
            assert store.recall("number") is None
            assert not any(read.done() for read in (reports, sums, epochs))
        assert sums.result().sum() == epochs.result()[100].sum() == reports.result()[100] == 1


def test_one_replay_makes_a_group_of_large_batches_no_dearer(url: str) -> None:
    """The codes of each batch, one by one, would take a hundred times as much memory as their sums."""
    fine = Task("fine", Interval(0, 1), 1.0, mechanism=OptimalPiecewise(Interval(0, 1), 1.0, nodes=20_000))
    codes = list(range(fine.mechanism.kernel.codes))
    with opened(url) as store:
        store.register([fine])
        peaks = []
        for first in (0, 99):
            group = [batch(fine, codes, number=number) for number in range(first, first + 100)]
            tracemalloc.start()
            outcomes = store.add(group)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert outcomes == [COUNTED if first == 0 else REPLAYED, *[COUNTED] * 99]
        assert store.counts(fine).tolist() == [199] * len(codes)
    assert peaks[1] < 1.5 * peaks[0]


def test_a_shard_that_was_folded_while_its_process_was_away_loses_nothing(
    url: str, store: Store, connection: Connection
) -> None:
    with opened(url) as other:
        store.add([batch(DELAY, [1])])
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks"
            " WHERE locktype = 'advisory' AND objsubid = 1 AND mode = 'ShareLock'"
        )
        other.vacuum()
        assert shards(connection) == [0]
        assert store.add([batch(DELAY, [1, 2], number=1)]) == [COUNTED]
        assert store.counts(DELAY).tolist() == counted(DELAY, [1, 1, 2])
        assert store.report_count(DELAY) == 3


def test_a_database_that_is_set_to_lose_commits_is_told_not_to(url: str, connection: Connection) -> None:
    with opened(url + "%20-csynchronous_commit%3Doff") as store:
        connection.execute(
            "CREATE TABLE seen AS SELECT 'x' AS setting;"
            "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " UPDATE seen SET setting = current_setting('synchronous_commit'); RETURN new; END $$;"
            "CREATE TRIGGER look BEFORE INSERT ON batch FOR EACH ROW EXECUTE FUNCTION look()"
        )
        store.add([batch(DELAY, [1])])
    assert connection.execute("SELECT setting FROM seen").fetchone() == ("on",)


@pytest.mark.slow
def test_a_statement_that_takes_too_long_ends(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcwise.server.store.postgres.database._STATEMENT_SECONDS", 1)
    with opened(url) as store:
        store.add([batch(DELAY, [1])])
        with connection.transaction():
            connection.execute("LOCK TABLE batch")
            with pytest.raises(StoreError, match="statement timeout"):
                store.add([batch(DELAY, [2], number=1)])
        assert store.add([batch(DELAY, [2], number=1)]) == [COUNTED]


def test_an_ordinary_role_is_enough(url: str, connection: Connection) -> None:
    schema = connection.execute("SELECT current_schema()").fetchone()
    assert schema is not None
    role = f"role_{schema[0]}"
    connection.execute(
        f"CREATE ROLE {role} LOGIN NOSUPERUSER PASSWORD '{PASSWORD}';"
        f"GRANT ALL ON SCHEMA {schema[0]} TO {role}".encode()
    )
    try:
        separator = "&" if "?" in url else "?"
        url = f"{url}{separator}user={role}&password={PASSWORD}"
        with opened(url) as store:
            store.add([batch(DELAY, [1])])
            store.prune(DELAY, before=1)
            store.vacuum()
            assert store.check() == []
            assert store.size > 0
        assert migrate_store(url) == []
    finally:
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_another_programs_tables_are_left_alone(url: str, connection: Connection) -> None:
    connection.execute("CREATE TABLE task (theirs int)")
    with pytest.raises(StoreError, match='has a table "task" that arcwise did not make; give'):
        open_store(url)


@pytest.mark.parametrize("when", ["before it is looked at", "afterwards"])
def test_tables_that_another_process_makes_at_the_same_moment_are_of_arcwise(
    url: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    look = database._version
    made: list[Store] = []

    def look_while_they_are_made(connection: database.Connection) -> int:
        version = look(connection) if when == "afterwards" else 0
        if not made:
            monkeypatch.setattr(database, "_version", look)
            made.append(open_store(url))
        return version if when == "afterwards" else look(connection)

    monkeypatch.setattr(database, "_version", look_while_they_are_made)
    with opened(url) as store:
        assert store.add([batch(DELAY, [1])]) == [COUNTED]
        assert store.check() == []
    made[0].close()


@pytest.mark.parametrize(("version", "says"), [(0, "there is no store"), (99, "has schema 99; .*upgrade")])
def test_other_schemas_are_refused(url: str, connection: Connection, version: int, says: str) -> None:
    open_store(url).close()
    connection.execute("UPDATE arcwise_schema SET version = %s", (version,))
    if version == 0:
        connection.execute("DROP TABLE arcwise_schema, task")
    with pytest.raises(StoreError, match=says):
        open_store(url, create=False)


def test_a_dry_run_of_the_first_migration_leaves_an_empty_database(url: str, connection: Connection) -> None:
    assert database.Database(url).migrate(dry_run=True) == database._MIGRATIONS
    made = connection.execute("SELECT to_regclass('task'), to_regclass('arcwise_schema')").fetchone()
    assert made == (None, None)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (f"arcwise:{PASSWORD}@127.0.0.1:1/none", "arcwise@127.0.0.1:1/none"),
        (f"arcwise:a#{PASSWORD}@127.0.0.1:1/none", "arcwise@127.0.0.1:1/none"),  # as libpq takes them
        (f"arcwise:a?{PASSWORD}@127.0.0.1:1/none", "arcwise@127.0.0.1:1/none"),
        (f"arcwise:a[{PASSWORD}@127.0.0.1:1/none", "arcwise@127.0.0.1:1/none"),
        (f":{PASSWORD}@127.0.0.1:1/none", "@127.0.0.1:1/none"),
        (
            f"arcwise@127.0.0.1:1/none?password={PASSWORD}&sslmode=disable",
            "arcwise@127.0.0.1:1/none?sslmode=disable",
        ),
        (
            f"arcwise@127.0.0.1:1/none?sslmode=disable&%70assword={PASSWORD}&connect_timeout=2",
            "arcwise@127.0.0.1:1/none?sslmode=disable&connect_timeout=2",
        ),
        (
            f"/none?host=127.0.0.1&port=1&sslpassword={PASSWORD}&user=a@b",
            "/none?host=127.0.0.1&port=1&user=a@b",
        ),
    ],
)
def test_no_password_in_errors(given: str, shown: str) -> None:
    with pytest.raises(StoreError) as failed:
        open_store(f"postgresql://{given}")
    assert f"cannot open postgresql://{shown}: " in str(failed.value)
    assert PASSWORD not in str(failed.value)


@pytest.mark.parametrize(
    "given",
    [
        f"postgresql+psycopg://arcwise:{PASSWORD}@127.0.0.1:1/none",
        f"Postgresql://arcwise:{PASSWORD}@127.0.0.1:1/none",
        f"postgresql:/arcwise:{PASSWORD}@127.0.0.1:1/none",
        f"mysql://127.0.0.1/none?password={PASSWORD}",
    ],
)
def test_no_password_in_refusals(given: str) -> None:
    with pytest.raises(ParameterError, match=r"must be .*postgresql://USER@HOST/DATABASE") as refused:
        open_store(given)
    assert PASSWORD not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE counts SET reports = -1 WHERE code = 2", "epoch 100: negative counts"),
        ("UPDATE counts SET reports = 2::bigint ^ 62", "100: negative counts in a shard, or counts above"),
        ("UPDATE counts SET code = 204 WHERE code = 2", "counts of code 204, which the task lacks"),
        ("UPDATE total SET reports = 2 ^ 62", "its total says 4,611,686,018,427,387,904"),
    ],
)
def test_check_finds_rows_that_cannot_be(
    store: Store, connection: Connection, damage: str, problem: str
) -> None:
    store.add([batch(DELAY, [1, 1, 2])])
    assert store.check() == []
    connection.execute(damage.encode())
    assert [found for found in store.check() if problem in found]
