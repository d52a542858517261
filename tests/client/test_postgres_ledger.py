"""Ledgers of many accounts in PostgreSQL: cases outside `test_ledger_contract.py` and `test_kills.py`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from arcwise.client import (
    AsyncRecordingTransport,
    AsyncUplink,
    Caps,
    Circle,
    Counters,
    FileLedger,
    Ledger,
    Outcome,
    PostgresLedgers,
    RecordingTransport,
    Task,
    Uplink,
)
from arcwise.client.postgres import database as database_module
from arcwise.client.postgres.outbox import PostgresOutbox
from arcwise.errors import LedgerError, MissingExtraError, ParameterError
from tests.client.test_file_sending import Drawing
from tests.client.test_interrupted import Interrupting
from tests.support.charges import charge, spent
from tests.support.forks import in_child
from tests.support.ledgers import fresh_ledgers, ledger_schema, ledger_url
from tests.support.postgres import fresh_database
from tests.support.stepped import SteppedUplink
from tests.support.unlimited import AsyncClient, Client
from tests.support.waiting import Started, in_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clock import Clock
    from tests.support.recorder import Recorder

URL = "http://127.0.0.1:1"
HEADING = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=3.0))
ROOT = Path(__file__).parents[2]


@pytest.fixture
def ledgers() -> Iterator[PostgresLedgers]:
    with fresh_ledgers() as ledgers:
        for account in ("anna", "ben"):
            assert ledgers.create_account(account)
        yield ledgers


def client_of(uplink: Uplink, ledgers: PostgresLedgers, account: str, **options: Any) -> Client:
    return Client(uplink, tasks=[HEADING], ledger=ledgers.account(account), **options)


@pytest.fixture
def uplink(ledgers: PostgresLedgers, recorder: Recorder) -> SteppedUplink:
    return SteppedUplink(URL, ledger=ledgers, transport=recorder)


LOSE_CONNECTIONS = """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                      WHERE application_name = 'arcwise-client'"""


def execute(ledgers: PostgresLedgers, query: str) -> list[tuple[Any, ...]]:
    """Query or change the tables of ledgers over a separate connection."""
    with closing(psycopg.connect(ledger_url(), autocommit=True)) as connection:
        connection.execute(f"SET search_path TO {ledgers._database.schema}".encode())
        done = connection.execute(query.encode())
        return done.fetchall() if done.description else []


def test_accounts_have_budgets_of_their_own_and_one_queue(
    ledgers: PostgresLedgers, uplink: SteppedUplink, recorder: Recorder
) -> None:
    anna, ben = (client_of(uplink, ledgers, account) for account in ("anna", "ben"))
    assert [bool(anna.report("heading", 1.0)) for _ in range(4)] == [True, True, True, False]
    assert ben.report("heading", 1.0)
    assert (anna.budget("heading").reports_left, ben.budget("heading").reports_left) == (0, 2)
    assert uplink.pending == anna.pending == 4
    uplink.expedite()
    assert [len(post.batch.codes) for post in recorder.posts] == [4]  # of both
    assert uplink.counters == Counters(sent=4, refused={"capped": 1})


def test_no_account_waits_for_the_delay_of_another(ledgers: PostgresLedgers, recorder: Recorder) -> None:
    clock = Drawing([0.9, 0.1])
    uplink = SteppedUplink(
        URL, ledger=ledgers, transport=recorder, interval=0, delay=100.0, batch_size=1, environment=clock
    )
    for account in ("anna", "ben"):
        assert client_of(uplink, ledgers, account).report("heading", 1.0)
    sent = []
    for _ in range(10):
        clock.wait(10.01)
        uplink.send()
        sent.append(recorder.codes)
    assert sent == [1] * 8 + [2] * 2


def test_an_account_opts_out_alone(ledgers: PostgresLedgers, recorder: Recorder, clock: Clock) -> None:
    """Its queue is dropped, except for codes that are sealed into a batch with those of others."""
    recorder.script.append(503)
    uplink = SteppedUplink(URL, ledger=ledgers, transport=recorder, environment=clock)
    anna, ben = (client_of(uplink, ledgers, account) for account in ("anna", "ben"))
    assert anna.report("heading", 1.0)
    uplink.expedite()
    assert anna.report("heading", 1.0)
    assert ben.report("heading", 1.0)
    anna.opt_out()
    assert uplink.counters == Counters(pending=2, dropped={"opted-out": 1})
    assert anna.report("heading", 1.0) is Outcome.OPTED_OUT
    assert anna.budget("heading").epsilon == 2.0
    assert ben.report("heading", 1.0)
    anna.opt_in()
    assert anna.report("heading", 1.0)


def test_a_deleted_account_leaves_nothing_and_reports_no_more(
    ledgers: PostgresLedgers, uplink: SteppedUplink
) -> None:
    anna = client_of(uplink, ledgers, "anna", memoize={"heading": 2}, caps=Caps(rolling=3.0))
    ben = client_of(uplink, ledgers, "ben")
    for client in (anna, ben):
        assert client.report("heading", 1.0)
    assert ledgers.delete_account("anna")
    assert not ledgers.delete_account("anna")
    assert anna.report("heading", 1.0) is Outcome.FAILED
    for ask in (anna.budget, anna.opt_out, anna.opt_in):
        with pytest.raises(LedgerError, match="no such account"):
            ask()
    assert uplink.counters.dropped == {"deleted": 1}
    assert [account for (account,) in execute(ledgers, "SELECT account FROM accounts")] == ["ben"]
    assert execute(ledgers, "SELECT count(*) FROM reports") == [(1,)]
    assert ledgers.create_account("anna")  # recreating the account gives it a new budget
    assert anna.budget("heading").epsilon == 0.0


def test_an_account_is_made_once(ledgers: PostgresLedgers) -> None:
    assert charge(ledgers.account("anna"), HEADING, 1000.0)
    assert not ledgers.create_account("anna")
    assert spent(ledgers.account("anna"), HEADING) == 1_000_000


@pytest.mark.parametrize("account", ["", "x" * 201, "a\0b", "\udc80", 7, None])
def test_what_is_no_name_is_refused(ledgers: PostgresLedgers, account: Any) -> None:
    for take in (ledgers.account, ledgers.create_account, ledgers.delete_account):
        with pytest.raises(ParameterError, match="account must be a string of 1 to 200"):
            take(account)


def test_names_are_not_sql(ledgers: PostgresLedgers) -> None:
    name = "'; DROP TABLE accounts; -- %s :x ?"
    assert ledgers.create_account(name)
    assert charge(ledgers.account(name), HEADING, 1000.0)
    assert ledgers.delete_account(name)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ParameterError, match="url must be a URL that libpq"):
        PostgresLedgers("mysql://user:secret@host/app")
    with pytest.raises(ParameterError, match="schema must be 1 to 63 lower-case"):
        PostgresLedgers(ledger_url(), schema='x"; DROP')
    with pytest.raises(LedgerError, match="create=True"):
        PostgresLedgers(ledger_url(), schema="nothing_here")


def test_the_password_is_in_no_message() -> None:
    with pytest.raises(LedgerError) as caught:
        PostgresLedgers("postgresql://user:hunter2@127.0.0.1:1/app")
    assert "hunter2" not in str(caught.value)


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcwise.extras.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'arcwise\[accounts\]'"):
        PostgresLedgers("postgresql:///app")


def test_a_queue_belongs_to_its_ledgers(ledgers: PostgresLedgers, tmp_path: Path) -> None:
    with FileLedger(tmp_path / "ledger.db", create=True) as file, fresh_ledgers() as others:
        queues: list[Any] = [None, file, others]
        for queue in queues:
            with pytest.raises(ParameterError, match="made with these PostgresLedgers"):
                client_of(SteppedUplink(URL, ledger=queue), ledgers, "anna")
        with pytest.raises(ParameterError, match=r"ledgers\.account"):
            Client(URL, tasks=[HEADING], ledger=ledgers)


def test_tables_of_another_version_are_refused(ledgers: PostgresLedgers) -> None:
    execute(ledgers, "UPDATE state SET version = 99")
    with pytest.raises(LedgerError, match=r"version 99; this arcwise supports version 1"):
        PostgresLedgers(ledger_url(), schema=ledgers._database.schema)


@pytest.mark.parametrize(
    "contents",
    [
        "{}",
        "[]",
        '{"now": 1, "accounts": {"": {"epsilon": -1}}, "memos": {}}',
        '{"now": "x", "accounts": {}, "memos": {}}',
    ],
)
def test_damage_stops_an_account(ledgers: PostgresLedgers, contents: str) -> None:
    execute(ledgers, f"UPDATE accounts SET contents = '{contents}'")
    with pytest.raises(LedgerError, match="damaged"):
        charge(ledgers.account("anna"), HEADING, 1000.0)
    with pytest.raises(LedgerError, match="damaged"):
        spent(ledgers.account("anna"), HEADING)


def test_connections_that_were_lost_are_made_again(ledgers: PostgresLedgers) -> None:
    account = ledgers.account("anna")
    assert charge(account, HEADING, 1000.0)
    execute(ledgers, LOSE_CONNECTIONS)
    assert charge(account, HEADING, 1000.0)
    assert spent(account, HEADING) == 2_000_000


def test_a_standby_is_left_as_soon_as_there_is_a_primary() -> None:
    """For some moments after a failover, a name leads to the old primary, which is now a standby."""
    with fresh_database() as (url, be_standby), fresh_ledgers(url) as ledgers:
        ledgers.create_account("anna")
        be_standby(True)
        with pytest.raises(LedgerError, match="read-only"):
            charge(ledgers.account("anna"), HEADING, 1000.0)
        be_standby(False)
        assert charge(ledgers.account("anna"), HEADING, 1000.0)
        for idle in ledgers._database._idle:  # a primary that became a standby without cutting connections
            idle.execute("SET default_transaction_read_only = on")
        with pytest.raises(LedgerError, match="read-only"):
            charge(ledgers.account("anna"), HEADING, 1000.0)
        assert charge(ledgers.account("anna"), HEADING, 1000.0)


def test_a_connection_that_only_reads_is_replaced_within_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old primary that is fenced still reads, so a process that only sends would find no reports."""
    with fresh_database() as (url, _), fresh_ledgers(url) as ledgers:
        database = ledgers._database
        with database.reading():
            pass
        (idle,) = database._idle
        idle.execute("SET default_transaction_read_only = on")
        monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + 61)
        with database.reading() as session:
            (setting,) = session.execute("SHOW default_transaction_read_only").fetchone() or ("",)
        assert (idle.closed, setting) == (True, "off")


def test_a_new_connection_waits_for_busy_timeout_alone(ledgers: PostgresLedgers) -> None:
    database = ledgers._database
    database._close_idle()
    database._limits = database._limits.replace("lock_timeout = 5000", "lock_timeout = 50")
    with psycopg.connect(database._conninfo) as locking:
        locking.execute(f'LOCK TABLE "{database.schema}".state'.encode())
        with pytest.raises(LedgerError, match="lock timeout"):
            ledgers.create_account("anna")


def test_a_large_batch_is_cut_in_slices(
    recorder: Recorder, ledgers: PostgresLedgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session of a process that is frozen in between is idle, so PostgreSQL ends its transaction."""
    rows: list[int] = []
    execute_one = database_module.Session.execute

    def noted(session: database_module.Session, query: str, parameters: Any = ()) -> Any:
        found = execute_one(session, query, parameters)
        if query.startswith("FETCH"):
            rows.append(found.rowcount)
        return found

    monkeypatch.setattr(database_module.Session, "execute", noted)
    ledgers.create_account("anna")
    uplink = SteppedUplink(URL, ledger=ledgers, transport=recorder)
    assert client_of(uplink, ledgers, "anna").report("heading", 1.0)
    columns = "account, task, epoch, code, created, ready"
    more = f"INSERT INTO reports ({columns}) SELECT {columns} FROM reports, generate_series(1, 2499)"
    execute(ledgers, more)
    uplink.expedite()
    assert recorder.codes == 2500
    assert rows == [1000, 1000, 500, 0]


def test_a_database_without_an_encoding_gives_texts(recorder: Recorder) -> None:
    without = "ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    with fresh_database(without) as (url, _), fresh_ledgers(url) as ledgers:
        ledgers.create_account("Zoë €")
        uplink = SteppedUplink(URL, ledger=ledgers, transport=recorder)
        assert client_of(uplink, ledgers, "Zoë €").report("heading", 1.0)
        uplink.expedite()
        assert recorder.codes == uplink.counters.sent == 1


def test_a_flush_of_nothing_ends_no_delay(ledgers: PostgresLedgers, recorder: Recorder) -> None:
    uplink = SteppedUplink(URL, ledger=ledgers, transport=recorder, interval=0, delay=1000.0)
    uplink.expedite()
    assert client_of(uplink, ledgers, "anna").report("heading", 1.0)
    assert uplink.send() > 0
    assert recorder.codes == 0


def test_temporary_tables_of_an_app_are_not_the_ledgers(ledgers: PostgresLedgers) -> None:
    """An app may share a connection pool that gives each transaction a different connection."""
    assert charge(ledgers.account("anna"), HEADING, 1000.0)
    (idle,) = ledgers._database._idle
    idle.execute(f"CREATE TEMP TABLE accounts (LIKE {ledgers._database.schema}.accounts)".encode())
    assert spent(ledgers.account("anna"), HEADING) == 1_000_000


def test_a_frozen_process_keeps_nobody_waiting(
    ledgers: PostgresLedgers, uplink: SteppedUplink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_SEALING_SECONDS", 0.1)
    with (
        PostgresLedgers(ledger_url(), schema=ledgers._database.schema) as frozen,
        pytest.raises(LedgerError),
        frozen._database.writing(durable=True),  # the queue is locked, and no statement follows
    ):
        ledgers.account("anna").opt_out()
    assert client_of(uplink, ledgers, "anna").report("heading", 1.0) is Outcome.OPTED_OUT


def test_a_connection_lost_in_the_middle_changes_nothing(
    ledgers: PostgresLedgers, uplink: SteppedUplink
) -> None:
    randomness = Interrupting(lambda: execute(ledgers, LOSE_CONNECTIONS))
    broken = client_of(uplink, ledgers, "anna", randomness=randomness)
    assert broken.report("heading", 1.0) is Outcome.FAILED
    assert (broken.budget("heading").epsilon, uplink.pending) == (0.0, 0)
    assert client_of(uplink, ledgers, "anna").report("heading", 1.0)


@pytest.mark.slow
def test_two_processes_spend_one_budget_and_send_one_queue(ledgers: PostgresLedgers) -> None:
    """With several threads each, they accept exactly what the caps allow and send all of it once."""
    code = "import json, sys\nfrom tests.client.test_postgres_ledger import one_process\n"
    code += "one_process(*json.loads(sys.argv[1]))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, json.dumps([ledger_url(), ledgers._database.schema])],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    told = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(accepted for accepted, _ in told) == 6
    batches = {body for _, bodies in told for body in bodies}
    assert sum(bodies for _, bodies in execute(ledgers, "SELECT 1, sent FROM state")) == 6
    assert 1 <= len(batches) <= 6


def one_process(url: str, schema: str) -> None:
    """Report for both accounts from several threads, send, and print the accepted number and the bodies."""
    from tests.support.recorder import Recorder

    recorder = Recorder()
    accepted: list[bool] = []
    with (
        PostgresLedgers(url, schema=schema) as ledgers,
        Uplink(URL, ledger=ledgers, transport=recorder, interval=0.0) as uplink,
    ):

        def report(account: str) -> None:
            client = client_of(uplink, ledgers, account)
            accepted.extend(bool(client.report("heading", 1.0)) for _ in range(5))

        in_threads(*(partial(report, account) for account in ("anna", "ben") * 2))
        uplink.flush(30)
    sys.stdout.write(json.dumps([sum(accepted), [post.body.hex() for post in recorder.posts]]))


def test_an_account_in_use_elsewhere_fails_after_the_timeout(recorder: Recorder) -> None:
    with fresh_ledgers(busy_timeout=0.05) as ledgers:
        for account in ("anna", "ben"):
            ledgers.create_account(account)
        uplink = SteppedUplink(URL, ledger=ledgers, transport=recorder)
        with closing(psycopg.connect(ledger_url())) as connection:
            schema = ledgers._database.schema
            connection.execute(f"SELECT 1 FROM {schema}.accounts WHERE account = 'anna' FOR UPDATE".encode())
            assert client_of(uplink, ledgers, "anna").report("heading", 1.0) is Outcome.FAILED
            assert client_of(uplink, ledgers, "ben").report("heading", 1.0)  # accounts do not wait
        assert client_of(uplink, ledgers, "anna").report("heading", 1.0)


def test_a_wait_for_the_queue_ends_after_the_timeout_whatever_connections_are_idle() -> None:
    """An earlier version took a wait that was too long for a broken connection, and tried the next one."""

    def read() -> None:
        with database.reading():
            pass

    with fresh_ledgers(busy_timeout=0.05) as ledgers:
        database = ledgers._database
        with database.reading():
            Started(read).result()
        idle = list(database._idle)
        assert len(idle) == 2
        with closing(psycopg.connect(ledger_url())) as connection:
            connection.execute(f"LOCK TABLE {database.schema}.state".encode())
            with pytest.raises(LedgerError, match="lock timeout"), database.writing(durable=True):
                pass
        assert database._idle == idle


def test_a_report_that_is_committed_after_the_sender_looked_wakes_it(ledgers: PostgresLedgers) -> None:
    """An earlier version cleared the sender's knowledge meanwhile, so the report waited for up to ten
    minutes.
    """
    uplink = SteppedUplink(URL, ledger=ledgers, transport=RecordingTransport(), interval=0.0)
    outbox = uplink._outbox
    assert isinstance(outbox, PostgresOutbox)
    assert client_of(uplink, ledgers, "anna").report("heading", 1.0)
    now = time.time()
    with ledgers.account("ben")._transaction(outbox, now) as transaction:
        transaction.put(HEADING, HEADING.epoch(now), 1)
        transaction.wakes_sender = False  # as if an earlier report had already made the key known
        Started(uplink.expedite).result()
    assert transaction.wakes_sender


def test_a_forked_child_connects_anew(ledgers: PostgresLedgers) -> None:
    account = ledgers.account("anna")
    assert charge(account, HEADING, 1000.0)
    assert in_child(lambda: charge(account, HEADING, 1000.0))
    assert charge(account, HEADING, 1000.0)
    assert not charge(account, HEADING, 1000.0)


def test_a_child_that_a_signal_handler_forks_leaves_the_parents_connection_alone(
    ledgers: PostgresLedgers, uplink: SteppedUplink
) -> None:
    """The child continues its parent's report and would wait for an answer on the parent's connection."""
    child: list[int] = []
    randomness = Interrupting(lambda: child.append(os.fork()))
    client = client_of(uplink, ledgers, "anna", randomness=randomness)
    outcome = client.report("heading", 1.0)
    if not child[0]:
        os._exit(0 if outcome is Outcome.FAILED else 1)
    assert outcome
    assert os.waitpid(child[0], 0)[1] == 0
    assert client.report("heading", 1.0)


def test_the_queue_has_a_bound(ledgers: PostgresLedgers, recorder: Recorder) -> None:
    uplink = SteppedUplink(URL, ledger=ledgers, transport=recorder, max_pending=2)
    anna = client_of(uplink, ledgers, "anna")
    assert [anna.report("heading", 1.0) for _ in range(3)] == [Outcome.ACCEPTED] * 2 + [Outcome.FULL]
    uplink.expedite()
    assert anna.report("heading", 1.0)


@pytest.mark.anyio
async def test_an_async_app_reports_for_its_accounts(ledgers: PostgresLedgers) -> None:
    async with AsyncUplink(URL, ledger=ledgers, transport=AsyncRecordingTransport()) as uplink:
        clients = [
            AsyncClient(uplink, tasks=[HEADING], ledger=ledgers.account(account))
            for account in ("anna", "ben")
        ]
        assert all(await asyncio.gather(*(client.report("heading", 1.0) for client in clients)))
        assert await uplink.flush()
        assert await uplink.counters() == Counters(sent=2)


@pytest.mark.anyio
async def test_an_account_that_is_locked_keeps_no_other_one_waiting(ledgers: PostgresLedgers) -> None:
    async with AsyncUplink(URL, ledger=ledgers, transport=AsyncRecordingTransport()) as uplink:
        anna, ben = (
            AsyncClient(uplink, tasks=[HEADING], ledger=ledgers.account(account))
            for account in ("anna", "ben")
        )
        with psycopg.connect(ledger_url()) as other:
            query = f"SELECT 1 FROM {ledgers._database.schema}.accounts WHERE account = 'anna' FOR UPDATE"
            other.execute(query.encode())
            begun = time.monotonic()
            # Each has a separate ledger, as if the app made one for each request.
            waiting = [
                asyncio.ensure_future(
                    AsyncClient(uplink, tasks=[HEADING], ledger=ledgers.account("anna")).report("heading", 1)
                )
                for _ in range(50)
            ]
            await asyncio.sleep(0.05)
            assert await ben.report("heading", 1.0)
            assert (await ben.budget("heading")).epsilon == 1.0
            assert await uplink.flush()
            assert time.monotonic() - begun < 4.0
            assert not any(report.done() for report in waiting)
            for report in waiting:
                report.cancel()
            await asyncio.wait(waiting)
        assert await anna.report("heading", 1.0)


def test_greenlets_take_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """gevent's greenlets have their own identifiers, which are not in the interpreter's list of frames."""
    with fresh_ledgers(connections=2, busy_timeout=30.0) as ledgers, monkeypatch.context() as patch:
        patch.setattr(sys, "_current_frames", dict)
        database, most = ledgers._database, 0

        def use() -> None:
            nonlocal most
            with database.reading():
                most = max(most, len(database._users))
                time.sleep(0.05)

        with ThreadPoolExecutor(8) as pool:
            for each in [pool.submit(use) for _ in range(8)]:
                each.result()
        assert most == 2
        assert len(database._idle) <= 2


def test_a_second_client_asks_the_database_nothing(ledgers: PostgresLedgers, uplink: SteppedUplink) -> None:
    """An app makes a client for each request."""
    client_of(uplink, ledgers, "anna")
    ledgers.close()
    client_of(uplink, ledgers, "ben")
    with pytest.raises(LedgerError, match="closed"):
        assert uplink.pending


@pytest.mark.slow
def test_a_crash_of_the_database_loses_nothing(recorder: Recorder) -> None:
    from tests.support.postgres import OwnServer, wait_until_ready

    server = OwnServer()
    try:
        with fresh_ledgers(server.url) as ledgers:
            ledgers.create_account("anna")
            uplink = SteppedUplink(URL, ledger=ledgers, transport=recorder)
            anna = client_of(uplink, ledgers, "anna")
            assert anna.report("heading", 1.0)
            server.crash()
            assert anna.report("heading", 1.0) is Outcome.FAILED
            server.start()
            wait_until_ready(server.url)
            assert (anna.budget("heading").epsilon, anna.pending) == (1.0, 1)
            assert anna.report("heading", 1.0)
            uplink.expedite()
            assert uplink.counters.sent == 2
    finally:
        server.stop()


def test_a_relaxed_report_waits_for_no_disk_but_a_batch_does(recorder: Recorder) -> None:
    with fresh_ledgers(relaxed=True) as ledgers:
        settings = []
        for durable in (False, True):
            with ledgers._database.writing(durable=durable) as session:
                settings += session.execute("SHOW synchronous_commit").fetchall()
        assert settings == [("off",), ("on",)]


def test_many_create_the_tables_at_once() -> None:
    with ledger_schema() as schema:
        make = partial(PostgresLedgers, ledger_url(), create=True, schema=schema)
        for ledgers in in_threads(*[make] * 6):
            ledgers.close()


def test_nothing_of_an_account_is_in_a_text(ledgers: PostgresLedgers) -> None:
    ledger: Ledger = ledgers.account("anna")
    assert "anna" not in repr(ledger)
    assert "anna" not in repr(ledgers)
