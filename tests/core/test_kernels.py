"""Table and circulant kernels, rounding to integers and the exact delta, on rows of every awkward kind."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels import CirculantKernel, TableKernel
from arcwise.kernels.approximate import certify_approximate, exact_delta
from arcwise.kernels.certificate import UNIT, certify
from arcwise.kernels.rounding import fill_row, integer_row, integer_rows, nearest_rows
from arcwise.mechanisms import DesignedCircular, DesignedTable, OptimalPiecewise
from tests.core.brute_force import largest_delta
from tests.support.strategies import epsilons

HALF = UNIT // 2


@st.composite
def rows(draw: st.DrawFn, codes: int | None = None) -> list[int]:
    """Return rows with weights of every size: zeros, single units, nearly everything."""
    k = draw(st.integers(2, 40)) if codes is None else codes
    sizes = st.sampled_from([0, 1, 2, 2**20, 2**40, 2**57]) | st.integers(0, 2**58)
    weights = draw(st.lists(sizes, min_size=k, max_size=k))
    weights[draw(st.integers(0, k - 1))] += UNIT - sum(weights)
    if UNIT in weights:  # a certain code is not a row
        giver = weights.index(UNIT)
        weights[giver], weights[giver - 1] = UNIT - 1, 1
    return weights


@st.composite
def tables(draw: st.DrawFn) -> TableKernel:
    """Return tables in which every code has weight in some row."""
    k = draw(st.integers(2, 12))
    table = draw(st.lists(rows(k), min_size=2, max_size=5))
    for code in range(k):
        if not any(row[code] for row in table):
            giver = max(range(k), key=table[0].__getitem__)
            table[0][giver] -= 1
            table[0][code] += 1
    return TableKernel(tuple(map(tuple, table)))


def edges(row: list[int]) -> tuple[list[int], list[int]]:
    """Return the first and the last draw of every code with weight, and the codes."""
    draws, codes = [], []
    for code, (end, weight) in enumerate(zip(accumulate(row), row, strict=True)):
        if weight:
            draws += [end - weight, end - 1]
            codes += [code, code]
    return draws, codes


@given(tables())
def test_a_table_gives_each_code_as_many_draws_as_its_weight(kernel: TableKernel) -> None:
    for node in range(kernel.nodes):
        draws, codes = edges(kernel.row(node))
        assert [kernel.sample(node, u) for u in draws] == codes
        many = kernel.sample_many(np.full(len(draws), node, np.uint16), np.array(draws, np.uint64))
        assert many.tolist() == codes


@given(rows())
def test_a_turned_row_gives_each_code_as_many_draws_as_its_weight(row: list[int]) -> None:
    kernel = CirculantKernel(tuple(row)) if len(set(row)) > 1 else CirculantKernel((1, UNIT - 1))
    draws, codes = edges(list(kernel.weights))
    for node in (0, 1, kernel.nodes - 1, kernel.nodes):
        turned = [(code + node) % kernel.codes for code in codes]
        assert [kernel.sample(node, u) for u in draws] == turned
        many = kernel.sample_many(np.full(len(draws), node, np.uint32), np.array(draws, np.uint64))
        assert many.tolist() == turned
    for node in range(kernel.nodes):
        assert kernel.row(node) == [kernel.weights[(j - node) % kernel.codes] for j in range(kernel.codes)]


@given(tables(), st.data())
def test_both_samplers_of_a_table_agree_on_any_draw(kernel: TableKernel, data: st.DataObject) -> None:
    u = data.draw(st.lists(st.integers(0, UNIT - 1) | st.integers(0, 9), min_size=1, max_size=30))
    nodes = data.draw(st.lists(st.integers(0, kernel.nodes - 1), min_size=len(u), max_size=len(u)))
    for dtype in (np.uint16, np.uint32, np.int64):
        many = kernel.sample_many(np.array(nodes, dtype), np.array(u, np.uint64))
        assert many.tolist() == [kernel.sample(s, draw) for s, draw in zip(nodes, u, strict=True)]


def test_a_thousand_codes_in_one_cell_of_the_guide() -> None:
    """Tiny weights crowd into one cell of the guide table, and the binary search distinguishes them."""
    row = [3] * 1000 + [UNIT - 3000]
    kernel = TableKernel((tuple(row), tuple(reversed(row))))
    for node in (0, 1):
        draws, codes = edges(kernel.row(node))
        many = kernel.sample_many(np.full(len(draws), node, np.uint16), np.array(draws, np.uint64))
        assert many.tolist() == codes
        assert many.dtype == np.uint16


def test_probabilities_are_rounded_once() -> None:
    kernel = TableKernel(((1, UNIT - 1), (HALF, HALF)))
    assert kernel.matrix().tolist() == [[1 / UNIT, (UNIT - 1) / UNIT], [0.5, 0.5]]
    assert kernel.probabilities([1, 0, 1]).shape == (3, 2)
    ring = CirculantKernel((HALF, HALF // 2, HALF // 2))
    assert ring.matrix().tolist() == [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (((HALF, HALF),), "rows must be 2 to 65536 rows"),
        ("rows", "rows must be 2 to 65536 rows"),
        (((HALF, HALF), (HALF, HALF - 1)), r"rows\[1\] must sum to 2\*\*64"),
        (((HALF, HALF), (UNIT, 0)), r"rows\[1\] must hold integers from 0 to 2\*\*64 - 1, got .* for code 0"),
        (((HALF, HALF), (UNIT,)), r"rows\[1\] must hold 2 to 65536 weights"),
        (((HALF, HALF), (HALF, HALF, 0)), "the same number of codes"),
        (
            ((HALF, HALF), (UNIT + 1, -1)),
            r"rows\[1\] must hold integers from 0 to 2\*\*64 - 1, got .* for code 0",
        ),
        (((HALF, HALF), (float(HALF), HALF)), "must hold integers"),
        (((HALF, HALF), (True, UNIT - 1)), "must hold integers .*, got True for code 0"),
        (((HALF, HALF, 0), (HALF, HALF, 0)), "code 2 has weight 0 in every row"),
    ],
)
def test_rows_that_are_none_are_refused(bad: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        TableKernel(bad)


@pytest.mark.parametrize(
    ("bad", "message"),
    [((HALF, HALF), "must not all be equal"), ((UNIT,), "2 to 65536"), ((1, 2), r"must sum to 2\*\*64")],
)
def test_turned_rows_that_are_none_are_refused(bad: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        CirculantKernel(bad)


# --- rounding ----------------------------------------------------------------------------------------


@given(epsilons, st.integers(2, 8), st.integers(2, 12), st.integers(0, 10**6))
def test_rounded_rows_keep_epsilon_exactly_and_move_nothing(
    epsilon: float, nodes: int, codes: int, seed: int
) -> None:
    """Any floats within e^epsilon, up to their own rounding, become integers within e^epsilon.

    Every row has the same levels in a different order, so the sums agree, and the levels reach the bound
    itself. The floats' e^epsilon is wrong by up to epsilon times 2**-53, and the integers move by that.
    """
    generator = np.random.default_rng(seed)
    levels = np.exp(epsilon * generator.random(codes))
    levels[0], levels[-1] = 1.0, math.exp(epsilon)
    levels[1:-1][generator.random(codes - 2) < 0.5] = math.exp(epsilon)  # many at the bound
    probabilities = np.array([generator.permutation(levels) for _ in range(nodes)]) / levels.sum()
    kernel = TableKernel(integer_rows(probabilities, epsilon))
    assert certify(kernel.ratio(), epsilon).delta == 0
    assert np.abs(kernel.matrix() - probabilities).max() < 1e-14


@given(epsilons, st.integers(2, 50), st.integers(0, 10**6))
def test_a_rounded_turned_row_keeps_epsilon_exactly(epsilon: float, codes: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    weights = np.exp(epsilon * generator.random(codes))
    weights[0], weights[-1] = 1.0, math.exp(epsilon)
    kernel = CirculantKernel(integer_row(weights / weights.sum(), epsilon))
    certificate = certify(kernel.ratio(), epsilon)
    assert certificate.spent_epsilon == pytest.approx(epsilon, rel=1e-9)
    assert np.abs(kernel.matrix()[0] - weights / weights.sum()).max() < 1e-14


def test_probabilities_beyond_epsilon_cannot_be_rounded() -> None:
    with pytest.raises(
        ParameterError, match=r"ratios within e\^epsilon: the bounds .* leave a row 0\.\d+ away"
    ):
        integer_rows([[0.9, 0.1], [0.1, 0.9]], 1.0)
    bads: list[Any] = [[[0.5, 0.6]], [[1.5, -0.5]], [[math.nan, 1.0]], [0.5, 0.5], [[]]]
    for bad in bads:
        with pytest.raises(ParameterError, match="probabilities must"):
            integer_rows(bad, 1.0)


@given(st.integers(2, 40), st.integers(0, 10**6))
def test_nearest_rows_keep_zeros_and_sums(codes: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    weights = generator.random((3, codes)) ** 20
    weights[generator.random((3, codes)) < 0.3] = 0.0
    weights[:, 0] += 1e-3
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    for row, wanted in zip(nearest_rows(probabilities), probabilities.tolist(), strict=True):
        assert sum(row) == UNIT
        for weight, probability in zip(row, wanted, strict=True):
            assert (weight > 0) == (probability > 0)
            assert abs(weight / UNIT - probability) < 1e-15


def test_what_a_row_lacks_goes_where_there_is_room() -> None:
    assert fill_row([0, 5], [0, 0], [UNIT, 10]) == [UNIT - 10, 10]
    assert fill_row([UNIT, 5], [7, 0], [UNIT, 10]) == [UNIT - 5, 5]
    assert fill_row([0, 99], [0, 0], [UNIT, 10]) == [UNIT - 10, 10]
    with pytest.raises(ParameterError, match="leave a row"):
        fill_row([1, 1], [0, 0], [UNIT // 4, UNIT // 4])


# --- delta -------------------------------------------------------------------------------------------


@given(tables(), st.just(0.0) | epsilons)
def test_delta_is_that_of_all_pairs_of_rows(kernel: TableKernel, epsilon: float) -> None:
    assert exact_delta(kernel, epsilon) == largest_delta(kernel, epsilon)
    certificate = certify_approximate(kernel, epsilon)
    assert (certificate.epsilon, certificate.ratio) == (epsilon, kernel.ratio())


@pytest.mark.slow
@given(rows(), st.just(0.0) | epsilons)
def test_delta_of_a_turned_row_is_that_of_all_pairs(row: list[int], epsilon: float) -> None:
    if len(set(row)) > 1:
        kernel = CirculantKernel(tuple(row))
        assert exact_delta(kernel, epsilon) == largest_delta(kernel, epsilon)


def test_delta_of_rows_without_a_common_code_is_one() -> None:
    kernel = TableKernel(((HALF, HALF, 0, 0), (0, 0, HALF, HALF)))
    assert kernel.ratio() is None
    certificate = certify_approximate(kernel, 5.0)
    assert certificate.delta == UNIT
    assert certificate.spent_epsilon == math.inf
    assert str(certificate) == (
        f"epsilon = 5, delta = 1: exactly {UNIT} / 2**64, rounded up (checked in rational arithmetic)"
    )
    with pytest.raises(CertificateError, match="some weight of the kernel is 0"):
        certify(kernel.ratio(), 5.0)


def test_delta_is_rounded_up() -> None:
    kernel = TableKernel(((HALF + 1, HALF - 1), (HALF, HALF)))
    assert exact_delta(kernel, 0.0) == 1
    assert exact_delta(kernel, 1e-19) == 1  # a little less than one unit
    assert exact_delta(kernel, 0.1) == 0


def test_delta_of_very_many_pairs_of_rows_is_refused_at_once() -> None:
    """Every row in a task may differ by one unit; comparing all pairs would take hours."""
    rows = tuple((HALF + s, HALF - s) for s in range(60_000))
    message = (
        r"nodes and codes must be fewer for an exact delta: .* must be at most 134,217,728, "
        r"got 3,600,000,000 pairs of 60,000 nodes, and 2 codes"
    )
    with pytest.raises(CertificateError, match=message):
        exact_delta(TableKernel(rows), 1.0)
    assert exact_delta(TableKernel(rows[:1000]), 0.0) == 999


def test_output_values_beyond_a_float_are_refused_and_far_ones_have_an_infinite_variance() -> None:
    rows = [[HALF, HALF], [HALF, HALF]]
    with pytest.raises(ParameterError, match="units must be 2 finite numbers"):
        DesignedTable(Interval(0, 1), 1.0, rows, [10**400, 0])
    assert DesignedTable(Interval(0, 1), 1.0, rows, [1e308, -1e308]).variance(0.5) == math.inf
    assert math.inf in OptimalPiecewise(Interval(0, 1e308), 1.0).values


@pytest.mark.parametrize("bad", [None, 5, [None], "x", [["x", "y"]]])
def test_designs_of_no_rows_are_refused(bad: Any) -> None:
    with pytest.raises(ParameterError, match=r"rows(\[0\])? must (be|hold)"):
        DesignedTable(Interval(0, 1), 1.0, bad, (0.0, 1.0))
    with pytest.raises(ParameterError, match=r"weights must (be|hold)"):
        DesignedCircular(Circle(1), 1.0, bad)
    with pytest.raises(ParameterError, match=r"(rows|units) must be"):
        DesignedTable(Interval(0, 1), 1.0, [[HALF, HALF], [HALF, HALF]], bad)
