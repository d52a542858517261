"""Every store against a model of a few lines, over arbitrary histories."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcwise.domains import Interval
from arcwise.server.store import Outcome, Store
from arcwise.tasks import Task
from tests.support.store_samples import CLOSED, COUNTED, REPLAYED, batch

CODES = st.lists(st.integers(0, 203), min_size=1, max_size=4)
BATCHES = st.tuples(
    st.integers(0, 7), st.integers(0, 4), st.lists(st.integers(0, 203), min_size=1, max_size=4)
)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(BATCHES, max_size=8)),
    st.tuples(st.just("prune"), st.integers(0, 6)),
    st.tuples(st.sampled_from(["close", "open", "reopen", "vacuum"]), st.none()),
)
NAMES = itertools.count()


class Model:
    """What a store must do, with a dict and no durability."""

    def __init__(self) -> None:
        self.ids: dict[int, int] = {}
        self.counts: dict[int, list[int]] = {}
        self.open_from = 0
        self.closed = False

    def add(self, number: int, epoch: int, codes: list[int]) -> Outcome:
        if self.closed or epoch < self.open_from:
            return CLOSED
        if number in self.ids:
            return REPLAYED
        self.ids[number] = epoch
        self.counts.setdefault(epoch, []).extend(codes)
        return COUNTED

    def prune(self, before: int) -> int:
        if not self.counts:
            return 0
        before = min(before, max(self.counts) - 1)  # an epoch lasts a day
        self.open_from = max(self.open_from, before)
        gone = [number for number, epoch in self.ids.items() if epoch < before]
        for number in gone:
            del self.ids[number]
        return len(gone)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(STEPS, max_size=12))
def test_any_history_gives_the_counts_of_the_model(
    opener: Callable[[], Store], steps: list[tuple[str, object]]
) -> None:
    task = Task(f"history {next(NAMES)}", Interval(0, 1), 1.0)  # its own, in one store for all histories
    model = Model()
    store = opener()
    store.register([task])
    for name, value in steps:
        if name == "add":
            assert isinstance(value, list)
            added = store.add([batch(task, codes, number=n, epoch=epoch) for n, epoch, codes in value])
            assert added == [model.add(*each) for each in value]
        elif name == "prune":
            assert isinstance(value, int)
            assert store.prune(task, before=value) == model.prune(value)
        elif name == "close":
            assert store.close_task(task.id, 1) == (not model.closed)
            model.closed = True
        elif name == "open":
            assert store.open_task(task.id) == model.closed
            model.closed = False
        elif name == "vacuum":
            store.vacuum()
        else:
            store.close()
            store = opener()
    found = {epoch: counts.tolist() for epoch, counts in store.counts_by_epoch(task).items()}
    assert found == {e: np.bincount(codes, minlength=204).tolist() for e, codes in model.counts.items()}
    assert store.report_count(task) == sum(map(len, model.counts.values()))
    state = next(each for each in store.tasks() if each.task.id == task.id)
    assert (state.open_from, state.closed is not None) == (model.open_from, model.closed)
    assert store.check() == []
    store.close()
