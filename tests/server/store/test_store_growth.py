"""How much a sender can make a store grow: a number of bytes per request and per code in it."""

import random

import pytest

from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise, RandomizedResponse
from arcwise.tasks import Task
from arcwise.wire import Batch, pack_codes
from tests.support.store_samples import COUNTED
from tests.support.stores import Opener

UNIT = Interval(0, 1)
WIDEST = Task("widest", UNIT, 1.0, epoch_seconds=60, mechanism=OptimalPiecewise(UNIT, 1.0, nodes=32_768))
SMALL = Task("small", UNIT, 1.0, epoch_seconds=60)
HALF = Task("half", UNIT, 1.0, epoch_seconds=60, mechanism=RandomizedResponse(UNIT, 1.0, nodes=600))
"""A row with 203 different codes takes a little more than half a page of SQLite, and so a whole page."""

# docs/howto/run-a-server.md states them: per request and per code in it, besides the fixed size.
BYTES = {"sqlite": (130, 21), "postgresql": (300, 200)}
FIXED = 100_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "requests", "codes"),
    [
        (WIDEST, 3000, 1),
        (SMALL, 3000, 1),
        (WIDEST, 500, 50),
        (SMALL, 200, 200),
        (WIDEST, 3, 30_000),
        (HALF, 2000, 203),
    ],
    ids=str,
)
@pytest.mark.parametrize("apart", [True, False], ids=["an epoch each", "one epoch"])
def test_a_request_makes_a_store_grow_by_a_bounded_number_of_bytes(
    url: str, opener: Opener, task: Task, requests: int, codes: int, apart: bool
) -> None:
    with opener() as store:
        store.register([task])
        before = store.size
    draw = random.Random(1)
    drawn = draw.sample if task is HALF else lambda some, many: draw.choices(some, k=many)
    known, width = task.mechanism.kernel.codes, 1 if task is SMALL else 2
    with opener() as store:
        for start in range(0, requests, 500):
            group = [
                Batch(
                    bytes.fromhex(task.id),
                    draw.randbytes(16),
                    1000 + number * apart,
                    pack_codes(drawn(range(known), codes), width),
                )
                for number in range(start, min(start + 500, requests))
            ]
            assert store.add(group) == [COUNTED] * len(group)
        assert store.check() == []
        assert sum(store.reports_by_epoch(task).values()) == store.counts(task).sum() == requests * codes
    per_request, per_code = BYTES[url.partition(":")[0]]
    with opener() as store:  # SQLite's log is in the file now
        assert store.size - before < FIXED + requests * (per_request + codes * per_code)
