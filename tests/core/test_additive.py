"""Additive noise on a grid: pure epsilon by brute force, rows against other formulas, defaults, errors.

Moments are in `test_additive_moments`, mechanisms with a delta in `test_additive_approximate`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import (
    BoundedLaplaceMechanism,
    DiscreteStaircaseMechanism,
    GaussianMechanism,
    GeometricMechanism,
    LaplaceMechanism,
    StaircaseMechanism,
    TruncatedLaplaceMechanism,
)
from arcwise.noise import DiscreteStaircase
from arcwise.tasks import Task
from tests.core.brute_force import exp_bounds, largest_ratio
from tests.support.cases import mostly_slow
from tests.support.interpreters import printed

if TYPE_CHECKING:
    from arcwise.mechanisms.table import TableMechanism

UNIT_INTERVAL = Interval(0.0, 1.0)
PURE: list[Any] = [
    LaplaceMechanism,
    BoundedLaplaceMechanism,
    GeometricMechanism,
    StaircaseMechanism,
    DiscreteStaircaseMechanism,
]
WITH_REACH = [cls for cls in PURE if cls is not BoundedLaplaceMechanism]
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)


def named(cls: Any) -> str:
    return str(cls.name)


def make(cls: Any, epsilon: float, **given: Any) -> TableMechanism:
    """Return a mechanism on [0, 1]; those with a delta get 1e-5."""
    if cls in (GaussianMechanism, TruncatedLaplaceMechanism):
        given.setdefault("delta", 1e-5)
    mechanism: TableMechanism = cls(UNIT_INTERVAL, epsilon, **given)
    return mechanism


def float_weights(mechanism: TableMechanism) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([[float(weight) for weight in row] for row in mechanism.kernel.rows]) / 2.0**64


# --- pure epsilon ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", PURE, ids=named)
@pytest.mark.parametrize("nodes", mostly_slow([2, 10, 3, 100, 65], every=3))
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0, 20.0])
def test_pure_epsilon_by_brute_force(cls: Any, nodes: int, epsilon: float) -> None:
    reaches = ({},) if cls is BoundedLaplaceMechanism else ({"reach": 0.0}, {"reach": 0.2})
    for reach in reaches:
        if epsilon == 20.0 and ("reach" in reach or nodes == 100):
            continue  # weights of 2**31 leave no room there
        kernel = make(cls, epsilon, nodes=nodes, **reach).kernel
        assert min(map(min, kernel.rows)) >= 2**31
        ratio = largest_ratio(kernel)
        assert ratio is not None
        assert ratio <= exp_bounds(epsilon)[0]


@pytest.mark.parametrize("cls", PURE, ids=named)
@pytest.mark.parametrize("epsilon", [0.01, *EPSILONS])
def test_nearly_all_of_epsilon_is_spent_by_default(cls: Any, epsilon: float) -> None:
    assert make(cls, epsilon).certificate().spent_epsilon == pytest.approx(epsilon, abs=2e-9)


@given(st.sampled_from(WITH_REACH), st.floats(0.05, 12.0), st.integers(2, 40), st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_any_parameters_give_a_certificate_or_a_reason(
    cls: Any, epsilon: float, nodes: int, reach: float
) -> None:
    refused = ""
    try:
        mechanism = make(cls, epsilon, nodes=nodes, reach=reach)
    except ParameterError as error:
        refused = str(error)
    if refused:
        assert "so that every weight is at least" in refused or "fall below" in refused
        assert epsilon > 6  # below, e^-epsilon leaves room for weights of 2**31
        return
    assert mechanism.certificate().delta == 0
    assert mechanism.kernel.codes == nodes + 2 * round(reach * (nodes - 1))
    assert min(map(min, mechanism.kernel.rows)) >= 2**31


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_two_nodes_within_the_domain_are_randomised_response(epsilon: float) -> None:
    kept = math.exp(epsilon) / (1 + math.exp(epsilon))
    for mechanism in (
        BoundedLaplaceMechanism(UNIT_INTERVAL, epsilon, nodes=2),
        GeometricMechanism(UNIT_INTERVAL, epsilon, nodes=2, reach=0),
        DiscreteStaircaseMechanism(UNIT_INTERVAL, epsilon, nodes=2, reach=0),
    ):
        assert mechanism.kernel.rows[0][0] / UNIT == pytest.approx(kept, rel=2e-9)


# --- rows --------------------------------------------------------------------------------------------


def independent_cells(cls: Any, epsilon: float, steps: int, edges: Any) -> Any:
    """Return P(noise <= edge) for the noise with sensitivity `steps`, from scipy alone where it has it."""
    if cls is LaplaceMechanism:
        return stats.laplace(scale=steps / epsilon).cdf(edges)
    if cls is GeometricMechanism:
        return stats.dlaplace(epsilon / steps).cdf(edges)
    if cls is StaircaseMechanism:
        gamma, b = 1 / (1 + math.exp(epsilon / 2)), math.exp(-epsilon)
        # The masses of the steps of one side, as a piecewise linear distribution function.
        k = np.arange(60)
        ends = np.column_stack([k + gamma, k + 1.0]).ravel() * steps
        masses = np.column_stack([b**k * gamma, b ** (k + 1) * (1 - gamma)]).ravel()
        upper = np.concatenate([[0.0], np.cumsum(masses)]) / masses.sum() / 2
        return 0.5 + np.sign(edges) * np.interp(np.abs(edges), np.concatenate([[0.0], ends]), upper)
    r = DiscreteStaircase.optimal(epsilon, steps).r
    n = np.arange(-60 * steps, 60 * steps + 1)
    whole, rest = np.divmod(np.abs(n), steps)
    mass = np.exp(-epsilon * (whole + (rest >= r)))
    return np.interp(edges, n + 0.5, np.cumsum(mass) / mass.sum())


@pytest.mark.parametrize("cls", WITH_REACH, ids=named)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_rows_are_masses_of_cells(cls: Any, epsilon: float) -> None:
    """Against other formulas for the same distributions: nothing that rounding moved is noticeable."""
    for given_ in ({}, {"nodes": 12, "reach": 0.3}, {"nodes": 5, "reach": 0}):
        mechanism = make(cls, epsilon, **given_)
        steps = mechanism.kernel.nodes - 1
        position = np.rint(mechanism.code_units() * steps)
        node = np.arange(steps + 1)[:, None]
        edges = position[:-1] + 0.5 - node
        cdf = independent_cells(cls, epsilon, steps, edges)
        cdf = np.hstack([np.zeros((steps + 1, 1)), cdf, np.ones((steps + 1, 1))])
        np.testing.assert_allclose(float_weights(mechanism), np.diff(cdf), rtol=2e-7, atol=2e-14)


@pytest.mark.parametrize("cls", [*WITH_REACH, GaussianMechanism, TruncatedLaplaceMechanism], ids=named)
@pytest.mark.parametrize("epsilon", mostly_slow(EPSILONS, every=3))
def test_noise_is_symmetric_around_every_node(cls: Any, epsilon: float) -> None:
    """Mirroring node and code changes nothing but the last bits, and the middle is decoded without bias."""
    mechanism = make(cls, epsilon)
    rows = float_weights(mechanism)
    np.testing.assert_allclose(rows, rows[::-1, ::-1], rtol=1e-9)
    assert mechanism.mean(0.5) == pytest.approx(0.5, abs=1e-12 * max(1.0, np.abs(mechanism.values).max()))
    np.testing.assert_allclose(rows[1:, 2:-1], rows[:-1, 1:-2], rtol=1e-9)  # every row is one row, moved
    units = mechanism.code_units()
    np.testing.assert_allclose(np.diff(units), 1 / (mechanism.kernel.nodes - 1), rtol=1e-9)
    assert units[0] + units[-1] == pytest.approx(1.0, abs=1e-12)


# --- defaults and errors -----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [*PURE, GaussianMechanism, TruncatedLaplaceMechanism], ids=named)
@pytest.mark.parametrize("epsilon", mostly_slow([0.01, *EPSILONS, 20.0], every=4))
def test_a_task_with_the_default_table_stays_below_200_kilobytes(cls: Any, epsilon: float) -> None:
    mechanism = make(cls, epsilon)
    task = Task("noise", UNIT_INTERVAL, epsilon, mechanism=mechanism)
    assert len(task.to_bytes()) < 200_000
    assert mechanism.default_goal == ("mean" if cls is TruncatedLaplaceMechanism else "distribution")


@pytest.mark.parametrize("cls", WITH_REACH, ids=named)
@pytest.mark.parametrize("epsilon", [0.01, *EPSILONS])
def test_the_default_reach_covers_the_noise(cls: Any, epsilon: float) -> None:
    """What lies beyond the cell of an end code, on both sides, is at most the tail of 1e-4, and near it."""
    mechanism = make(cls, epsilon)
    rows = float_weights(mechanism)
    beyond = rows[0, 0] - rows[1, 1]  # the second is the cell at the same distance, of the next node
    assert 2 * beyond <= 1e-4
    assert 2 * rows[0, :3].sum() > 1e-4


def test_the_largest_table_fits_in_a_task() -> None:
    mechanism = LaplaceMechanism(UNIT_INTERVAL, 1.0, nodes=330, reach=0)
    data = Task("noise", UNIT_INTERVAL, 1.0, mechanism=mechanism).to_bytes()
    assert Task.from_bytes(data).mechanism.kernel == mechanism.kernel


LOAD = """
import sys
from arcwise.tasks import Task
task = Task.from_bytes(bytes.fromhex(sys.stdin.read()))
codes = [task.mechanism.randomize(0.25) for _ in range(10)] + list(task.mechanism.randomize_many([0.5] * 10))
assert all(0 <= code < task.mechanism.kernel.codes for code in codes)
print(sorted(name for name in sys.modules if name.startswith("arcwise.noise") or name == "scipy"))
"""


def test_a_device_samples_without_the_distributions() -> None:
    mechanism = StaircaseMechanism(UNIT_INTERVAL, 1.0, nodes=5)
    task = Task("noise", UNIT_INTERVAL, 1.0, mechanism=mechanism)
    assert printed(LOAD, stdin=task.to_bytes().hex()) == "[]"


@pytest.mark.parametrize(
    ("cls", "given_", "message"),
    [
        (LaplaceMechanism, {"epsilon": 0.0}, r"epsilon must be from 0\.01 to 20, got 0\.0"),
        (LaplaceMechanism, {"domain": Circle(1.0)}, "domain must be an Interval, got"),
        (LaplaceMechanism, {"nodes": 1}, "nodes must be an integer from 2 to 330, got 1"),
        (GeometricMechanism, {"nodes": 331}, "nodes must be an integer from 2 to 330"),
        (GeometricMechanism, {"reach": -0.5}, r"reach must be from 0 to 65536, got -0\.5"),
        (GeometricMechanism, {"reach": math.nan}, "reach must be from 0 to 65536, got nan"),
        (
            StaircaseMechanism,
            {"epsilon": 8.0, "reach": 3.0},
            r"reach must be at most [12]\.\d+ at this epsilon with 65 nodes, so that every weight is at "
            r"least 2\*\*31; got 3\.0",
        ),
        (
            LaplaceMechanism,
            {"epsilon": 20.0, "nodes": 300},
            "nodes must be fewer than 300 at this epsilon: even with a reach of 0",
        ),
        (
            LaplaceMechanism,
            {"nodes": 200},
            r"\(nodes \+ 1\) \* codes must be at most 110000, got \d+ at nodes = 200 and a reach of 9\.\d+ ",
        ),
        (
            BoundedLaplaceMechanism,
            {"epsilon": 20.0, "nodes": 300},
            r"nodes must be fewer at epsilon = 20\.0, .*; got 300",
        ),
        (StaircaseMechanism, {"power": 0.0}, r"power must be positive and finite, got 0\.0"),
        (DiscreteStaircaseMechanism, {"power": math.inf}, "power must be positive"),
    ],
)
def test_bad_arguments_are_refused(cls: Any, given_: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        cls(**{"domain": UNIT_INTERVAL, "epsilon": 1.0, **given_})
