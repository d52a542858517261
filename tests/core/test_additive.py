"""Additive noise on a grid: its privacy, and its rows and moments against other formulas.

`reference_additive.json` holds direct minimisation and integration with 50 digits.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import (
    BoundedLaplaceMechanism,
    DiscreteStaircaseMechanism,
    GaussianMechanism,
    GeometricMechanism,
    LaplaceMechanism,
    StaircaseMechanism,
    TruncatedLaplaceMechanism,
    UniformAtomMechanism,
)
from arcwise.mechanisms.additive import approximate
from arcwise.noise import (
    AnalyticGaussian,
    DiscreteStaircase,
    Geometric,
    Laplace,
    Staircase,
    TruncatedLaplace,
    UniformAtom,
)
from arcwise.tasks import Task
from tests.support.cases import mostly_slow
from tests.support.interpreters import printed

if TYPE_CHECKING:
    from arcwise.mechanisms import Mechanism
    from arcwise.mechanisms.table import TableMechanism
    from arcwise.noise import ContinuousNoise, DiscreteNoise

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "reference_additive.json").read_text())
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
        assert epsilon > 6  # below that, e^-epsilon leaves room for weights of 2**31
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
    """Compares with other formulas for the same distributions: rounding changes nothing noticeable."""
    for given_ in ({}, {"nodes": 12, "reach": 0.3}, {"nodes": 5, "reach": 0}):
        mechanism = make(cls, epsilon, **given_)
        steps = mechanism.kernel.nodes - 1
        position = np.rint(mechanism.code_units() * steps)
        node = np.arange(steps + 1)[:, None]
        edges = position[:-1] + 0.5 - node
        cdf = independent_cells(cls, epsilon, steps, edges)
        cdf = np.hstack([np.zeros((steps + 1, 1)), cdf, np.ones((steps + 1, 1))])
        np.testing.assert_allclose(float_weights(mechanism), np.diff(cdf), rtol=2e-7, atol=2e-14)


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
    """The mass beyond the cells of both end codes is at most the tail of 1e-4, and close to it."""
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


# --- a delta: the certified one is at most the one asked, and close ----------------------------------


deltas = st.floats(-9.0, -0.5).map(lambda exponent: 10.0**exponent)
reaches = st.none() | st.floats(0.0, 2.0)


def certified(mechanism: TableMechanism, delta: float) -> float:
    """Return the certified delta; it must not exceed the decimal number that a reader sees."""
    exact = mechanism.certificate().delta
    assert exact <= min(Fraction(delta), Fraction(Decimal(repr(delta)))) * UNIT
    return exact / UNIT


def hockey_stick(mechanism: TableMechanism, s: int, t: int) -> float:
    first, second = mechanism.kernel.probabilities([s, t])
    return float(np.maximum(first - math.exp(mechanism.epsilon) * second, 0.0).sum())


@pytest.mark.slow
@given(st.floats(0.0, 20.0), deltas, st.none() | st.integers(2, 60), reaches)
@settings(max_examples=80, deadline=None)
@example(1.0, 1e-5, None, None)
@example(0.0, 0.5, None, 0.0)
@example(1.0, 0.1, 2, None)
def test_gaussian_keeps_delta_and_spends_it(
    epsilon: float, delta: float, nodes: int | None, reach: float | None
) -> None:
    try:
        mechanism = GaussianMechanism(UNIT_INTERVAL, epsilon, delta, nodes=nodes, reach=reach)
    except ParameterError as error:  # the table is too large, or some codes are unreachable
        refused = str(error)
    else:
        # Rounding of integers is multiplied by e^epsilon, in some hundreds of codes.
        slack = 2e-12 + 2.0**-55 * math.exp(epsilon)
        assert certified(mechanism, delta) == pytest.approx(delta, rel=1e-6, abs=slack)
        refused = ""
    assert not refused or "codes must be at most" in refused or "reach must be at most" in refused


@pytest.mark.slow
@given(st.floats(0.01, 20.0), deltas, st.none() | st.integers(2, 40), reaches)
@settings(max_examples=80, deadline=None)
@example(8.0, 1e-5, None, None)
@example(0.01, 1e-9, None, None)
@example(0.7, 0.3, 2, 0.0)
def test_truncated_laplace_keeps_delta_and_spends_it(
    epsilon: float, delta: float, nodes: int | None, reach: float | None
) -> None:
    """The spending is lower if the last cell must be lengthened to a weight of 2**31: at most 2**-33
    e^epsilon.

    It is also lower where a code holds noise from both sides of a node: without a reach, or if the noise is
    hardly longer than the largest shift, because nodes are few.
    """
    try:
        mechanism = TruncatedLaplaceMechanism(UNIT_INTERVAL, epsilon, delta, nodes=nodes, reach=reach)
    except ParameterError as error:
        refused = str(error)
    else:
        steps = mechanism.kernel.nodes - 1
        slack = 2.0**-32 * math.exp(epsilon) + 1e-9  # the second term: noise is built at epsilon - 1e-9
        spent = certified(mechanism, delta)
        if mechanism.values[0] < 0 and TruncatedLaplace(epsilon, delta).half_support * steps >= steps + 0.5:
            assert spent == pytest.approx(delta, rel=1e-6, abs=slack)
        refused = ""
    assert not refused or "codes must be at most" in refused


@given(st.floats(1e-4, 0.999), st.sampled_from([0.5, 1.0, 2.0]), st.integers(2, 40), reaches)
@settings(max_examples=80, deadline=None)
@example(0.05, 1.0, 2, None)  # the noise ends within a rounding error of a cell's edge
@example(0.999, 1.0, 30, None)
def test_uniform_with_an_atom_keeps_delta_and_spends_it(
    delta: float, power: float, nodes: int, reach: float | None
) -> None:
    try:
        mechanism = UniformAtomMechanism(UNIT_INTERVAL, delta, power=power, nodes=nodes, reach=reach)
    except ParameterError as error:
        refused = str(error)
    else:
        assert mechanism.epsilon == 0.0
        assert certified(mechanism, delta) == pytest.approx(delta, rel=1e-6)
        assert min(weight for row in mechanism.kernel.rows for weight in row if weight) >= 2**31
        refused = ""
    assert not refused or "codes must be at most" in refused


def test_uniform_noise_is_unbiased_down_to_the_deltas_that_its_page_names() -> None:
    smallest = UniformAtomMechanism(UNIT_INTERVAL, 2.8e-5, nodes=2)
    assert UniformAtomMechanism(UNIT_INTERVAL, 1.4e-4).unbiased
    assert smallest.unbiased
    # Uniform over 1/delta lengths, and rounded to two nodes: no error at a node.
    assert smallest.variance(0.0) == pytest.approx(1 / (12 * 2.8e-5**2), rel=1e-4)
    for delta, nodes in ((1.3e-4, None), (2.7e-5, 2)):
        with pytest.raises(ParameterError, match="codes must be at most"):
            UniformAtomMechanism(UNIT_INTERVAL, delta, nodes=nodes)
        clamped = UniformAtomMechanism(UNIT_INTERVAL, delta, nodes=nodes, reach=1.0)
        assert not clamped.unbiased
        assert certified(clamped, delta) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("epsilon", mostly_slow([0.1, 0.5, 8.0, 1.0, 2.0, 4.0], every=3))
@pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-6])
def test_at_the_defaults_delta_is_within_one_per_cent(epsilon: float, delta: float) -> None:
    for cls in (GaussianMechanism, TruncatedLaplaceMechanism):
        mechanism = cls(UNIT_INTERVAL, epsilon, delta)
        if cls is TruncatedLaplaceMechanism and math.exp(epsilon) * 2.0**-33 > delta / 100:
            continue  # its last cell may have to be lengthened
        assert 0.99 * delta <= certified(mechanism, delta) <= delta
        nodes = mechanism.kernel.nodes
        worst = max(hockey_stick(mechanism, s, t) for s in (0, 1, nodes // 2) for t in range(nodes))
        assert worst == pytest.approx(hockey_stick(mechanism, 0, nodes - 1), rel=1e-9)


def test_bounded_noise_is_unbiased_where_all_of_it_has_codes() -> None:
    for epsilon in (0.1, 1.0, 4.0):
        whole = TruncatedLaplaceMechanism(UNIT_INTERVAL, epsilon, 1e-4)
        assert whole.unbiased
        assert whole.default_goal == "mean"
        for value in (0.0, 0.123, 1.0):
            assert whole.mean(value) == pytest.approx(value, abs=1e-10)
        cut = TruncatedLaplaceMechanism(UNIT_INTERVAL, epsilon, 1e-4, reach=0.5)
        assert not cut.unbiased
        assert cut.mean(0.0) > 0.0
        assert cut.values[0] >= -0.5 - 1 / (cut.kernel.nodes - 1)
    assert UniformAtomMechanism(UNIT_INTERVAL, 0.05).unbiased
    assert not UniformAtomMechanism(UNIT_INTERVAL, 0.05, reach=0.5).unbiased
    generous = TruncatedLaplaceMechanism(UNIT_INTERVAL, 1.0, 1e-4, reach=1000.0)
    assert generous.kernel == TruncatedLaplaceMechanism(UNIT_INTERVAL, 1.0, 1e-4, nodes=33).kernel


@pytest.mark.parametrize("key", mostly_slow(REFERENCE["truncated_laplace"], every=3))
def test_gaussian_has_the_sigma_of_the_reference_and_less_where_the_clamp_allows(key: str) -> None:
    """With codes out to 5.5 sigma, the variance is sigma^2 plus Sheppard's h^2 / 12."""
    epsilon, delta = (float(part) for part in key.split(","))
    sigma = REFERENCE["truncated_laplace"][key]["sigma_analytic_gaussian"]
    nodes = 2 * min(50, math.isqrt(round(2000 / sigma))) + 1
    wide = GaussianMechanism(UNIT_INTERVAL, epsilon, delta, nodes=nodes, reach=5.5 * sigma)
    variance = wide.variance(0.5) - 1 / (12 * (nodes - 1) ** 2)
    # The grid has fewer places that distinguish inputs, so sigma may be less, by a part of (h / sigma)^2.
    assert variance == pytest.approx(sigma**2, rel=2e-3)
    assert variance <= sigma**2 * (1 + 1e-5)  # 1e-12 of delta is reserved for rounding
    narrow = GaussianMechanism(UNIT_INTERVAL, epsilon, delta, nodes=5, reach=0.0)
    tail = narrow.kernel.rows[2][0] / UNIT  # P(noise <= -3/8) at the middle
    assert tail < AnalyticGaussian(epsilon, delta).cdf(-0.375)  # so its sigma is smaller
    assert certified(narrow, delta) == pytest.approx(delta, rel=1e-3)


def test_no_table_with_a_larger_delta_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        approximate, "_whole_cells", lambda noise, _: UniformAtom(0.06, noise.sensitivity, 0.0)
    )
    with pytest.raises(CertificateError, match=r"no table of integers keeps delta = 0\.05 at epsilon = 0\.0"):
        UniformAtomMechanism(UNIT_INTERVAL, 0.05)


@pytest.mark.parametrize("delta", [1e-8, 1e-6])
def test_rounding_that_counts_e_to_the_epsilon_times_is_taken_off(delta: float) -> None:
    for cls in (GaussianMechanism, TruncatedLaplaceMechanism):
        mechanism = cls(UNIT_INTERVAL, 20.0, delta)
        assert certified(mechanism, delta) == pytest.approx(delta, rel=0.1)
    with pytest.raises(CertificateError, match="no table of integers keeps delta = 1e-13 at epsilon = 1"):
        GaussianMechanism(UNIT_INTERVAL, 1.0, 1e-13)


@pytest.mark.parametrize(
    ("cls", "given_", "message"),
    [
        (GaussianMechanism, {"delta": 0.0}, r"delta must be more than 0 and less than 1, got 0\.0"),
        (GaussianMechanism, {"epsilon": -1.0}, r"epsilon must be from 0 to 20, got -1\.0"),
        (GaussianMechanism, {"reach": 100.0}, r"reach must be at most \d+\.\d+ at"),
        (TruncatedLaplaceMechanism, {"epsilon": 0.0}, r"epsilon must be from 0\.01 to 20"),
        (TruncatedLaplaceMechanism, {"delta": 0.6}, r"delta must be .* at most 0\.5, got 0\.6"),
        (UniformAtomMechanism, {"delta": 1.0}, r"delta must be .* less than 1, got 1\.0"),
        (UniformAtomMechanism, {}, r"or fewer nodes \(on a lattice .*\)$"),
        (UniformAtomMechanism, {"reach": 9000.0}, r", or a smaller reach$"),
        (UniformAtomMechanism, {"delta": 0.5, "power": -1.0}, "power must be positive"),
    ],
)
def test_bad_arguments_beside_a_delta_are_refused(cls: Any, given_: dict[str, Any], message: str) -> None:
    epsilon = {} if cls is UniformAtomMechanism else {"epsilon": 1.0}
    with pytest.raises(ParameterError, match=message):
        cls(UNIT_INTERVAL, **{**epsilon, "delta": 1e-5, **given_})


@pytest.mark.parametrize("delta", [1.3e-12, 6e-12, 6.1e-11])
@pytest.mark.parametrize("nodes", [2, 36])
def test_gaussian_noise_of_tiny_delta_at_epsilon_zero(delta: float, nodes: int) -> None:
    """Here a difference of two probabilities near 1/2 keeps only four digits."""
    mechanism = GaussianMechanism(Interval(0, 1), 0.0, delta, nodes=nodes, reach=0.5)
    assert delta / 4 < mechanism.certificate().delta / UNIT <= delta


# --- moments -----------------------------------------------------------------------------------------
#
# For a unimodal density f and the grid step h, rounding to the grid changes ``E|X|`` by at most
# ``f(0) h^2 / 2``: f(0) h^2 / 4 in the cell of the node, and h^2 / 8 times what f varies in each other cell,
# 2 f(0) in all. In the same way it changes ``E X^2`` by at most ``h^2 (1 + h f(0)) / 2``. Clamping at the
# distance R takes ``E(|X|^p - R^p)+``.


def step(mechanism: Mechanism) -> float:
    return 1 / (mechanism.kernel.nodes - 1)


def half_width(mechanism: Mechanism) -> float:
    """Return the distance from the middle of [0, 1] to the end codes."""
    return float(mechanism.values[-1]) - 0.5


def clamped(noise: ContinuousNoise, limit: float, power: float) -> float:
    """Return ``E min(|X|, limit)^power``, integrating ``power x^(power-1) P(|X| > x)`` up to the limit."""
    bend = [point for k in range(200) for point in (k, k + getattr(noise, "gamma", 0.0)) if point < limit]
    edges = np.unique([0.0, *bend, min(limit, noise.support[1])])
    pieces = [
        integrate.quad(lambda x: power * x ** (power - 1) * 2 * noise.sf(x), low, high, epsabs=1e-13)[0]
        for low, high in pairwise(edges.tolist())
    ]
    return math.fsum(pieces)


def check_moments(mechanism: Mechanism, noise: ContinuousNoise, limit: float) -> None:
    h, peak = step(mechanism), noise.pdf(0.0)
    first, second = clamped(noise, limit, 1.0), clamped(noise, limit, 2.0)
    assert mechanism.expected_error(0.5) == pytest.approx(first, abs=peak * h**2 / 2 + 1e-7 * first)
    slack = h**2 * (1 + h * peak) / 2 + 1e-7 * second
    assert mechanism.expected_error(0.5, 2) == pytest.approx(second, abs=slack)
    assert mechanism.variance(0.5) == pytest.approx(mechanism.expected_error(0.5, 2), rel=1e-9)


@pytest.mark.parametrize("epsilon", mostly_slow(EPSILONS, every=3))
def test_in_the_middle_they_are_those_of_the_clamped_continuous_noise(epsilon: float) -> None:
    laplace = LaplaceMechanism(UNIT_INTERVAL, epsilon)
    check_moments(laplace, Laplace(epsilon), half_width(laplace))
    for power in (1.0, 2.0):
        staircase = StaircaseMechanism(UNIT_INTERVAL, epsilon, power=power)
        check_moments(staircase, Staircase.optimal(epsilon, power=power), half_width(staircase))
    truncated = TruncatedLaplaceMechanism(UNIT_INTERVAL, epsilon, 1e-4)
    check_moments(truncated, TruncatedLaplace(epsilon, 1e-4), math.inf)
    assert half_width(truncated) == pytest.approx(
        TruncatedLaplace(epsilon, 1e-4).half_support + 0.5, abs=step(truncated)
    )
    for power, delta in ((1.0, 0.05), (2.0, 0.9)):
        check_moments(
            UniformAtomMechanism(UNIT_INTERVAL, delta, power=power),
            UniformAtom.optimal(delta, power=power),
            math.inf,
        )


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_noise_on_the_integers_is_exact_but_for_the_clamp(epsilon: float, power: float) -> None:
    geometric = GeometricMechanism(UNIT_INTERVAL, epsilon)
    staircase = DiscreteStaircaseMechanism(UNIT_INTERVAL, epsilon, power=power)
    cases: list[tuple[Mechanism, DiscreteNoise]] = [
        (geometric, Geometric(epsilon, geometric.kernel.nodes - 1)),
        (staircase, DiscreteStaircase.optimal(epsilon, staircase.kernel.nodes - 1, power=power)),
    ]
    for mechanism, noise in cases:
        n = np.arange(round(60 / epsilon + 60) * (mechanism.kernel.nodes - 1))
        limit = round(half_width(mechanism) / step(mechanism))
        expected = 2 * float(noise.pmf(n) @ np.minimum(n, limit) ** power) * step(mechanism) ** power
        assert mechanism.expected_error(0.5, power) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("epsilon", REFERENCE["laplace"])
def test_laplace_within_the_domain_agrees_with_the_reference(epsilon: str) -> None:
    """There is a node at every x of the reference; each end's half cell adds f(0) h^2 / 8 to the bound."""
    entry, nodes = REFERENCE["laplace"][epsilon], 201
    mechanism = LaplaceMechanism(UNIT_INTERVAL, float(epsilon), nodes=nodes, reach=0)
    assert mechanism.values[0] == 0.0
    assert mechanism.values[-1] == 1.0
    bound = float(epsilon) / 2 * step(mechanism) ** 2 * 0.75
    errors = mechanism.expected_errors(REFERENCE["x_grid"])
    np.testing.assert_allclose(errors, entry["clamped_E_abs_err"], rtol=0, atol=bound)
    assert mechanism.expected_error(0.5) == pytest.approx(entry["clamped_worst_at_half"], abs=bound)
    worst = mechanism.expected_errors(np.linspace(0, 1, 1001)).max()
    assert worst == pytest.approx(entry["clamped_worst_at_half"], abs=bound + step(mechanism) / 4)


@pytest.mark.parametrize("epsilon", REFERENCE["laplace"])
def test_bounded_laplace_agrees_with_the_reference(epsilon: str) -> None:
    """The rate that spends all of epsilon is larger by the part 1 / (2N - 3), which lowers the errors.

    So the test takes two numbers of nodes and extrapolates what is linear in h to the limit h = 0.
    """
    entry = REFERENCE["laplace"][epsilon]
    coarse, fine = (BoundedLaplaceMechanism(UNIT_INTERVAL, float(epsilon), nodes=n) for n in (101, 201))
    reference = np.array(entry["renorm_E_abs_err"])
    errors = fine.expected_errors(REFERENCE["x_grid"])
    assert np.all(errors < reference)
    np.testing.assert_allclose(errors, reference, rtol=float(epsilon) / 200)
    extrapolated = 2 * errors - coarse.expected_errors(REFERENCE["x_grid"])
    np.testing.assert_allclose(extrapolated, reference, rtol=0, atol=2 * float(epsilon) ** 2 * 0.01**2)
    # Over the whole interval renormalising costs no epsilon.
    spent = fine.certificate().spent_epsilon
    assert spent == pytest.approx(entry["renorm_effective_eps_full_width_sensitivity"], abs=2e-9)
