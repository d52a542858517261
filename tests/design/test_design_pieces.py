"""The m-piece framework: optimised numerically, equal to the closed forms; and designs beyond pieces."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from arcwise.analysis.design import (
    figures,
    lower_bound,
    optimal_pieces,
    randomized_response,
    search_pieces,
)
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import circle_expected_error, interval_expected_error, optimal_levels
from arcwise.mechanisms.closed_forms.published import best_published_variance
from tests.support.cases import mostly_slow
from tests.support.strategies import epsilons

UNIT = Interval(0, 1)


def best(epsilon: float, power: float, *, circular: bool) -> float:
    if circular:
        return circle_expected_error(epsilon, power)
    return interval_expected_error(0.0, epsilon, power)


@pytest.mark.parametrize("circular", [False, True])
@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize("m", mostly_slow([4, 3, 5], every=3))
def test_more_than_three_pieces_do_not_help(m: int, power: float, circular: bool) -> None:
    """The Monte Carlo check of the source, on a sample: random epsilon, seeded."""
    sample = np.random.default_rng(7).uniform(0.01, 20.0, 200)
    found = search_pieces(m, sample, power, circular=circular)
    expected = [best(epsilon, power, circular=circular) for epsilon in sample]
    assert found.error == pytest.approx(expected, rel=1e-13)
    used = (np.diff(found.edges, axis=1) > 0).sum(axis=1)
    assert (used == (3 if circular else 2)).all()
    high = [optimal_levels(epsilon, power).p for epsilon in sample]
    assert found.levels.max(axis=1) == pytest.approx(high, rel=1e-6)


@pytest.mark.parametrize("outputs", [(-0.3, 1.3), (-0.07, 1.6), (-2.0, 1.0), (0.0, 1.4)])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_outputs_may_have_a_range_of_their_own(outputs: tuple[float, float], power: float) -> None:
    """Compared with a scan over windows {|y - x| < t} at the worse end of [0, 1]."""
    low, high = outputs
    t = np.geomspace(1e-4, high - low, 40_001)
    for epsilon in (0.5, 2.0, 6.0):
        growth, least = math.expm1(epsilon), []
        for below, above in ((-low, high), (1.0 - low, high - 1.0)):
            parts = [np.minimum(t, side) for side in (below, above)]
            inside = sum(part ** (power + 1) for part in parts) / (power + 1)
            everywhere = (below ** (power + 1) + above ** (power + 1)) / (power + 1)
            error = (everywhere + growth * inside) / (high - low + growth * sum(parts))
            least.append(float(error.min()))
        for m in (3, 5):
            found = search_pieces(m, [epsilon], power, outputs=outputs)
            assert found.error[0] == pytest.approx(max(least), rel=1e-6)
            assert (found.edges[0, 0], found.edges[0, -1]) == pytest.approx(outputs)
            assert (found.levels * np.diff(found.edges)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("circular", [False, True])
def test_found_densities_are_densities(circular: bool) -> None:
    sample = np.geomspace(0.01, 20, 40)
    for m in (1, 2, 3, 6):
        found = search_pieces(m, sample, 1.5, circular=circular)
        width = np.diff(found.edges, axis=1)
        assert (width >= 0).all()
        assert (found.edges[:, 0] == 0).all()
        assert (found.edges[:, -1] == 1).all()
        assert (found.levels * width).sum(axis=1) == pytest.approx(np.ones(40), rel=1e-12)
        ratio = found.levels.max(axis=1) / found.levels.min(axis=1)
        assert (ratio <= np.exp(sample) * (1 + 1e-12)).all()
        # Its error by numerical integration of the definition.
        y = (np.arange(200_000) + 0.5) / 200_000
        loss = np.abs(y - (0.5 if circular else 0.0)) ** 1.5
        for row in (0, 20):
            piece = np.searchsorted(found.edges[row, 1:-1], y, side="right")
            assert found.error[row] == pytest.approx((loss * found.levels[row, piece]).mean(), rel=1e-4)


def test_fewer_pieces_are_worse_where_they_must_be() -> None:
    sample = [0.5, 1.0, 4.0, 8.0]
    by_m = [search_pieces(m, sample, 1.0, circular=True).error for m in (1, 2, 3)]
    assert (by_m[0] > by_m[1]).all()
    assert (by_m[1] > by_m[2]).all()


@pytest.mark.slow
@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 6.0), st.integers(2, 6), st.sampled_from([1.0, 2.0, 3.0]))
def test_for_given_ends_no_levels_beat_the_search(seed: int, epsilon: float, m: int, power: float) -> None:
    """Levels as a linear program over all densities with these ends, without assuming two levels."""
    edges = np.sort(np.append([0.0, 1.0], np.random.default_rng(seed).uniform(0, 1, m - 1)))
    width = np.diff(edges)
    area = np.diff(edges ** (power + 1)) / (power + 1)
    # Variables: the levels and the least of them.
    least, most = np.eye(m), np.exp(-epsilon) * np.eye(m)
    result = linprog(
        np.append(area, 0.0),
        A_ub=np.block([[-least, np.ones((m, 1))], [most, -np.ones((m, 1))]]),
        b_ub=np.zeros(2 * m),
        A_eq=np.append(width, 0.0)[None],
        b_eq=[1.0],
    )
    found = search_pieces(m, [epsilon], power).error[0]
    assert found <= result.fun * (1 + 1e-8)


@given(epsilons, st.floats(1.0, 4.0), st.integers(3, 8))
def test_three_pieces_are_the_closed_form(epsilon: float, power: float, m: int) -> None:
    domain = Interval(-20, 180)
    pieces = optimal_pieces(m, epsilon, power, domain)
    assert pieces.worst == pytest.approx(200**power * best(epsilon, power, circular=False), rel=1e-12)
    assert pieces.input == -20
    assert pieces.edges[0] == -20
    assert pieces.edges[-1] == pytest.approx(180)
    mass = sum(p * w for p, w in zip(pieces.levels, np.diff(pieces.edges), strict=True))
    assert mass == pytest.approx(1, rel=1e-12)
    assert pieces.levels[0] / pieces.levels[1] == pytest.approx(math.exp(epsilon), rel=1e-12)
    turned = optimal_pieces(m, epsilon, power, Circle(360))
    assert turned.worst == pytest.approx(360**power * best(epsilon, power, circular=True), rel=1e-12)
    assert (turned.input, len(turned.levels)) == (180, 3)


def two_piece_errors(width: float, epsilon: float, x: Any) -> Any:
    """Return E|y-x| of both placements of a window at an end of [0, 1], by numerical integration."""
    y = (np.arange(4000) + 0.5) / 4000
    law = np.where(y < width, math.exp(epsilon), 1.0)
    loss = np.abs(y - x[:, None])
    return np.minimum(loss @ law, loss @ law[::-1]) / law.sum()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_two_pieces_are_the_best_of_their_kind(epsilon: float) -> None:
    pieces = optimal_pieces(2, epsilon, 1.0, UNIT)
    x = np.linspace(0, 1, 101)
    worst = two_piece_errors(pieces.edges[1], epsilon, x).max()
    assert pieces.worst == pytest.approx(worst, rel=1e-3)
    others = [two_piece_errors(width, epsilon, x).max() for width in np.linspace(0.02, 0.98, 49)]
    assert pieces.worst <= min(others) * (1 + 1e-3)
    three = interval_expected_error(0.0, epsilon)
    # Up to about epsilon 1.7 the window may stay at an end, and then inputs in the middle are worst.
    assert pieces.worst == pytest.approx(three, rel=1e-9) if epsilon < 1.5 else pieces.worst > 1.01 * three


def test_one_piece_is_uniform() -> None:
    pieces = optimal_pieces(1, 3.0, 2.0, Interval(0, 6))
    assert (pieces.input, pieces.edges) == (0.0, (0.0, 6.0))
    assert pieces.levels == pytest.approx((1 / 6,))
    assert pieces.worst == pytest.approx(12.0)
    assert optimal_pieces(1, 3.0, 1.0, Circle(8)).worst == pytest.approx(2.0)
    # On a circle, two pieces cut at 0 are no better for |y-x|: an input opposite to their window is worst.
    assert optimal_pieces(2, 3.0, 1.0, Circle(8)).levels == pytest.approx((1 / 8,))


# --- beyond pieces --------------------------------------------------------------------------------------


@given(epsilons)
def test_the_counterexample_has_the_worst_case_of_its_formula(epsilon: float) -> None:
    atoms = randomized_response(epsilon)
    assert atoms.outputs[0] == pytest.approx(-math.expm1(-epsilon) / 4, rel=1e-12)
    assert atoms.truth / (1 - atoms.truth) == pytest.approx(math.exp(epsilon), rel=1e-6)
    assert atoms.worst_case() == pytest.approx((1 + math.exp(-epsilon)) / 4, rel=1e-12)
    dense = max(atoms.expected_error(x) for x in np.linspace(0, 1, 501))
    assert dense <= atoms.worst_case() * (1 + 1e-12)
    for x in (0.0, 0.5, 1.0):
        assert atoms.expected_error(x) == pytest.approx(atoms.worst_case(), rel=1e-12)


@pytest.mark.slow
def test_the_counterexample_beats_every_density_at_epsilon_one() -> None:
    worst = randomized_response(1.0).worst_case()
    assert worst == pytest.approx(0.34197, abs=1e-5)
    assert lower_bound(UNIT, 1.0, "value") < worst < interval_expected_error(0.0, 1.0)
    assert interval_expected_error(0.0, 1.0) == pytest.approx(0.37754, abs=1e-5)


@pytest.mark.slow
def test_figures_are_rows_of_what_was_measured() -> None:
    seen: list[float] = []
    first, second = figures([0.5, 2.0], inputs=9, cache=False, progress=lambda share, _: seen.append(share))
    assert seen == [0.0, 0.5, 1.0]
    assert (first.epsilon, first.published) == (0.5, best_published_variance(0.5))
    assert second.saving == pytest.approx(0.245424 / second.worst, rel=1e-5)
    for row in (first, second):
        assert 0 <= row.excess < 0.02
        assert row.bias < 1e-15
        assert row.epsilon * (1 - 1e-6) < row.spent <= row.epsilon
        assert (row.codes, row.nodes) == (16, 17)
        assert row.seconds > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimal_pieces(0, 1.0, 1.0, UNIT), "m must be an integer of at least 1, got 0"),
        (lambda: optimal_pieces(3, 1.0, 0.9, UNIT), r"power must be finite and at least 1, got 0\.9"),
        (lambda: optimal_pieces(3, 0.0, 1.0, UNIT), r"epsilon must be from 0\.01"),
        (lambda: optimal_pieces(3, 1.0, 1.0, None), "domain must be an Interval or a Circle, got None"),  # type: ignore[arg-type]
        (lambda: search_pieces(2.0, [1.0]), r"m must be an integer of at least 1, got 2\.0"),  # type: ignore[arg-type]
        (lambda: search_pieces(3, [1.0, 30.0]), r"epsilon must be from 0\.01 to 20, got 30\.0"),
        (lambda: search_pieces(3, [1.0], outputs=(0.1, 1.0)), r"outputs must contain \[0, 1\]"),
        (lambda: search_pieces(3, [1.0], circular=True, outputs=(-1.0, 2.0)), "and equal it on a circle"),
        (lambda: search_pieces(3, [1.0], math.nan), "power must be finite and at least 1, got nan"),
        (lambda: randomized_response(25.0), r"epsilon must be from 0\.01 to 20, got 25\.0"),
    ],
)
def test_bad_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


def test_no_epsilon_no_pieces() -> None:
    found = search_pieces(3, [])
    assert (found.error.shape, found.edges.shape, found.levels.shape) == ((0,), (0, 4), (0, 3))
