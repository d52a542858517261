"""Every store compared with a model of a few lines, over arbitrary histories."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.server.store import Outcome, Store, open_store
from arcwise.tasks import Task
from arcwise.typing import IntArray
from tests.support.store_samples import CLOSED, COUNTED, REPLAYED, batch

CODES = st.lists(st.integers(0, 203), min_size=1, max_size=4)
BATCHES = st.tuples(st.integers(0, 7), st.integers(0, 4), CODES)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(BATCHES, max_size=8)),
    st.tuples(st.just("prune"), st.integers(0, 6)),
    st.tuples(st.just("replace"), st.tuples(st.sampled_from(["lake", "sea"]), st.lists(BATCHES, max_size=5))),
    st.tuples(st.just("drop"), st.sampled_from(["lake", "sea"])),
    st.tuples(st.sampled_from(["close", "open", "reopen", "vacuum"]), st.none()),
)
NAMES = itertools.count()


Given = tuple[int, int, list[int]]


class Model:
    """The required behaviour of a store, with dicts and without durability."""

    def __init__(self) -> None:
        self.ids: dict[int, tuple[int, str]] = {}
        self.counts: dict[str, dict[int, list[int]]] = {}
        self.open_from = 0
        self.closed = False

    def add(self, number: int, epoch: int, codes: list[int]) -> Outcome:
        if not self.is_open(epoch):
            return CLOSED
        if number in self.ids:
            return REPLAYED
        self.ids[number] = epoch, ""
        self.counts.setdefault("", {}).setdefault(epoch, []).extend(codes)
        return COUNTED

    def is_open(self, epoch: int) -> bool:
        return not self.closed and epoch >= self.open_from

    def by_epoch(self) -> dict[int, list[int]]:
        total: dict[int, list[int]] = {}
        for counts in self.counts.values():
            for epoch, codes in counts.items():
                total.setdefault(epoch, []).extend(codes)
        return total

    def replace(self, name: str, given: list[Given]) -> tuple[set[int], set[int]] | None:
        """Return the changed epochs, and the closed ones that would have changed; None if refused."""
        new: dict[int, list[int]] = {}
        for _, epoch, codes in given:
            new.setdefault(epoch, []).extend(codes)
        taken = {number: epoch for number, epoch, _ in given if self.is_open(epoch)}
        for old in {epoch for epoch, holder in self.ids.values() if holder == name and self.is_open(epoch)}:
            mine = {number for number, held in self.ids.items() if held == (old, name)}
            if old not in new and mine <= taken.keys():
                new[old] = []
        kept = {
            number: (epoch, holder)
            for number, (epoch, holder) in self.ids.items()
            if holder != name or epoch not in new or not self.is_open(epoch)
        }
        if len({number for number, *_ in given}) < len(given) or taken.keys() & kept:
            return None
        held = self.counts.setdefault(name, {})
        differ = {epoch for epoch in new if sorted(new[epoch]) != sorted(held.get(epoch, []))}
        changed = {epoch for epoch in differ if self.is_open(epoch)}
        held = held | {epoch: new[epoch] for epoch in changed}
        self.counts[name] = {epoch: codes for epoch, codes in held.items() if codes}
        self.ids = kept | {number: (epoch, name) for number, epoch in taken.items()}
        return changed, differ - changed

    def drop(self, name: str) -> int | None:
        """Return the number of dropped reports; None if there is no such source."""
        if name not in self.counts:
            return None
        self.ids = {number: held for number, held in self.ids.items() if held[1] != name}
        return sum(map(len, self.counts.pop(name).values()))

    def prune(self, before: int) -> int:
        if not self.by_epoch():
            return 0
        before = min(before, max(self.by_epoch()) - 1)  # an epoch lasts a day
        self.open_from = max(self.open_from, before)
        gone = [number for number, (epoch, _) in self.ids.items() if epoch < before]
        for number in gone:
            del self.ids[number]
        return len(gone)


def replace(store: Store, task: Task, name: str, given: list[Given]) -> tuple[set[int], set[int]] | None:
    key, counts = bytes.fromhex(task.id), dict[tuple[bytes, int], IntArray]()
    for _, epoch, codes in given:
        counts[key, epoch] = counts.get((key, epoch), 0) + np.bincount(codes, minlength=204)
    ids = [(key, epoch, number.to_bytes(16, "big")) for number, epoch, _ in given]
    try:
        report = store.replace_source(name, counts, ids)
    except ParameterError as error:
        assert "Nothing was changed" in str(error)  # noqa: PT017 (what is refused is the model's affair)
        return None
    return {change.epoch for change in report.changed}, {change.epoch for change in report.closed}


def drop(store: Store, name: str) -> int | None:
    try:
        return store.drop_source(name, closed_too=True)
    except ParameterError:
        return None


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(STEPS, max_size=12))
def test_any_history_gives_the_counts_of_the_model(url: str, steps: list[tuple[str, object]]) -> None:
    task = Task(f"history {next(NAMES)}", Interval(0, 1), 1.0)  # its own, in one store for all histories
    model = Model()
    store = open_store(url)
    store.register([task])
    for source in store.sources():  # of the previous history
        store.drop_source(source.name, closed_too=True)
    for name, value in steps:
        if name == "add":
            assert isinstance(value, list)
            added = store.add([batch(task, codes, number=n, epoch=epoch) for n, epoch, codes in value])
            assert added == [model.add(*each) for each in value]
        elif name == "prune":
            assert isinstance(value, int)
            assert store.prune(task, before=value) == model.prune(value)
        elif name == "replace":
            assert isinstance(value, tuple)
            assert replace(store, task, *value) == model.replace(*value)
        elif name == "drop":
            assert isinstance(value, str)
            assert drop(store, value) == model.drop(value)
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
            store = open_store(url)
    found = {epoch: counts.tolist() for epoch, counts in store.counts_by_epoch(task).items()}
    assert found == {e: np.bincount(codes, minlength=204).tolist() for e, codes in model.by_epoch().items()}
    assert store.report_count(task) == sum(map(len, model.by_epoch().values()))
    assert {source.name for source in store.sources()} == model.counts.keys() - {""}
    state = next(each for each in store.tasks() if each.task.id == task.id)
    assert (state.open_from, state.closed is not None) == (model.open_from, model.closed)
    assert store.check() == []
    store.close()
