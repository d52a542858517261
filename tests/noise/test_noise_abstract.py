"""The staircase over a finite set of outputs: its definition, its privacy, its integers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.certificate import exp_lower_bound
from arcwise.noise import AbstractStaircase, DiscreteStaircase, Staircase
from arcwise.randomness import InsecureSeededRandomness
from tests.noise.families import epsilons

LINE = np.abs(np.subtract.outer(np.arange(9), np.arange(9)))
TURN = np.minimum(
    np.subtract.outer(np.arange(12), np.arange(12)) % 12,
    -np.subtract.outer(np.arange(12), np.arange(12)) % 12,
)

tables = st.tuples(st.integers(2, 6), st.integers(2, 6)).flatmap(
    lambda shape: st.lists(
        st.lists(st.floats(0, 8), min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
    )
)


@given(tables, st.floats(0.01, 8), st.floats(0, 1))
def test_it_is_private_whatever_the_costs(costs: list[list[float]], epsilon: float, gamma: float) -> None:
    if np.ptp(np.array(costs), axis=0).max() < 1e-3:
        return
    mechanism = AbstractStaircase.for_epsilon(costs, epsilon, gamma)
    assert mechanism.privacy_loss() <= epsilon
    assert mechanism.sensitivity == np.ptp(np.array(costs), axis=0).max()
    np.testing.assert_allclose(mechanism.probabilities.sum(axis=1), 1, rtol=1e-14)
    if mechanism.probabilities.min() > 2.0**-30:
        certificate = mechanism.certificate(epsilon)
        assert certificate.delta == 0
        assert certificate.ratio is not None
        assert certificate.ratio <= exp_lower_bound(epsilon)


def test_it_is_its_definition() -> None:
    """Geng and Viswanath, Definition 4, with the density of the staircase as f."""
    base = np.linspace(1, 3, 9)
    mechanism = AbstractStaircase(LINE, 0.8, 0.3, base=base)
    assert mechanism.sensitivity == 8
    f = Staircase(0.8, 8.0, 0.3).pdf(LINE) * base
    np.testing.assert_allclose(mechanism.probabilities, f / f.sum(axis=1, keepdims=True), rtol=1e-12)
    cost = (mechanism.probabilities * LINE).sum(axis=1)
    np.testing.assert_allclose(mechanism.expected_cost(), cost, rtol=1e-14)


def test_the_same_sum_for_all_inputs_costs_the_decay_alone() -> None:
    mechanism = AbstractStaircase(TURN, 1 - 1e-9, 0.3)
    assert mechanism.privacy_loss() == pytest.approx(1 - 1e-9, rel=1e-12)
    assert mechanism.certificate(1.0).ratio is not None


def test_neighbours_only() -> None:
    """On a long line with neighbours one apart the middle is the staircase of the integers."""
    size = 401
    line = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    pairs = [(n, n + 1) for n in range(size - 1)]
    mechanism = AbstractStaircase(line, 1.0, 0.5, neighbours=pairs)
    assert mechanism.sensitivity == 1
    middle = mechanism.probabilities[size // 2, size // 2 - 9 : size // 2 + 10]
    # Every whole cost k has k steps below it and, as gamma < 1, only 0 itself has none.
    np.testing.assert_allclose(middle, DiscreteStaircase(1.0, 1, 1).pmf(np.arange(-9, 10)), rtol=1e-12)
    assert mechanism.privacy_loss() <= 2
    assert mechanism.privacy_loss() >= 1
    assert mechanism.certificate(2.0).delta == 0
    steep = AbstractStaircase(line, 4.0, 0.5, neighbours=pairs)
    with pytest.raises(CertificateError, match="some weight of the kernel is 0"):
        steep.certificate(8.0)  # e^-4 to the power 200 is not a float


def test_steps_are_placed_exactly() -> None:
    """Thirds are not floats; costs of k thirds must still be k steps of a third."""
    costs = np.array([[0.1 * k for k in range(8)], [0.1 * (k + 1) for k in range(8)]])
    mechanism = AbstractStaircase(costs, 1.0, 0.0)
    exact = max(abs(Fraction(a) - Fraction(b)) for a, b in zip(*costs.tolist(), strict=True))
    assert mechanism.sensitivity == float(exact)
    steps = np.rint(np.log(mechanism.probabilities[:, :1] / mechanism.probabilities))
    expected = [[math.floor(Fraction(c) / exact) for c in row] for row in costs.tolist()]
    assert (steps == np.array(expected) - np.array(expected)[:, :1]).all()
    assert mechanism.privacy_loss() <= 2


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_draws(epsilon: float) -> None:
    """False-alarm rate one in a million."""
    mechanism = AbstractStaircase.for_epsilon(LINE, epsilon, 0.4)
    rows = mechanism.kernel().rows
    np.testing.assert_allclose(np.array(rows, dtype=float) / 2.0**64, mechanism.probabilities, rtol=1e-14)
    indices = np.repeat(np.arange(9), 40).reshape(18, 20)
    many = mechanism.draw_many(indices, randomness=InsecureSeededRandomness(4))
    one = InsecureSeededRandomness(4)
    assert many.shape == indices.shape
    assert many.ravel().tolist() == [mechanism.draw(int(i), randomness=one) for i in indices.ravel()]
    x = mechanism.draw_many(np.full(100_000, 2), randomness=InsecureSeededRandomness(6))
    observed = np.bincount(x, minlength=9)
    assert stats.chisquare(observed, mechanism.probabilities[2] * x.size).pvalue > 1e-6
    assert type(mechanism.draw(3)) is int


@given(epsilons)
def test_equality(epsilon: float) -> None:
    first, second = (AbstractStaircase(LINE, epsilon, 0.5) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != AbstractStaircase(LINE, epsilon, 0.5, base=np.arange(1, 10))
    assert "9 inputs, 9 outputs" in repr(first)


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"costs": [[1, 2, 3]]}, "costs must be an array of at least 2 inputs times 2 outputs"),
    ({"costs": [[1, 2], [1, -1]]}, "costs must be finite and at least 0"),
    ({"costs": [[1, 2], [1, math.inf]]}, "costs must be finite and at least 0"),
    ({"costs": [[1, 2], [1, 2]]}, "costs must differ between some neighbours"),
    ({"decay": 0}, "epsilon must be more than 0"),
    ({"gamma": -0.5}, r"gamma must be from 0 to 1, got -0\.5"),
    ({"base": [1.0, 0.0]}, "base must be 2 positive finite numbers"),
    ({"neighbours": [(0, 2)]}, "neighbours must be indices from 0 to 1, got 0 to 2"),
    ({"neighbours": [0, 1]}, "neighbours must be pairs of indices"),
)


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_arguments_are_named(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"costs": [[0, 1], [1, 0]], "decay": 1.0, "gamma": 0.5, **changes}
    with pytest.raises(ParameterError, match=message):
        AbstractStaircase(**arguments)


def test_bad_indices_are_named() -> None:
    mechanism = AbstractStaircase([[0, 1], [1, 0]], 1.0, 0.5)
    with pytest.raises(ParameterError, match="index must be an integer from 0 to 1, got 2"):
        mechanism.draw(2)
    with pytest.raises(ParameterError, match="indices must be integers from 0 to 1"):
        mechanism.draw_many([0, 2])
