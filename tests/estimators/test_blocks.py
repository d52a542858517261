"""Blocks of epochs: no shown sum and no combination of sums holds fewer reports than the minimum."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.analysis.timeseries.epochs import Span, blocks_of
from arcwise.analysis.timeseries.series import MONDAY
from arcwise.domains import Interval
from arcwise.server.estimates.parts import epochs_needed, parts_of
from arcwise.server.problems import Problem
from arcwise.tasks import Task

TASK = Task("age", Interval(0, 100), 1.0)
LEAST = 10
EPOCHS = st.integers(0, 150)
REPORTS = st.dictionaries(EPOCHS, st.one_of(st.integers(0, LEAST), st.integers(0, 5 * LEAST)), max_size=150)
BOUNDS = st.none() | EPOCHS
DAYS = st.sampled_from([1, 2, 7, 30])
QUESTIONS = st.lists(st.tuples(BOUNDS, BOUNDS, st.integers(0, 40)), min_size=1, max_size=6)


@given(REPORTS, st.integers(1, 70), st.integers(0, 10))
def test_blocks_lie_where_they_lie_and_have_enough(reports: dict[int, int], size: int, anchor: int) -> None:
    blocks = blocks_of(reports, LEAST, size=size, anchor=anchor)
    for block in blocks:
        assert (block.last + 1 - anchor) % size == 0
        assert block.first == max(block.last + 1 - size, 0)
        assert block.n == sum(n for epoch, n in reports.items() if epoch in block) >= LEAST
    assert all(before.last < after.first for before, after in pairwise(blocks))
    shown = {epoch for epoch in reports if any(epoch in block for block in blocks)}
    assert {epoch for epoch, n in reports.items() if n >= LEAST} <= shown


@pytest.mark.slow
@given(REPORTS, REPORTS, QUESTIONS, DAYS)
def test_no_two_answers_of_different_times_give_an_old_epoch_away(
    reports: dict[int, int],
    more: dict[int, int],
    questions: list[tuple[int | None, int | None, int]],
    days: int,
) -> None:
    """Two shown sums differ by no reports or by enough, apart from epochs that changed meanwhile."""
    later = {epoch: reports.get(epoch, 0) + more.get(epoch, 0) for epoch in {*reports, *more}}
    shown = []
    for counts in (reports, later):
        for first, last, every in questions:
            if first is not None and last is not None and last < first:
                continue
            try:
                parts = parts_of(TASK, counts, Span(first, last), every, LEAST, days)
            except Problem:
                continue
            shown += [set(part.epochs) for part in parts]
    blocks = {epoch: (epoch - MONDAY // TASK.epoch_seconds) // days for epoch in later}
    changed = {blocks[epoch] for epoch, n in more.items() if n}
    for one in shown:
        for other in shown:
            apart = {epoch for epoch in one ^ other if blocks[epoch] not in changed}
            difference = sum(reports[epoch] for epoch in apart)
            assert difference == 0 or difference >= LEAST


@given(REPORTS, QUESTIONS, DAYS)
def test_no_combination_of_what_is_shown_holds_fewer_reports(
    reports: dict[int, int], questions: list[tuple[int | None, int | None, int]], days: int
) -> None:
    """Every shown sum is one of the epochs of whole blocks, so combinations weigh whole blocks.

    Sums as vectors over epochs: two epochs of a block have the same weight in each sum, and so in every
    linear combination. Only whole blocks are left in a combination, and a block has at least the minimum.
    """
    sums = [np.zeros(200, np.int64)]
    for first, last, every in questions:
        if first is not None and last is not None and last < first:
            continue
        try:
            parts = parts_of(TASK, reports, Span(first, last), every, LEAST, days)
        except Problem:
            continue
        for part in parts:
            sums.append(np.bincount(part.epochs, minlength=200))
            assert sum(reports[epoch] for epoch in part.epochs) >= LEAST or not part.epochs
        together = [epoch for part in parts for epoch in part.epochs]
        assert len(together) == len(set(together))
    shown = np.array(sums)
    n = np.array([reports.get(epoch, 0) for epoch in range(200)])
    columns, belongs = np.unique(shown, axis=1, return_inverse=True)
    for number, column in enumerate(columns.T):
        if column.any():  # epochs that no sum or difference of sums can separate
            assert n[belongs.ravel() == number].sum() >= LEAST
    for one in shown:
        for other in shown:
            difference = n[(one - other) != 0].sum()
            assert difference == 0 or difference >= LEAST


@given(REPORTS, st.integers(0, 40), BOUNDS, BOUNDS, DAYS, st.sampled_from([0, LEAST]))
def test_the_epochs_that_are_needed_are_enough(
    reports: dict[int, int], every: int, first: int | None, last: int | None, days: int, least: int
) -> None:
    if first is not None and last is not None and last < first:
        return
    span = Span(first, last)
    needed = epochs_needed(TASK, span, days)
    read = {epoch: n for epoch, n in reports.items() if epoch in needed}
    assert parts_of(TASK, read, span, every, least, days) == parts_of(TASK, reports, span, every, least, days)


@given(REPORTS, st.integers(1, 40), DAYS)
def test_every_report_is_in_one_point_or_withheld(reports: dict[int, int], every: int, days: int) -> None:
    parts = parts_of(TASK, reports, None, every, LEAST, days)
    (whole,) = parts_of(TASK, reports, None, 0, LEAST, days)
    assert sorted(epoch for part in parts for epoch in part.epochs) == whole.epochs
    assert sum(part.withheld for part in parts) == whole.withheld
    assert sum(reports[epoch] for epoch in whole.epochs) + whole.withheld == sum(reports.values())
    assert whole.across == []


@given(REPORTS, st.integers(0, 40), BOUNDS, BOUNDS)
def test_without_a_minimum_epochs_stay_as_they_are(
    reports: dict[int, int], every: int, first: int | None, last: int | None
) -> None:
    if first is not None and last is not None and last < first:
        return
    parts = parts_of(TASK, reports, Span(first, last), every, 0)
    for part in parts:
        assert part.epochs == sorted(epoch for epoch, n in reports.items() if n and epoch in part.span)
        assert (part.withheld, part.across) == (0, [])


@pytest.mark.parametrize(
    ("reports", "blocks"),
    [
        ({}, []),
        ({5: 9}, []),
        ({5: 10}, [(4, 7)]),
        ({3: 5, 4: 5, 7: 5}, [(4, 7)]),
        (dict.fromkeys(range(12), 3), [(0, 3), (4, 7), (8, 11)]),
        # An epoch with enough reports stays with a neighbour that has too few, for any third epoch.
        ({0: 1, 2: 15}, [(0, 3)]),
        ({0: 1, 2: 15, 3: 10}, [(0, 3)]),
    ],
)
def test_blocks(reports: dict[int, int], blocks: list[Any]) -> None:
    assert [block[:2] for block in blocks_of(reports, 10, size=4)] == blocks
