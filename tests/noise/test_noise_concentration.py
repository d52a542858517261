"""The order of noise by concentration (Soria-Comas and Domingo-Ferrer, Definitions 3 to 5)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from arcwise.errors import ParameterError
from arcwise.noise import (
    DiscreteStaircase,
    Geometric,
    Laplace,
    Noise,
    Staircase,
    TruncatedLaplace,
    UniformAtom,
    compare_concentration,
    compare_vector_concentration,
)


@pytest.mark.parametrize("epsilon", [0.07, 0.9, 3.3, 9.0])
def test_staircase_with_the_mass_of_laplace_is_smaller(epsilon: float) -> None:
    """The construction of section 4: with it, Laplace noise is not optimal."""
    b = math.exp(-epsilon)
    m = (1 - b - epsilon * b) / (epsilon * (1 - b))
    made, laplace = Staircase(epsilon, 2.5, m), Laplace(epsilon, 2.5)
    found = compare_concentration(made, laplace)
    assert (found.relation, found.second_more_at) == ("smaller", None)
    assert compare_concentration(laplace, made).relation == "larger"
    for z in np.linspace(0.01, 3.0, 37):  # Laplace's mass within z, and the staircase's, step by step
        k = int(z)
        step = (min(z - k, m) + b * max(z - k - m, 0.0)) / (m + b * (1.0 - m))
        assert 1.0 - b**k + b**k * (1.0 - b) * step >= 1.0 - math.exp(-epsilon * z) - 1e-14


@pytest.mark.parametrize(("one", "other"), [(0.1, 0.3), (0.45, 0.46), (0.0, 1.0)])
def test_staircases_are_not_ordered(one: float, other: float) -> None:
    """Each is minimal (Theorem 8): more mass within its first step means less at the end of the other's."""
    found = compare_concentration(Staircase(1.7, 1.0, one), Staircase(1.7, 1.0, other))
    expected = "incomparable" if one else "equal"  # gamma 0 and 1 are the same noise
    assert found.relation == expected


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        (Laplace(1.0), Laplace(1.0 - 1e-9), "smaller"),
        (Laplace(1.3, 2.0), Laplace(1.3, 2.0), "equal"),
        (TruncatedLaplace(0.6, 0.01), Laplace(0.6), "smaller"),
        (UniformAtom(0.3, 1.0, 0.1), UniformAtom(0.3, 1.0, 0.0), "incomparable"),
        (UniformAtom(0.4, 1.0, 0.0), UniformAtom(0.3, 1.0, 0.0), "smaller"),
        (Geometric(0.8), Geometric(0.7), "smaller"),
        (DiscreteStaircase(0.8, 5, 1), DiscreteStaircase(0.8, 5, 3), "incomparable"),
    ],
)
def test_relations(first: Noise, second: Noise, relation: str) -> None:
    opposite = {"smaller": "larger", "equal": "equal", "incomparable": "incomparable"}
    assert compare_concentration(first, second).relation == relation
    back = compare_concentration(second, first)
    assert back.relation == opposite[relation]
    for at, (more, less) in ((back.first_more_at, (second, first)), (back.second_more_at, (first, second))):
        if at is not None:
            assert more.cdf(at) - more.cdf(-at - 1e-9) > less.cdf(at) - less.cdf(-at - 1e-9)


def test_a_smaller_noise_costs_less_for_every_loss() -> None:
    smaller, larger = TruncatedLaplace(1.1, 0.02), Laplace(1.1)
    assert all(smaller.abs_moment(p) < larger.abs_moment(p) for p in (0.3, 1.0, 2.0, 7.0))


def test_arguments() -> None:
    with pytest.raises(ParameterError, match="integers"):
        compare_concentration(Laplace(1.0), Geometric(1.0))
    with pytest.raises(ParameterError, match="first"):
        compare_concentration(1.0, Laplace(1.0))  # type: ignore[arg-type]


SHORT, LONG, OTHER = Laplace(2.0), Laplace(1.0), Staircase(1.0, 1.0, 0.2)


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        ([SHORT, LONG], [LONG, LONG], "smaller"),
        ([LONG, LONG, LONG], [LONG, SHORT, LONG], "larger"),
        ([SHORT, Geometric(1.0)], [SHORT, Geometric(1.0)], "equal"),
        ([SHORT, LONG], [LONG, SHORT], "incomparable"),
        ([OTHER, SHORT], [Staircase(1.0, 1.0, 0.6), LONG], "incomparable"),
    ],
)
def test_the_order_of_vectors_is_that_of_all_components(
    first: list[Noise], second: list[Noise], relation: str
) -> None:
    assert compare_vector_concentration(first, second) == relation
    if relation in ("smaller", "larger"):  # unions of boxes in the positive quarter, by their masses
        small, large = (first, second) if relation == "smaller" else (second, first)
        places = np.linspace(0.1, 4.0, 9)
        for a, b in itertools.combinations(places.tolist(), 2):

            def mass(noise: list[Noise], a: float = a, b: float = b) -> float:
                one, two = (np.array([each.cdf(x) - 0.5 for x in (a, b)]) for each in noise[:2])
                return float(one[0] * two[1] + one[1] * two[0] - one[0] * two[0])

            assert mass(small) >= mass(large)


@pytest.mark.parametrize(("first", "second"), [([], []), ([LONG], [LONG, LONG])])
def test_vectors_of_other_lengths_are_refused(first: list[Noise], second: list[Noise]) -> None:
    with pytest.raises(ParameterError, match="must have equally many components, at least 1"):
        compare_vector_concentration(first, second)
