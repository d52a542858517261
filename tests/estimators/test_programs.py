"""The quadratic programs behind bounds of shares: precise enough, in few steps, several in one call."""

from typing import Any

import numpy as np
import pytest
from scipy.linalg import lapack

from arcwise.analysis.estimators import programs
from arcwise.analysis.estimators.bounds import USUAL, Bounds
from arcwise.analysis.estimators.quantiles import quantiles
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.likelihood.distribution import uniform_start
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.tasks import Task
from arcwise.typing import FloatArray
from tests.support.surveys import drawn_counts

MECHANISMS = [
    OptimalPiecewise(Interval(0, 1), 0.25, nodes=64),
    OptimalPiecewise(Interval(0, 1), 1.0),
    OptimalPiecewise(Interval(0, 1), 8.0, nodes=64),
    OptimalPiecewise(Interval(0, 1), 8.0, nodes=256),
    OptimalPiecewise(Interval(0, 1), 4.0, nodes=400),
    OptimalPiecewise(Interval(0, 1), 6.0, nodes=1001),
    OptimalCircular(Circle(1), 2.0, nodes=64),
    OptimalCircular(Circle(1), 8.0, nodes=1000),
    OptimalCircular(Circle(1), 12.0),
]


def counts_of(mechanism: Mechanism, n: int, spread: float = 0.05) -> FloatArray:
    truth = np.random.default_rng(n).dirichlet(np.full(mechanism.kernel.nodes, spread) + 1e-3)
    return drawn_counts(mechanism, truth, n, 1)


def shares_of(bounds: Bounds) -> list[FloatArray]:
    """Return functionals of shares between many pairs of places, and of narrow windows."""
    ends = [(0.0, 0.004), (0.0, 0.3), (0.2, 0.24), (0.4, 0.9), (0.013, 0.05), (0.7, 0.99)]
    return [each for pair in ends for each in bounds.places.between(*pair)]


@pytest.mark.parametrize("n", [30, 2000, 10**6, 10**12])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_programs_end_at_the_distance_that_is_asked_for(
    mechanism: Mechanism, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or as far as there is room, and nearly as high as with a hundred times the precision."""
    bounds = Bounds(mechanism, counts_of(mechanism, n))
    solved: list[float] = []
    steps: list[int] = []
    original, factored = programs.Programs._solved, programs.Programs._factored

    def solve(self: programs.Programs, part: Any, phi: Any, *rest: Any) -> Any:
        begun = len(steps)
        change, pull = original(self, part, phi, *rest)
        # On the last circle, two distributions have the same law of codes: 1618 and its window share a
        # factor.
        assert len(steps) - begun <= (15 if mechanism.kernel.nodes == 1618 else 12)
        fit, room = self._fit[part], phi.max(axis=1) - (phi * self._fit[part]).sum(axis=1)
        assert (fit + change).min() >= 0.0
        assert change.sum(axis=1) == pytest.approx(0.0, abs=1e-6)
        squares = np.array(
            [each @ self._information[k].times(each) for each, k in zip(change, part.tolist(), strict=True)]
        )
        gain = (phi * change).sum(axis=1)
        near = (squares > 0.3 * USUAL**2) | (gain > 0.95 * room)
        assert near.all()
        assert (squares < 3.2 * USUAL**2).all()
        assert pull.min() > 0.0
        solved.extend((gain / np.sqrt(np.maximum(squares, 1e-9))).tolist())
        return change, pull

    def factor(self: programs.Programs, state: Any) -> Any:
        steps.append(len(state.part))
        return factored(self, state)

    monkeypatch.setattr(programs.Programs, "_solved", solve)
    monkeypatch.setattr(programs.Programs, "_factored", factor)
    bounds.averages(shares_of(bounds), USUAL)
    assert len(solved) >= 4


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_together_averages_are_those_one_by_one(
    mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_TOGETHER", 2**14)
    bounds = Bounds(mechanism, counts_of(mechanism, 5000))
    several = shares_of(bounds)
    together = bounds.averages(several, USUAL)
    held = [len(programs.Programs([each])._spare) for each in bounds._near.values()]
    assert len(several) * 2 > max(held)
    for one, each in zip(together, several, strict=True):
        alone = bounds.averages([each], USUAL)[0]
        assert (one is None) == (alone is None)
        if one is not None and alone is not None:
            assert one.value == pytest.approx(alone.value, rel=1e-6, abs=1e-9)
            assert one.variance == pytest.approx(alone.variance, rel=1e-6, abs=1e-15)
            assert one.weights == pytest.approx(alone.weights, rel=1e-5, abs=1e-8 * one.most)


@pytest.mark.parametrize("spread", [0.02, 10.0])
@pytest.mark.parametrize("n", [1000, 100_000])
def test_five_quantiles_take_few_factorisations(
    n: int, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Factorisations of matrices with the nodes' size are most of an estimate's cost. It once took 350."""
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0)
    counts = counts_of(mechanism, n, spread)
    taken: list[int] = []
    factor = lapack.dpotrf

    def counted(*args: Any, **options: Any) -> Any:
        taken.append(1)
        return factor(*args, **options)

    monkeypatch.setattr(lapack, "dpotrf", counted)
    quantiles(Survey(mechanism, counts, probabilities=uniform_start(mechanism)))
    assert 20 < len(taken) < 250


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_many_reports_know_a_place_to_the_step(epsilon: float) -> None:
    """Blocks of equal length limited the precision to 20 steps for any number of reports."""
    domain = Interval(0, 1000, step=1)
    mechanism = Task("x", domain, epsilon).mechanism
    truth = (np.arange(1001) + 1.0) ** 1.5 * (1001.0 - np.arange(1001)) ** 4
    counts = drawn_counts(mechanism, truth / truth.sum(), 10**10, 1)
    found = quantiles(Survey(mechanism, counts))
    upto = np.cumsum(truth) / truth.sum()
    for tau, each in found.items():
        place = int(np.searchsorted(upto, float(tau)))
        assert each.low is not None
        assert each.high is not None
        assert each.low <= place <= each.high
        assert each.high - each.low <= 6.0
