"""Expectations of any function, and the noise that is best for any loss."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, getcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.optimize import linprog

from arcwise.errors import ParameterError
from arcwise.noise import (
    AnalyticGaussian,
    DiscreteStaircase,
    Geometric,
    Laplace,
    Staircase,
    TruncatedLaplace,
    UniformAtom,
)
from tests.support.cases import mostly_slow

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.noise.base import Noise

    Function = Callable[[Any], Any]

NOISES = [
    Laplace(0.37, 1.9),
    Staircase(1.3, 2.1, 0.22),
    Staircase(0.011, 0.7, 0.61),
    Staircase(17.0, 3.0, 0.0),
    Staircase(2.2, 1.0, 1.0),
    Geometric(0.6, 3),
    DiscreteStaircase(0.9, 7, 3),
    DiscreteStaircase(23.0, 11, 11),
    TruncatedLaplace(0.8, 3e-4, 1.7),
    UniformAtom(0.6, 2.3, 0.25),
    AnalyticGaussian(0.7, 1e-6, 1.4),
]


def huber(at: float) -> Function:
    return lambda x: np.where(abs(x) < at, x**2 / 2, at * (abs(x) - at / 2))


def size_to_the(power: float, x: Any) -> Any:
    return abs(x) ** power


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_powers_have_the_moments(noise: Noise) -> None:
    for power in (1.0, 2.0, 3.7):
        assert noise.expect(partial(size_to_the, power)) == pytest.approx(noise.abs_moment(power), rel=1e-9)
    both = noise.expect(lambda x: 0.3 * abs(x) + 2.5 * x**2)
    assert both == pytest.approx(0.3 * noise.abs_moment(1.0) + 2.5 * noise.var(), rel=1e-9)
    assert noise.expect(lambda x: x**3) == pytest.approx(0.0, abs=1e-9 * noise.abs_moment(3.0))
    assert noise.expect(lambda x: 4.5) == pytest.approx(4.5, rel=1e-9)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("share", [0.05, 0.6, 0.99])
def test_indicators_have_the_probabilities(noise: Noise, share: float) -> None:
    edge = float(noise.ppf(share)) + 0.1
    found = noise.expect(lambda x: x > edge, points=[edge])
    assert found == pytest.approx(float(noise.sf(edge)), rel=1e-8)


def precise_huber(epsilon: float, sensitivity: float, gamma: float, at: float) -> float:
    """Return E of Huber's loss under the staircase, step by step with 40 digits, from its known integral."""
    getcontext().prec = 40
    b = (-Decimal(epsilon)).exp()
    unit, edge = Decimal(sensitivity), Decimal(at)

    def antiderivative(z: Decimal) -> Decimal:
        if z <= edge:
            return z**3 / 6
        return edge**3 / 6 + edge * (z**2 - edge**2) / 2 - edge**2 / 2 * (z - edge)

    total = mass = Decimal(0)
    for k in range(math.ceil(90 / epsilon)):
        start, middle, end = (unit * (k + part) for part in (Decimal(0), Decimal(gamma), Decimal(1)))
        upper, lower = b**k, b ** (k + 1)
        total += upper * (antiderivative(middle) - antiderivative(start))
        total += lower * (antiderivative(end) - antiderivative(middle))
        mass += upper * (middle - start) + lower * (end - middle)
    return float(total / mass)


@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "at"), [(0.45, 1.3, 0.9), (0.45, 1.3, 5.7), (2.9, 0.4, 0.11), (6.5, 2.0, 3.1)]
)
def test_the_staircase_for_hubers_loss_is_the_best_of_all_gammas(
    epsilon: float, sensitivity: float, at: float
) -> None:
    best = Staircase.optimal(epsilon, sensitivity, loss=huber(at))
    least = precise_huber(epsilon, sensitivity, best.gamma, at)
    assert best.expect(huber(at)) == pytest.approx(least, rel=1e-10)
    for gamma in (*np.linspace(0.0, 1.0, 21), best.gamma * 0.999, best.gamma * 1.001):
        assert least <= precise_huber(epsilon, sensitivity, float(gamma), at) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("epsilon", "power"),
    [
        (0.02, 1.0),
        *itertools.product([0.8, 7.0], [0.6, 1.0, 2.0, 4.3]),
        *(pytest.param(0.02, power, marks=pytest.mark.slow) for power in (0.6, 2.0, 4.3)),
    ],
)
def test_a_power_is_a_loss_like_others(epsilon: float, power: float) -> None:
    found = Staircase.optimal(epsilon, 1.9, loss=lambda z: 3.0 * z**power + 1.0)
    wanted = Staircase.optimal(epsilon, 1.9, power=power)
    assert found.gamma == pytest.approx(wanted.gamma, abs=2e-7)
    whole = DiscreteStaircase.optimal(epsilon, 9, loss=lambda z: z**power + 2.0)
    assert whole.r == DiscreteStaircase.optimal(epsilon, 9, power=power).r


def steps(ends: Any, values: Any, x: Any) -> Any:
    return values[np.searchsorted(ends, x)]


@pytest.mark.parametrize("epsilon", mostly_slow([6.0, 9.0, 1.0, 14.0, 2.5, 0.4], every=6))
def test_the_staircase_for_steps_is_the_best_of_all_gammas(epsilon: float) -> None:
    """Steps at multiples of the sensitivity, where every gamma costs the same, and elsewhere: 270 losses.

    Between the steps, in periods, the expectation is a ratio of two linear functions of gamma, so it is least
    at one of them.
    """
    random = np.random.default_rng(31)
    for sensitivity, number in itertools.product([0.3, 1.0, 7.0], range(15)):
        whole = number or sensitivity != 1.0
        places = random.integers(1, 5, 1 + number % 3) if whole else random.uniform(0.0, 4.0, 1)
        heights, ends = random.uniform(0.1, 2.0, places.size), np.sort(places) * sensitivity
        values = np.concatenate(([0.5], 0.5 + np.cumsum(heights)))
        best = Staircase.optimal(epsilon, sensitivity, loss=partial(steps, ends, values))
        costs = [
            heights @ Staircase(epsilon, sensitivity, gamma).sf(ends)
            for gamma in (best.gamma, 0.0, 1.0, *(places % 1.0))
        ]
        assert costs[0] <= min(costs) * (1 + 1e-12)


def test_a_power_beyond_floats_is_refused() -> None:
    with pytest.raises(ParameterError, match="power must leave"):
        Staircase.optimal(0.02, power=200.0)


def mixture(delta: float, sensitivity: float, loss: Function) -> float:
    """Return the least loss over mixtures of uniform laws on [-h, h] and 0: all decreasing densities.

    Such a law is (0, delta)-DP if its mass within half a sensitivity of 0 is at most delta.
    """
    fine = np.linspace(0.0, 40.0 * sensitivity / delta, 400_001)
    middle = (fine[1:] + fine[:-1]) / 2
    means = np.cumsum(np.broadcast_to(loss(middle), middle.shape)) / np.arange(1, fine.size)
    h = fine[1:]
    keep = h >= sensitivity / 2
    inside = np.concatenate(([1.0], sensitivity / 2 / h[keep][::40]))
    costs = np.concatenate(([float(loss(np.zeros(1))[0])], means[keep][::40]))
    found = linprog(costs, A_ub=inside[None], b_ub=[delta], A_eq=np.ones((1, costs.size)), b_eq=[1.0])
    return float(found.fun)


@pytest.mark.parametrize(
    ("delta", "sensitivity", "loss", "atom"),
    [
        (0.07, 1.4, huber(3.0), False),
        (0.58, 0.9, huber(0.2), True),
        (0.83, 2.2, huber(1.1), True),
        (0.55, 1.7, lambda z: 0.4 * z**0.7 + z**2.2 + 5.0, False),
        (0.91, 0.6, lambda z: 0.4 * z**0.7 + z**2.2 + 5.0, True),
        (0.4, 1.0, np.log1p, False),
        (0.5, 1.0, np.log1p, True),
        (0.2, 1.3, lambda z: np.where(z < 2.0, 0.0, 1.0), False),
    ],
)
def test_the_atom_for_any_loss_is_the_best(
    delta: float, sensitivity: float, loss: Function, atom: bool
) -> None:
    best = UniformAtom.optimal(delta, sensitivity, loss=loss)
    found = best.expect(lambda x: loss(abs(x)), points=[2.0])
    assert (best.alpha > 0) is atom
    least = mixture(delta, sensitivity, loss)
    assert least * (1 - 1e-4) <= found <= least * (1 + 1e-4)
    for share in np.linspace(0, 0.999, 30):
        other = UniformAtom(delta, sensitivity, share * delta)
        assert other.expect(lambda x: loss(abs(x)), points=[2.0]) >= found * (1 - 1e-9)


@pytest.mark.parametrize("power", [0.4, 1.0, 2.0, 5.5])
@pytest.mark.parametrize("delta", [0.003, 0.6, 0.97])
def test_a_power_has_its_atom(delta: float, power: float) -> None:
    found = UniformAtom.optimal(delta, 1.3, loss=lambda z: 2.0 * z**power + 0.5)
    assert found.alpha == pytest.approx(UniformAtom.optimal(delta, 1.3, power=power).alpha, abs=1e-8)


def test_a_loss_that_is_bounded_by_little_has_no_best_atom() -> None:
    """The longer the noise, the less of it is near 0, and beyond 0.1 all distances cost the same."""
    with pytest.raises(ParameterError, match="no atom is best"):
        UniformAtom.optimal(0.4, loss=lambda z: np.where(z < 0.1, 0.0, 1.0))


LOSSES: dict[str, Function] = {
    "huber": huber(2.5),
    "root": lambda x: np.sqrt(abs(x)) + 0.5,
    "more than 4": lambda x: abs(x) > 4,
    "sum": lambda x: abs(x) + 0.05 * x**2.0,
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.7, 3), (1.9, 5)])
def test_no_noise_on_the_integers_has_a_lower_loss(name: str, epsilon: float, sensitivity: int) -> None:
    """A linear program over all symmetric epsilon-DP laws on -N, ..., N with a tail beyond."""
    loss, end = LOSSES[name], 110
    best = DiscreteStaircase.optimal(epsilon, sensitivity, loss=loss)
    found = best.expect(loss)
    n = np.arange(-600, 601)
    assert found == pytest.approx(float(best.pmf(n) @ loss(n.astype(float))), rel=1e-12)
    n = np.arange(-end, end + 1)
    half = np.arange(end + 1)
    weight = np.where(half == 0, 1.0, 2.0)
    ratio, rows = math.exp(epsilon), []
    for i in n:
        for j in range(i + 1, min(i + sensitivity, end) + 1):
            for one, other in ((i, j), (j, i)):
                row = np.zeros(end + 1)
                row[abs(one)] += 1.0
                row[abs(other)] -= ratio
                rows.append(row)
    least = linprog(
        weight * loss(half.astype(float)),
        A_ub=np.array(rows),
        b_ub=np.zeros(len(rows)),
        A_eq=weight[None],
        b_eq=[1.0],
        method="highs",
    )
    # The program treats masses below its tolerance of 1e-7 as zero, and with them a part of the tail.
    assert least.fun * (1 - 1e-9) <= found <= least.fun * (1 + 3e-5)
    for r in range(1, sensitivity + 1):
        assert found <= DiscreteStaircase(epsilon, sensitivity, r).expect(loss) * (1 + 1e-12)


@pytest.mark.parametrize(
    "noise", [Laplace(1.0), Staircase(1.0, 1.0, 0.3), Geometric(1.0), AnalyticGaussian(1.0, 1e-5)], ids=repr
)
@pytest.mark.parametrize("function", [lambda x: np.exp(1.0001 * abs(x)), lambda x: np.exp(x**2)])
def test_what_grows_too_fast_is_refused(noise: Noise, function: Function) -> None:
    if isinstance(noise, AnalyticGaussian) and function(2.0) < 50:
        assert noise.expect(function) > 1
        return
    with pytest.raises(ParameterError, match="function must"):
        noise.expect(function)


def test_what_grows_slowly_enough_is_not_refused() -> None:
    rate = 0.9
    assert Laplace(1.0).expect(lambda x: np.exp(rate * abs(x))) == pytest.approx(1 / (1 - rate), rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda z: -z, "loss must not fall"),
        (lambda z: z[:1], "loss must return a real number for each"),
        (lambda z: np.where(z > 3, np.nan, z), "loss must be finite"),
        (lambda z: np.exp(2.0 * z), "grow more slowly"),
        (3.0, "loss must be a function"),
    ],
)
def test_a_loss_that_is_none_is_refused(loss: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Staircase.optimal(1.0, loss=loss)
    with pytest.raises(ParameterError, match=words):
        DiscreteStaircase.optimal(1.0, 6, loss=loss)


def test_a_loss_and_a_power_are_too_much() -> None:
    with pytest.raises(ParameterError, match="either power or loss"):
        UniformAtom.optimal(0.3, power=2.0, loss=huber(1.0))
    with pytest.raises(ParameterError, match="either power or loss"):
        Staircase.optimal(1.0, power=2.0, loss=huber(1.0))
