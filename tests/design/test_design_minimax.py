"""Designed mechanisms: exact ratios and means, the worst case over all inputs, the distance to the bound."""

import json
import math
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arcwise.analysis.design import lower_bound, minimax, worst_case
from arcwise.analysis.design.designer import LARGEST_BIAS
from arcwise.analysis.design.integers import exact_bias
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT, exp_lower_bound
from arcwise.mechanisms import OptimalPiecewise, interval_expected_error
from arcwise.mechanisms.closed_forms.published import best_published_variance
from arcwise.mechanisms.designed import DesignedCircular, DesignedTable
from arcwise.tasks import Task
from tests.support.cases import mostly_slow
from tests.support.known import there

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "reference_design.json").read_text())
UNIT_INTERVAL = Interval(0, 1)


@cache
def designed(domain: Domain, epsilon: float, goal: str, power: float | None = None) -> Any:
    return minimax(domain, epsilon, goal=goal, power=power, cache=False)


def units(mechanism: DesignedTable) -> list[float]:
    return [float(unit) for unit in mechanism.code_units()]


def check_exact(mechanism: DesignedTable | DesignedCircular) -> None:
    """The integers keep epsilon, and spend all but a few billionths of it."""
    ratio = there(mechanism.kernel.ratio())
    limit = exp_lower_bound(mechanism.epsilon)
    assert ratio <= limit
    assert ratio > limit * (1 - Fraction(1, 10**7))
    assert mechanism.certificate().delta == 0
    assert all(sum(mechanism.kernel.row(node)) == UNIT for node in range(mechanism.kernel.nodes))


# --- the mean on an interval ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "bound", "excess"),
    [(0.5, 4.001, 0.015), (1.0, 0.998, 0.015), (2.0, 0.2163, 0.015), (4.0, 0.0317, 0.05)],
)
def test_variance_is_near_the_bound_of_all_mechanisms(epsilon: float, bound: float, excess: float) -> None:
    mechanism = designed(UNIT_INTERVAL, epsilon, "mean")
    worst = worst_case(mechanism)
    least = lower_bound(UNIT_INTERVAL, epsilon, "mean")
    assert least == pytest.approx(bound, rel=1e-3)
    assert least <= worst <= least * (1 + excess)
    assert (mechanism.kernel.nodes, mechanism.kernel.codes) == (17, 16)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0, *(each for each in (0.25, 3.0, 5.0, 6.5))])
@pytest.mark.slow
def test_variance_is_below_every_published_mechanism(epsilon: float) -> None:
    worst = worst_case(designed(UNIT_INTERVAL, epsilon, "mean"))
    assert worst < best_published_variance(epsilon)
    for name, published in REFERENCE["published"].get(str(epsilon), {}).items():
        assert worst < published, name


@pytest.mark.parametrize("epsilon", mostly_slow([0.1, 1.0, 8.0, 4.0], every=3))
def test_tables_are_symmetric_and_ratios_and_means_exact_to_the_last_unit(epsilon: float) -> None:
    mechanism = designed(UNIT_INTERVAL, epsilon, "mean")
    check_exact(mechanism)
    bias = exact_bias(mechanism.kernel.rows, units(mechanism))
    assert bias < 1e-15 < LARGEST_BIAS
    assert mechanism.unbiased
    # And the table is symmetric.
    values = [Fraction(unit) for unit in units(mechanism)]
    assert all(a + b == 1 for a, b in zip(values, reversed(values), strict=True))
    assert values == sorted(values)
    rows = mechanism.kernel.rows
    for node in range(len(rows) // 2):
        assert rows[node] == rows[-1 - node][::-1]


@pytest.mark.parametrize(
    ("domain", "epsilon"),
    mostly_slow([(UNIT_INTERVAL, 4.0), (Interval(-3.0, 5.0), 0.5), (UNIT_INTERVAL, 8.0)], every=3),
)
def test_worst_case_counts_inputs_between_nodes(domain: Interval, epsilon: float) -> None:
    mechanism = designed(domain, epsilon, "mean")
    assert mechanism.kernel == designed(UNIT_INTERVAL, epsilon, "mean").kernel
    worst = worst_case(mechanism)
    x = np.linspace(domain.low, domain.high, 64 * (mechanism.kernel.nodes - 1) + 1)
    errors = mechanism.expected_errors(x, 2.0)
    assert errors.max() <= worst * (1 + 1e-9)
    assert errors.max() >= worst * (1 - 1e-3)
    # At the nodes alone the variance is smaller, because rounding between them costs something.
    assert errors[::64].max() < worst * (1 - 1e-6)


@pytest.mark.slow
def test_decoded_reports_have_the_mean_and_the_variance_of_the_rows() -> None:
    """10^5 reports of one value; both checks are 5 standard errors wide (false alarms below 1e-6)."""
    mechanism = designed(UNIT_INTERVAL, 2.0, "mean")
    rng = np.random.default_rng(20260801)

    class Seeded:
        def draws(self, count: int) -> bytes:
            return rng.bytes(16 * count)

    n, x = 100_000, 0.387
    codes = mechanism.randomize_many(np.full(n, x), randomness=Seeded())
    decoded = mechanism.decode(codes)
    variance = mechanism.expected_error(x, 2.0)
    assert decoded.mean() == pytest.approx(x, abs=5 * math.sqrt(variance / n))
    fourth = mechanism.expected_error(x, 4.0)
    assert ((decoded - x) ** 2).mean() == pytest.approx(variance, abs=5 * math.sqrt(fourth / n))


@pytest.mark.parametrize(
    ("outputs", "nodes"),
    [(2, 2), (3, 5), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((7, 8), (5, 3)))],
)
def test_other_sizes(outputs: int, nodes: int) -> None:
    mechanism = minimax(UNIT_INTERVAL, 1.5, outputs=outputs, nodes=nodes, cache=False)
    check_exact(mechanism)
    assert mechanism.kernel.nodes == nodes
    assert mechanism.kernel.codes <= outputs
    assert exact_bias([mechanism.kernel.row(s) for s in range(nodes)], units(mechanism)) < 1e-15  # type: ignore[arg-type]
    assert worst_case(mechanism) >= lower_bound(UNIT_INTERVAL, 1.5, inputs=9)


@pytest.mark.parametrize(
    ("epsilon", "goal"),
    [
        (0.01, "value"),
        (20.0, "mean"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in ((0.01, "mean"), (20.0, "value"), (14.5, "mean"), (14.5, "value"))
        ),
    ],
)
def test_the_ends_of_epsilon(epsilon: float, goal: str) -> None:
    mechanism = minimax(UNIT_INTERVAL, epsilon, goal=goal, outputs=8, nodes=9, cache=False)
    ratio = there(mechanism.kernel.ratio())
    assert ratio <= exp_lower_bound(epsilon)
    worst = worst_case(mechanism, goal=goal)
    # The value of Duchi's mechanism, and that of always reporting the middle.
    assert worst <= (0.25 / math.tanh(epsilon / 2) ** 2 * (1 + 1e-6) if goal == "mean" else 0.5)


def test_two_outputs_give_duchi() -> None:
    """Duchi's mechanism is the best unbiased one with two outputs: variance at 1/2 coth(epsilon/2)^2 / 4."""
    for epsilon in (0.1, 1.0, 3.0):
        mechanism = minimax(UNIT_INTERVAL, epsilon, outputs=2, nodes=3, cache=False)
        assert worst_case(mechanism) == pytest.approx(0.25 / math.tanh(epsilon / 2) ** 2, rel=1e-7)


def test_a_task_carries_a_design_whole() -> None:
    mechanism = minimax(Interval(-3.0, 5.0), 0.5, outputs=8, nodes=9)
    task = Task("age", Interval(-3.0, 5.0), 0.5, goal="mean", mechanism=mechanism)
    again = Task.from_bytes(task.to_bytes())
    assert again.mechanism.kernel == mechanism.kernel
    assert list(again.mechanism.values) == list(mechanism.values)
    assert again.id == task.id


# --- a single value on an interval ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "below"), [(0.5, 0.09), (1.0, 0.15), (2.0, 0.24), (4.0, 0.30)])
def test_value_is_below_the_best_density_and_near_the_bound(epsilon: float, below: float) -> None:
    mechanism = designed(UNIT_INTERVAL, epsilon, "value")
    check_exact(mechanism)
    worst = worst_case(mechanism, goal="value")
    assert worst <= (1 - below) * interval_expected_error(0.0, epsilon)
    assert lower_bound(UNIT_INTERVAL, epsilon, "value") <= worst
    assert min(units(mechanism)) >= 0.0
    assert max(units(mechanism)) <= 1.0
    x = np.linspace(0, 1, 2001)
    errors = mechanism.expected_errors(x)
    assert worst * (1 - 1e-3) <= errors.max() <= worst * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
@pytest.mark.slow
def test_value_agrees_with_the_optimum_on_a_grid(epsilon: float) -> None:
    entry = REFERENCE["optimum"][str(epsilon)]
    absolute = worst_case(designed(UNIT_INTERVAL, epsilon, "value"), goal="value")
    grid = entry["classical_L1"]
    assert absolute == pytest.approx(grid["lp_n161"], abs=grid["bracket_plus_minus"])
    squared = worst_case(designed(UNIT_INTERVAL, epsilon, "value", 2.0), goal="value", power=2.0)
    assert squared == pytest.approx(entry["classical_L2"]["lp_n161"], rel=1e-3)


@pytest.mark.slow
def test_any_power() -> None:
    mechanism = designed(UNIT_INTERVAL, 1.0, "value", 1.5)
    worst = worst_case(mechanism, goal="value", power=1.5)
    assert worst < interval_expected_error(0.0, 1.0, 1.5)
    assert lower_bound(UNIT_INTERVAL, 1.0, "value", power=1.5) == pytest.approx(worst, rel=1e-3)
    scaled = worst_case(designed(Interval(0, 4), 1.0, "value", 1.5), goal="value", power=1.5)
    assert scaled == pytest.approx(4**1.5 * worst, rel=1e-12)


# --- circles --------------------------------------------------------------------------------------------

TURN = Circle(2 * math.pi)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 4.0])
@pytest.mark.parametrize(("goal", "power"), [("value", None), ("value", 2.0), ("direction", None)])
def test_circles_are_near_the_bound(epsilon: float, goal: str, power: float | None) -> None:
    mechanism = designed(TURN, epsilon, goal, power)
    assert isinstance(mechanism, DesignedCircular)
    check_exact(mechanism)
    worst = worst_case(mechanism, goal=goal, power=power)
    bound = lower_bound(TURN, epsilon, goal, power=power)
    assert bound <= worst <= 1.003 * bound
    weights = mechanism.kernel.weights
    assert all(abs(a - b) <= 1 for a, b in zip(weights[1:], weights[:0:-1], strict=True))


@pytest.mark.parametrize("epsilon", ["1.0", "2.0"])
def test_circles_agree_with_the_optimum_on_a_grid(epsilon: str) -> None:
    entry = REFERENCE["optimum"][epsilon]
    for key, power in (("circle_L1", 1.0), ("circle_L2", 2.0)):
        bound = lower_bound(TURN, float(epsilon), "value", power=power)
        assert bound == pytest.approx(entry[key]["invariant_n4001"], rel=1e-6)


@pytest.mark.parametrize(("epsilon", "outputs"), [(1.0, 16), (3.0, 7), (0.5, 9), (6.0, 32)])
@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_circle_worst_case_counts_inputs_between_nodes(epsilon: float, outputs: int, power: float) -> None:
    mechanism = minimax(Circle(10), epsilon, goal="value", power=power, outputs=outputs, cache=False)
    worst = worst_case(mechanism, goal="value", power=power)
    errors = mechanism.expected_errors(np.linspace(0, 10, 64 * outputs + 1), power)
    assert worst * (1 - 1e-3) <= errors.max() <= worst * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "outputs"), [(1.0, 16), (3.0, 7), (0.5, 128)])
def test_direction_counts_inputs_between_nodes(epsilon: float, outputs: int) -> None:
    mechanism = minimax(Circle(1), epsilon, goal="direction", outputs=outputs, cache=False)
    assert isinstance(mechanism, DesignedCircular)
    fraction = np.linspace(0, 1, 65)
    first, second = (mechanism.kernel.probabilities([node]) for node in (0, 1))
    laws = (1 - fraction)[:, None] * first + fraction[:, None] * second
    angle = 2 * np.pi * (np.arange(outputs) - fraction[:, None]) / outputs
    loss = 1 - (laws * np.cos(angle)).sum(axis=1)
    assert worst_case(mechanism) == pytest.approx(loss.max(), rel=1e-12)
    assert worst_case(mechanism) > 1 - mechanism.attenuation()


# --- arguments and progress -----------------------------------------------------------------------------


@pytest.mark.slow
def test_progress_rises_to_one() -> None:
    seen: list[tuple[float, str]] = []
    size: dict[str, Any] = {"outputs": 8, "nodes": 9, "cache": False}
    made = minimax(UNIT_INTERVAL, 1.0, **size, progress=lambda share, text: seen.append((share, text)))
    shares = [share for share, _ in seen]
    assert len(shares) > 5
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] == 1.0
    assert f"worst case {worst_case(made):.5f}" in seen[-1][1]


def test_the_same_request_gives_the_same_integers() -> None:
    first = minimax(UNIT_INTERVAL, 2.5, outputs=8, nodes=9, cache=False)
    second = minimax(Interval(-1, 1), 2.5, outputs=8, nodes=9, cache=False)
    assert first.kernel == second.kernel


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: minimax(UNIT_INTERVAL, 0.0), r"epsilon must be from 0\.01 to 20, got 0\.0"),
        (lambda: minimax(UNIT_INTERVAL, 1.0, goal="direction"), 'goal must be "mean" or "value" on Interval'),
        (lambda: minimax(TURN, 1.0), 'goal must be "value" or "direction" on Circle, got \'mean\''),
        (lambda: minimax(UNIT_INTERVAL, 1.0, power=2), 'power is for the goal "value" only, got 2'),
        (
            lambda: minimax(UNIT_INTERVAL, 1.0, goal="value", power=0.5),
            "power must be .* at least 1, got 0.5",
        ),
        (lambda: minimax(UNIT_INTERVAL, 1.0, goal="value", power=math.inf), "power must be finite"),
        (lambda: minimax(UNIT_INTERVAL, 1.0, outputs=1), "outputs must be an integer from 2 to 257, got 1"),
        (lambda: minimax(UNIT_INTERVAL, 1.0, nodes=17.0), r"nodes must be an integer .* got 17\.0"),  # type: ignore[arg-type]
        (
            lambda: minimax(TURN, 1.0, goal="value", outputs=8, nodes=9),
            "must be equal on a Circle, got 8 and 9",
        ),
        (lambda: minimax((0, 1), 1.0), r"domain must be an Interval or a Circle, got \(0, 1\)"),  # type: ignore[arg-type]
        (lambda: lower_bound(UNIT_INTERVAL, 12.5), r"epsilon must be at most 12 for a bound .* got 12\.5"),
        (lambda: lower_bound(UNIT_INTERVAL, 1.0, inputs=16), "inputs must be an odd integer .* got 16"),
        (
            lambda: worst_case(OptimalPiecewise(UNIT_INTERVAL, 1.0)),
            "table or a turned row, got the kind 'window'",
        ),
        (
            lambda: worst_case(minimax(UNIT_INTERVAL, 0.5, goal="value", outputs=4, nodes=5)),
            'unbiased for the goal "mean"',
        ),
    ],
)
def test_bad_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
