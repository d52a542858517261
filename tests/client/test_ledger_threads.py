"""The threads that the async twins use, which are not the app's."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
import time

import pytest

from arcwise.client.threads import Threads
from arcwise.errors import LedgerError
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


def gone(_future: asyncio.Future[object]) -> None:
    """Ignore the outcome."""


class Gate:
    """A ledger that blocks until it is released."""

    def __init__(self) -> None:
        self.go, self.entered = threading.Event(), threading.Event()

    def wait(self) -> str:
        self.entered.set()
        assert self.go.wait(60)
        return "done"


async def test_a_ledger_that_is_held_takes_one_thread_and_keeps_no_other_waiting() -> None:
    threads, gate = Threads(2), Gate()
    held = [asyncio.ensure_future(threads.call("a", 60.0, gone, gate.wait)) for _ in range(50)]
    await until(gate.entered.is_set)
    assert await asyncio.wait_for(threads.call("b", 60.0, gone, str, 7), 10) == "7"
    assert len(threads._threads) <= 2
    gate.go.set()
    assert await asyncio.gather(*held) == ["done"] * 50


async def test_calls_that_wait_longer_than_their_patience_behind_one_that_hangs_give_up() -> None:
    threads, gate = Threads(1), Gate()
    called: list[str] = []

    first = asyncio.ensure_future(threads.call("a", 0.05, gone, gate.wait))
    await until(gate.entered.is_set)
    for lane in ("a", "b"):  # of the same ledger, and of a ledger for which no thread is free
        with pytest.raises(LedgerError, match="still wait"):
            await threads.call(lane, 0.05, gone, called.append, lane)
    due = asyncio.ensure_future(threads.call("a", None, gone, called.append, "without patience"))
    await asyncio.sleep(0.1)
    gate.go.set()
    assert await first == "done"  # which had begun, so its work is not undone
    await due
    assert called == ["without patience"]


async def test_calls_wait_as_long_as_those_before_them_get_on() -> None:
    threads = Threads(1)
    many = (threads.call("a", 2.0, gone, time.sleep, 0.1) for _ in range(30))
    await asyncio.gather(*many)


async def test_a_call_that_is_cancelled_before_it_began_is_not_made() -> None:
    threads, gate = Threads(1), Gate()
    called: list[int] = []
    left: list[asyncio.Future[object]] = []

    first = asyncio.ensure_future(threads.call("a", 60.0, left.append, gate.wait))
    await until(gate.entered.is_set)
    second = asyncio.ensure_future(threads.call("a", 60.0, left.append, called.append, 1))
    third = asyncio.ensure_future(threads.call("a", None, left.append, called.append, 2))
    await asyncio.sleep(0)
    for each in (first, second, third):
        each.cancel()
    await asyncio.wait([first, second, third])
    gate.go.set()
    await until(lambda: len(left) == 2)
    assert called == [2]
    assert left[0].result() == "done"  # it had begun


async def test_errors_and_context_variables_go_along() -> None:
    threads, variable = Threads(1), contextvars.ContextVar("variable", default=0)
    variable.set(3)
    assert await threads.call("a", None, gone, variable.get) == 3
    with pytest.raises(ZeroDivisionError):
        await threads.call("a", None, gone, lambda: 1 / 0)


async def test_threads_end_when_there_is_nothing_to_do() -> None:
    threads = Threads(4)
    await asyncio.gather(*(threads.call(n, 60.0, gone, time.sleep, 0.01) for n in range(20)))
    await until(lambda: not threads._threads)
    assert not threads._lanes


async def test_where_no_thread_can_start_a_call_is_refused_and_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = Threads(2)
    called: list[int] = []

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        for patience in (1.0, None):
            with pytest.raises(LedgerError, match="can't start new thread"):
                await threads.call("a", patience, gone, called.append, 1)
    await threads.call("a", 1.0, gone, called.append, 2)
    assert called == [2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own() -> None:
    code = """
import asyncio, os, threading
from arcwise.client.threads import Threads
threads, go, entered = Threads(1), threading.Event(), threading.Event()
def hold():
    entered.set(); go.wait(60)
async def parent():
    held = asyncio.ensure_future(threads.call("a", None, print, hold))
    while not entered.is_set():
        await asyncio.sleep(0.002)
    pid = os.fork()
    if not pid:
        asyncio.events._set_running_loop(None)
        os._exit(asyncio.run(threads.call("a", 5.0, print, int, 7)))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    go.set()
    await held
asyncio.run(parent())
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_call_that_hangs_keeps_neither_the_loop_nor_the_interpreter_from_ending() -> None:
    code = """
import asyncio, time
from arcwise.client.threads import Threads
async def main():
    await asyncio.wait_for(Threads(1).call("a", None, print, time.sleep, 60), 0.1)
try:
    asyncio.run(main())
except asyncio.TimeoutError:
    print("ended")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=30, capture_output=True, text=True
    )
    assert done.stdout == "ended\n"
    assert not done.stderr


def test_a_call_that_ends_after_its_loop_is_told_to_nobody(recwarn: pytest.WarningsRecorder) -> None:
    threads, gate = Threads(1), Gate()

    async def main() -> None:
        held = asyncio.ensure_future(threads.call("a", None, gone, gate.wait))
        await until(gate.entered.is_set)
        assert not held.done()

    asyncio.run(main())
    (thread,) = threads._threads
    gate.go.set()
    thread.join(10)
    assert not thread.is_alive()
    assert not recwarn.list
