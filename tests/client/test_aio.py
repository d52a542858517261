"""The async twins on the event loop. They share their policy with the sync client, whose tests cover it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import AsyncUplink, Counters, MemoryLedger
from tests.support.recorder import AsyncRecorder
from tests.support.unlimited import AsyncClient
from tests.support.waiting import until

if TYPE_CHECKING:
    from arcwise.tasks import Task
    from tests.support.recorder import Recorder

URL = "http://127.0.0.1:1"

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("quick")]


@pytest.fixture
def transport(recorder: Recorder) -> AsyncRecorder:
    return AsyncRecorder(recorder)


async def test_reports_are_sent_in_no_context_of_who_reports_first(
    recorder: Recorder, transport: AsyncRecorder, heading: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a tracer would attach the context of the first reporter to everybody's reports."""
    user, seen = ContextVar[str]("user", default="nobody"), []
    post = transport.post

    async def looking(*request: Any) -> tuple[int, str | None]:
        seen.append(user.get())
        return await post(*request)

    monkeypatch.setattr(transport, "post", looking)
    async with AsyncClient(URL, tasks=[heading], ledger=MemoryLedger(), transport=transport) as client:
        user.set("first")
        await client.report("heading", 1.0)
        assert await client.flush(60)
    assert seen == ["nobody"]


async def test_a_request_that_somebody_else_cancels_is_network_trouble(
    recorder: Recorder, transport: AsyncRecorder, heading: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This can happen to a connection that a transport shares with the app."""
    post, calls = transport.post, 0

    async def cancelled_first(*request: Any) -> tuple[int, str | None]:
        nonlocal calls
        calls += 1
        if calls == 1:
            shared = asyncio.ensure_future(asyncio.sleep(60))
            asyncio.get_running_loop().call_soon(shared.cancel)
            await shared
        return await post(*request)

    monkeypatch.setattr(transport, "post", cancelled_first)

    async with AsyncClient(URL, tasks=[heading], ledger=MemoryLedger(), transport=transport) as client:
        await client.report("heading", 1.0)
        assert await client.flush(60)
        assert await client.counters() == Counters(sent=1)
    assert recorder.codes == 1


def test_an_uplink_outlives_a_loop_that_ended(
    recorder: Recorder, transport: AsyncRecorder, heading: Task
) -> None:
    """`asyncio.run` cancels the sender; the next loop sends the batch that was taken, with the same bytes."""
    uplink = AsyncUplink(URL, transport=transport, interval=0)
    client = AsyncClient(uplink, tasks=[heading])

    async def first() -> None:
        recorder.go.clear()
        await client.report("heading", 1)
        await until(recorder.busy.is_set)

    async def second() -> None:
        recorder.go.set()
        assert await client.flush(60)
        assert await uplink.close()

    asyncio.run(first())
    assert asyncio.run(client.pending()) == 1
    asyncio.run(second())
    assert asyncio.run(uplink.counters()) == Counters(sent=1)


@pytest.mark.parametrize("turns", range(6))
async def test_a_sender_that_is_cancelled_as_it_is_woken_ends(
    recorder: Recorder, transport: AsyncRecorder, heading: Task, turns: int
) -> None:
    """Otherwise, the loop cancels the sender at its end and waits for it for ever."""

    uplink = AsyncUplink(URL, transport=transport, interval=600)
    assert await AsyncClient(uplink, tasks=[heading]).report("heading", 1)
    await asyncio.sleep(0.02)  # the sender waits for the interval
    (sender,) = (task for task in asyncio.all_tasks() if task.get_name() == "arcwise-uplink")
    uplink._wake()
    for _ in range(turns):
        await asyncio.sleep(0)
    sender.cancel()
    done, _ = await asyncio.wait([sender], timeout=5)
    for _ in range(2 * (not done)):  # so that this test always ends
        sender.cancel()
        await asyncio.sleep(0.02)
    assert done == {sender}
    assert recorder.closed == 1


def test_a_flush_that_timed_out_does_not_bind_the_uplink_to_its_loop(
    recorder: Recorder, transport: AsyncRecorder, heading: Task
) -> None:
    client = AsyncClient(URL, tasks=[heading], transport=transport)

    async def first() -> None:
        recorder.go.clear()
        await client.report("heading", 1)
        assert not await client.flush(0.02)

    async def second() -> None:
        asyncio.get_running_loop().call_later(0.02, recorder.go.set)
        assert await client.flush(60)

    async def third() -> None:
        assert await client.close()

    asyncio.run(first())
    asyncio.run(second())
    assert asyncio.run(client.counters()) == Counters(sent=1)
    asyncio.run(third())  # with nothing queued, and the sender gone with its loop


async def test_a_flush_ends_although_another_one_renewed_the_sender(
    recorder: Recorder, transport: AsyncRecorder, heading: Task
) -> None:
    async with AsyncUplink(URL, transport=transport) as uplink:
        client = AsyncClient(uplink, tasks=[heading])
        recorder.go.clear()
        await client.report("heading", 1)
        flush = asyncio.create_task(client.flush(3600))
        await until(recorder.busy.is_set)
        (sender,) = (task for task in asyncio.all_tasks() if task.get_name() == "arcwise-uplink")
        sender.cancel()
        await asyncio.wait([sender])
        recorder.go.set()
        both = asyncio.gather(client.flush(3600), flush)
        assert all(await asyncio.wait_for(both, 60))  # neither waits for its timeout


async def test_a_report_during_the_close_starts_no_sender_that_outlives_it(
    transport: AsyncRecorder, heading: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = AsyncClient(URL, tasks=[heading], ledger=MemoryLedger(), transport=transport, interval=0)
    assert await client.report("heading", 1.0)
    uplink = client._uplink
    call = uplink._call

    async def slowly(function: Any, *arguments: Any) -> Any:
        if function == uplink._shut:  # as if all threads of a pool were busy
            await asyncio.sleep(0)
            assert await client.report("heading", 2.0)
        return await call(function, *arguments)

    monkeypatch.setattr(uplink, "_call", slowly)
    await client.close()
    assert [each for each in asyncio.all_tasks() if each.get_name() == "arcwise-uplink"] == []
    with pytest.raises(RuntimeError, match="closed"):
        await client.report("heading", 3.0)


def test_two_loops_at_once_are_told_apart(
    recorder: Recorder, transport: AsyncRecorder, heading: Task
) -> None:
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    client = AsyncClient(URL, tasks=[heading], transport=transport)
    try:
        assert first.run_until_complete(client.report("heading", 1))
        for use in (client.report("heading", 1), client.flush(1), client.close(1)):
            with pytest.raises(RuntimeError, match="in use on another event loop"):
                second.run_until_complete(use)
        assert first.run_until_complete(client.budget("heading")).epsilon == 1.0
        assert first.run_until_complete(client.close(5))
    finally:
        first.close()
        second.close()
    assert recorder.codes == 1


async def test_many_tasks_on_one_loop(recorder: Recorder, transport: AsyncRecorder, heading: Task) -> None:
    async with AsyncClient(URL, tasks=[heading], transport=transport, batch_size=10) as client:

        async def work() -> None:
            for n in range(100):
                await client.report("heading", n)
                await asyncio.sleep(0)

        await asyncio.gather(*(work() for _ in range(20)))
        assert (await client.budget("heading")).epsilon == 2000.0
    assert recorder.codes == 2000
