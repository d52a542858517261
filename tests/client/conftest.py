"""Tasks, a recording transport, and faster clocks."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from arcwise.client import FileLedger, delivery
from arcwise.domains import Circle, Interval
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms.table import TableMechanism
from arcwise.tasks import Caps, Task
from tests.support.clock import Clock
from tests.support.ledgers import ledger_opener
from tests.support.recorder import Recorder
from tests.support.twins import Twin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from arcwise.client import Ledger


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(params=["sync", "async"])
def twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """Give each kind of client, so that a test covers both."""
    with closing(Twin(request.param)) as twin:
        yield twin


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Name the event loop of tests that are coroutines."""
    return "asyncio"


@pytest.fixture
def restless() -> Iterator[None]:
    """Let threads switch as often as possible, so that a missing lock shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the first backoffs; tests that do not wait check the real lengths."""
    monkeypatch.setattr(delivery, "FIRST_BACKOFF", 0.002)


@pytest.fixture
def clock() -> Clock:
    """Give an environment in which time does not pass by itself."""
    return Clock()


def ledger_of(kind: str, folder: Path) -> Iterator[Ledger]:
    with ledger_opener(kind, folder / "ledger.db") as open_ledger:
        yield open_ledger()[0]


@pytest.fixture(params=["memory", "file", pytest.param("postgres", marks=pytest.mark.slow)])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """Give a new ledger of each kind, so that a test covers all of them."""
    yield from ledger_of(request.param, tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the path of a new ledger."""
    path = tmp_path / "ledger.db"
    FileLedger(path, create=True).close()
    return path


@pytest.fixture(params=["memory", "file"])
def device_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """Give a new ledger of each kind that queues for a single device."""
    yield from ledger_of(request.param, tmp_path)


@pytest.fixture(scope="session")
def heading() -> Task:
    return Task("heading", Circle(360), epsilon=1.0)


@pytest.fixture(scope="session")
def delay() -> Task:
    return Task("delay", Interval(-60, 180), epsilon=2.0, caps=Caps(lifetime=6.0))


@pytest.fixture(scope="session")
def noisy() -> Task:
    """Return a task that spends a delta of 2**-20 at epsilon 0: its two rows differ by that amount."""
    part = UNIT >> 20
    rows = ((UNIT // 2 + part, UNIT // 2 - part), (UNIT // 2, UNIT // 2))
    return Task("noisy", Interval(0, 1), 0.0, mechanism=Spender(Interval(0, 1), rows), caps=Caps(rolling=1.0))


class Spender(TableMechanism):
    """Any two rows, certified by their exact delta at epsilon 0."""

    __slots__ = ()

    name = "spender"
    version = 1
    approximate = True

    def __init__(self, domain: Interval, rows: tuple[tuple[int, int], tuple[int, int]]) -> None:
        self._init(domain, 0.0, rows, (0.0, 1.0))
