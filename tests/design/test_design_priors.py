"""Designs for a population: unbiased everywhere, of least variance there, bounded elsewhere."""

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from arcwise.analysis.design import designer as module
from arcwise.analysis.design import minimax, worst_case
from arcwise.analysis.design.integers import exact_bias
from arcwise.analysis.design.request import UNIFORM, node_prior
from arcwise.analysis.planning.mean import MeanCurve
from arcwise.analysis.simulate import Atoms, as_population, as_populations, node_law
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import exp_lower_bound
from arcwise.mechanisms import OptimalPiecewise
from tests.support.cases import mostly_slow

UNIT = Interval(0, 1)
SKEWED, NARROW = "beta:2,5", "normal:0.4,0.05"


@cache
def designed(epsilon: float, *populations: str, domain: Interval = UNIT) -> Any:
    return minimax(domain, epsilon, population=list(populations) or None, cache=False)


def variance(mechanism: Any, *populations: str) -> float:
    return MeanCurve(mechanism, as_populations(populations, mechanism.domain), "population").variance


@pytest.mark.parametrize(
    ("population", "epsilon"),
    [
        (NARROW, 4.0),
        ("0.5*atom:0 + 0.5*atom:1", 0.5),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in ((SKEWED, 2.0), (NARROW, 2.0), ("atom:0.3", 6.0))
        ),
    ],
)
def test_the_table_is_exact_and_unbiased_for_everybody(population: str, epsilon: float) -> None:
    mechanism = designed(epsilon, population)
    ratio = mechanism.kernel.ratio()
    assert exp_lower_bound(epsilon) * (1 - Fraction(1, 10**7)) < ratio <= exp_lower_bound(epsilon)
    assert mechanism.kernel.nodes == 33
    assert exact_bias(mechanism.kernel.rows, mechanism.code_units().tolist()) < 1e-15
    for value in np.linspace(0, 1, 41):
        assert mechanism.mean(value) == pytest.approx(value, abs=1e-12)


# Reports needed relative to the population's design: by goal "mean" without a population, and by default.
FEWER = {(SKEWED, 2.0): (1.195, 1.135), (NARROW, 2.0): (1.570, 1.233), (NARROW, 4.0): (2.265, 1.723)}


@pytest.mark.slow
@pytest.mark.parametrize(("population", "epsilon"), mostly_slow(reversed(FEWER), every=3))
def test_fewer_reports_are_needed_where_the_population_is_right(population: str, epsilon: float) -> None:
    own = variance(designed(epsilon, population), population)
    general, default = FEWER[population, epsilon]
    assert variance(designed(epsilon), population) / own == pytest.approx(general, abs=0.005)
    assert variance(OptimalPiecewise(UNIT, epsilon), population) / own == pytest.approx(default, abs=0.005)


@pytest.mark.slow
def test_the_default_goal_of_ten_populations_needs_more_reports_than_the_design_for_them() -> None:
    """Without a prior, goal "mean" needs more reports there than the default goal, at epsilon 2."""
    ten = (
        *("uniform", SKEWED, "beta:5,1", NARROW, "normal:0.4,0.1", "normal:0.5,0.2"),
        "0.5*normal:0.3,0.05 + 0.5*normal:0.7,0.08",
        "0.3*atom:0 + rest*beta:2,5",
        "0.6*atom:0.3137 + 0.4*normal:0.55,0.15",
        "0.5*atom:0 + 0.5*atom:1",
    )
    together = variance(designed(2.0, *ten), *ten)
    assert variance(OptimalPiecewise(UNIT, 2.0), *ten) / together > 1.07
    assert variance(designed(2.0), *ten) / together > 1.1
    assert variance(designed(2.0, *ten), *ten) == pytest.approx(
        np.mean([variance(designed(2.0, *ten), each) for each in ten])
    )


@pytest.mark.parametrize(
    ("population", "epsilon", "most"),
    mostly_slow([(NARROW, 4.0, 2.1), (SKEWED, 1.0, 1.14), (SKEWED, 4.0, 2.05)], every=3),
)
def test_what_a_wrong_population_costs_is_bounded(population: str, epsilon: float, most: float) -> None:
    assert 1.0 < worst_case(designed(epsilon, population)) / worst_case(designed(epsilon)) < most


@pytest.mark.slow
def test_no_table_on_a_fine_grid_of_outputs_is_better() -> None:
    """The whole program in one piece, without symmetry, formulated with one variable for each cell."""
    epsilon, nodes = 2.0, 5
    domain = Interval(0, 4, step=1)
    mechanism = minimax(domain, epsilon, population=SKEWED, cache=False)
    prior = np.array(node_prior(as_populations(SKEWED, domain), domain.unit(), nodes))
    outputs = np.linspace(-2.0, 3.0, 401)
    cells = nodes * outputs.size
    cost = np.append(np.outer(prior, (outputs - 0.5) ** 2).ravel(), np.zeros(outputs.size))
    sums, means, below, above = [], [], [], []
    for node in range(nodes):
        row = np.zeros(cells + outputs.size)
        row[node * outputs.size : (node + 1) * outputs.size] = 1.0
        sums.append(row)
        means.append(row * np.append(np.tile(outputs, nodes), np.zeros(outputs.size)))
        cell, low = np.eye(cells)[node * outputs.size : (node + 1) * outputs.size], np.eye(outputs.size)
        below.append(np.hstack([-cell, low]))
        above.append(np.hstack([cell, -np.exp(epsilon) * low]))
    found = linprog(
        cost,
        A_ub=np.vstack(below + above),
        b_ub=np.zeros(2 * cells),
        A_eq=np.vstack(sums + means),
        b_eq=np.append(np.ones(nodes), np.arange(nodes) / (nodes - 1)),
    )
    rows = mechanism.kernel.matrix()
    assert float(prior @ rows @ (mechanism.code_units() - 0.5) ** 2) == pytest.approx(found.fun, rel=2e-3)


@pytest.mark.slow
def test_the_prior_is_the_average_of_the_populations_and_a_little_of_all() -> None:
    lines = [SKEWED, NARROW]
    laws = [node_law(OptimalPiecewise(UNIT, 1.0, nodes=33), as_population(line, UNIT)) for line in lines]
    prior = node_prior(as_populations(lines, UNIT), UNIT, 33)
    assert prior == pytest.approx((1 - UNIFORM) * np.mean(laws, axis=0) + UNIFORM / 33)
    values = [0.1, 0.2, 0.2]
    (atoms,) = as_populations(values, UNIT)
    assert isinstance(atoms, Atoms)
    assert designed(1.0).kernel != minimax(UNIT, 1.0, population=values, nodes=5, outputs=4).kernel


@pytest.mark.slow
def test_a_design_for_a_population_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    first = minimax(UNIT, 2.0, population=SKEWED, nodes=9, outputs=6)
    second = minimax(UNIT, 2.0, population=NARROW, nodes=9, outputs=6)
    third = minimax(UNIT, 2.0, nodes=9, outputs=6)
    assert len({each.kernel for each in (first, second, third)}) == 3
    monkeypatch.setattr(module, "find_table", None)
    assert minimax(Interval(0, 70), 2.0, population=SKEWED, nodes=9, outputs=6).kernel == first.kernel


@pytest.mark.slow
def test_mirrored_populations_have_mirrored_designs() -> None:
    left, right = designed(2.0, SKEWED), designed(2.0, "beta:5,2")
    assert variance(left, SKEWED) == pytest.approx(variance(right, "beta:5,2"), rel=1e-4)
    assert left.kernel.rows[0] != right.kernel.rows[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: minimax(UNIT, 1.0, goal="value", population=SKEWED),
            "population is for the goal \"mean\" only, got one for 'value'",
        ),
        (lambda: minimax(Circle(1), 1.0, goal="direction", population="uniform"), 'for the goal "mean" only'),
        (lambda: minimax(UNIT, 1.0, population=[]), "population must have at least one line, got none"),
        (lambda: minimax(UNIT, 1.0, population="gauss:1,2"), "a part must be one of"),
    ],
)
def test_what_is_no_population_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
