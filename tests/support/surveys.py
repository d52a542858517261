"""Populations and counts for the tests of the estimators: node distributions, expected and drawn counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import norm

from arcwise.analysis.estimators.direction import direction, first_moment
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.likelihood.em import EMFit, EMSteps
from arcwise.analysis.simulate import Population, code_law, multinomial
from arcwise.domains import Interval
from arcwise.kernels.rounding import nearest_rows
from arcwise.mechanisms import DesignedTable, Mechanism

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from arcwise.analysis import Value
    from arcwise.kernels.base import Kernel
    from arcwise.mechanisms.circular import CircularMechanism
    from arcwise.typing import FloatArray, IntArray


__all__ = [
    "clamped_normal",
    "covered",
    "drawn_counts",
    "em_fit",
    "expected_counts",
    "many_counts",
    "node_distribution",
    "surveyed",
    "turns_of",
]


def node_distribution(mechanism: Mechanism, values: ArrayLike) -> FloatArray:
    """Return the law of the node of one of `values`, taken at random and rounded stochastically."""
    position = mechanism.positions(mechanism.domain.to_unit_many(values))
    below = np.floor(position).astype(np.int64)
    nodes = np.zeros(mechanism.kernel.nodes)
    np.add.at(nodes, below, 1.0 - (position - below))
    np.add.at(nodes, (below + 1) % mechanism.kernel.nodes, position - below)
    return nodes / position.size


def expected_counts(mechanism: Mechanism, nodes: FloatArray, n: float) -> FloatArray:
    """Return the expected number of reports per code when nodes have this distribution."""
    expected: FloatArray = n * (nodes @ mechanism.kernel.matrix())
    return expected


def drawn_counts(mechanism: Mechanism, nodes: FloatArray, n: int, seed: int) -> FloatArray:
    """Return the counts of n reports: codes of independent users have one multinomial law."""
    codes = nodes @ mechanism.kernel.matrix()
    drawn = np.random.default_rng(seed).multinomial(n, codes / codes.sum())
    return drawn.astype(np.float64)


def em_fit(
    kernel: Kernel,
    counts: ArrayLike,
    *,
    iterations: int = 100_000,
    gap: float = -1.0,
    start: FloatArray | None = None,
) -> EMFit:
    """Return the result of this many steps of EM, or of fewer that come within a gap."""
    steps = EMSteps(kernel, counts, start=start)
    while steps.iterations < iterations and steps.current(0).gap > gap:
        steps.step()
    return steps.current(0)


def surveyed(mechanism: Mechanism, values: ArrayLike, n: int, seed: int) -> Survey:
    """Return a survey of n reports, each of one of `values`."""
    return Survey(mechanism, drawn_counts(mechanism, node_distribution(mechanism, values), n, seed))


def many_counts(mechanism: Mechanism, law: Population, n: int, surveys: int, *, seed: int) -> IntArray:
    """Return the counts of many surveys of n reports, a row each."""
    codes = code_law(mechanism, law)
    weights = np.broadcast_to(codes, (surveys, codes.size))
    return multinomial(np.full(surveys, n), weights, np.random.default_rng(seed))


def turns_of(mechanism: CircularMechanism, counts: IntArray) -> list[float]:
    """Return the direction of each row of counts in turns; estimates confirm the first ones."""
    moments = [first_moment(Survey(mechanism, row)).z for row in counts.astype(np.float64)]
    turns = [math.atan2(y, x) / (2 * math.pi) for x, y in moments]
    period = mechanism.domain.length
    for row, turn in zip(counts[:20], turns, strict=False):  # its interval takes long
        said = direction(Survey(mechanism, row.astype(np.float64))).value
        assert said is not None
        assert math.remainder(said / period - turn, 1.0) == pytest.approx(0.0, abs=1e-12)
    return turns


def covered(estimates: Iterable[Value], truth: float, period: float | None = None) -> int:
    """Return how many intervals hold the truth."""
    return sum(each.contains(truth, period=period) for each in estimates)


def clamped_normal(deviation: float, nodes: int = 33) -> DesignedTable:
    """Return normal noise with outputs moved to the nearer end of [0, 1]: a narrow range, wide noise."""
    edges = (np.arange(nodes + 1) - 0.5) / (nodes - 1)
    edges[[0, -1]] = -math.inf, math.inf
    at = np.linspace(0, 1, nodes)
    rows = np.diff(norm.cdf(edges, loc=at[:, None], scale=deviation), axis=1)
    return DesignedTable(Interval(0.0, 1.0), 1.0, nearest_rows(rows), at.tolist())
