"""Additive noise that spends a delta, on a grid: the certified delta is at most the one asked, and close."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arcwise.domains import Interval
from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import GaussianMechanism, TruncatedLaplaceMechanism, UniformAtomMechanism
from arcwise.mechanisms.additive import approximate
from arcwise.noise import AnalyticGaussian, TruncatedLaplace, UniformAtom, gaussian_delta
from tests.support.cases import mostly_slow

if TYPE_CHECKING:
    from arcwise.mechanisms.table import TableMechanism

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "reference_additive.json").read_text())
UNIT_INTERVAL = Interval(0.0, 1.0)

deltas = st.floats(-9.0, -0.5).map(lambda exponent: 10.0**exponent)
reaches = st.none() | st.floats(0.0, 2.0)


def certified(mechanism: TableMechanism, delta: float) -> float:
    """Return the certified delta; it must not exceed what a reader of the decimal has in mind."""
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
    except ParameterError as error:  # too large a table for so wide a noise, or codes that nothing reaches
        refused = str(error)
    else:
        # An integer's rounding counts e^epsilon times, in some hundreds of codes.
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
    """Less by what it takes to lengthen the last cell to a weight of 2**31: at most 2**-33 e^epsilon.

    And less where a code holds noise from both sides of a node: without a reach, or with so few nodes that
    the noise is hardly longer than the largest shift.
    """
    try:
        mechanism = TruncatedLaplaceMechanism(UNIT_INTERVAL, epsilon, delta, nodes=nodes, reach=reach)
    except ParameterError as error:
        refused = str(error)
    else:
        steps = mechanism.kernel.nodes - 1
        slack = 2.0**-32 * math.exp(epsilon) + 1e-9  # the second: noise is built at epsilon - 1e-9
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
    # Uniform over 1/delta lengths, and rounded to two nodes: nothing at a node.
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
    """With codes out to 5.5 sigma the variance is sigma^2 and Sheppard's h^2 / 12."""
    epsilon, delta = (float(part) for part in key.split(","))
    sigma = REFERENCE["truncated_laplace"][key]["sigma_analytic_gaussian"]
    nodes = 2 * min(50, math.isqrt(round(2000 / sigma))) + 1
    wide = GaussianMechanism(UNIT_INTERVAL, epsilon, delta, nodes=nodes, reach=5.5 * sigma)
    variance = wide.variance(0.5) - 1 / (12 * (nodes - 1) ** 2)
    # The grid has fewer places to tell inputs apart, so sigma may be less, by a part of (h / sigma)^2.
    assert variance == pytest.approx(sigma**2, rel=2e-3)
    assert variance <= sigma**2 * (1 + 1e-5)  # 1e-12 of delta is kept back for rounding
    narrow = GaussianMechanism(UNIT_INTERVAL, epsilon, delta, nodes=5, reach=0.0)
    tail = narrow.kernel.rows[2][0] / UNIT  # P(noise <= -3/8) at the middle
    assert tail < AnalyticGaussian(epsilon, delta).cdf(-0.375)  # so its sigma is smaller
    assert certified(narrow, delta) == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-3), (4.0, 1e-2)])
def test_gaussian_rounding_costs_nothing_that_balle_and_wang_had(epsilon: float, delta: float) -> None:
    """The delta of the noise that was built is not below what is certified: processing only lowers it."""
    sigma = AnalyticGaussian(epsilon, delta).sigma
    mechanism = GaussianMechanism(UNIT_INTERVAL, epsilon, delta, nodes=21, reach=5.5 * sigma)
    built = math.sqrt(mechanism.variance(0.5) - (1 / 20) ** 2 / 12)
    assert gaussian_delta(built, epsilon) >= certified(mechanism, delta) * (1 - 1e-5)
    assert built == pytest.approx(sigma, rel=1e-3)


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
def test_bad_arguments_are_refused(cls: Any, given_: dict[str, Any], message: str) -> None:
    epsilon = {} if cls is UniformAtomMechanism else {"epsilon": 1.0}
    with pytest.raises(ParameterError, match=message):
        cls(UNIT_INTERVAL, **{**epsilon, "delta": 1e-5, **given_})


@pytest.mark.parametrize("delta", [1.3e-12, 6e-12, 6.1e-11])
@pytest.mark.parametrize("nodes", [2, 36])
def test_gaussian_noise_of_tiny_delta_at_epsilon_zero(delta: float, nodes: int) -> None:
    """Where a difference of two probabilities near 1/2 has four digits left."""
    mechanism = GaussianMechanism(Interval(0, 1), 0.0, delta, nodes=nodes, reach=0.5)
    assert delta / 4 < mechanism.certificate().delta / UNIT <= delta
