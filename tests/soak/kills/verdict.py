"""What a store holds beside what was sent and what was acknowledged."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.server.store import open_store
from arcwise.server.store.export import BatchIds, Header, TaskState
from tests.soak.kills.batches import REPORTS, TASKS
from tests.soak.kills.tally import ACKNOWLEDGED, SENT, Number

if TYPE_CHECKING:
    from arcwise.server.store import Store
    from arcwise.typing import BoolArray
    from tests.soak.kills.batches import Batches
    from tests.soak.kills.tally import Tally

__all__ = ["Verdict", "verdict", "wrong_ids"]

_MOST = 20
"""Sentences of one kind; how many more there are is said."""


class Verdict(NamedTuple):
    """Of a look into a store."""

    wrong: list[str]
    """Sentences; none when all is right."""
    unanswered: int
    """Batches that were sent and not acknowledged."""
    counted: int
    """How many of them are counted."""


def verdict(url: str, batches: Batches, tally: Tally) -> Verdict:
    """Look into a store, which may be in use; its own check is part of it."""
    before = tally.snapshot()  # what was acknowledged by now must be counted
    with closing(open_store(url, create=False)) as store:
        counts = [store.counts_by_epoch(task) for task in TASKS]
        wrong = [f"the store's check: {problem}" for problem in store.check()]
    after = tally.snapshot()  # what is counted must have been sent by now
    times, parts = batches.times(counts)
    wrong += _some(parts)

    def told(which: BoolArray, what: str) -> list[str]:
        numbers = [int(number) for number in np.flatnonzero(which)]
        return _some([f"{batches.name(number)} {what}, counted {times[number]} times" for number in numbers])

    wrong += told((before == ACKNOWLEDGED) & (times == 0), "was acknowledged")
    wrong += told((times > 1) | (times < 0), "was sent under one id")
    wrong += told((times > 0) & (after == 0), "was never sent")
    unanswered = before == SENT
    return Verdict(wrong, int(unanswered.sum()), int((unanswered & (times > 0)).sum()))


def wrong_ids(url: str, batches: Batches, tally: Tally) -> list[str]:
    """Compare the ids in a store with those of all batches, once all of them are acknowledged."""
    made = tally.numbers[Number.MADE]
    expected: dict[tuple[str, int], set[bytes]] = {}
    for number in range(made):
        expected.setdefault(batches.cell(number), set()).add(batches.batch_id(number))
    with closing(open_store(url, create=False)) as store:
        found, reports = _ids(store)
    wrong = [
        f"task {name}, epoch {epoch}: {len(expected.get((name, epoch), ()))} ids were sent, and"
        f" {len(found.get((name, epoch), ()))} are there"
        for name, epoch in sorted(found.keys() | expected.keys())
        if sorted(expected.get((name, epoch), ())) != sorted(found.get((name, epoch), ()))
    ]
    if reports != REPORTS * made:
        wrong.append(f"{REPORTS * made} reports were sent, and {reports} are exported")
    return _some(wrong)


def _ids(store: Store) -> tuple[dict[tuple[str, int], list[bytes]], int]:
    found: dict[tuple[str, int], list[bytes]] = {}
    name, reports = "", 0
    with closing(store.export(ids=True)) as records:
        for record in records:
            if isinstance(record, Header):
                reports = record.reports
            elif isinstance(record, TaskState):
                name = record.task.name
            elif isinstance(record, BatchIds):
                found.setdefault((name, record.epoch), []).extend(record.ids)
    return found, reports


def _some(sentences: list[str]) -> list[str]:
    more = len(sentences) - _MOST
    return sentences if more <= 0 else [*sentences[:_MOST], f"... and {more} more of that kind"]
