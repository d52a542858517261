"""Wrong clocks: they close nothing of the present, and reopen nothing that was closed."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from arcwise.domains import Interval
from arcwise.server import Settings
from arcwise.server.collect.clock import EpochClock
from arcwise.server.runtime import Runtime
from arcwise.server.store import Store, open_store
from arcwise.tasks import DAY, Task
from arcwise.wire import MEDIA_TYPE, Batch, encode_batch
from tests.support.apps import App
from tests.support.clock import Clock
from tests.support.postgres import fresh_schema

pytestmark = pytest.mark.anyio

DELAY = Task("delay", Interval(0, 1), 1.0)
YEAR = 365 * DAY
START = 1_700_000_000.0
TODAY = DELAY.epoch(START)

Start = Callable[[], Awaitable["Worker"]]


class Worker:
    """A running app and its clock."""

    def __init__(self, http: App, clock: Clock) -> None:
        self.runtime = http.runtime
        self.clock = clock
        self.http = http
        self._sent = 0

    async def send(self, epoch: int, number: int | None = None) -> int | str:
        """Send a batch of an epoch, a new one unless it has a number; return 204, or the kind of problem."""
        self._sent += 1
        name = (id(self) if number is None else 0, self._sent if number is None else number)
        batch_id = name[0].to_bytes(8, "big") + name[1].to_bytes(8, "big")
        body = encode_batch(Batch(bytes.fromhex(DELAY.id), batch_id, epoch, b"\x01"))
        path = f"/v1/tasks/{DELAY.id}/reports"
        answer = await self.http.post(path, content=body, headers={"Content-Type": MEDIA_TYPE})
        if answer.status_code == 204:
            return 204
        kind: str = answer.json()["type"].removeprefix("urn:arcwise:problem:")
        assert (answer.status_code == 503) == ("Retry-After" in answer.headers)
        return f"{answer.status_code} {kind}"

    def run(self, seconds: float) -> None:
        """Run the worker for some days with its regular work, in longer steps than minutes and hours.

        Each time is a commit to the disk.
        """
        for quarter in range(int(seconds / DAY * 4)):
            self.clock.wait(DAY / 4)
            self.runtime.keep_time()
            if quarter % 4 == 3:
                self.runtime.refresh()
                self.runtime.tidy()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(START)
    # The worker's start-up work could come late, after a step of this clock, so only `run` does it.
    monkeypatch.setattr(Runtime, "_tidy", lambda runtime: runtime._stopping.wait())
    return made


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'app.db'}"
    else:
        with fresh_schema() as schema:
            yield schema


@pytest.fixture
async def start(url: str, clock: Clock) -> AsyncIterator[Start]:
    """Return a coroutine function that starts a worker on the store."""
    async with AsyncExitStack() as stack:

        async def started() -> Worker:
            http = await App.start(Settings([DELAY], store=url, open=True), clock=clock)
            stack.push_async_callback(http.stop)
            return Worker(http, clock)

        yield started


@pytest.fixture
async def worker(start: Start) -> Worker:
    return await start()


def opened(url: str) -> closing[Store]:
    return closing(open_store(url, create=False))


async def test_a_clock_that_jumps_ahead_closes_nothing_of_the_present(worker: Worker, clock: Clock) -> None:
    assert await worker.send(TODAY, number=7) == 204
    assert await worker.send(TODAY + 1) == 204  # of a device that is ahead: this batch kept today open
    clock.step(YEAR)
    assert await worker.send(TODAY) == 204
    worker.runtime.keep_time()
    worker.runtime.refresh()
    worker.runtime.tidy()
    assert await worker.send(TODAY) == 204
    clock.step(-YEAR)
    for epoch in (TODAY, TODAY - 29, TODAY + 1):
        assert await worker.send(epoch) == 204
    assert await worker.send(TODAY - 31) == "410 epoch-closed"
    assert await worker.send(TODAY, number=7) == 204
    assert worker.runtime.store().report_count(DELAY) == 7  # the last one was a replay


async def test_the_present_stays_open_through_days_of_a_clock_that_is_ahead(
    worker: Worker, clock: Clock
) -> None:
    assert await worker.send(TODAY) == 204
    clock.step(YEAR)
    for day in range(5):
        assert await worker.send(TODAY + day) == 204
        worker.run(DAY)
    clock.step(-YEAR)
    assert await worker.send(TODAY + 5) == 204
    assert await worker.send(TODAY) == 204


async def test_a_batch_of_the_far_future_that_came_while_the_clock_was_ahead_closes_nothing(
    worker: Worker, clock: Clock
) -> None:
    assert await worker.send(TODAY) == 204
    clock.step(YEAR)
    assert await worker.send(TODAY + 365) == 204
    worker.run(DAY)
    clock.step(-YEAR)
    assert await worker.send(TODAY + 1) == 204
    # Its reports show that the clock is behind, so devices keep theirs.
    worker.runtime.refresh()
    assert await worker.send(TODAY + 10) == "503 clock-behind"
    worker.run(40 * DAY)
    assert await worker.send(TODAY + 1) == "410 epoch-closed"  # past epochs are closed all the same
    assert await worker.send(TODAY + 41) == 204


async def test_what_was_closed_stays_closed_when_the_clock_goes_back(worker: Worker, clock: Clock) -> None:
    assert await worker.send(TODAY, number=1) == 204
    worker.run(40 * DAY)
    assert await worker.send(TODAY + 40) == 204
    worker.run(DAY)
    assert await worker.send(TODAY, number=1) == "410 epoch-closed"
    clock.step(-39 * DAY)
    worker.runtime.refresh()
    worker.runtime.keep_time()
    worker.runtime.tidy()
    assert await worker.send(TODAY, number=1) == "410 epoch-closed"  # by this clock it is two days old
    assert await worker.send(TODAY + 40) == "503 clock-behind"  # by this clock it is in the future
    clock.step(-YEAR)
    assert await worker.send(TODAY, number=1) == "503 clock-behind"
    clock.step(39 * DAY + YEAR)
    assert await worker.send(TODAY, number=1) == "410 epoch-closed"
    assert await worker.send(TODAY + 41) == 204
    assert worker.runtime.store().report_count(DELAY) == 3


async def test_a_clock_that_is_behind_drops_no_reports(worker: Worker, clock: Clock) -> None:
    assert await worker.send(TODAY + 2) == "422 epoch-ahead"  # it is the device's clock that is wrong
    clock.step(-2 * DAY)
    assert await worker.send(TODAY) == "503 clock-behind"
    clock.step(2 * DAY)
    assert await worker.send(TODAY) == 204


async def test_a_restart_while_the_clock_is_ahead_changes_nothing(
    start: Start, clock: Clock, url: str
) -> None:
    before = await start()
    assert await before.send(TODAY) == 204
    assert await before.send(TODAY + 1) == 204
    clock.step(YEAR)
    before.run(DAY)
    await before.http.stop()
    clock.restart()
    during = await start()
    assert await during.send(TODAY + 1) == 204
    during.run(DAY)
    assert await during.send(TODAY + 1) == 204
    await during.http.stop()
    with opened(url) as store:
        believed = store.clock()
    assert believed is not None
    assert START <= believed <= START + 4 * DAY
    clock.restart()
    clock.step(-YEAR)
    after = await start()
    after.run(DAY)
    assert await after.send(TODAY) == 204
    assert await after.send(TODAY + 3) == 204


async def test_several_workers_believe_a_jump_no_faster_than_one(
    start: Start, clock: Clock, url: str
) -> None:
    first, second = await start(), await start()
    assert await first.send(TODAY) == 204
    assert await second.send(TODAY + 1) == 204
    clock.step(YEAR)
    for _ in range(50):
        clock.wait(600)
        first.runtime.keep_time()
        second.runtime.keep_time()
        first.runtime.keep_time()
    for worker in (first, second):
        assert START + 50 * 600 <= worker.runtime.epoch_clock.believed() <= START + 2 * 50 * 600 + 120
        worker.runtime.tidy()
    clock.step(-YEAR)
    for worker in (first, second):
        assert await worker.send(TODAY) == 204


@pytest.mark.slow
async def test_the_clock_of_a_store_without_reports_is_the_machines(start: Start, clock: Clock) -> None:
    """Many machines have no correct time until they have a network."""
    clock.step(-START + 3600)
    worker = await start()
    clock.step(START - 3600)
    worker.runtime.keep_time()
    assert worker.runtime.epoch_clock.believed() == clock.time()
    assert await worker.send(TODAY) == 204
    worker.run(40 * DAY)
    assert await worker.send(TODAY + 40) == 204
    assert await worker.send(TODAY) == "410 epoch-closed"


async def test_a_clock_that_was_ahead_when_the_store_was_new_is_forgotten(start: Start, clock: Clock) -> None:
    clock.step(10 * YEAR)
    worker = await start()
    assert worker.runtime.store().clock() == int(START + 10 * YEAR)
    clock.step(-10 * YEAR)
    worker.runtime.keep_time()
    assert worker.runtime.store().clock() == int(START)
    assert not worker.runtime.epoch_clock.is_behind
    assert await worker.send(TODAY + 5) == "422 epoch-ahead"
    assert await worker.send(TODAY) == 204
    worker.runtime.refresh()
    clock.step(YEAR)  # and any later jump is not believed
    worker.runtime.keep_time()
    assert worker.runtime.epoch_clock.believed() < START + DAY


class Remembered:
    """The part of a store that a clock needs; it counts writes."""

    def __init__(self, time: int | None = None) -> None:
        self.time = time
        self.written = 0

    def clock(self) -> int | None:
        return self.time

    def advance_clock(self, to: int, *, reset: bool = False) -> int:
        self.written += 1
        self.time = to if reset else max(to, self.time or to)
        return self.time


def keep(clock: EpochClock, store: Remembered) -> float:
    clock.keep(store, is_empty=False)  # type: ignore[arg-type]
    return clock.believed()


def test_a_time_without_a_server_is_caught_up_in_as_long_again(clock: Clock) -> None:
    store, believed = Remembered(int(START) - 90 * DAY), EpochClock(clock)
    assert keep(believed, store) == START - 90 * DAY
    assert believed.is_ahead
    for day in range(1, 91):
        clock.wait(DAY)
        assert keep(believed, store) == clock.time() - (90 - day) * DAY
    clock.wait(DAY)
    assert keep(believed, store) == clock.time()
    assert not believed.is_ahead


def test_a_jump_ahead_counts_as_a_time_without_a_server(clock: Clock) -> None:
    store, believed = Remembered(), EpochClock(clock)
    keep(believed, store)
    for minute in range(60):  # steps that the believed time catches up with
        clock.wait(60)
        clock.step(100 if minute < 5 else 0)
        keep(believed, store)
    before = believed.unsure_until
    assert before is None
    clock.step(3 * DAY)
    keep(believed, store)
    corrected = clock.time()
    assert believed.unsure_until == corrected
    for _ in range(4 * 24 * 60):
        clock.wait(60)
        keep(believed, store)
    assert believed.unsure_until == corrected  # to catch up is not a jump
    assert believed.believed() == clock.time()
    clock.step(YEAR)
    keep(believed, store)
    clock.step(-YEAR)
    keep(believed, store)
    assert believed.unsure_until == clock.time()


def test_a_worker_that_slept_alone_was_no_time_without_a_server(clock: Clock) -> None:
    store, believed = Remembered(), EpochClock(clock)
    keep(believed, store)
    clock.step(DAY)
    store.advance_clock(int(clock.time()))  # by the worker of another machine
    keep(believed, store)
    assert believed.unsure_until is None


def test_the_store_is_written_once_a_minute_whatever_the_number_of_workers(clock: Clock) -> None:
    store, workers = Remembered(), [EpochClock(clock) for _ in range(5)]
    for _ in range(600):
        for worker in workers:
            assert keep(worker, store) == clock.time()
        clock.wait(1)
    assert store.written == 10


def test_the_time_goes_on_while_the_store_does_not_answer(clock: Clock) -> None:
    store, believed = Remembered(), EpochClock(clock)
    keep(believed, store)
    clock.wait(5 * DAY)
    assert believed.believed() == clock.time()
    clock.step(YEAR)
    assert believed.believed() <= START + 10 * DAY
