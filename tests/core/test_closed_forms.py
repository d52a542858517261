"""The closed forms compared with numbers that were computed without them, and their limits."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import linprog

from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import (
    OptimalCircular,
    OptimalPiecewise,
    circle_attenuation,
    circle_expected_error,
    half_window,
    interval_expected_error,
    optimal_levels,
)
from arcwise.mechanisms.closed_forms.optimal import distribution_width, interval_mean
from arcwise.tasks import Task
from tests.support.strategies import epsilons

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "reference_optimal.json").read_text())
EPSILONS = sorted(REFERENCE["interval"], key=float)
TURN = 2 * math.pi


def close(expected: float) -> Any:
    return pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("power", [1, 2, 3])
def test_interval_agrees_with_the_reference(epsilon: str, power: int) -> None:
    entry = REFERENCE["interval"][epsilon][f"opt_k{power}"]
    levels = optimal_levels(float(epsilon), power)
    assert levels == (close(entry["p"]), close(entry["q"]), close(entry["C"]))
    for error_power in (1, 2, 3):
        errors = entry[f"pow{error_power}"]
        assert len(errors) == len(REFERENCE["x_grid"]) == 21
        for x, expected in zip(REFERENCE["x_grid"], errors, strict=True):
            error = interval_expected_error(x, float(epsilon), error_power, optimal_for=power)
            assert error == close(expected)
            if error_power == power:
                assert interval_expected_error(x, float(epsilon), error_power) == error
        assert max(errors) == errors[0] == close(errors[-1])  # the worst inputs are the ends


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("power", [1, 2, 3])
def test_circle_agrees_with_the_reference(epsilon: str, power: int) -> None:
    entry = REFERENCE["circle"][epsilon][f"opt_k{power}"]
    p, q, c = optimal_levels(float(epsilon), power)
    assert p / TURN == close(entry["p"])
    assert q / TURN == close(entry["q"])
    assert c * TURN == close(entry["C"])
    for error_power in (1, 2, 3):
        error = circle_expected_error(float(epsilon), error_power, period=TURN, optimal_for=power)
        assert error == close(entry[f"E_dist_pow{error_power}"])
        on_unit = circle_expected_error(float(epsilon), error_power, optimal_for=power)
        assert error == close(on_unit * TURN**error_power)
    for order, rho in enumerate(entry["rho"], start=1):
        attenuation = circle_attenuation(float(epsilon), order, optimal_for=power)
        assert attenuation == pytest.approx(rho, rel=1e-11, abs=1e-14)


@given(epsilons, st.floats(1.0, 8.0))
def test_levels_are_densities_with_the_right_ratio(epsilon: float, power: float) -> None:
    p, q, c = optimal_levels(epsilon, power)
    assert 0 < q < 1 < p
    assert 0 < c < 0.5
    assert p / q == pytest.approx(math.exp(epsilon), rel=1e-12)
    assert q + (p - q) * 2 * c == pytest.approx(1, rel=1e-12)
    # The stationarity condition of the design, in logarithms.
    gap = math.log(q + power) - (power + 1) * math.log(q) + power * math.log((1 - q) / math.expm1(epsilon))
    assert gap == pytest.approx(0, abs=1e-9)


@given(epsilons, st.floats(1.0, 4.0), st.floats(-0.2, 0.2))
def test_no_other_levels_have_a_smaller_worst_case(epsilon: float, power: float, change: float) -> None:
    """The loss at an end of [0, 1], for levels on either side of the optimal ones."""

    def worst(q: float) -> float:
        p = q * math.exp(epsilon)
        c = (1 - q) / (2 * (p - q))
        return (q + (p - q) * math.pow(2 * c, power + 1)) / (power + 1)

    q = optimal_levels(epsilon, power).q
    other = q * math.exp(change * (1 - q))
    assert worst(q) == pytest.approx(interval_expected_error(0.0, epsilon, power), rel=1e-9)
    assert worst(q) <= worst(other) * (1 + 1e-12)


@given(epsilons)
def test_power_one_has_the_simple_forms(epsilon: float) -> None:
    root = math.exp(epsilon / 2)
    assert optimal_levels(epsilon) == (close(root), close(1 / root), close(0.5 / (1 + root)))
    assert half_window(epsilon) == close(math.expm1(epsilon / 2) / (2 * math.expm1(epsilon)))
    for end in (0.0, 1.0):
        assert interval_expected_error(end, epsilon) == close(1 / (1 + root))
    assert circle_expected_error(epsilon, period=360.0) == close(180 / (1 + root))
    for order in (1, 2, 3, 4):
        rho = 2 * math.sinh(epsilon / 2) * math.sin(math.pi * order / (1 + root)) / (math.pi * order)
        assert circle_attenuation(epsilon, order) == pytest.approx(rho, rel=1e-9, abs=1e-12)


@given(epsilons, st.floats(0.0, 1.0), st.floats(1.0, 4.0))
def test_errors_are_symmetric_and_worst_at_the_ends(epsilon: float, x: float, power: float) -> None:
    error = interval_expected_error(x, epsilon, power)
    assert error == pytest.approx(interval_expected_error(1.0 - x, epsilon, power), rel=1e-9, abs=1e-15)
    assert error <= interval_expected_error(0.0, epsilon, power) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimal_levels(0.0), r"epsilon must be from 0\.01 to 20, got 0\.0"),
        (lambda: optimal_levels(1.0, 0.5), r"power must be finite and at least 1, got 0\.5"),
        (lambda: optimal_levels(1.0, math.nan), "power must be finite and at least 1, got nan"),
        (lambda: interval_expected_error(1.5, 1.0), r"x must be from 0 to 1, got 1\.5"),
        (lambda: interval_expected_error(math.nan, 1.0), "x must be from 0 to 1, got nan"),
        (lambda: interval_expected_error(0.5, 1.0, 0.0), "power must be finite"),
        (lambda: circle_expected_error(1.0, math.inf), "power must be finite"),
        (lambda: circle_attenuation(1.0, 0), "order must be an integer of at least 1, got 0"),
        (lambda: circle_attenuation(1.0, True), "order must be an integer of at least 1, got True"),
    ],
)
def test_bad_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


# --- the integer kernels converge to the closed forms ------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 8.0])
def test_integer_attenuation_is_that_of_the_rows(epsilon: float) -> None:
    mechanism = OptimalCircular(Circle(TURN), epsilon, nodes=64)
    kernel = mechanism.kernel
    angle = TURN * np.arange(64) / 64
    for node in (0, 17, 63):
        row = np.array([weight / UNIT for weight in kernel.row(node)])
        centre = TURN * (node + (kernel.window - 1) / 2) / 64
        for order in range(1, 64):
            moment = complex(row @ np.exp(1j * order * (angle - centre)))
            assert moment.real == pytest.approx(mechanism.attenuation(order), abs=1e-13)
            assert moment.imag == pytest.approx(0, abs=1e-13)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_integer_attenuation_converges_to_the_closed_form(epsilon: float, order: int) -> None:
    """The half window is rounded to a cell, which changes rho by at most order times the cell's share."""
    rho = circle_attenuation(epsilon, order)
    for nodes in (128, 512, 4096, 65_536):
        gap = abs(OptimalCircular(Circle(1), epsilon, nodes=nodes).attenuation(order) - rho)
        assert gap < 2 * order * math.exp(epsilon / 2) / nodes


def test_the_third_moment_vanishes_at_twice_log_two() -> None:
    epsilon = 2 * math.log(2)
    assert circle_attenuation(epsilon, 3) == pytest.approx(0, abs=1e-15)
    assert circle_attenuation(epsilon, 1) > 0.3
    # 2 C = 1/3 is a whole number of cells when K is a multiple of 3, and nearly one otherwise.
    assert OptimalCircular(Circle(1), epsilon, nodes=129).attenuation(3) == pytest.approx(0, abs=1e-15)
    assert abs(OptimalCircular(Circle(1), epsilon, nodes=128).attenuation(3)) < 0.01


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("x", [0.0, 0.03, 0.25, 0.5, 0.9, 1.0])
def test_expected_errors_converge_to_the_closed_forms(epsilon: float, x: float) -> None:
    clamp = OptimalPiecewise(Interval(0, 1), epsilon, placement="clamp", nodes=4096)
    assert clamp.expected_error(x) == pytest.approx(interval_expected_error(x, epsilon), rel=0.01)
    circle = OptimalCircular(Circle(1), epsilon, nodes=4096)
    assert circle.expected_error(x) == pytest.approx(circle_expected_error(epsilon), rel=0.01)


@pytest.mark.parametrize("power", [36.0, 60.0, 100.0, 1000.0])
def test_levels_for_far_powers_at_large_epsilon(power: float) -> None:
    """Here ``growth^-power`` is below the range of a float."""
    p, q, c = optimal_levels(20.0, power)
    growth = math.expm1(20.0)
    left = math.log(q + power) + power * math.log1p(-q)
    assert left == pytest.approx((power + 1) * math.log(q) + power * math.log(growth), abs=1e-9)
    assert p == pytest.approx(q * (growth + 1))
    assert 2 * c * growth * q == pytest.approx(1 - q)


def test_a_power_of_an_expected_error_is_positive_and_finite() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0)
    for power in (0.0, -1.0, math.nan, math.inf, True, "1"):
        with pytest.raises(ParameterError, match="power must be"):
            mechanism.expected_error(0.5, power)  # type: ignore[arg-type]


def test_errors_beyond_a_float_are_infinite() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1e200), 1.0)
    assert mechanism.variance(0.0) == math.inf
    assert mechanism.expected_error(0.0, 2.0) == math.inf
    assert OptimalPiecewise(Interval(0, 1), 1.0).expected_error(0.0, 5000.0) == math.inf


@pytest.mark.parametrize("epsilon", [0.05, 0.25, 0.5, 1.0, 1.1, 1.5, 2.0, 2.5, 3.0, 3.5])
def test_the_window_for_a_distribution_hides_no_low_harmonic(epsilon: float) -> None:
    """The optimal window of a circle nearly hides the second or the fourth harmonic."""
    width = distribution_width(epsilon)
    assert width <= max(2 * half_window(epsilon), 0.375)
    orders = np.arange(1, 5)
    assert np.abs(np.sin(np.pi * orders * width)).min() > 0.25
    mechanism = Task("heading", Circle(360), epsilon, goal="distribution").mechanism
    assert isinstance(mechanism, OptimalCircular)
    shrunk = [abs(mechanism.attenuation(order)) for order in range(1, 5)]
    best = OptimalCircular(Circle(360), epsilon, nodes=mechanism.kernel.nodes)
    assert shrunk[0] > 0.8 * best.attenuation()  # the price: the direction is less precise
    if epsilon in (0.05, 2.0):
        hidden = 2 if epsilon < 1 else 4
        assert shrunk[hidden - 1] > 3 * abs(best.attenuation(hidden))


def test_a_width_is_a_share_of_the_circle() -> None:
    for width in (0.0, 1.0, -0.1, math.nan, 1.5):
        with pytest.raises(ParameterError, match=r"width must be .*, as a share of the circle"):
            OptimalCircular(Circle(360), 1.0, width=width)


@pytest.mark.parametrize(("epsilon", "power"), [(0.6, 1.0), (1.7, 1.0), (1.7, 2.0), (3.4, 2.0), (2.3, 1.5)])
def test_no_density_within_the_factor_has_a_smaller_worst_case(epsilon: float, power: float) -> None:
    """A linear program over all densities on cells whose values differ by at most e^epsilon, for input 0."""
    cells = 400
    edges = np.linspace(0.0, 1.0, cells + 1) ** (power + 1) / (power + 1)
    loss = np.append(
        np.diff(edges), 0.0
    )  # of a density of 1 on each cell; the last variable is the least level
    low = np.hstack([-np.eye(cells), np.ones((cells, 1))])
    high = np.hstack([np.eye(cells), np.full((cells, 1), -math.exp(epsilon))])
    mass = np.append(np.full(cells, 1.0 / cells), 0.0)[None, :]
    found = linprog(
        loss, np.vstack([low, high]), np.zeros(2 * cells), A_eq=mass, b_eq=[1.0], bounds=(0, None)
    )
    assert found.status == 0
    ours = interval_expected_error(0.0, epsilon, power)
    assert found.fun == pytest.approx(ours, rel=1e-3)
    assert found.fun >= ours * (1 - 1e-9)  # cells cut the window at its ends, so they are never better


@pytest.mark.parametrize("epsilon", [0.8, 1.3])
def test_a_density_of_two_narrow_peaks_has_a_smaller_worst_case(epsilon: float) -> None:
    """It is private: no point is more than e^epsilon times as dense for one input as for another."""
    inside = 1e-3  # of the mass is spread evenly for every input
    likely = math.exp(epsilon) / (1 + math.exp(epsilon))
    place, half = math.expm1(epsilon) / (4 * math.exp(epsilon)), 1e-4
    ends = [(place - half, place + half), (1 - place - half, 1 - place + half)]

    def error(x: float) -> float:
        total = inside * (x**2 + (1 - x) ** 2) / 2
        first = likely if x <= 0.5 else 1 - likely
        for (low, high), share in zip(ends, (first, 1 - first), strict=True):
            points = np.linspace(low, high, 201)
            total += (1 - inside) * share * float(np.abs(points - x).mean())
        return total

    levels = [(1 - inside) * share / (2 * half) + inside for share in (likely, 1 - likely)]
    assert max(levels) <= math.exp(epsilon) * min(levels)
    worst = max(error(x) for x in np.linspace(0.0, 1.0, 401).tolist())
    assert worst < 0.98 * interval_expected_error(0.0, epsilon)


# --- means of the clamped window -----------------------------------------------------------------------


@pytest.mark.parametrize("power", [1.0, 1.7, 3.0])
@pytest.mark.parametrize("epsilon", [0.03, 0.71, 3.9, 11.0])
def test_means_against_an_integral(epsilon: float, power: float) -> None:
    p, q, c = optimal_levels(epsilon, power)
    for x in (0.0, 0.013, 0.31, 0.5, 0.77, 1.0):
        start = min(max(x - c, 0.0), 1.0 - 2.0 * c)
        edges = [0.0, start, start + 2.0 * c, 1.0]
        pieces = [quad(lambda y: y, *edges[k : k + 2])[0] for k in range(3)]
        expected = q * pieces[0] + p * pieces[1] + q * pieces[2]
        assert interval_mean(x, epsilon, power) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("epsilon", [0.4, 2.3])
def test_the_mean_of_the_kernel_comes_close(epsilon: float) -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, placement="clamp", nodes=600)
    for x in (0.0, 0.2, 0.43, 0.9):
        assert mechanism.mean(x) == pytest.approx(interval_mean(x, epsilon), abs=3e-3)


def test_means_at_the_default_power_and_at_bounds() -> None:
    c = optimal_levels(2.0).half_window
    assert interval_mean(0.0, 2.0) == interval_mean(c, 2.0) < interval_mean(c + 1e-6, 2.0)
    assert interval_mean(0.5, 2.0) == 0.5
    with pytest.raises(ParameterError, match="x must"):
        interval_mean(1.2, 1.0)
