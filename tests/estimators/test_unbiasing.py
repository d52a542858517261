"""The mean if reports decode with a bias: numbers per code, their bias and variance, coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.analysis.estimators.mean import mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.unbiasing import mean_numbers
from arcwise.domains import Interval
from arcwise.kernels import TableKernel, WindowKernel
from arcwise.kernels.rounding import integer_rows
from arcwise.mechanisms import DesignedTable, LaplaceMechanism, Mechanism, OptimalPiecewise, SquareWave
from tests.support.known import bounded
from tests.support.strategies import epsilons
from tests.support.surveys import clamped_normal, covered, drawn_counts, node_distribution, surveyed

UNIT = Interval(0.0, 1.0)


def square_wave(epsilon: float, nodes: int = 33) -> DesignedTable:
    """Return a window wider than the optimal one, written out, with raw outputs: its decoding is biased."""
    window = max(1, round(0.7 * nodes))
    kernel = WindowKernel.fit(nodes=nodes, window=window, epsilon=epsilon, circular=False)
    rows = [kernel.row(node) for node in range(nodes)]
    units = (np.arange(kernel.codes) - (window - 1) / 2) / (nodes - 1)
    return DesignedTable(UNIT, epsilon, rows, units.tolist())


def randomised_response(epsilon: float, nodes: int = 9) -> DesignedTable:
    rows = np.full((nodes, nodes), 1.0) + math.expm1(epsilon) * np.eye(nodes)
    rows /= rows.sum(axis=1, keepdims=True)
    return DesignedTable(UNIT, epsilon, integer_rows(rows, epsilon), np.linspace(0, 1, nodes).tolist())


BIASED = [square_wave(1.0), square_wave(4.0), randomised_response(1.0), randomised_response(0.1)]


@pytest.mark.parametrize("mechanism", BIASED, ids=["wave 1", "wave 4", "response 1", "response 0.1"])
def test_numbers_are_unbiased_at_every_node_where_decoding_is_not(mechanism: Mechanism) -> None:
    assert not mechanism.unbiased
    numbers = mean_numbers(mechanism, 10_000.0)
    assert numbers.bias == 0.0
    assert "unbiased numbers per code" in numbers.method
    positions = np.linspace(0, 1, mechanism.kernel.nodes)
    np.testing.assert_allclose(mechanism.kernel.matrix() @ numbers.values, positions, atol=1e-9)


def test_of_all_unbiased_numbers_they_vary_least_in_a_uniform_population() -> None:
    mechanism = square_wave(1.0)
    values = mean_numbers(mechanism, 10_000.0).values
    matrix = mechanism.kernel.matrix()
    population = np.full(33, 1 / 32)
    population[[0, -1]] /= 2
    codes = population @ matrix
    least = codes @ values**2
    # Every other solution differs by a vector that no node sees.
    _, sizes, right = np.linalg.svd(matrix)
    unseen = right[len(sizes) :]
    assert len(unseen) == mechanism.kernel.codes - 33
    for direction in unseen:
        for step in (-1e-2, 1e-2):
            assert codes @ (values + step * direction) ** 2 > least
    affine = (np.arange(mechanism.kernel.codes) - matrix[0] @ np.arange(mechanism.kernel.codes)) / 32
    affine /= matrix[-1] @ affine
    np.testing.assert_allclose(matrix @ affine, np.linspace(0, 1, 33), atol=1e-12)  # unbiased as well
    assert least < codes @ affine**2


@given(epsilon=epsilons, nodes=st.integers(2, 40))
def test_a_wave_is_unbiased_at_any_epsilon(epsilon: float, nodes: int) -> None:
    mechanism = square_wave(epsilon, nodes)
    numbers = mean_numbers(mechanism, 1e6)
    law = mechanism.kernel.matrix() @ numbers.values
    assert np.abs(law - np.linspace(0, 1, nodes)).max() <= max(numbers.bias, 1e-9)


def test_a_window_too_large_to_solve_has_affine_numbers() -> None:
    class Raw(OptimalPiecewise):
        """The optimal window with raw outputs."""

        __slots__ = ()

        @property
        def unbiased(self) -> bool:
            return False

    mechanism = Raw(UNIT, 1.0, nodes=2000)
    numbers = mean_numbers(mechanism, 1e6)
    assert "affine" in numbers.method
    np.testing.assert_allclose(numbers.values, mechanism.code_units(), atol=1e-12)
    assert "least variance" in mean_numbers(Raw(UNIT, 1.0), 1e6).method


@pytest.mark.parametrize("deviation", [0.3, 1.0, 3.7])
@pytest.mark.parametrize("reports", [10.0, 1e4, 1e8])
def test_where_unbiased_numbers_would_be_huge_the_bias_is_bounded(deviation: float, reports: float) -> None:
    mechanism = clamped_normal(deviation)
    numbers = mean_numbers(mechanism, reports)
    law = mechanism.kernel.matrix() @ numbers.values
    gap = np.abs(law - np.linspace(0, 1, 33)).max()
    assert 0 < gap <= numbers.bias
    assert numbers.bias == pytest.approx(gap, rel=1e-3)
    # With more reports, less bias is affordable.
    assert mean_numbers(mechanism, 100 * reports).bias <= numbers.bias


def test_a_bounded_bias_gives_a_range_and_no_point() -> None:
    mechanism = clamped_normal(1.0)
    for values in (np.zeros(10), np.ones(10), np.linspace(0.2, 0.3, 50)):
        estimate = bounded(mean(surveyed(mechanism, values, 100_000, 3)))
        assert estimate.value is None
        assert estimate.contains(float(values.mean()))
        assert 0.0 <= estimate.low < estimate.high <= 1.0
        assert estimate.high - estimate.low < 0.1
        assert "no single mean" in estimate.note
    counts = np.zeros(33)
    counts[4] = 1
    one = mean(Survey(mechanism, counts))
    assert (one.low, one.high) == (0.0, 1.0)
    assert "few reports" in one.note


def test_two_nodes_of_one_law_leave_the_domain() -> None:
    rows = ((2**63, 2**63), (2**63, 2**63))
    mechanism = DesignedTable(UNIT, 1.0, rows, (0.0, 1.0))
    assert isinstance(mechanism.kernel, TableKernel)
    estimate = mean(Survey(mechanism, np.array([500.0, 500.0])))
    assert estimate.value is None
    assert [estimate.low, estimate.high] == pytest.approx([0.0, 1.0], abs=0.1)


def unbiased_table() -> DesignedTable:
    """Return a table with outputs -a, 1/2, 1 + a at 0, 1/2 and 1, at epsilon 2: its decoding is unbiased."""
    high, low = math.exp(2.0) / (math.exp(2.0) + 2.0), 1.0 / (math.exp(2.0) + 2.0)
    rows = [[high, low, low], [(1 - high) / 2, high, (1 - high) / 2], [low, low, high]]
    end = 0.5 / (high - low)
    return DesignedTable(UNIT, 2.0, integer_rows(rows, 2.0), (0.5 - end, 0.5, 0.5 + end))


COVERED = {
    "designed table": unbiased_table(),
    "square wave 1": SquareWave(UNIT, 1.0, nodes=33),
    "square wave 4": SquareWave(UNIT, 4.0, nodes=33),
    "response": randomised_response(0.5),
    "Laplace within the domain": LaplaceMechanism(UNIT, 1.0, reach=0.0),
}


@pytest.mark.parametrize("mechanism", COVERED.values(), ids=COVERED)
def test_coverage_of_the_mean(mechanism: Mechanism) -> None:
    """Of 400 surveys; at a coverage of 0.95, fewer than 362 or more than 395 have probability 8e-5."""
    values = np.random.default_rng(3).beta(2, 5, 2000)
    nodes = node_distribution(mechanism, values)
    estimates = [mean(Survey(mechanism, drawn_counts(mechanism, nodes, 5000, seed))) for seed in range(400)]
    assert all(estimate.value is not None for estimate in estimates)
    assert 362 <= covered(estimates, float(values.mean())) <= 395


@pytest.mark.parametrize("pile", [0.0, 0.3, 1.0])
def test_coverage_of_a_range_with_a_bounded_bias(pile: float) -> None:
    """Of 200 surveys; at a coverage of 0.95 or more, fewer than 178 have probability 2e-4 at most."""
    mechanism = clamped_normal(1.0)
    nodes = node_distribution(mechanism, [pile])
    found = [mean(Survey(mechanism, drawn_counts(mechanism, nodes, 100_000, seed))) for seed in range(200)]
    assert covered(found, pile) >= 178
