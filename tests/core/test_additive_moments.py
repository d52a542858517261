"""Moments of additive noise on a grid against the continuous noise, within bounds that are derived.

`reference_additive.json` holds direct minimisation and integration with 50 digits. For a unimodal density f
and the grid step h, rounding to the grid changes ``E|X|`` by at most ``f(0) h^2 / 2``: f(0) h^2 / 4 in the
cell of the node, and h^2 / 8 times what f varies in each other cell, 2 f(0) in all. In the same way it
changes ``E X^2`` by at most ``h^2 (1 + h f(0)) / 2``. Clamping at the distance R takes ``E(|X|^p - R^p)+``.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import integrate

from arcwise.domains import Interval
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
from arcwise.noise import DiscreteStaircase, Geometric, Laplace, Staircase, TruncatedLaplace, UniformAtom
from tests.support.cases import mostly_slow

if TYPE_CHECKING:
    from arcwise.mechanisms import Mechanism
    from arcwise.noise import ContinuousNoise, DiscreteNoise

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "reference_additive.json").read_text())
UNIT_INTERVAL = Interval(0.0, 1.0)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)


def step(mechanism: Mechanism) -> float:
    return 1 / (mechanism.kernel.nodes - 1)


def half_width(mechanism: Mechanism) -> float:
    """Return the distance from the middle of [0, 1] to the end codes."""
    return float(mechanism.values[-1]) - 0.5


def clamped(noise: ContinuousNoise, limit: float, power: float) -> float:
    """Return ``E min(|X|, limit)^power``: ``power x^(power-1) P(|X| > x)``, integrated up to the limit."""
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


@pytest.mark.parametrize(("epsilon", "reach"), [("1.0", 16.0), ("2.0", 7.0), ("4.0", 3.0)])
def test_discrete_staircase_agrees_with_the_reference(epsilon: str, reach: float) -> None:
    """With codes out to weights of 2**33 the clamp takes less than 1e-3 of either moment."""
    entries = REFERENCE["discrete_staircase"][epsilon]
    for steps in (int(key) for key in entries if key != "geometric"):
        for power, key in ((1.0, "E_abs"), (2.0, "E_sq")):
            mechanism = DiscreteStaircaseMechanism(
                UNIT_INTERVAL, float(epsilon), power=power, nodes=steps + 1, reach=reach
            )
            error = mechanism.expected_error(steps // 2 / steps, power) * steps**power
            assert error == pytest.approx(entries[str(steps)][key], rel=1e-3)
            assert error < entries[str(steps)][key]


@pytest.mark.parametrize("epsilon", REFERENCE["laplace"])
def test_laplace_within_the_domain_agrees_with_the_reference(epsilon: str) -> None:
    """Nodes at every x of the reference; a half cell at either end adds f(0) h^2 / 8 to the bound, twice."""
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

    So two numbers of nodes, and from them the limit h = 0 of what is linear in h.
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


@pytest.mark.parametrize("epsilon", REFERENCE["staircase"])
def test_staircases_agree_with_the_reference_and_beat_laplace(epsilon: str) -> None:
    """Rounding and clamping aside, as in `check_moments`; the clamp of 1e-4 costs up to 2 % of E X^2."""
    entry = REFERENCE["staircase"][epsilon]
    for power, key in ((1.0, "E_abs_L1"), (2.0, "E_sq_L2")):
        mechanism = StaircaseMechanism(UNIT_INTERVAL, float(epsilon), power=power)
        noise, h = Staircase.optimal(float(epsilon), power=power), step(mechanism)
        lost = entry[key] - clamped(noise, half_width(mechanism), power)
        assert 0 <= lost < 0.02 * entry[key]
        bound = h**2 * (noise.pdf(0.0) if power == 1 else 1 + h * noise.pdf(0.0)) / 2
        found = mechanism.expected_error(0.5, power)
        assert found == pytest.approx(entry[key] - lost, abs=bound + 1e-7 * entry[key])
        discrete = DiscreteStaircaseMechanism(UNIT_INTERVAL, float(epsilon), power=power)
        for other in (mechanism, discrete):
            assert other.expected_error(0.5, power) < LaplaceMechanism(
                UNIT_INTERVAL, float(epsilon), nodes=other.kernel.nodes
            ).expected_error(0.5, power)


@pytest.mark.parametrize("delta", REFERENCE["zero_delta"])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_uniform_with_an_atom_agrees_with_the_reference(delta: str, power: float) -> None:
    mechanism = UniformAtomMechanism(UNIT_INTERVAL, float(delta), power=power)
    noise, h = UniformAtom.optimal(float(delta), power=power), step(mechanism)
    bound = h**2 * (noise.density if power == 1 else 1 + h * noise.density) / 2
    expected = REFERENCE["zero_delta"][delta][f"p{power:g}"]
    assert mechanism.expected_error(0.5, power) == pytest.approx(expected, abs=bound + 1e-8 * expected)


@pytest.mark.parametrize("key", [k for k in REFERENCE["truncated_laplace"] if not k.endswith("1e-8")])
def test_truncated_laplace_agrees_with_the_reference_and_beats_the_gaussian(key: str) -> None:
    epsilon, delta = (float(part) for part in key.split(","))
    entry = REFERENCE["truncated_laplace"][key]
    mechanism = TruncatedLaplaceMechanism(UNIT_INTERVAL, epsilon, delta)
    h, peak = step(mechanism), TruncatedLaplace(epsilon, delta).pdf(0.0)
    assert half_width(mechanism) == pytest.approx(entry["A"] + 0.5, abs=h)
    first = pytest.approx(entry["E_abs"], abs=h**2 * peak / 2 + 1e-6 * entry["E_abs"])
    assert mechanism.expected_error(0.5) == first
    second = pytest.approx(entry["E_sq"], abs=h**2 * (1 + h * peak) / 2 + 1e-6 * entry["E_sq"])
    assert mechanism.expected_error(0.5, 2) == second
    gaussian = GaussianMechanism(UNIT_INTERVAL, epsilon, delta)
    assert mechanism.expected_error(0.5) < gaussian.expected_error(0.5)
