"""A reader who tries to see single reports of closed epochs: nothing changes between releases."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, closing
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

from arcwise.domains import Interval
from arcwise.server import Settings, create_app
from arcwise.server.access.keys import new_key
from arcwise.server.estimates.cache import digest_of, tag_of
from arcwise.server.estimates.question import read_question
from arcwise.server.estimates.service import Estimates
from arcwise.server.runtime import Runtime
from arcwise.server.store import open_store
from arcwise.tasks import DAY, Caps, CentralStatement, Task
from arcwise.wire import MEDIA_TYPE, Batch, encode_batch
from tests.support.backups import Backup
from tests.support.clock import Clock
from tests.support.postgres import fresh_schema, own_url
from tests.support.stores import opened

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from fastapi import FastAPI

    from arcwise.server.store import Store

    Scenario = Callable[..., Awaitable[None]]

START = 1_700_006_400.0  # a midnight
LEAST = 20
AGE = Task(
    "age",
    Interval(0, 100),
    1.0,
    caps=Caps(lifetime=1.0, rolling=1.0),
    central=CentralStatement(1.0, 1e-6, LEAST),
    lateness_seconds=0,
)
LIVE = Task("live", Interval(0, 100), 1.0, lateness_seconds=0)
TODAY = AGE.epoch(START)
PATHS = [
    "/v1/tasks",
    f"/v1/tasks/{AGE.id}",
    *(f"/v1/tasks/{AGE.id}/{kind}" for kind in ("estimate", "series", "fit")),
    f"/v1/tasks/{AGE.id}/estimate?bands=1",
    f"/v1/tasks/{AGE.id}/estimate?from={TODAY}",
    f"/v1/tasks/{AGE.id}/estimate?to={TODAY}",
    f"/v1/tasks/{AGE.id}/series?every=day",
    f"/v1/tasks/{AGE.id}/plan?half_width=1",
    f"/v1/tasks/{AGE.id}/difference?to={TODAY}&against_from={TODAY}",
    *(f"/v1/tasks/{AGE.id}/{file}" for file in ("estimate.csv", "picture.svg", "series.csv", "series.svg")),
    "/",
    *(f"/tasks/{AGE.id}{page}" for page in ("", "/compare", "/fit", "/plan")),
    "/operator",
    "/metrics",
]
"""Everything that a read key opens, and two paths that it does not open."""

FEW = [
    f"/v1/tasks/{AGE.id}/estimate",
    f"/v1/tasks/{AGE.id}/series",
    f"/tasks/{AGE.id}",
    "/operator",
    "/metrics",
]


class Worker:
    """A running app, seen with a read key."""

    def __init__(self, app: FastAPI, http: httpx.AsyncClient, clock: Clock) -> None:
        self.runtime: Runtime = app.state.runtime
        self.http = http
        self._clock = clock

    async def send(self, number: int, epoch: int, code: int = 1, count: int = 1, *, task: Task = AGE) -> int:
        body = encode_batch(
            Batch(bytes.fromhex(task.id), number.to_bytes(16, "big"), epoch, bytes([code]) * count)
        )
        answer = await self.http.post(
            f"/v1/tasks/{task.id}/reports",
            content=body,
            headers={"Content-Type": MEDIA_TYPE, "Authorization": f"Bearer {self.http.headers['x-ingest']}"},
        )
        return answer.status_code

    async def seen(self, paths: list[str]) -> dict[str, tuple[int, dict[str, str], bytes]]:
        """Return the whole answer of each path, after pages have their pending results."""
        found = {}
        for path in paths:
            for accept in ("application/json", "text/html"):
                for _ in range(100):
                    answer = await self.http.get(path, headers={"Accept": accept})
                    if b" data-pending" not in answer.content:
                        break
                    await asyncio.sleep(0.05)
                found[f"{path} {accept}"] = answer.status_code, dict(answer.headers), answer.content
        return found

    def tick(self) -> None:
        self.runtime.keep_time()
        self.runtime.refresh()
        self.runtime.close_epochs()
        self.runtime.tidy()

    def wait(self, seconds: float, *, steps: int = 4) -> None:
        """Let time pass in equal steps."""
        for _ in range(steps):
            self._clock.wait(seconds / steps)
            self.tick()

    async def shown(self, path: str) -> dict[int, int]:
        """Return the numbers of reports of a series that are not 0, by the first epoch of each point."""
        points = (await self.http.get(path)).json()["points"]
        return {point["first"]: point["n"] for point in points if point["n"]}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'app.db'}"
    else:
        with fresh_schema(own_url() if request.param == "own postgres" else None) as schema:
            yield schema


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(Runtime, "_tidy", lambda runtime: runtime._stopping.wait())  # only `tick` does it
    return Clock(START)


@pytest.fixture
def run(url: str, clock: Clock) -> Callable[..., None]:
    """Return a function that runs a scenario with two workers on one store, which stays for the next."""
    read, read_key = new_key("read", now=0)
    ingest, ingest_key = new_key("ingest", now=0)

    def run_workers(scenario: Scenario, **options: Any) -> None:
        with closing(open_store(url)) as store:
            if not store.keys():
                store.add_key(read_key)
                store.add_key(ingest_key)

        async def main() -> None:
            async with AsyncExitStack() as stack:
                running = []
                for _ in range(2):
                    app = create_app(Settings([AGE, LIVE], store=url, **options), clock=clock)
                    await stack.enter_async_context(app.router.lifespan_context(app))
                    http = httpx.AsyncClient(
                        transport=httpx.ASGITransport(app),
                        base_url="http://server",
                        headers={"Authorization": f"Bearer {read}", "x-ingest": ingest},
                    )
                    running.append(Worker(app, await stack.enter_async_context(http), clock))
                await scenario(*running)

        asyncio.run(main())

    return run_workers


@pytest.mark.parametrize("paths", [FEW, pytest.param(PATHS, marks=pytest.mark.slow)], ids=["some", "all"])
def test_nothing_that_a_reader_sees_moves_between_releases(
    run: Callable[..., None], clock: Clock, url: str, tmp_path: Path, paths: list[str]
) -> None:
    async def first(one: Worker, two: Worker) -> None:
        empty = await one.seen(paths)
        assert await two.seen(paths) == empty
        for number in range(3):
            assert await (one, two)[number % 2].send(number, TODAY, number) == 204
            for worker in (one, two):
                worker.tick()
                assert await worker.seen(paths) == empty
        # An epoch that has enough reports, and is not over.
        assert await one.send(10, TODAY, 3, LEAST) == 204
        one.tick()
        assert await one.seen(paths) == empty

    async def second(one: Worker, two: Worker) -> None:
        programs = [path for path in paths if path.startswith("/v1/")]  # pages show an answer for 10 seconds
        empty = await one.seen(programs)
        # The next day has too few reports, if one worker alone closes both.
        assert await two.send(20, TODAY + 1, 5) == 204
        clock.wait(2 * DAY)
        for _ in range(40):
            one.runtime.keep_time()
        one.tick()
        released = await one.seen(programs)
        assert released != empty
        two.runtime.refresh()
        assert await two.seen(programs) == released
        plain = f"/v1/tasks/{AGE.id}/estimate"
        assert (await two.http.get(plain)).json()["n"] == LEAST + 3
        for over in (TODAY, TODAY + 1):  # late, by either worker
            assert await two.send(30 + over, over, 7) == 410
        with opened(f"sqlite:///{tmp_path / 'other.db'}", [AGE]) as other:
            task_id = bytes.fromhex(AGE.id)
            other.add([Batch(task_id, bytes([9] * 15 + [k]), TODAY + k, bytes([4])) for k in (0, 1)])
            assert one.runtime.store().merge(other.export(ids=True), int(one.runtime.clock.time())) == 1
        assert await one.send(50, TODAY + 2, 7) == 204
        for worker in (one, two):
            worker.tick()
            assert await worker.seen(programs) == released
        # Each range minus another: only the one released epoch is in any.
        for start in range(TODAY - 1, TODAY + 4):
            for end in range(start + 1, TODAY + 5):
                answer = await one.http.get(f"{plain}?from={start}&to={end}")
                assert answer.json()["n"] == (LEAST + 3 if start <= TODAY < end else 0)

    async def third(one: Worker, two: Worker) -> None:
        for worker in (one, two):  # a page shows whether reports fit once somebody has asked for the test
            await worker.seen(paths)
        released = await one.seen(paths)
        assert await two.send(60, TODAY + 2, 8) == 204
        for worker in (one, two):
            worker.tick()
            assert await worker.seen(paths) == released
        assert {status for path in ("/operator", "/metrics") for status in _statuses(released, path)} == {403}
        answer = await one.http.get(f"/v1/tasks/{AGE.id}/estimate")
        assert answer.json()["n"] == LEAST + 3
        assert answer.json()["release"] == "closed-epochs"

    run(first)
    run(second)
    run(third)
    with closing(open_store(url)) as store:
        assert store.check() == []


def _statuses(seen: dict[str, tuple[int, dict[str, str], bytes]], path: str) -> set[int]:
    return {status for name, (status, *_) in seen.items() if name.split()[0] == path}


@pytest.mark.parametrize("behind", [False, True])
def test_what_closed_while_no_server_ran_is_never_shown(
    run: Callable[..., None], clock: Clock, behind: bool
) -> None:
    """A restored store looks like one: epochs that closed since its backup may have been released.

    If the clock is behind at the start, that shows only after it is corrected.
    """

    async def before(one: Worker, _two: Worker) -> None:
        assert await one.send(1, TODAY, 1, LEAST) == 204
        assert await one.send(2, TODAY + 1, 1, LEAST) == 204
        one.tick()

    async def after(one: Worker, _two: Worker) -> None:
        if behind:
            one.tick()
            clock.step(DAY)
        assert await one.send(3, TODAY + 1, 1, LEAST) == 204  # of today, by now
        one.wait(2 * DAY, steps=8)
        answer = await one.http.get(f"/v1/tasks/{AGE.id}/series")
        assert [(point["first"], point["n"]) for point in answer.json()["points"]] == [(TODAY + 1, 2 * LEAST)]

    run(before)
    if not behind:
        clock.wait(DAY)
    run(after)


def test_first_reports_that_a_source_brings_are_released(run: Callable[..., None]) -> None:
    """A task without reports has decided nothing, however many epochs have ended."""

    async def scenario(one: Worker, _two: Worker) -> None:
        one.wait(3 * DAY, steps=8)
        counts = np.bincount(np.ones(LEAST, np.int64), minlength=AGE.mechanism.kernel.codes)
        cell = bytes.fromhex(AGE.id), TODAY
        one.runtime.store().replace_source("lake", {cell: counts}, [(*cell, bytes(16))])
        one.wait(2 * DAY, steps=8)
        assert await one.shown(f"/v1/tasks/{AGE.id}/series") == {TODAY: LEAST}

    run(scenario)


def test_a_store_that_goes_back_releases_no_epoch_again(run: Callable[..., None]) -> None:
    """A replica that takes over may lack the release and the last reports: readers would see them apart."""

    async def scenario(one: Worker, _two: Worker) -> None:
        path = f"/v1/tasks/{AGE.id}/series"
        assert await one.send(1, TODAY, 1, LEAST) == 204
        assert await one.send(2, TODAY, 2) == 204
        one.wait(DAY + 1200, steps=8)
        assert await one.shown(path) == {TODAY: LEAST + 1}
        store: Any = one.runtime.store()
        with store._changing() as connection:
            for statement in ("DELETE FROM decided", "DELETE FROM released", "UPDATE task SET open_from = 0"):
                connection.change(statement)
        assert await one.send(3, TODAY + 1, 1, LEAST) == 204
        one.wait(DAY, steps=8)
        assert await one.shown(path) == {TODAY + 1: LEAST}

    run(scenario)


@pytest.mark.parametrize("past", ["live", "rebuilt", "clock jumps"])
def test_the_setting_of_a_server_withholds_what_a_task_does(
    tmp_path: Path, url: str, run: Callable[..., None], clock: Clock, past: str
) -> None:
    """But nothing that had closed while the store was live."""

    async def send(worker: Worker, epoch: int) -> None:
        assert await worker.send(epoch - TODAY, epoch, count=LEAST, task=LIVE) == 204

    async def before(one: Worker, _two: Worker) -> None:
        await send(one, TODAY)
        one.wait(DAY + 1200, steps=8)
        await send(one, TODAY + 1)
        one.tick()

    async def closed(one: Worker, _two: Worker) -> None:
        if past == "clock jumps":
            await send(one, TODAY + 1)
            one.tick()
            clock.step(DAY)
            one.tick()
        await send(one, TODAY + 2)
        one.wait(2 * DAY, steps=8)
        seen = await one.shown(f"/v1/tasks/{LIVE.id}/series")
        assert seen == dict.fromkeys([TODAY + 2] if past == "clock jumps" else [TODAY, TODAY + 2], LEAST)

    if past == "live":
        run(before)
    elif past == "rebuilt":
        with opened(f"sqlite:///{tmp_path / 'first.db'}", [LIVE]) as first:
            task_id = bytes.fromhex(LIVE.id)
            for k in (0, 1):
                first.add([Batch(task_id, bytes([9] * 15 + [k]), TODAY + k, bytes(LEAST))])
            first.advance_clock(int(START + DAY + 1200))
            first.release(LIVE, TODAY + 1)
            with closing(open_store(url)) as rebuilt:
                rebuilt.merge(first.export(ids=True), int(START + 2 * DAY))
        clock.wait(DAY)
    clock.wait(DAY)
    run(closed, release="closed-epochs")


def test_blocks_are_shown_when_all_of_them_is_released(run: Callable[..., None], clock: Clock) -> None:
    """A block that grew day by day would show each day as a difference of two answers."""
    days = 2
    first = TODAY + (TODAY - 4) % days  # start of a block of two days, counted from a Monday

    async def scenario(one: Worker, _two: Worker) -> None:
        clock.wait((first - TODAY) * DAY)
        one.tick()
        path, found = f"/v1/tasks/{AGE.id}/estimate", []
        for day in range(days):
            assert await one.send(day, first + day, 1, LEAST) == 204
            one.wait(DAY)
            found.append((await one.http.get(path)).json()["n"])
        assert found == [0, 2 * LEAST]

    run(scenario, min_reports=30, min_reports_days=days)


TAGGED = [path for path in PATHS if path.startswith(f"/v1/tasks/{AGE.id}/")]
"""All of these have an entity tag, except a picture of nothing."""

some_or_all = pytest.mark.parametrize(
    "paths", [TAGGED[:2], pytest.param(TAGGED, marks=pytest.mark.slow)], ids=["some", "all"]
)


def tags(task: Task, path: str, store: Store, secrets: Sequence[bytes]) -> set[str]:
    """Return the entity tags of a path as the server computes them, from a store, with these secrets.

    The counts are live and released, both unchanged and with one more report of each code.
    """
    url = httpx.URL(path)
    name, _, form = url.path.rpartition("/")[2].partition(".")
    kind: Any = "estimate" if name == "picture" else name
    question = read_question(task, url.params.multi_items(), kind, other=task)
    found = set()
    for live in (False, True):
        estimates = Estimates(lambda: store, is_live={task: live}.__getitem__)
        shown = [estimates.shown_counts(task, question.span, every=question.every)]
        if name == "difference":
            shown.append(estimates.shown_counts(task, question.other_span))
        for secret in secrets:
            before = [digest_of(secret, each.parts, each.counts, live=live) for each in shown]
            digests = {b"".join(before)}
            for place, each in enumerate(shown):
                for cell in np.ndindex(each.counts.shape):
                    counts = each.counts.copy()
                    counts[cell] += 1
                    after = digest_of(secret, each.parts, counts, live=live)
                    digests.add(b"".join([*before[:place], after, *before[place + 1 :]]))
            found |= {tag_of(digest, question, form or "json", 0) for digest in digests}
    return found


@some_or_all
def test_a_reader_who_knows_all_reports_but_one_guesses_no_tag(
    run: Callable[..., None], clock: Clock, tmp_path: Path, paths: list[str]
) -> None:
    async def attack(worker: Worker) -> int:
        """Try every tag that can be computed without the store's secret; return the number of paths with a
        hit.
        """
        tagged, store = 0, worker.runtime.store()
        with closing(open_store(f"sqlite:///{tmp_path / f'{clock.time()}.db'}")) as own:
            own.merge(store.export(ids=True), int(clock.time()))
            for path in paths:
                given = (await worker.http.get(path)).headers.get("ETag")
                guessed = tags(AGE, path, own, [b"", bytes(32), own.secret])
                assert len(guessed) > 100
                answer = await worker.http.get(path, headers={"If-None-Match": ", ".join(guessed)})
                if given is None:
                    assert answer.status_code == 404
                    continue
                tagged += 1
                assert (answer.status_code, answer.headers["ETag"]) == (200, given)
                # The attack works: with the secret, one of them is the tag, and its owner gets 304.
                known = tags(AGE, path, own, [store.secret])
                assert given in known
                for tag in (given, ", ".join(known)):
                    answer = await worker.http.get(path, headers={"If-None-Match": tag})
                    assert answer.status_code == 304
        return tagged

    async def scenario(one: Worker, two: Worker) -> None:
        assert await two.send(1, TODAY, 1) == 204
        before = await attack(one)
        assert await two.send(2, TODAY, 2, LEAST) == 204
        clock.wait(2 * DAY)
        for _ in range(40):
            one.runtime.keep_time()
        one.tick()
        assert (await one.http.get(paths[0])).json()["n"] == LEAST + 1
        assert await two.send(3, TODAY + 2, 3) == 204
        assert await attack(one) >= before > 0

    run(scenario)


@pytest.mark.parametrize("release", ["live", "closed-epochs"])
@some_or_all
def test_the_same_reader_finds_every_report_where_counts_are_live(
    run: Callable[..., None], release: str, paths: list[str]
) -> None:
    """So the attack that finds nothing above does find reports here."""
    paths = [path.replace(AGE.id, LIVE.id) for path in paths if not path.endswith(".svg")]

    async def scenario(one: Worker, two: Worker) -> None:
        seen = [await one.seen(paths)]
        for number in range(2):
            assert await two.send(number, TODAY, number, task=LIVE) == 204
            two.tick()
            seen.append(await one.seen(paths))
        for path in (each for each in seen[0] if each.endswith(" application/json")):
            is_empty = path.split()[0].endswith(f"estimate?to={TODAY}")  # which ends before today
            moves = len({str(each[path]) for each in seen})
            assert moves == (1 if is_empty or release == "closed-epochs" else 3), path

    run(scenario, release=release)


@pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("own postgres", marks=pytest.mark.slow)], indirect=True
)
def test_a_copy_from_before_a_release_releases_nothing_twice(
    tmp_path: Path, url: str, run: Callable[..., None], clock: Clock
) -> None:
    """The copy is at least twenty minutes old, as docs/howto/run-a-server.md requires."""
    copy = Backup(url, tmp_path)
    plain = f"/v1/tasks/{AGE.id}/series"

    async def before(one: Worker, two: Worker) -> None:
        assert await one.send(1, TODAY, 1, LEAST) == 204
        one.wait(DAY)
        assert await one.shown(plain) == {TODAY: LEAST}
        assert await one.send(2, TODAY + 1, 1, LEAST) == 204
        one.wait(DAY - 1200)
        copy.make()
        assert await two.send(3, TODAY + 1, 2) == 204
        one.wait(1200)
        assert await two.shown(plain) == {TODAY: LEAST, TODAY + 1: LEAST + 1}

    async def after(one: Worker, two: Worker) -> None:
        paths = TAGGED[:2]
        restored = await one.seen(paths)
        assert await one.shown(plain) == {TODAY: LEAST}
        for number in range(3):
            assert await two.send(number + 10, TODAY, 3) == 410
            late = await two.send(number + 20, TODAY + 1, 3)
            assert late == (204 if number == 0 else 410)  # the clock of the copy catches up
            assert await two.send(number + 30, TODAY + 2, 3) == 204
            clock.wait(1200)
            for worker in (one, two):
                worker.tick()
                assert await worker.seen(paths) == restored
        assert await one.send(4, TODAY + 2, 1, LEAST) == 204
        one.wait(DAY)
        assert await two.shown(plain) == {TODAY: LEAST, TODAY + 2: LEAST + 3}

    run(before)
    copy.restore()
    run(after)
