"""Worst cases over all inputs compared with dense sampling, and programs compared with plain ones."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from arcwise.analysis.design import program
from arcwise.analysis.design.integers import exact_bias, integer_table, symmetric_row
from arcwise.analysis.design.program import Goal
from arcwise.analysis.design.worst import (
    mixture_maximum,
    mixture_peaks,
    row_curves,
    row_pieces,
    variance_peaks,
)
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT, exp_lower_bound
from tests.design.test_design_bound import brute_force
from tests.support.known import there

seeds = st.integers(0, 2**32 - 1)
DENSE = 4001


def sampled(rows: NDArray[Any], outputs: NDArray[Any], power: float) -> NDArray[Any]:
    """Return the expected loss at many inputs between each two nodes, shape (N-1, DENSE)."""
    n = len(rows)
    f = np.linspace(0, 1, DENSE)
    losses = []
    for s in range(n - 1):
        x = -1 + (s + f) * 2 / (n - 1)
        law = (1 - f)[:, None] * rows[s] + f[:, None] * rows[s + 1]
        losses.append((law * np.abs(outputs - x[:, None]) ** power).sum(axis=1))
    return np.array(losses)


@settings(max_examples=40)
@given(seeds, st.integers(2, 9), st.integers(2, 9), st.sampled_from([1.0, 1.3, 2.0, 4.0]))
def test_largest_loss_of_any_rows(seed: int, nodes: int, codes: int, power: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(codes, 0.5), nodes)
    outputs = np.sort(rng.uniform(-1.2, 1.2, codes))
    dense = sampled(rows, outputs, power)
    curves, pieces = row_curves(rows, outputs, power), row_pieces(nodes, outputs, power, nodes - 1)
    largest = mixture_maximum(curves, *pieces)
    assert dense.max() <= largest * (1 + 1e-12)
    assert largest == pytest.approx(dense.max(), rel=1e-3)
    peaks = mixture_peaks(curves, *pieces)
    assert peaks.value.shape == (nodes - 1,)
    assert peaks.value.max() <= largest * (1 + 1e-12)
    assert peaks.value == pytest.approx(dense.max(axis=1), rel=0.05)
    if power == 1.0:  # parabolas: the peaks are exact
        assert (peaks.value >= dense.max(axis=1) * (1 - 1e-12)).all()
        assert peaks.value.max() == pytest.approx(largest, rel=1e-9)


@settings(max_examples=40)
@given(seeds, st.integers(2, 9))
def test_largest_variance_of_unbiased_rows(seed: int, nodes: int) -> None:
    """Three outputs -A, 0, A with the right means and any second moments."""
    rng = np.random.default_rng(seed)
    x = np.linspace(-1, 1, nodes)
    size = 1.5 + rng.exponential()
    second = rng.uniform(np.abs(x) / size, 1)  # P(-A) + P(A), at least |x| / A
    rows = np.stack([(second - x / size) / 2, 1 - second, (second + x / size) / 2], axis=1)
    outputs = np.array([-size, 0, size])
    dense = sampled(rows, outputs, 2.0)
    peaks = variance_peaks(rows @ outputs**2)
    assert (peaks.value >= dense.max(axis=1) * (1 - 1e-12)).all()
    assert peaks.value == pytest.approx(dense.max(axis=1), rel=1e-6)
    f = np.linspace(0, 1, DENSE)
    at = [np.interp(fraction, f, row) for fraction, row in zip(peaks.fraction, dense, strict=True)]
    assert np.array(at) == pytest.approx(peaks.value, rel=1e-6)


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize(("nodes", "codes"), [(5, 6), (5, 7), (4, 6), (4, 5)])
def test_the_symmetric_program_is_the_whole_one(nodes: int, codes: int, unbiased: bool) -> None:
    """With cuts at the nodes only, symmetry halves the program and does not change its result."""
    goal = Goal(1.2, nodes, 2.0 if unbiased else 1.0, unbiased)
    outputs = np.linspace(-1, 1, codes) * goal.reach * (1.1 if unbiased else 1.0)
    count = (nodes + 1) // 2
    pair = np.minimum(np.arange(count), nodes - 2)
    at_nodes = program.Cuts(pair, (np.arange(count) - pair).astype(float))
    builder = program._Builder(goal, outputs)
    bounds = np.tile([0.0, np.inf], (builder.first_move, 1))
    found = program._run(builder.program(at_nodes, None), bounds).fun * builder.scale
    assert found == pytest.approx(brute_force(1.2, nodes, outputs, unbiased=unbiased), rel=1e-8)


@pytest.mark.parametrize(("power", "unbiased"), [(2.0, True), (1.0, False), (2.0, False)])
@pytest.mark.parametrize(("nodes", "codes"), [(9, 8), (8, 7)])
def test_solved_tables_are_what_they_say(nodes: int, codes: int, power: float, unbiased: bool) -> None:
    goal = Goal(1.0, nodes, power, unbiased)
    outputs = np.linspace(-1, 1, codes) * goal.reach * (1.2 if unbiased else 0.95)
    table = there(program.solve(goal, outputs))
    assert table.rows.sum(axis=1) == pytest.approx(np.ones(nodes), abs=1e-9)
    assert table.rows == pytest.approx(table.rows[::-1, ::-1], abs=1e-12)
    assert (table.rows.max(axis=0) <= table.top * (1 + 1e-9) + 1e-12).all()
    assert (table.rows.min(axis=0) >= table.top * np.exp(-1.0) * (1 - 1e-9) - 1e-12).all()
    if unbiased:
        assert table.rows @ outputs == pytest.approx(goal.positions, abs=1e-8)
    assert table.worst == pytest.approx(sampled(table.rows, outputs, power).max(), rel=1e-5)
    # A small step changes the value as predicted, to first order.
    step = 1e-5
    limits = np.tile([-step, step], (codes, 1))
    if codes % 2:
        limits[codes // 2] = 0.0
    proposal = there(program.move(goal, table, limits))
    moved, predicted = proposal
    assert np.abs(moved - outputs).max() <= step * (1 + 1e-9)
    assert moved == pytest.approx(-moved[::-1], abs=0)
    again = there(program.solve(goal, moved))
    assert again.worst - table.worst == pytest.approx(predicted - table.worst, abs=1e-3 * step)


def test_outputs_too_near_have_no_unbiased_table() -> None:
    goal = Goal(1.0, 5, 2.0, True)
    assert program.solve(goal, goal.reach * np.array([-0.99, 0.0, 0.99])) is None
    assert program.solve(goal, goal.reach * np.array([-1.0, 0.0, 1.0]) * (1 + 1e-9)) is not None


@settings(max_examples=30)
@given(st.floats(0.05, 8.0), st.sampled_from([1e-9, 1e-7]))
def test_integer_tables_keep_epsilon_and_means(epsilon: float, margin: float) -> None:
    goal = Goal(epsilon * (1 - margin), 5, 2.0, True)
    outputs = np.round(np.array([-1.3, -1.0, -0.4, 0.4, 1.0, 1.3]) * goal.reach * 2**20) / 2**20
    table = there(program.solve(goal, outputs))
    units = (0.5 + 0.5 * outputs).tolist()
    rows = there(integer_table(table.rows, table.top, units, epsilon, margin=margin, unbiased=True))
    assert all(sum(row) == UNIT for row in rows)
    limit = exp_lower_bound(epsilon)
    for column in zip(*rows, strict=True):
        assert max(column) <= min(column) * limit
    assert exact_bias(rows, units) < 1e-17 * max(1.0, goal.reach)
    errors = np.array([[weight / UNIT for weight in row] for row in rows]) - table.rows
    assert np.abs(errors).max() < 1e-6


def test_integer_tables_say_when_there_is_no_room() -> None:
    rows = np.array([[0.7, 0.3], [0.5, 0.5], [0.3, 0.7]])
    units = [0.0, 1.0]
    assert integer_table(rows, rows.max(axis=0), units, 1.0, margin=1e-9, unbiased=True) is None
    with pytest.raises(ParameterError, match="bounds of the codes leave a row"):
        integer_table(rows, rows.max(axis=0) * 0.9, units, 0.1, margin=1e-9, unbiased=False)


def test_bias_is_computed_without_rounding() -> None:
    half = UNIT // 2
    rows = ((UNIT - 1, 1), (half, half), (1, UNIT - 1))
    assert exact_bias(rows, (0.0, 1.0)) == 2.0**-64
    assert exact_bias(rows, (0.0, 1.0 + 2.0**-50)) == pytest.approx(2.0**-50, rel=1e-4)


@given(st.lists(st.integers(1, 2**40), min_size=3, max_size=12))
def test_symmetric_rows_keep_the_sum(weights: list[int]) -> None:
    row = symmetric_row(weights)
    assert sum(row) == sum(weights)
    assert all(abs(a - b) <= 1 for a, b in zip(row[1:], row[:0:-1], strict=True))
    assert min(weights) <= min(row) <= max(row) <= max(weights)
