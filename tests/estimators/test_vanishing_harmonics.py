"""Epsilons at which a harmonic of the circle vanishes: nothing is divided by it, other results stay.

Run the study with ``python -m benchmarks.studies.harmonics``.
"""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import binom

from arcwise.analysis import estimate
from arcwise.analysis.estimators.direction import direction, resultant_length
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.simulate import VonMises, code_law, multinomial
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.tasks import Task
from benchmarks.studies.harmonics import PLACES, Wave, blind, populations, survey
from tests.support.cases import mostly_slow
from tests.support.known import bounded, there
from tests.support.surveys import drawn_counts, expected_counts, node_distribution


def test_which_harmonics_vanish() -> None:
    for epsilon, k, codes in PLACES:
        mechanism = OptimalCircular(Circle(360), epsilon, nodes=codes)
        exact = k * mechanism.kernel.window % codes == 0
        assert exact == (codes != 128 or k == 4)
        for order in (k, 2 * k):
            assert abs(mechanism.attenuation(order)) < (1e-15 if exact else 5e-3)
        assert mechanism.attenuation(1) > 0.4
        # The density's 2 sinh(epsilon/2) sin(kC) / (k pi) is zero at the epsilon itself.
        half = math.pi / (1 + math.exp(epsilon / 2))
        assert math.sin(k * half) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "k", "codes"),
    [pytest.param(*place, marks=pytest.mark.slow if number else ()) for number, place in enumerate(PLACES)],
)
def test_estimates_are_finite_and_no_worse_than_blind(epsilon: float, k: int, codes: int) -> None:
    """One survey of 10^5 each, warnings as errors.

    "Blind" is the distance to the population without the vanished harmonics. In the study the error is below
    it, or at most 0.1 degrees above; of von Mises(2) it is 0.5 to 0.8 on average with a standard deviation
    below 0.3.
    """
    task = Task("a", Circle(360), epsilon, mechanism=OptimalCircular(Circle(360), epsilon, nodes=codes))
    assert isinstance(task.mechanism, OptimalCircular)
    for name, population in populations(k).items():
        counts = multinomial(
            np.int64(100_000), code_law(task.mechanism, population), np.random.default_rng(1)
        )
        values = population.quantiles((np.arange(5000) + 0.5) / 5000)
        found = survey(task, population, counts, values)
        if name == "von Mises(2)":
            assert found.error < 2.0
        else:
            assert found.error < blind(task.mechanism, population, k, values) + 0.5


def test_what_vanishes_shows_as_uniform() -> None:
    """On 128 codes at 2 ln 3, reports of 1 + cos(4 theta) have exactly the law of a uniform population."""
    epsilon, k, codes = PLACES[2]
    mechanism = OptimalCircular(Circle(360), epsilon, nodes=codes)
    np.testing.assert_allclose(code_law(mechanism, Wave(k)), 1 / codes, rtol=1e-9)
    counts = np.rint(1e6 * code_law(mechanism, Wave(k))).astype(np.int64)
    result = estimate(Task("a", Circle(360), epsilon, mechanism=mechanism), counts)
    np.testing.assert_allclose(there(result.distribution).probabilities, 1 / codes, rtol=1e-4)
    assert there(result.resultant_length).value == pytest.approx(0.0, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "k", "codes"), mostly_slow(PLACES, every=3))
def test_coverage_of_direction_and_length(epsilon: float, k: int, codes: int) -> None:
    # 300 surveys; at a coverage of 0.95 fewer than this many cover in 1e-4 of runs. Four such bounds.
    fewest = binom.ppf(1e-4, 300, 0.95)
    mechanism = OptimalCircular(Circle(1), epsilon, nodes=codes)
    generator = np.random.default_rng([k, codes])
    for population in (VonMises(0.1, 2.0), Wave(k)):
        law, moment = code_law(mechanism, population), population.trigonometric_moment()
        headings = lengths = 0
        for counts in multinomial(np.full(300, 10_000), np.broadcast_to(law, (300, codes)), generator):
            heading = bounded(direction(Survey(mechanism, counts.astype(np.float64))))
            if abs(moment) > 0.1:
                headings += heading.contains(0.1, period=1.0)
            else:  # 1 + cos(k theta) has no direction: the whole circle is the answer
                headings += heading.high - heading.low >= 1.0
            lengths += resultant_length(Survey(mechanism, counts.astype(np.float64))).contains(abs(moment))
        assert headings >= fewest
        assert lengths >= fewest


@pytest.mark.parametrize("epsilon", [2 * math.log(2), 2 * math.log(3)])
def test_intervals_know_nothing_of_it(epsilon: float) -> None:
    task = Task("a", Interval(0, 1), epsilon)
    mechanism = task.mechanism
    assert isinstance(mechanism, OptimalPiecewise)
    law = node_distribution(mechanism, (1 + np.cos(2 * np.pi * 3 * np.linspace(0, 1, 400))) / 2)
    mean = float(law @ np.linspace(0, 1, 128))
    exact = there(estimate(task, np.rint(expected_counts(mechanism, law, 1e12)).astype(np.int64)).mean)
    assert exact.value == pytest.approx(mean, abs=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = estimate(task, drawn_counts(mechanism, law, 100_000, 2).astype(np.int64))
    assert there(result.mean).contains(mean)  # one fixed survey
    assert len(result.quantiles) == 5
    for value in result.quantiles.values():
        assert value.contains(there(value.value))
