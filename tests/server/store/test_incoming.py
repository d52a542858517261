"""Data from a file passes the same rules as data over HTTP, for any author of the file."""

from __future__ import annotations

import asyncio
import io
import json
import math
import sqlite3
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from arcwise.domains import Interval
from arcwise.errors import ParameterError, StoreError
from arcwise.server import Settings, create_app
from arcwise.server.collect.clock import EpochClock
from arcwise.server.store import Store, open_store
from arcwise.server.store.export import read_export
from arcwise.tasks import DAY, Caps, CentralStatement, Task
from tests.support.clock import Clock
from tests.support.store_samples import COUNTED, DELAY, NOW, REPLAYED, batch, counted
from tests.support.stores import URLS, exported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hypothesis.strategies import DataObject

Lines = list[dict[str, Any]]

LEAST = 20
AGE = Task(
    "age",
    Interval(0, 100),
    1.0,
    caps=Caps(lifetime=1.0, rolling=1.0),
    central=CentralStatement(1.0, 1e-6, LEAST),
    lateness_seconds=0,
)
STRANGE = Task("strange", Interval(0, 5), 1.0)
TODAY = DELAY.epoch(NOW)


def age(store: Store, epoch: int, reports: int, number: int) -> None:
    sent = batch(AGE, [n % 7 for n in range(reports)], number=number, epoch=epoch)
    assert store.add([sent]) == [COUNTED]


def fill_there(store: Store) -> None:
    """Fill a store that releases epochs, as its servers leave it."""
    store.register([AGE, DELAY, STRANGE])
    for epoch, reports in ((TODAY - 9, LEAST + 1), (TODAY - 8, 3), (TODAY - 2, LEAST), (TODAY, 4)):
        age(store, epoch, reports, 1000 + epoch)
    store.add([batch(DELAY, [1, 2], number=2000 + n, epoch=TODAY - n) for n in range(3)])
    store.add([batch(STRANGE, [1], number=3000, epoch=TODAY)])
    key = bytes.fromhex(DELAY.id)
    row = np.array(counted(DELAY, [3, 3]))
    store.replace_source("lake", {(key, TODAY): row}, [(key, TODAY, b"l" * 16)], now=NOW - 60)
    store.advance_clock(NOW - 120)
    store.release(AGE, TODAY - 1, least=LEAST)
    store.close_task(STRANGE.id, NOW - 90)


def fill_here(store: Store) -> None:
    """Fill the store that imports an export: it has released one epoch, and another is due."""
    store.register([AGE, DELAY])
    age(store, TODAY - 9, LEAST + 5, 1)
    store.advance_clock(NOW - 30)
    store.release(AGE, TODAY - 5, least=LEAST)
    age(store, TODAY - 1, LEAST + 2, 2)
    store.add([batch(DELAY, [1], number=7, epoch=TODAY)])


def state_of(store: Store) -> tuple[object, ...]:
    with closing(store.export(ids=True)) as records:
        return exported(records), store.clock(), store.sources()


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of another store."""
    path = tmp_path_factory.mktemp("there") / "there.db"
    with closing(open_store(f"sqlite:///{path}")) as store:
        fill_there(store)
    return path


@pytest.fixture(scope="module")
def honest(there: Path) -> str:
    """Return the lines of a valid export except the last one."""
    with closing(open_store(f"sqlite:///{there}")) as store, closing(store.export(ids=True)) as records:
        return "[" + ",".join(exported(records).splitlines()[:-1]) + "]"


@pytest.fixture
def export(honest: str) -> Lines:
    """Return the same as documents, copied for this test."""
    lines: Lines = json.loads(honest)
    return lines


def merge(store: Store, lines: Lines, *, honest_sums: bool = True) -> int:
    """Merge an export of these lines, with a correct end and the correct number of reports."""
    if honest_sums and lines and isinstance(lines[0], dict):
        rows = [line["counts"] for line in lines if isinstance(line, dict) and "counts" in line]
        found = [count for row in rows if isinstance(row, list) for count in row]
        lines[0]["reports"] = sum(count for count in found if type(count) is int)
    return store.merge(read_export(io.StringIO(text_of(lines)), "given"), NOW)


def text_of(lines: Lines) -> str:
    """Return the text of lines with the end of an earlier version, which had no checksum."""
    return "".join(json.dumps(line) + "\n" for line in [*lines, {"end": len(lines)}])


@contextmanager
def lent(kind: str, path: Path, fill: Callable[[Store], None]) -> Iterator[tuple[str, Store]]:
    with URLS[kind](path) as url, closing(open_store(url)) as store:
        if type(store).release is Store.release:
            pytest.skip("stores of this kind release no epochs")
        fill(store)
        yield url, store


@pytest.fixture(params=list(URLS))
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with lent(request.param, tmp_path / "here", fill_here) as (_, store):
        yield store


def line_of(lines: Lines, task: Task, key: str, epoch: int | None = None) -> dict[str, Any]:
    """Return the line of a task, or the line of its counts or batches in an epoch."""
    at = next(n for n, line in enumerate(lines) if "task" in line and line["task"]["name"] == task.name)
    if key == "task":
        return lines[at]
    for line in lines[at + 1 :]:
        assert "task" not in line
        if key in line and line["epoch"] == epoch:
            return line
    raise AssertionError


Forge = tuple["Callable[[Lines], object]", str]


def of_task(task: Task, **fields: Any) -> Callable[[Lines], object]:
    return lambda lines: line_of(lines, task, "task").update(fields)


def of_header(**fields: Any) -> Callable[[Lines], object]:
    return lambda lines: lines[0].update(fields)


def of_counts(task: Task, at: int, /, **fields: Any) -> Callable[[Lines], object]:
    return lambda lines: line_of(lines, task, "counts", at).update(fields)


def of_batches(task: Task, at: int, /, **fields: Any) -> Callable[[Lines], object]:
    return lambda lines: line_of(lines, task, "batches", at).update(fields)


def too_few(lines: Lines) -> None:
    """Release an epoch that holds fewer reports than the statement assumes, according to its counts."""
    state = line_of(lines, AGE, "task")
    state["released"] = sorted([*state["released"], [TODAY - 8, 3]])


def row(task: Task, **fields: int) -> list[int]:
    counts = [0] * task.mechanism.kernel.codes
    for code, n in fields.items():
        counts[int(code[1:])] = n
    return counts


LATER = TODAY + 2
FORGED: dict[str, Forge] = {
    "an epoch is released with too few reports": (too_few, f"must have at least {LEAST} reports"),
    "a release says more than its counts hold": (
        of_task(AGE, released=[[TODAY - 9, 10**6], [TODAY - 2, LEAST]]),
        "was released with 1,000,000 reports, and has 21",
    ),
    "a release without counts": (
        of_task(AGE, released=[[TODAY - 7, LEAST], [TODAY - 2, LEAST]]),
        r"was released with 20 reports, and has 0",
    ),
    "counts of a released epoch are others": (
        of_counts(AGE, TODAY - 2, counts=row(AGE, c3=LEAST + 1)),
        "was released with 20 reports, and has 21",
    ),
    "the present is decided": (of_task(AGE, decided=TODAY + 1, open_from=TODAY + 1), "can have decided"),
    "what is decided is open": (of_task(AGE, open_from=TODAY - 3), "can have decided"),
    "the present of all time is closed": (of_task(DELAY, open_from=2**32 - 1), "must not have closed epochs"),
    "the day after tomorrow is closed": (of_task(DELAY, open_from=TODAY + 3), "must not have closed epochs"),
    "a task is closed in 10^11 years": (of_task(DELAY, closed=2**61), "not a Unix time before now"),
    "a task is closed in two days": (of_task(STRANGE, closed=NOW + 2 * DAY), "not a Unix time before now"),
    "reports of the day after tomorrow": (of_counts(DELAY, TODAY, epoch=LATER), "the newest that a server"),
    "reports of the last epoch": (of_counts(DELAY, TODAY, epoch=2**32 - 1), "the newest that a server"),
    "batch ids of the day after tomorrow": (of_batches(DELAY, TODAY, epoch=LATER), "the newest that a"),
    "more batches than reports": (
        of_batches(DELAY, TODAY, batches=[bytes([9, n] * 8).hex() for n in range(5)]),
        "has 5 batches, but only 2 reports",
    ),
    "batches of an epoch without reports": (of_batches(DELAY, TODAY, epoch=TODAY - 5), "has 1 batches, but"),
    "batch ids that the header denies": (of_header(ids=False), "announced by the header"),
    "a task twice": (lambda lines: lines.extend([line_of(lines, STRANGE, "task")]), "must come once"),
    "counts twice": (
        lambda lines: lines.insert(-1, line_of(lines, STRANGE, "counts", TODAY)),
        "must have its counts once",
    ),
    "a header twice": (lambda lines: lines.insert(1, lines[0]), "not a valid arcwise export record"),
    "an origin twice": (of_header(origins=["ab" * 16] * 2), "each store and each source once"),
    "a source of the year 10^11": (of_header(sources={"lake": 2**61}), "source lake was replaced at"),
    "a clock of the year 10^11": (of_header(clock=2**61), "its servers' clock was read at"),
    "a clock of the day after tomorrow": (of_header(clock=NOW + 2 * DAY), "its servers' clock was read at"),
    "a release twice": (
        of_task(AGE, released=[[TODAY - 9, 1], [TODAY - 9, LEAST + 1], [TODAY - 2, LEAST]]),
        "not a valid arcwise export record",
    ),
    "counts that are true": (of_counts(DELAY, TODAY, counts=[True] * 204), "not a valid"),
    "counts that are no numbers": (of_counts(DELAY, TODAY, counts=[math.nan] * 204), "not a valid"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_export_changes_nothing(here: Store, export: Lines, what: str) -> None:
    forge, words = FORGED[what]
    forge(export)
    before = state_of(here)
    with pytest.raises(ParameterError, match=words) as refused:
        merge(here, export)
    if "not a valid" not in words:
        assert "Nothing was merged" in str(refused.value)
    assert state_of(here) == before


def test_an_honest_export_arrives(here: Store, export: Lines) -> None:
    assert merge(here, export) == LEAST + 1
    assert here.check()[1:] == []  # the source and the epochs of these tests lie before the machine's time
    assert here.released(AGE) == {TODAY - 9: LEAST + 5, TODAY - 2: LEAST}


def test_a_line_without_end_or_with_a_key_twice_is_refused(
    here: Store, export: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcwise.server.store.export._LONGEST_LINE", 1000)
    twice = json.dumps(export[0]).replace('"ids": true', '"ids": true, "ids": false')
    for text in ('{"a": "' + "x" * 10_000, twice + "\n"):
        with pytest.raises(ParameterError, match="line 1: not a valid"):
            here.merge(read_export(io.StringIO(text), "given"), NOW)


def test_a_changed_bit_is_refused_wherever_it_is(here: Store, export: Lines) -> None:
    """A changed id would be another batch, and the true one would count again when its device resends it."""
    text = exported(read_export(io.StringIO(text_of(export)), "given"))
    for place in range(0, len(text), 7):
        changed = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        with pytest.raises((ParameterError, StoreError)):
            list(read_export(io.StringIO(changed), "given"))
    assert here.merge(read_export(io.StringIO(text), "given"), NOW)


@pytest.fixture(params=list(URLS))
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with lent(request.param, tmp_path / "fresh", lambda _: None) as (_, store):
        yield store


@pytest.mark.parametrize("clock", [None, 0, 1, NOW - 100 * DAY])
def test_an_old_clock_stops_no_releases(fresh: Store, export: Lines, clock: int | None) -> None:
    """From a believed time of 1970, the present is decades away; without one, nothing is withheld."""
    export[0]["clock"] = clock
    merge(fresh, export)
    wall = Clock(float(NOW))
    believed = EpochClock(wall)
    believed.keep(fresh, is_empty=False)
    assert believed.unsure_until == NOW  # epochs that closed there since may have been released there
    wall.wait(1200)
    assert believed.believed() == NOW + 1200


def test_closed_there_with_deleted_data_closes_no_present_here(here: Store, export: Lines) -> None:
    """If data of tomorrow were deleted there, tomorrow is closed there; devices here may still report."""
    del export[export.index(line_of(export, DELAY, "task")) :]
    export[0] |= {"sources": {}}
    export.append({"task": DELAY.to_json(), "closed": NOW, "open_from": TODAY + 2})
    merge(here, export)
    assert here.add([batch(DELAY, [1], number=8, epoch=TODAY)]) == [COUNTED]


def test_a_source_has_no_reports_of_the_future(here: Store) -> None:
    key, counts = bytes.fromhex(DELAY.id), np.array(counted(DELAY, [1]))
    with pytest.raises(ParameterError, match=f"epoch must be at most {TODAY + 1}, .* Nothing was changed"):
        here.replace_source("lake", {(key, LATER): counts}, [(key, LATER, bytes(16))], now=NOW)
    here.replace_source("lake", {(key, TODAY + 1): counts}, [(key, TODAY + 1, bytes(16))], now=NOW)


def test_check_says_what_lies_in_the_future(here: Store) -> None:
    """The store is a copy from somebody else, which no merge has checked."""
    far = 2**31
    here.add([batch(DELAY, [1], number=9, epoch=far)])
    here.close_task(DELAY.id, 2**40)
    here.delete_data(DELAY.id)
    here.open_task(DELAY.id)
    here.add([batch(DELAY, [1], number=10, epoch=far + 1)])
    here.close_task(DELAY.id, 2**40)
    told = " ".join(here.check())
    assert "was closed at Unix time 1099511627776, which lies in the future" in told
    assert f"epochs before {far + 1} are closed, but epochs after" in told
    assert f"has reports of epoch {far + 1}, but epochs after" in told


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE counts SET epoch = epoch + 4000000000", "the newest that a server accepts"),
        ("UPDATE task SET open_from = 4294967295", "must not have closed epochs"),
        ("UPDATE released SET reports = 1", "must have at least"),
        ("UPDATE counts SET per_code = 'x'", "its counts are not bytes"),
        ("UPDATE task SET definition = x'00'", "cannot be loaded"),
    ],
)
def test_records_of_a_store_that_somebody_else_wrote_are_checked_too(
    here: Store, there: Path, tmp_path: Path, statement: str, words: str
) -> None:
    forged = tmp_path / "forged.db"
    forged.write_bytes(there.read_bytes())
    with closing(sqlite3.connect(forged)) as connection, connection:
        connection.execute(statement)
    before = state_of(here)
    with (
        closing(open_store(f"sqlite:///{forged}")) as store,
        closing(store.export(ids=True)) as records,
        pytest.raises((ParameterError, StoreError), match=words),
    ):
        here.merge(records, NOW)
    assert state_of(here) == before


NASTY: list[Any] = [
    *(-1, 0, 1, 3, LEAST - 1, LEAST, 2**16, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 10**40),
    *(TODAY - 9, TODAY - 8, TODAY - 1, TODAY, TODAY + 1, TODAY + 2, NOW, NOW + DAY, NOW + 10 * DAY),
    *(True, None, "", "x", "lake", "00" * 16, [], {}, [[]], [0], 1.5, math.nan, math.inf),
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place inside a document, as its container and its key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)) and key not in {"counts", "task"}:
            yield from places(value[key])


def mutate(lines: Lines, data: DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    what = data.draw(st.sampled_from(["set", "less"] * 5 + ["drop", "twice", "swap", "remove", "nest"]))
    if what == "drop":
        del lines[at]
    elif what == "twice":
        lines.insert(at, lines[at])
    elif what == "swap":
        other = data.draw(st.integers(0, len(lines) - 1))
        lines[at], lines[other] = lines[other], lines[at]
    elif lines[at]:
        holder, key = data.draw(st.sampled_from(list(places(lines[at]))))
        if what == "remove":
            del holder[key]
        elif what == "less":
            holder[key] = holder[key] - 1 if type(holder[key]) is int else None
        elif what == "nest":
            holder[key] = [holder[key]]
        else:
            holder[key] = data.draw(st.sampled_from(NASTY))


async def seen(url: str) -> None:
    """Request every page of an app on the store, and report."""
    app = create_app(Settings([AGE, DELAY], store=url, open=True), clock=Clock(float(NOW)))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as http,
    ):
        for path in ("/", "/metrics", "/v1/tasks"):
            assert (await http.get(path)).status_code == 200, path
        for task in (AGE, DELAY):
            for path in (
                f"/tasks/{task.id}",
                *(f"/v1/tasks/{task.id}{end}" for end in ("", "/estimate", "/series")),
            ):
                assert (await http.get(path)).status_code == 200, path


@pytest.mark.slow
@pytest.mark.parametrize("kind", URLS)
def test_whatever_a_file_holds_it_is_refused_or_weakens_no_rule(
    kind: str, honest: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    merged = 0
    lends = ExitStack()

    def lend() -> tuple[str, Store]:
        lends.close()
        return lends.enter_context(lent(kind, tmp_path_factory.mktemp("here") / "here", fill_here))

    url, store = lend()

    @settings(phases=[Phase.generate], max_examples=80)  # shrinking would start hundreds of servers
    @given(st.data())
    def attack(data: DataObject) -> None:
        nonlocal url, store, merged
        lines: Lines = json.loads(honest)
        for _ in range(data.draw(st.integers(1, 2))):
            mutate(lines, data)
        lines = json.loads(json.dumps(lines))  # a line that occurs twice must stay two
        honest_sums = data.draw(st.integers(0, 3)) > 0
        frozen = {epoch: store.counts_by_epoch(AGE)[epoch].tolist() for epoch in store.released(AGE)}
        before = state_of(store)
        try:
            merge(store, lines, honest_sums=honest_sums)
        except (ParameterError, StoreError):
            assert state_of(store) == before
            return
        merged += 1
        released, counts, decided = store.released(AGE), store.counts_by_epoch(AGE), store.decided(AGE).before
        assert {epoch: counts[epoch].tolist() for epoch in frozen} == frozen
        assert all(LEAST <= n == counts[epoch].sum() for epoch, n in released.items())
        assert store.clock() == NOW - 30
        # The present is open, counted batches are known, and decisions are final.
        age(store, TODAY, 1, 99)
        assert store.add([batch(DELAY, [1], number=7, epoch=TODAY)]) == [REPLAYED]
        assert store.add([batch(DELAY, [1], number=77, epoch=TODAY)]) == [COUNTED]
        assert decided <= TODAY
        store.release(AGE, TODAY, least=LEAST)
        assert store.decided(AGE).before == TODAY
        assert {epoch: n for epoch, n in store.released(AGE).items() if epoch < decided} == released
        if merged <= 3:
            asyncio.run(seen(url))
        url, store = lend()

    with lends:
        attack()
    assert merged > 2  # some changes leave an export that a store may have written
