"""Senders of what is nearly right, and of far too much."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

from arcwise.wire import Batch, encode_batch
from tests.soak.hostile.bodies import Sample, batch_in, bodies, fresh
from tests.soak.hostile.book import PATIENCE, Answer, Wire, exchange
from tests.soak.hostile.requests import requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.soak.hostile.attack import Attack

__all__ = ["flood", "send_bodies", "send_requests"]


async def send_bodies(attack: Attack, scale: float) -> None:
    """Send bodies that are nearly batches: those that are batches are counted, whatever made them."""
    samples = itertools.islice(bodies(attack.generator, attack.tasks), int(1e5 * scale))
    await attack.many(16, lambda: _send_all(attack, samples))


async def _send_all(attack: Attack, samples: Iterator[Sample]) -> None:
    wire = Wire(attack.url)
    for task, body in samples:
        batch = batch_in(task, body)
        if batch is not None:
            attack.book.sent(batch)
        answer = await wire.post(task.id, body)
        _judge(attack, answer, body, is_batch=batch is not None)
        if batch is None:
            continue
        attack.book.answered(batch, answer.status)
        if attack.generator.random() < 0.1:  # again, with other codes under its id
            other = Batch(batch.task_id, batch.batch_id, batch.epoch, batch.codes * 2)
            answer = await wire.post(task.id, encode_batch(other))
            _judge(attack, answer, body, is_batch=True)
    await wire.close()


def _judge(attack: Attack, answer: Answer, body: bytes, *, is_batch: bool) -> None:
    allowed = {204} if is_batch else {400, 410, 413, 422}
    attack.note(
        f"a body that is {'a' if is_batch else 'no'} batch, {body[:99].hex()}", [answer.status], allowed
    )
    if answer.is_problem == (answer.status == 204):
        attack.violations.append(f"{answer.status}: not as docs/reference/protocol.md has it")


async def send_requests(attack: Attack, scale: float) -> None:
    """Send requests that are nearly HTTP; what is counted was acknowledged, or left without an answer."""
    cases = itertools.islice(requests(attack.generator, attack.tasks[0]), int(2e4 * scale))
    open_ended: list[tuple[set[bytes], int, int]] = []

    async def work() -> None:
        for case in cases:
            for batch in case.batches:
                attack.book.sent(batch)
            statuses = await exchange(
                attack.url,
                case.parts,
                end=case.end,
                expected=max(len(case.batches), 1),
                seconds=PATIENCE if case.must else 5.0,
            )
            answers = Counter(statuses)
            what = f"{case.kind}, {b''.join(case.parts)[99:300]!r}"
            attack.note(what, statuses or [0], {0, 200, 204, 400, 404, 405, 408, 410, 413, 414, 415, 422})
            if case.must and answers[204] != len(case.batches):
                attack.violations.append(f"{what}: answered {statuses}")
            if answers[204] == len(case.batches):
                for batch in case.batches:
                    attack.book.answered(batch, 204)
            elif answers[204] > len(case.batches):
                attack.violations.append(f"{what}: answered 204")
            else:
                names = {batch.batch_id for batch in case.batches}
                open_ended.append((names, answers[204], len(case.batches) - len(statuses)))

    await attack.many(200, work)
    await asyncio.sleep(0.2)
    stored = attack.book.stored()
    for names, counted, unanswered in open_ended:
        if not counted <= len(names & stored) <= counted + max(unanswered, 0):
            attack.violations.append(f"{counted} batches acknowledged, {len(names & stored)} stored")


async def flood(attack: Attack, scale: float) -> None:
    """Send ten times what the store takes, because somebody holds its lock nearly all the time.

    It lasts as long as the scale says, on a busy machine until it is one, and at most a minute longer.
    """
    stop = threading.Event()
    locker = threading.Thread(target=_hold_the_lock, args=(attack.book.path, stop))
    locker.start()
    until = time.monotonic() + 2 + 28 * scale
    sent = taken = 0

    def is_one() -> bool:
        return sent >= 10 * taken > 0

    async def work() -> None:
        nonlocal sent, taken
        wire = Wire(attack.url)
        while time.monotonic() < until or (not is_one() and time.monotonic() < until + 60):
            batch = fresh(attack.generator, attack.tasks[0], 3)
            batch = Batch(batch.task_id, batch.batch_id, batch.epoch, batch.codes * 7000)
            attack.book.sent(batch)
            answer = await wire.post(batch.task_id.hex(), encode_batch(batch))
            attack.book.answered(batch, answer.status)
            attack.note("a flood", [answer.status], {204, 503})
            sent += 1
            taken += answer.status == 204
        await wire.close()

    try:
        await attack.many(64, work)
    finally:
        stop.set()
        locker.join()
    if not is_one():
        attack.violations.append(f"no flood: {sent} batches sent, {taken} taken")


def _hold_the_lock(path: object, stop: threading.Event) -> None:
    with closing(sqlite3.connect(str(path), timeout=30, isolation_level=None)) as connection:
        while not stop.wait(0.02):
            connection.execute("BEGIN IMMEDIATE")
            stop.wait(1.0)
            connection.execute("ROLLBACK")
