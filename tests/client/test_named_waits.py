"""A server that names a different wait to each device, and tries to recognise it by its next request."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from arcwise.client.delivery import STEPS, asked_seconds
from tests.support.clock import Clock
from tests.support.ledgers import ledger_opener
from tests.support.recorder import Recorder
from tests.support.stepped import SteppedUplink
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from arcwise.client import Ledger
    from arcwise.client.ledger import QueueOwner
    from arcwise.tasks import Task

URL = "http://127.0.0.1:9"
DEVICES = 16
MOST_RECOGNISED = 5
"""If 16 devices return in a random order, six or more are at their place in one run of 1,700."""
TOLD = [60 + 200 * device for device in range(1, DEVICES + 1)]
"""The seconds that the server names to each device: all different, in equal steps."""


class Jitter(Clock):
    """The clock of one device, with random numbers that are the same in every run."""

    def __init__(self, device: int) -> None:
        super().__init__()
        self._generator = random.Random(f"waits of {device}")

    def uniform(self) -> float:
        return self._generator.random()


def seconds_until_the_next(
    open_ledger: Callable[[], tuple[Ledger, QueueOwner]],
    clock: Clock,
    answer: tuple[int, str],
    task: Task,
    restart: bool,
) -> float:
    """Send a batch that gets this answer; return the seconds until the device sends another one."""
    recorder = Recorder()
    recorder.script.append(answer)

    def start() -> tuple[Client, SteppedUplink]:
        ledger, owner = open_ledger()
        uplink = SteppedUplink(
            URL, ledger=owner, batch_size=1, interval=0, transport=recorder, environment=clock
        )
        return Client(uplink, tasks=[task], ledger=ledger), uplink

    client, uplink = start()
    assert [bool(client.report(task.name, 1.0)) for _ in range(2)] == [True, True]
    passed = 0.0
    wait = uplink.send()
    (told,) = recorder.posts
    if restart:
        clock.wait(1.0)
        passed = 1.0
        uplink.close(0)
        clock.restart()
        _, uplink = start()
        wait = uplink.send()
    while all(post.batch.batch_id == told.batch.batch_id for post in recorder.posts):
        clock.wait(wait)
        passed += wait
        wait = uplink.send()
    return passed


@pytest.mark.parametrize("status", [204, 503, 404, 410, 429])
@pytest.mark.parametrize(
    ("kind", "restart"),
    [
        ("memory", False),
        ("file", False),
        ("file", True),
        pytest.param("postgres", True, marks=pytest.mark.slow),
    ],
)
def test_a_wait_that_a_server_names_does_not_name_the_device(
    tmp_path: Path, delay: Task, kind: str, restart: bool, status: int
) -> None:
    with ExitStack() as left:
        waited = [
            seconds_until_the_next(
                left.enter_context(ledger_opener(kind, tmp_path / f"{device}.db")),
                Jitter(device),
                (status, str(told)),
                delay,
                restart,
            )
            for device, told in enumerate(TOLD)
        ]
    assert all(wait >= told for wait, told in zip(waited, TOLD, strict=True))
    # The server matches devices to waits by the order of both.
    order = sorted(range(DEVICES), key=waited.__getitem__)
    assert sum(place == device for place, device in enumerate(order)) <= MOST_RECOGNISED
    # Nor does the closest named wait identify a device.
    closest = [min(TOLD, key=lambda told, wait=wait: abs(told - wait)) for wait in waited]  # type: ignore[misc]
    assert sum(guess == told for guess, told in zip(closest, TOLD, strict=True)) <= MOST_RECOGNISED


@pytest.mark.parametrize("kind", ["file", pytest.param("postgres", marks=pytest.mark.slow)])
def test_what_is_written_down_is_the_drawn_time(tmp_path: Path, delay: Task, kind: str) -> None:
    """If the server named 500 seconds, the device's ledger holds no time that is 500 seconds away."""
    clock, recorder = Jitter(0), Recorder()
    recorder.script.append((503, "500"))
    with ledger_opener(kind, tmp_path / "ledger.db") as open_ledger:
        ledger, owner = open_ledger()
        uplink = SteppedUplink(URL, ledger=owner, interval=0, transport=recorder, environment=clock)
        assert Client(uplink, tasks=[delay], ledger=ledger).report("delay", 1.0)
        wait = uplink.send()
        with uplink._outbox.database.reading() as connection:  # type: ignore[attr-defined]
            ((until,),) = connection.execute("SELECT asked FROM waits").fetchall()
    assert until - clock.time() == pytest.approx(wait, abs=1e-3)
    assert STEPS[1] <= wait < 2 * STEPS[1]


@pytest.mark.parametrize(
    ("named", "uniform", "seconds"),
    [
        (0.0, 0.9, 0.0),
        (0.001, 0.0, 60.0),
        (60.0, 0.0, 60.0),
        (60.0, 0.5, 90.0),
        (60.1, 0.0, 3600.0),
        (3600.0, 0.5, 5400.0),
        (3601.0, 0.25, 108_000.0),
        (86_400.0, 0.5, 129_600.0),
    ],
)
def test_a_named_wait_is_one_to_two_steps(named: float, uniform: float, seconds: float) -> None:
    assert asked_seconds(named, uniform) == seconds
