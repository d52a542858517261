"""Attacks on a running server, each with the server's options, and the honest client next to them."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from arcwise.wire import encode_batch
from tests.soak.hostile.bodies import fresh
from tests.soak.hostile.book import Wire
from tests.soak.hostile.senders import be_idle, be_slow, flood, send_bodies, send_requests, take_nothing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from arcwise.tasks import Task
    from tests.soak.hostile.book import Book


class Attack:
    """One part while it runs."""

    def __init__(self, url: str, tasks: list[Task], book: Book, seed: int) -> None:
        self.url = url
        self.tasks = tasks
        self.book = book
        self.generator = random.Random(seed)
        self.statuses: Counter[int] = Counter()
        """The number of answers by status; 0: the connection ended without an answer."""
        self.violations: list[str] = []
        """Events that must not happen, a sentence each."""

    def note(self, what: str, statuses: list[int], allowed: set[int]) -> None:
        """Count answers, and record those that are not allowed."""
        self.statuses.update(statuses)
        wrong = set(statuses) - allowed
        if wrong:
            self.violations.append(f"{what}: answered {sorted(wrong)}")

    async def many(self, number: int, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work` this many times in parallel."""
        await asyncio.gather(*(work() for _ in range(number)))


class Part(NamedTuple):
    """One kind of attack."""

    title: str
    options: tuple[str, ...]
    """Of `arcwise serve`."""
    grows: int
    """The limit of the server's growth in MiB."""
    attack: Callable[[Attack, float], Awaitable[None]]
    """Takes the attack and its scale: 1 is all."""
    beside: bool = True
    """Whether an honest client reports meanwhile, and must always be answered 204."""


async def report_once(attack: Attack, wire: Wire, generator: random.Random) -> float:
    """Send an honest report, which must be accepted; return the seconds until its answer."""
    batch = fresh(generator, attack.tasks[0])
    attack.book.sent(batch)
    start = time.perf_counter()
    answer = await wire.post(batch.task_id.hex(), encode_batch(batch))
    seconds = time.perf_counter() - start
    attack.book.answered(batch, answer.status)
    attack.note("an honest report", [answer.status], {204})
    return seconds


async def report_honestly(attack: Attack, stop: asyncio.Event) -> float:
    """Report until stopped; return the longest time of an answer."""
    wire, slowest = Wire(attack.url), 0.0
    generator = random.Random(attack.generator.random())
    while not stop.is_set():
        slowest = max(slowest, await report_once(attack, wire, generator))
        await asyncio.sleep(0.01)
    await wire.close()
    return slowest


_SHORT = ("--header-seconds", "1", "--body-seconds", "1")
# Time enough for a busy machine to send valid requests.
_LONGER = ("--header-seconds", "10", "--body-seconds", "3")
_QUEUE = (
    "--max-waiting-bytes",
    str(256 << 10),
    "--max-body-bytes",
    str(192 << 10),
    "--max-reading-bytes",
    str(4 << 20),
)
# Besides unread bytes, each of forty connections may hold an answer of 0.8 MB that waits for its turn.
_UNREAD = ("--answer-seconds", "0.5", "--max-unread-bytes", str(4 << 20))

PARTS = {
    "bodies": Part("bodies", (), 48, send_bodies),
    "requests": Part("requests", _LONGER, 48, send_requests),
    "slow": Part("slow heads and bodies", _SHORT, 48, be_slow),
    "idle": Part("idle connections", ("--header-seconds", "600"), 48, be_idle),
    "unread": Part("answers not taken", _UNREAD, 128, take_nothing),
    "flood": Part("flood", _QUEUE, 96, flood, beside=False),
}
