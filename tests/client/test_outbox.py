"""The queue in memory."""

from __future__ import annotations

import math
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from arcwise.client.environment import MACHINE, Environment
from arcwise.client.ledger import OutboxOptions, Parcel, Send, Wait
from arcwise.client.memory import MemoryOutbox
from arcwise.domains import Circle
from arcwise.mechanisms import OptimalCircular
from arcwise.tasks import Task
from arcwise.wire import Batch, decode_batch

if TYPE_CHECKING:
    from tests.support.clock import Clock


def at_once(_task_id: str) -> float:
    return 0.0


def take(outbox: MemoryOutbox, interval: float = 0.0, now: float | None = None) -> Parcel:
    step = outbox.take(time.monotonic() if now is None else now, interval, at_once)
    assert isinstance(step, Send)
    return step.parcel


def seal(batch: Parcel) -> Batch:
    return decode_batch(batch.body)


def outbox(batch_size: int = 100, capacity: int = 1000, environment: Environment = MACHINE) -> MemoryOutbox:
    return MemoryOutbox(OutboxOptions(batch_size, capacity, environment=environment))


def test_a_batch_holds_one_task_and_one_epoch(heading: Task, delay: Task) -> None:
    box = outbox()
    for task, epoch, code in [(heading, 1, 7), (delay, 1, 8), (heading, 2, 9), (heading, 1, 3)]:
        box.put(task, epoch, code)
    batches = {(b.task_id.hex(), b.epoch): b.codes for b in (seal(take(box)) for _ in range(3))}
    assert batches == {(heading.id, 1): b"\3\7", (delay.id, 1): b"\x08", (heading.id, 2): b"\x09"}


@pytest.mark.parametrize(("nodes", "width"), [(128, 1), (1000, 2)])
def test_codes_are_sorted_whatever_their_order(nodes: int, width: int) -> None:
    domain = Circle(360)
    task = Task("t", domain, 1.0, mechanism=OptimalCircular(domain, 1.0, nodes=nodes))
    codes = [random.Random(1).randrange(nodes) for _ in range(99)]
    box = outbox()
    for code in codes:
        box.put(task, 0, code)
    packed = seal(take(box)).codes
    sent = [int.from_bytes(packed[i : i + width], "little") for i in range(0, len(packed), width)]
    assert sent == sorted(codes)


def test_sealing_twice_gives_the_same_bytes(heading: Task) -> None:
    box = outbox()
    box.put(heading, 0, 1)
    batch = take(box)
    first = batch.body
    batch.put_back()
    assert take(box).body == first


def test_batch_ids_differ(heading: Task) -> None:
    box = outbox(batch_size=1)
    for _ in range(50):
        box.put(heading, 0, 1)
    assert len({seal(take(box)).batch_id for _ in range(50)}) == 50


def test_a_full_batch_is_ready_before_the_interval(heading: Task, clock: Clock) -> None:
    box = outbox(batch_size=3, environment=clock)
    news = [box.put(heading, 0, code) for code in range(5)]
    assert news == [True, False, True, True, False]  # begun, full, begun
    assert seal(take(box, interval=60, now=clock.monotonic())).codes == b"\0\1\2"
    assert box.take(clock.monotonic(), 60, at_once) == Wait(60)


def test_nothing_queued_is_never_due() -> None:
    assert outbox().take(0.0, 0.0, at_once) == Wait(math.inf)


def test_a_held_task_keeps_filling_its_batch_and_lets_others_pass(heading: Task, delay: Task) -> None:
    box = outbox()
    box.put(heading, 0, 1)
    box.put(delay, 0, 2)
    now = time.monotonic()

    def held(task_id: str) -> float:
        return now + 500 if task_id == heading.id else 0.0

    step = box.take(now, 0.0, held)
    assert isinstance(step, Send)
    assert step.parcel.task_id == delay.id
    step.parcel.finish(None)
    step = box.take(now, 0.0, held)
    assert isinstance(step, Wait)
    assert step.seconds == pytest.approx(500)
    box.put(heading, 0, 0)
    assert seal(take(box)).codes == b"\0\1"


def test_a_batch_put_back_waits_behind_the_others(heading: Task) -> None:
    box = outbox(batch_size=1)
    box.put(heading, 0, 1)
    box.put(heading, 0, 2)
    bad = take(box)
    bad.put_back()
    assert take(box).body != bad.body


def test_room(heading: Task) -> None:
    box = outbox(capacity=2)
    room = []
    for _ in range(4):
        room.append(box.has_room(1))
        if room[-1]:
            box.put(heading, 0, 0)
    assert room == [True, True, False, False]
    assert box.counts() == (2, 0, {})
    assert box.has_room(0)
    take(box).finish(None)
    assert box.has_room(2)
    assert not box.has_room(3)


def test_counts_by_reason(heading: Task) -> None:
    box = outbox(batch_size=2)
    for _ in range(8):
        box.put(heading, 0, 0)
    take(box).finish(None)
    take(box).finish("410")
    take(box).finish("410")
    assert box.counts() == (2, 2, {"410": 4})


def test_only_old_batches_expire(heading: Task, delay: Task, clock: Clock) -> None:
    box = outbox(batch_size=2, environment=clock)
    for code in range(3):
        box.put(heading, 0, code)  # one full batch, one open
    clock.wait(10)
    box.put(delay, 0, 0)
    clock.wait(5)
    assert box.expire(15) == 0
    assert box.expire(14.9) == 3
    assert box.counts() == (1, 0, {"expired": 3})
    assert take(box, now=clock.monotonic()).task_id == delay.id
    assert box.put(heading, 0, 5)  # begins again


def test_closing_drops_open_waiting_taken_and_late(heading: Task, delay: Task) -> None:
    box = outbox(batch_size=2)
    for _ in range(4):
        box.put(heading, 0, 0)
    box.put(delay, 0, 0)
    taken = take(box)
    assert box.close() == 5
    taken.finish(None)  # a late answer does not count twice
    box.put(delay, 0, 0)
    assert box.counts() == (0, 0, {"closed": 6})


@pytest.mark.usefixtures("restless")
def test_threads_lose_nothing(heading: Task, delay: Task) -> None:
    box = outbox(batch_size=97, capacity=10**6)

    def fill(seed: int) -> None:
        for n in range(3000):
            box.put(heading if n % 2 else delay, n % 3, seed)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(fill, range(8)))
    assert box.pending == 24_000
    is_done = box.expedite()
    batches = [take(box) for _ in range(len(box._waiting))]
    assert not is_done()
    assert sum(len(seal(batch).codes) for batch in batches) == 24_000
    assert all(batch.reports <= 97 for batch in batches)
    for batch in batches:
        batch.finish(None)
    assert is_done()
