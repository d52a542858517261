"""Every registered mechanism: a survey through `estimate`, compared with the truth."""

import math

import numpy as np
import pytest

from arcwise.analysis import Estimate, estimate
from arcwise.domains import Interval
from arcwise.mechanisms import Mechanism
from arcwise.mechanisms.circular import CircularMechanism
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Task
from tests.support.known import bounded, known, there
from tests.support.strategies import ALL_EXAMPLES, LATTICE_EXAMPLES, Example

REPORTS = 20_000


@pytest.fixture(params=[*ALL_EXAMPLES, *LATTICE_EXAMPLES], ids=repr, scope="module")
def example(request: pytest.FixtureRequest) -> Example:
    return request.param  # type: ignore[no-any-return]


def survey(mechanism: Mechanism) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], Estimate]:
    """Return the unit values of a skewed population and the estimate from its 20,000 reports."""
    units = np.random.default_rng(7).beta(2.0, 4.0, REPORTS)
    if mechanism.lattice is not None:
        units = np.rint(units * mechanism.lattice.steps) / mechanism.lattice.steps
    values = mechanism.domain.from_unit(units)
    codes = mechanism.randomize_many(values, randomness=InsecureSeededRandomness(20_300))
    task = Task("survey", mechanism.domain, mechanism.epsilon, mechanism=mechanism)
    return units, estimate(task, np.bincount(codes, minlength=mechanism.kernel.codes))


@pytest.mark.parametrize("epsilon", [1.0, pytest.param(4.0, marks=pytest.mark.slow)])
def test_a_survey_is_estimated(example: Example, epsilon: float) -> None:
    """5 standard errors of each number: a false alarm has probability 6e-7 for each; every seed is fixed."""
    mechanism = example.make(epsilon)
    units, result = survey(mechanism)
    assert result.n == REPORTS
    fitted = there(result.distribution)
    assert math.fsum(fitted.probabilities) == pytest.approx(1.0, abs=1e-9)
    assert min(fitted.probabilities) >= 0.0
    assert len(fitted.edges) == len(fitted.probabilities) + 1
    domain = mechanism.domain
    if isinstance(mechanism, CircularMechanism):
        assert result.direction is not None
        moment = complex(np.exp(2j * math.pi * units).mean())
        # Between the nodes of a coarse circle, directions bend by up to a tenth of their distance.
        slack = 0.1 * domain.length / mechanism.kernel.nodes
        direction = domain.length * (math.atan2(moment.imag, moment.real) / (2 * math.pi) % 1.0)
        assert result.direction.value is not None
        ends = there(result.direction.ends())
        width = ends[1] - ends[0]
        gap = (result.direction.value - direction + domain.length / 2) % domain.length - domain.length / 2
        assert abs(gap) <= 5 / 3.92 * width + slack
        assert width < domain.length / 8
        length = known(there(result.resultant_length))
        lost = (math.pi / mechanism.kernel.nodes) ** 2 / 2
        assert abs(length.value - abs(moment)) <= 5 / 3.92 * (length.high - length.low) + lost
        return
    assert isinstance(domain, Interval)
    mean, truth = bounded(result.mean), float(domain.from_unit(units.mean()))
    assert mean.method
    width = mean.high - mean.low
    if mean.value is None:
        # A range of means: the note does not call it unbiased, and the truth lies well inside.
        assert "single mean" in mean.note
        assert mean.low < truth < mean.high
    else:
        assert abs(mean.value - truth) <= 5 / 3.92 * width
        assert 0.0 < width < 0.2 * domain.length
    variance, spread = bounded(result.variance), float(units.var()) * domain.length**2
    slack = 3.04 / 3.92 * (variance.high - variance.low)  # the ends are at 1.96 standard errors
    assert variance.low - slack <= spread <= variance.high + slack
    assert list(result.quantiles) == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    lows = [value.low for value in result.quantiles.values()]
    assert lows == sorted(lows, key=float)  # type: ignore[arg-type]
    for level, value in result.quantiles.items():
        quantile = float(domain.from_unit(np.asarray(np.quantile(units, float(level)))))
        assert value.low is not None
        assert value.high is not None
        assert abs((value.high + value.low) / 2 - quantile) <= 5 / 3.92 * (value.high - value.low)
