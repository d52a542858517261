"""The async twins on a ledger's file: the loop goes on while a disk or another process is slow."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import AsyncRecordingTransport, AsyncUplink, Counters, Event, FileLedger, Outcome
from arcwise.errors import LedgerError
from tests.support.unlimited import AsyncClient
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from arcwise.tasks import Task

URL = "http://127.0.0.1:1"

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(path: Path) -> Iterator[FileLedger]:
    with FileLedger(path, busy_timeout=30.0) as ledger:
        yield ledger


def client_of(ledger: FileLedger, task: Task, **options: Any) -> AsyncClient:
    return AsyncClient(URL, tasks=[task], ledger=ledger, **{"transport": AsyncRecordingTransport()} | options)


async def until_sent(sending: AsyncClient | AsyncUplink, reports: int) -> None:
    for _ in range(2000):
        if (await sending.counters()).sent == reports:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it was not sent within ten seconds")


class Holder:
    """Another user of the file, which keeps writers waiting."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("BEGIN IMMEDIATE")

    def release(self) -> None:
        self._connection.execute("ROLLBACK")
        self._connection.close()


async def test_the_loop_goes_on_while_a_report_waits_for_its_turn(
    path: Path, file: FileLedger, heading: Task
) -> None:
    async with client_of(file, heading) as client:
        holder = Holder(path)
        report = asyncio.create_task(client.report("heading", 1.0))
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert not report.done()  # the loop was not blocked
        holder.release()
        assert await report is Outcome.ACCEPTED


async def test_a_report_that_was_cancelled_while_it_was_written_is_sent_all_the_same(
    path: Path, file: FileLedger, heading: Task
) -> None:
    """The report is charged and queued, so the sender must learn of it."""
    transport = AsyncRecordingTransport()
    async with AsyncUplink(URL, ledger=file, transport=transport, interval=0) as uplink:
        client = AsyncClient(uplink, tasks=[heading], ledger=file)
        assert await client.report("heading", 1.0)
        await until_sent(uplink, 1)
        holder = Holder(path)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.report("heading", 1.0), 0.02)
        holder.release()
        await until_sent(uplink, 2)  # without a flush
        assert (await client.budget("heading")).epsilon == 2.0


async def test_the_loop_goes_on_while_a_sender_that_is_cancelled_waits_for_its_turn(
    path: Path, file: FileLedger, heading: Task
) -> None:
    """The sender puts back the batch that it was sending."""

    class Silent(AsyncRecordingTransport):
        async def post(self, *_request: Any, **_named: Any) -> Any:
            holders.append(Holder(path))
            await asyncio.sleep(60)
            raise AssertionError

    holders: list[Holder] = []
    uplink = AsyncUplink(URL, ledger=file, transport=Silent(), interval=0)
    client = AsyncClient(uplink, tasks=[heading], ledger=file)
    assert await client.report("heading", 1.0)
    await until(lambda: bool(holders))
    sender = uplink._task
    assert sender is not None
    sender.cancel()
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert not sender.done()
    holders[0].release()
    await asyncio.wait([sender])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM batches WHERE leased_until > 0").fetchone() == (0,)


async def test_a_ledger_that_fails_is_told_on_the_loop(file: FileLedger, heading: Task) -> None:
    told: list[tuple[str, str]] = []

    def note(event: Event) -> None:
        told.append((event.kind, threading.current_thread().name))

    client = client_of(file, heading, on_event=note)
    file.close()
    assert await client.report("heading", 1.0) is Outcome.FAILED
    with pytest.raises(LedgerError, match="is closed"):
        await client.opt_out()
    assert not await client.flush(1)
    assert not await client.close(1)
    assert told
    assert set(told) == {("failed", threading.main_thread().name)}


def test_an_answer_after_uplink_and_ledger_were_closed_is_not_a_failure(path: Path, heading: Task) -> None:
    """If the sender is cancelled while its thread waits for a disk, the thread goes on."""
    events: list[Event] = []
    entered, go, left = threading.Event(), threading.Event(), threading.Event()

    class Slow(AsyncUplink):
        def _answered(self, *given: Any) -> None:
            entered.set()
            assert go.wait(60)
            super()._answered(*given)
            left.set()

    async def main() -> None:
        transport = AsyncRecordingTransport()
        with FileLedger(path) as ledger:
            uplink = Slow(URL, ledger=ledger, transport=transport, interval=0, on_event=events.append)
            assert await AsyncClient(uplink, tasks=[heading], ledger=ledger).report("heading", 1.0)
            await until(entered.is_set)
            assert not await uplink.close(0)
        go.set()
        await until(left.is_set)
        uplink._emit_events()

    asyncio.run(main())
    assert [event.kind for event in events] == ["closed"]


async def test_many_reports_at_once_add_up(file: FileLedger, heading: Task) -> None:
    transport = AsyncRecordingTransport()
    async with client_of(file, heading, transport=transport) as client:
        outcomes = await asyncio.gather(*(client.report("heading", n) for n in range(200)))
        assert outcomes == [Outcome.ACCEPTED] * 200
        assert (await client.budget("heading")).epsilon == 200.0
        assert await client.flush(60)
        assert await client.counters() == Counters(sent=200)
    assert sum(len(batch.codes) for batch in transport.batches) == 200


async def test_reports_that_wait_for_the_file_leave_the_apps_threads_alone_and_give_up(
    path: Path, heading: Task
) -> None:
    """The executor of the loop also looks up addresses, and a flush ends in time."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    with FileLedger(path, busy_timeout=1.0) as ledger:
        client = client_of(ledger, heading)
        holder = Holder(path)
        begun = time.monotonic()
        reports = [asyncio.ensure_future(client.report("heading", 1.0)) for _ in range(100)]
        await asyncio.sleep(0.05)
        assert await asyncio.to_thread(str, 7) == "7"
        assert time.monotonic() - begun < 0.9
        await client.flush(0.1)
        assert time.monotonic() - begun < 3.0
        assert await asyncio.gather(*reports) == [Outcome.FAILED] * 100
        assert time.monotonic() - begun < 5.0  # two have waited, each for a second
        holder.release()
        assert (await client.counters()).refused == {"failed": 100}
        assert (await client.budget("heading")).epsilon == 0.0
        assert await client.close()


async def test_a_report_that_is_cancelled_before_its_turn_costs_nothing(
    path: Path, file: FileLedger, heading: Task
) -> None:
    async with client_of(file, heading) as client:
        holder = Holder(path)
        reports = [asyncio.ensure_future(client.report("heading", 1.0)) for _ in range(9)]
        await asyncio.sleep(0.1)
        for report in reports:
            report.cancel()
        await asyncio.wait(reports)
        holder.release()
        assert await client.flush(30)
        assert (await client.budget("heading")).epsilon == 1.0  # of the report that had begun
        assert await client.counters() == Counters(sent=1)


async def test_the_loop_goes_on_while_what_was_spent_is_looked_up(
    path: Path, file: FileLedger, heading: Task
) -> None:
    """A report that waits for the file holds the ledger meanwhile."""
    async with client_of(file, heading) as client:
        holder = Holder(path)
        report = asyncio.ensure_future(client.report("heading", 1.0))
        await asyncio.sleep(0.1)
        asyncio.get_running_loop().call_later(0.2, holder.release)
        blocked = time.monotonic()
        looks = [client.budget(), client.budget("heading"), client.pending(), client.counters()]
        tasks = [asyncio.ensure_future(look) for look in looks]
        await asyncio.sleep(0)
        assert time.monotonic() - blocked < 0.2
        assert len(await asyncio.gather(*tasks)) == 4
        assert await report is Outcome.ACCEPTED
