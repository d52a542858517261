"""The two linear maps of each kind of kernel, and EM on them: all agree with the dense matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.analysis import estimate
from arcwise.analysis.estimators.direction import direction, first_moment, resultant_length
from arcwise.analysis.estimators.quantiles import quantiles
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.grid import cell_edges, first_cell
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.likelihood.em import EMSteps
from arcwise.analysis.likelihood.linear_maps import (
    _CirculantRows,
    _DenseRows,
    _WindowRows,
    code_laws,
    node_means,
    rows_of,
)
from arcwise.domains import Circle, Interval
from arcwise.kernels import CirculantKernel, Kernel, TableKernel, WindowKernel
from arcwise.kernels.rounding import integer_row, nearest_rows
from arcwise.mechanisms import DesignedCircular, DesignedTable, Mechanism
from arcwise.tasks import Task
from arcwise.typing import FloatArray
from tests.support.known import bounded, there
from tests.support.strategies import ALL_EXAMPLES, Example, mechanisms
from tests.support.surveys import drawn_counts, em_fit, expected_counts, node_distribution


def table_of(kernel: Kernel) -> TableKernel:
    return TableKernel(tuple(tuple(kernel.row(node)) for node in range(kernel.nodes)))


@pytest.mark.parametrize("example", ALL_EXAMPLES, ids=repr)
@pytest.mark.parametrize("epsilon", [0.1, 4.0])
def test_maps_are_products_with_the_matrix(example: Example, epsilon: float) -> None:
    kernel = example.make(epsilon).kernel
    matrix = kernel.matrix()
    generator = np.random.default_rng(3)
    nodes = generator.dirichlet(np.ones(kernel.nodes) / 3, 4)
    np.testing.assert_allclose(code_laws(kernel, nodes), nodes @ matrix, rtol=1e-9, atol=1e-15)
    values = generator.normal(size=kernel.codes)
    np.testing.assert_allclose(node_means(kernel, values), matrix @ values, rtol=1e-9, atol=1e-13)


def test_each_kind_has_its_own_maps() -> None:
    window = WindowKernel.fit(nodes=9, window=4, epsilon=1.0, circular=True)
    assert type(rows_of(window, 1)) is _WindowRows
    assert type(rows_of(table_of(window), 1)) is _DenseRows
    assert type(rows_of(CirculantKernel(tuple(window.row(0))), 1)) is _CirculantRows


@given(mechanism=mechanisms(max_nodes=50), seed=st.integers(0, 2**32))
def test_em_is_the_same_on_a_window_and_on_its_table(mechanism: Mechanism, seed: int) -> None:
    kernel = mechanism.kernel
    counts = np.random.default_rng(seed).poisson(5.0, kernel.codes) + 1.0
    kernels: list[Kernel] = [kernel, table_of(kernel)]
    if kernel.circular:
        kernels.append(CirculantKernel(tuple(kernel.row(0))))
    plain, *others = [em_fit(kind, counts, iterations=20) for kind in kernels]
    for other in others:
        np.testing.assert_allclose(other.probabilities, plain.probabilities, rtol=1e-6, atol=1e-9)
        assert other.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-9)
        assert other.gap == pytest.approx(plain.gap, rel=1e-6, abs=1e-6)


# --- weights of zero: (epsilon, delta) ---------------------------------------------------------------


def band(nodes: int, reach: int) -> DesignedTable:
    """Return a table whose node s gives equal weight to the codes s to s + 2 reach, and none to others."""
    codes = nodes + 2 * reach
    ahead = np.arange(codes) - np.arange(nodes)[:, None]
    rows = np.where((ahead >= 0) & (ahead <= 2 * reach), 1.0, 0.0) / (2 * reach + 1)
    at = (np.arange(codes) - reach) / (nodes - 1)
    return DesignedTable(Interval(0, 1), 1.0, nearest_rows(rows), at.tolist())


@pytest.mark.parametrize(
    ("nodes", "reach"), [(9, 1), (40, 3), (400, 1), pytest.param(600, 1, marks=pytest.mark.slow)]
)
def test_codes_without_weight_from_most_nodes(nodes: int, reach: int) -> None:
    """All mass is at one node; other nodes' shares go to 0, and with them the probability of most codes."""
    mechanism = band(nodes, reach)
    assert mechanism.kernel.ratio() is None
    truth = np.zeros(nodes)
    truth[nodes // 3] = 1.0
    counts = drawn_counts(mechanism, truth, 10_000, 1)
    assert np.count_nonzero(counts) == 2 * reach + 1
    steps = EMSteps(mechanism.kernel, counts)
    for _ in range(3000):
        steps.step()
    assert np.isfinite(steps.log_likelihood()).all()
    assert np.isfinite([steps.current(each).gap for each in range(len(steps.totals))]).all()
    assert steps.probabilities[0, nodes // 3] == pytest.approx(1.0, abs=1e-3)
    held_out = fit_held_out(mechanism, counts)
    assert np.isfinite(held_out.log_likelihood)
    median = bounded(quantiles(Survey(mechanism, counts, probabilities=held_out.probabilities))["0.5"])
    assert median.contains((nodes // 3) / (nodes - 1))
    # On more than 288 nodes, weights are constant on blocks of codes, about 128 per length of the domain.
    assert median.high - median.low <= (2.5 / (nodes - 1) if nodes <= 288 else 5 / 128)


# --- circles -------------------------------------------------------------------------------------------


def turned(weights: FloatArray, epsilon: float = 2.0) -> DesignedCircular:
    """Return the mechanism of this row's levels, from 0 to 1, at a period of 360."""
    row = np.exp(epsilon * weights)
    return DesignedCircular(Circle(360), epsilon, integer_row(row / row.sum(), epsilon))


@pytest.mark.parametrize("codes", [7, 12, 64])
def test_cells_of_turned_rows_are_centred_on_their_nodes(codes: int) -> None:
    mechanism = turned(np.cos(np.arange(codes) * 2 * np.pi / codes) / 2 + 0.5)
    assert first_cell(mechanism) == 0
    np.testing.assert_allclose(cell_edges(mechanism), (np.arange(codes + 1) - 0.5) / codes)
    counts = drawn_counts(mechanism, node_distribution(mechanism, [0.0]), 300_000, 2)
    fitted = estimate(Task("a", mechanism.domain, 2.0, mechanism=mechanism), counts.astype(np.int64))
    assert np.argmax(there(fitted.distribution).probabilities) == 0


@pytest.mark.parametrize("lopsided", [False, True])
def test_a_row_that_is_not_symmetric_turns_nothing(lopsided: bool) -> None:
    weights = np.array([1.0, 0.9 if lopsided else 0.4, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.2, 0.4])
    mechanism = turned(weights)
    law = np.random.default_rng(1).dirichlet(np.ones(10))
    truth = complex(law @ np.exp(2j * np.pi * np.arange(10) / 10))
    moment = first_moment(Survey(mechanism, expected_counts(mechanism, law, 1e12)))
    assert complex(*moment.z) == pytest.approx(truth, abs=1e-9)
    assert np.linalg.eigvalsh(moment.covariance).min() > 0
    # The covariance matches repeated surveys: 5 standard errors of a variance from 2000 surveys are 0.16.
    many = [first_moment(Survey(mechanism, drawn_counts(mechanism, law, 1000, seed))) for seed in range(2000)]
    spread = np.cov(np.array([one.z for one in many]).T)
    np.testing.assert_allclose(
        spread, np.mean([one.covariance for one in many], axis=0), atol=0.16 * spread.max()
    )


def test_a_row_without_a_first_moment_shows_no_direction() -> None:
    mechanism = turned(np.array([1.0, 0.0, 1.0, 0.0]))  # opposite places look alike
    assert mechanism.attenuation() == pytest.approx(0.0, abs=1e-15)
    counts = np.array([700.0, 300.0, 700.0, 300.0])
    heading, length = direction(Survey(mechanism, counts)), resultant_length(Survey(mechanism, counts))
    assert heading.value is None
    assert (heading.low, heading.high) == (0.0, 360.0)
    assert length.value is None
    assert (length.low, length.high) == (0.0, 1.0)
    assert "vanishes" in heading.note
