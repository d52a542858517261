"""The lower bound: a certificate that holds for any output of the solver, and that no mechanism beats."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from arcwise.analysis.design import lower_bound, minimax, worst_case
from arcwise.analysis.design.bound import Multipliers, certified_bound
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import circle_attenuation, circle_expected_error, interval_expected_error
from arcwise.mechanisms.closed_forms.published import best_published_variance
from tests.support.cases import mostly_slow

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "reference_design.json").read_text())
UNIT = Interval(0, 1)


def brute_force(epsilon: float, inputs: int, outputs: NDArray[Any], *, unbiased: bool) -> float:
    """Return the least worst case at the inputs with these outputs, on [-1, 1].

    It comes from one plain linear program, without symmetry, cuts or multipliers.
    """
    x = np.linspace(-1, 1, inputs)
    k, power = len(outputs), 2 if unbiased else 1
    columns = inputs * k + k + 1
    cost = np.zeros(columns)
    cost[-1] = 1
    upper, equal, right = [], [], []
    for i in range(inputs):
        row = np.zeros(columns)
        row[i * k : (i + 1) * k] = np.abs(outputs - x[i]) ** power
        row[-1] = -1
        upper.append(row)
        total = np.zeros(columns)
        total[i * k : (i + 1) * k] = 1
        equal.append(total)
        right.append(1.0)
        if unbiased:
            mean = np.zeros(columns)
            mean[i * k : (i + 1) * k] = outputs
            equal.append(mean)
            right.append(x[i])
        for j in range(k):
            low, high = np.zeros(columns), np.zeros(columns)
            low[[i * k + j, inputs * k + j]] = -1, 1
            high[[i * k + j, inputs * k + j]] = 1, -math.exp(epsilon)
            upper += [low, high]
    result = linprog(cost, A_ub=np.array(upper), b_ub=np.zeros(len(upper)), A_eq=np.array(equal), b_eq=right)
    return float(result.fun)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
@pytest.mark.slow
def test_bounds_agree_with_the_optimum_on_a_grid(epsilon: float) -> None:
    """The grid restricts both outputs and inputs, so its optimum is near the bound, on either side."""
    entry = REFERENCE["optimum"][str(epsilon)]
    assert lower_bound(UNIT, epsilon) == pytest.approx(entry["unbiased_var01"]["lp"], rel=1e-3)
    grid = entry["classical_L1"]
    bound = lower_bound(UNIT, epsilon, "value")
    assert bound <= grid["lp_n161"] + grid["bracket_plus_minus"]
    assert bound == pytest.approx(grid["lp_n161"], abs=grid["bracket_plus_minus"])
    squared = lower_bound(UNIT, epsilon, "value", power=2)
    assert squared == pytest.approx(entry["classical_L2"]["lp_n161"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", mostly_slow([0.1, 1.0, 4.0, 8.0], every=4))
def test_bounds_are_below_what_is_achieved(epsilon: float) -> None:
    assert lower_bound(UNIT, epsilon, inputs=17) < best_published_variance(epsilon)
    for power in (1.0, 2.0):
        assert lower_bound(UNIT, epsilon, "value", power=power, inputs=17) < interval_expected_error(
            0.0, epsilon, power
        )


@pytest.mark.slow
@pytest.mark.parametrize(("goal", "power"), [("mean", None), ("value", 1.0), ("value", 2.5)])
def test_more_inputs_never_lower_the_bound(goal: str, power: float | None) -> None:
    bounds = [lower_bound(UNIT, 2.0, goal, power=power, inputs=inputs) for inputs in (5, 9, 17, 33)]
    for coarse, fine in pairwise(bounds):
        assert fine >= coarse * (1 - 1e-5)


def test_bounds_have_the_unit_of_the_domain() -> None:
    wide = Interval(-10, 30)
    assert lower_bound(wide, 1.0, inputs=9) == pytest.approx(
        1600 * lower_bound(UNIT, 1.0, inputs=9), rel=1e-5
    )
    value = lower_bound(UNIT, 1.0, "value", inputs=9)
    assert lower_bound(wide, 1.0, "value", inputs=9) == pytest.approx(40 * value, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("unbiased", [True, False])
def test_the_bound_is_the_optimum_of_its_inputs(epsilon: float, unbiased: bool) -> None:
    """A plain program on a fine grid of outputs comes down to the bound, and never below it."""
    reach = 1.2 / math.tanh(epsilon / 2) if unbiased else 1.0
    fine = brute_force(epsilon, 5, np.linspace(-reach, reach, 161), unbiased=unbiased)
    scale = 4 if unbiased else 2
    bound = scale * lower_bound(UNIT, epsilon, "mean" if unbiased else "value", inputs=5)
    assert bound <= fine * (1 + 1e-7)
    assert bound == pytest.approx(fine, rel=2e-3)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.floats(0.2, 4.0), st.sampled_from([1.0, 1.5, 2.0, 3.0]), st.booleans())
def test_any_multipliers_prove_a_bound(seed: int, epsilon: float, power: float, unbiased: bool) -> None:
    """Weak duality on random tables: no multipliers prove more than such a table attains."""
    rng = np.random.default_rng(seed)
    power = 2.0 if unbiased else power
    x = np.linspace(-1, 1, 5)
    multipliers = Multipliers(rng.dirichlet(np.ones(5)), rng.normal(size=5) * unbiased, rng.normal(size=5))
    bound = certified_bound(multipliers, x, epsilon, power, unbiased=unbiased)
    if unbiased:
        # Two outputs that keep epsilon and the means.
        size = (1 + rng.exponential()) / math.tanh(epsilon / 2)
        outputs, rows = np.array([-size, size]), 0.5 + 0.5 * np.outer(x / size, [-1, 1])
    else:
        outputs = rng.uniform(-1, 1, 6)
        rows = rng.uniform(1, math.exp(epsilon / 2), (5, 6))
        rows /= rows.sum(axis=1, keepdims=True)
    loss = (rows * np.abs(outputs - x[:, None]) ** power).sum(axis=1)
    assert bound <= loss.max()
    # The proven bound is the value minus the depth of G; G on any grid is not deeper.
    y = np.linspace(-3, 3, 2001) if unbiased else np.linspace(-1, 1, 2001)
    price = multipliers.loss[:, None] * np.abs(y - x[:, None]) ** power
    price = price - multipliers.mean[:, None] * y - multipliers.total[:, None]
    depth = np.where(price < 0, math.exp(epsilon) * price, price).sum(axis=0).min()
    assert bound <= multipliers.total.sum() + multipliers.mean @ x + min(0.0, depth) + 1e-9


@given(st.floats(0.01, 20.0), st.floats(1.0, 5.0))
def test_circle_bounds_are_the_closed_forms(epsilon: float, power: float) -> None:
    bound = lower_bound(Circle(1), epsilon, "value", power=power)
    assert bound == pytest.approx(circle_expected_error(epsilon, power), rel=1e-9)
    assert lower_bound(Circle(3), epsilon, "value", power=power) == pytest.approx(3**power * bound, rel=1e-12)


@given(st.floats(0.01, 12.0))
def test_no_window_has_a_larger_attenuation(epsilon: float) -> None:
    least = lower_bound(Circle(1), epsilon, "direction")
    growth = math.expm1(epsilon)
    half = np.linspace(1e-4, 0.5, 20_001)
    low = 1 / (1 + 2 * growth * half)
    rho = (low * growth * np.sin(2 * np.pi * half) / np.pi).max()
    assert 1 - least == pytest.approx(rho, rel=1e-5, abs=1e-12)
    assert 1 - least >= rho * (1 - 1e-12)
    assert 1 - least >= circle_attenuation(epsilon)


@pytest.mark.parametrize("length", [1e200, 1e-200])
def test_domains_beyond_the_squares_of_floats_have_no_error_of_their_own(length: float) -> None:
    domain = Interval(0.0, length)
    mechanism = minimax(domain, 1.0, outputs=4, nodes=3, cache=False)
    bound = lower_bound(domain, 1.0, inputs=5)
    assert bound == worst_case(mechanism) == (math.inf if length > 1 else 0.0)
    assert minimax(Circle(length), 1.0, goal="value", power=2.0, cache=False).certificate().delta == 0
