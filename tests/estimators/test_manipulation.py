"""The effect of liars: by brute force over all ways to lie, on real estimates, and by random lies."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from arcwise.analysis import estimate
from arcwise.analysis.estimators.direction import direction, resultant_length, row_attenuation
from arcwise.analysis.estimators.quantiles import LEVELS, point
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.unbiasing import moment_numbers
from arcwise.analysis.grid import cell_edges
from arcwise.analysis.robustness.damage import Damage, Liars, damage
from arcwise.analysis.robustness.false_inputs import Law, _farthest, _variances, circle_reach, interval_reach
from arcwise.analysis.robustness.fit_test import fit_test
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.tasks import Task
from arcwise.typing import FloatArray
from tests.support.known import there
from tests.support.surveys import expected_counts, node_distribution

LINE = OptimalPiecewise(Interval(0, 10), 1.0)
SMALL = OptimalPiecewise(Interval(2, 6), 1.0, nodes=12)
RING = OptimalCircular(Circle(24), 1.0, nodes=12)
SKEWED = node_distribution(LINE, 10 * np.random.default_rng(0).beta(2, 5, 50_000))
ATOMS = 9
EXACT = 1e-9
DIRECTIONS = 2e-5
"""720 directions may widen bounds of a resultant length by this: 1 / cos(pi / 720) - 1 is 1e-5."""

shares = st.floats(0.01, 0.9)
laws = st.tuples(st.integers(0, 10**6), st.sampled_from([0.05, 0.3, 2.0])).map(
    lambda drawn: np.random.default_rng(drawn[0]).dirichlet(np.full(12, drawn[1]))
)


def by_name(found: tuple[Damage, ...]) -> dict[str, Damage]:
    return {each.estimate: each for each in found}


def line_estimates(nodes: FloatArray) -> dict[str, float]:
    """Return estimates for a law of SMALL's nodes, from its moments and the quantiles' own estimator."""
    at, widths = SMALL.node_units(np.arange(12.0)), np.diff(cell_edges(SMALL))
    widths[[0, -1]] = 0.0
    mean = float(nodes @ at)
    variance = float(nodes @ (at**2 + widths**2 / 12)) - mean**2
    found = {"mean": 2 + 4 * mean, "variance": 16 * variance, "standard deviation": 4 * math.sqrt(variance)}
    return found | {f"quantile {tau:g}": 2 + 4 * point(SMALL, nodes, tau) for tau in LEVELS}


def line_distance(first: FloatArray, second: FloatArray) -> float:
    """Return Wasserstein-1 of two laws of SMALL's nodes; the difference of their F is linear in each cell."""
    at_edges = np.cumsum(first - second)[:-1]
    left, right = np.abs(at_edges[:-1]), np.abs(at_edges[1:])
    apart = at_edges[:-1] * at_edges[1:] < 0
    total = np.where(left + right > 0, left + right, 1.0)
    means = np.where(apart, (left**2 + right**2) / (2 * total), (left + right) / 2)
    return 4 * float(means @ np.diff(cell_edges(SMALL))[1:-1])


@pytest.mark.slow
@given(honest=laws, claims=laws, share=shares)
def test_no_lie_leaves_the_ranges_of_an_interval(
    honest: FloatArray, claims: FloatArray, share: float
) -> None:
    seen = (1 - share) * honest + share * claims
    before, after = line_estimates(honest), line_estimates(seen)
    backward, forward = interval_reach(SMALL, seen, share), interval_reach(SMALL, honest, share)
    for name, value in before.items():
        assert forward[name].value == pytest.approx(value, abs=1e-6), name
        contains(backward[name].honest, value)
        contains(forward[name].moved, after[name])
    away = line_distance(honest, seen)
    assert away <= backward["distribution"].honest[1] + EXACT
    assert away <= forward["distribution"].moved[1] + EXACT
    assert np.abs(np.cumsum(honest - seen)).max() <= backward["any share"].honest[1] + EXACT


@pytest.mark.slow
@given(honest=laws, claims=laws, share=shares)
def test_no_lie_leaves_the_ranges_of_a_circle(honest: FloatArray, claims: FloatArray, share: float) -> None:
    seen = (1 - share) * honest + share * claims
    at = np.exp(2j * np.pi * RING.node_units(np.arange(12.0)))
    before, after = complex(honest @ at), complex(seen @ at)
    backward, forward = circle_reach(RING, seen, share), circle_reach(RING, honest, share)
    contains(backward["resultant length"].honest, abs(before))
    contains(forward["resultant length"].moved, abs(after))
    contains(backward["circular variance"].honest, 1 - abs(before))
    contains(backward["direction"].honest, hours(before), period=24)
    contains(forward["direction"].moved, hours(after), period=24)
    cumulative = np.cumsum(honest - seen)
    away = 24 * float(np.abs(cumulative - np.median(cumulative)).mean())
    assert away <= backward["distribution"].honest[1] + EXACT
    assert away <= forward["distribution"].moved[1] + EXACT


def hours(moment: complex) -> float:
    return math.atan2(moment.imag, moment.real) / (2 * math.pi) * 24


def contains(span: tuple[float, float], value: float, period: float | None = None) -> None:
    low, high = span
    if period is not None:
        value = low + (value - low + 1e-6) % period - 1e-6
    assert low - 1e-6 <= value <= high + 1e-6


@pytest.mark.parametrize("lies", range(1, ATOMS))
@pytest.mark.parametrize("seed", range(8))
def test_the_ranges_are_attained_by_one_of_all_ways_to_lie(lies: int, seed: int) -> None:
    """Nine equal atoms: the honest are any nine minus `lies` of them, or a mixture of such choices."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.random(ATOMS) ** (1, 4)[seed % 2])
    at[0], at[-1] = (0.0, 1.0) if seed % 3 else at[[0, -1]]
    share, law = lies / ATOMS, Law(at, at, np.ones(ATOMS))
    kept = np.array(
        [np.isin(np.arange(ATOMS), each) for each in itertools.combinations(range(ATOMS), ATOMS - lies)]
    )
    honest = kept / (ATOMS - lies)
    steps = np.abs(np.cumsum(honest - 1 / ATOMS, axis=1))[:, :-1] @ np.diff(at)
    cap = min(share, 1 - share)
    claimed = _farthest(law, cap) * (share / (1 - share) if share <= 0.5 else 1.0)
    assert claimed == pytest.approx(float(steps.max()), abs=EXACT)
    variances = honest @ at**2 - (honest @ at) ** 2
    low, high = _variances(law, share).honest
    assert low == pytest.approx(float(variances.min()), abs=EXACT)
    # The largest variance belongs to a mixture: a concave program.
    solved = minimize(
        lambda f: (f @ at) ** 2 - f @ at**2,
        np.full(ATOMS, 1 / ATOMS),
        bounds=[(0, 1 / (ATOMS - lies))] * ATOMS,
        constraints={"type": "eq", "fun": lambda f: f.sum() - 1},
        options={"ftol": 1e-13},
    )
    assert high == pytest.approx(-float(solved.fun), abs=1e-6)


@pytest.mark.parametrize("lies", range(1, 8))
@pytest.mark.parametrize("seed", range(4))
def test_the_ranges_of_moments_are_attained(lies: int, seed: int) -> None:
    mechanism = OptimalCircular(Circle(1), 1.0, nodes=16)
    nodes = np.zeros(16)
    chosen = np.random.default_rng(seed).permutation(16 if seed % 2 else 9)[:8]
    nodes[chosen] = 1 / 8
    at = np.exp(2j * np.pi * mechanism.node_units(np.arange(16.0)))
    honest = np.array([at[list(each)].mean() for each in itertools.combinations(np.sort(chosen), 8 - lies)])
    found = circle_reach(mechanism, nodes, lies / 8)
    low, high = found["resultant length"].honest
    assert high == pytest.approx(np.abs(honest).max(), abs=DIRECTIONS)
    # The convex hull is all segments between its points. Two or fewer choices leave nothing inside it.
    start, step = honest[:, None], honest[None] - honest[:, None]
    along = np.clip(-(start * step.conj()).real / np.maximum(np.abs(step) ** 2, 1e-30), 0, 1)
    nearest = float(np.abs(start + along * step).min())
    turned = np.angle(honest / (nodes @ at))
    ahead = found["direction"]
    if low > 0:
        assert nearest - DIRECTIONS <= low <= nearest + EXACT
        assert there(ahead.value) - ahead.honest[0] == pytest.approx(-turned.min() / (2 * np.pi), abs=EXACT)
        assert ahead.honest[1] - there(ahead.value) == pytest.approx(turned.max() / (2 * np.pi), abs=EXACT)
    else:  # some mixture has no direction
        around = np.sort(np.angle(honest))
        gap = np.append(np.diff(around), around[0] + 2 * np.pi - around[-1]).max()
        assert gap <= np.pi + 1e-4 or nearest <= DIRECTIONS
        assert ahead.honest[1] - ahead.honest[0] == pytest.approx(1.0)


SHARP = OptimalPiecewise(Interval(0, 10), 12.0)
"""Nearly no noise: estimates from exact counts are those of the law."""

CELL = 10 / 127


def estimated(mechanism: Mechanism, nodes: FloatArray) -> dict[str, float]:
    """Return the estimates that a user sees, from exact counts."""
    counts = np.rint(expected_counts(mechanism, nodes, 1e9)).astype(np.int64)
    task = Task("lies", mechanism.domain, epsilon=mechanism.epsilon, mechanism=mechanism)
    found = estimate(task, counts)
    values = {"mean": found.mean, "standard deviation": found.standard_deviation}
    values |= {f"quantile {tau}": value for tau, value in found.quantiles.items()}
    return {name: each.value for name, each in values.items() if each and each.value is not None}


def test_estimates_move_by_what_is_told() -> None:
    """Liars are at the extremes and nothing is random. Quantiles have the grid's resolution: half a cell."""
    share = 0.04
    told = by_name(damage(SHARP, SKEWED, share, reports=1e9, critical=3.0))
    ends = np.eye(128)[[0, 127]]
    low, high = (estimated(SHARP, (1 - share) * SKEWED + share * end) for end in ends)
    honest = estimated(SHARP, SKEWED)
    # The values furthest from the mean maximise the variance, and the mean itself minimises it.
    middle = np.zeros(128)
    at = 12.7 * honest["mean"]
    middle[[int(at), int(at) + 1]] = 1 - at % 1, at % 1
    low["standard deviation"] = estimated(SHARP, (1 - share) * SKEWED + share * middle)["standard deviation"]
    for name in ("mean", "standard deviation", *(f"quantile {tau:g}" for tau in LEVELS)):
        margin = 1e-3 if name == "mean" else CELL / 2
        assert told[name].value == pytest.approx(honest[name], abs=margin), name
        assert low[name] == pytest.approx(told[name].moved[0], abs=margin), name
        assert high[name] == pytest.approx(told[name].moved[1], abs=margin), name
    # The reported shift is many times as large as the margins.
    assert high["standard deviation"] - honest["standard deviation"] > 4 * CELL
    assert honest["quantile 0.05"] - low["quantile 0.05"] > 4 * CELL


@pytest.mark.slow
def test_estimates_without_the_lies_are_those_that_are_told() -> None:
    """The liars are the lowest, the highest, or those next to the mean; nothing is random."""
    share = 0.05
    told = by_name(damage(SHARP, SKEWED, share, reports=1e9, critical=3.0))
    upto = np.append(0.0, np.cumsum(SKEWED))

    def without(start: float) -> dict[str, float]:
        lies = np.diff(np.clip(upto, start, start + share))
        return estimated(SHARP, (SKEWED - lies) / (1 - share))

    highest, lowest = without(0.0), without(1 - share)
    for name in ("mean", *(f"quantile {tau:g}" for tau in LEVELS)):
        margin = share * CELL if name == "mean" else CELL / 2  # lies by whole nodes and by parts of cells
        assert lowest[name] == pytest.approx(told[name].honest[0], abs=margin), name
        assert highest[name] == pytest.approx(told[name].honest[1], abs=margin), name
    widest = max(without(start)["standard deviation"] for start in np.linspace(0.2, 0.6, 9))
    assert widest == pytest.approx(told["standard deviation"].honest[1], abs=CELL / 4)
    assert widest - estimated(SHARP, SKEWED)["standard deviation"] > 0.4 * CELL


def test_directions_turn_by_what_is_told() -> None:
    """Liars are across the direction; exact counts give exact directions and lengths, up to rounding."""
    mechanism, share = OptimalCircular(Circle(360), 2.0), 0.05
    at = 2 * np.pi * mechanism.node_units(np.arange(128.0))
    nodes = np.exp(0.5 * np.cos(at - 1)) / np.exp(0.5 * np.cos(at - 1)).sum()
    told = by_name(damage(mechanism, nodes, share, reports=1e9, critical=3.0))
    value = there(told["direction"].value)
    turns, lengths = [], []
    for claim in np.eye(128):
        counts = np.rint(expected_counts(mechanism, (1 - share) * nodes + share * claim, 1e9))
        turned, length = (
            there(direction(Survey(mechanism, counts)).value),
            there(resultant_length(Survey(mechanism, counts)).value),
        )
        turns.append((turned - value + 180) % 360 - 180)
        lengths.append(length)
    # The best of 128 places is at most half a node from the best place: cos(pi / 128) = 1 - 3e-4.
    reach = told["direction"].moved[1] - value
    assert max(turns) <= reach + 1e-4
    assert max(turns) >= (1 - 1e-3) * reach
    assert max(lengths) == pytest.approx(told["resultant length"].moved[1], abs=share * 3e-4 + 1e-5)
    assert min(lengths) == pytest.approx(told["resultant length"].moved[0], abs=share * 3e-4 + 1e-5)


def test_chosen_codes_do_no_more_than_the_bounds() -> None:
    """Reports that pass, in 60 directions: their estimates stay within the bounds, and one comes near."""
    rng = np.random.default_rng(4)
    nodes, share, reports, critical = rng.dirichlet(np.ones(12)), 0.05, 1e5, 3.0
    told = by_name(damage(SMALL, nodes, share, reports=reports, critical=critical))
    first, second = (each.values for each in moment_numbers(SMALL, reports))
    law = nodes @ SMALL.kernel.matrix()
    directions = [
        *rng.normal(size=(40, law.size)),
        *(a * first + b * second for a, b in rng.normal(size=(20, 2))),
    ]
    liars = Liars(SMALL.kernel, nodes, share, reports, critical)
    passed = np.array([liars.worst(each) for each in directions])
    shifts = 16 * np.abs((passed @ second - (passed @ first) ** 2) - (law @ second - (law @ first) ** 2))
    assert told["variance"].sending is not None
    assert 0.9 * told["variance"].sending <= shifts.max() <= told["variance"].sending + EXACT
    assert told["mean"].sending is not None
    assert 4 * np.abs((passed - law) @ first).max() <= told["mean"].sending + EXACT
    for name in ("quantile 0.5", "any share", "distribution"):
        assert told[name].sending is None


def test_chosen_codes_turn_no_further_than_the_bounds() -> None:
    rng = np.random.default_rng(5)
    nodes, share, reports, critical = rng.dirichlet(np.full(12, 0.3)), 0.02, 1e5, 3.0
    told = by_name(damage(RING, nodes, share, reports=reports, critical=critical))
    turns = np.exp(2j * np.pi * RING.code_units()) / row_attenuation(RING)
    law = nodes @ RING.kernel.matrix()
    angles = 2 * np.pi * np.arange(60) / 60
    liars = Liars(RING.kernel, nodes, share, reports, critical)
    passed = np.array([liars.worst((turns * np.exp(-1j * t)).real) for t in angles])
    moments = passed @ turns
    moment = complex(law @ turns)
    for name, moved in (
        ("resultant length", np.abs(np.abs(moments) - abs(moment))),
        ("direction", 24 * np.abs(np.angle(moments / moment)) / (2 * np.pi)),
    ):
        bound = there(told[name].sending)
        assert 0.8 * bound <= moved.max() <= bound + EXACT, name


def test_damage_to_a_mean() -> None:
    mean = 10 * float(SKEWED @ LINE.node_units(np.arange(128.0)))
    few, many = (by_name(damage(LINE, SKEWED, 0.01, reports=n, critical=3.5))["mean"] for n in (1e4, 1e8))
    assert there(few.lying) == many.lying == pytest.approx(0.01 * (10 - mean))
    assert there(few.lying) < there(many.sending) < there(few.sending)
    # Even unseen, a code that liars send can shift the average by at most its distance from the mean.
    assert there(few.sending) <= 0.01 * (10 * np.abs(LINE.code_units()).max() + mean) + 1e-9
    with pytest.raises(ParameterError, match="share must lie between 0 and 1, got 1"):
        damage(LINE, SKEWED, 1.0, reports=1e4, critical=3.0)


def test_of_clamped_reports_ranges_take_in_the_end_zones() -> None:
    clamp = OptimalPiecewise(Interval(0, 1), 1.0, placement="clamp", nodes=24)
    zone = float(cell_edges(clamp)[1])
    nodes = np.full(24, 0.5 / 22)
    nodes[[0, -1]] = 0.25
    told = by_name(damage(clamp, nodes, 0.04, reports=1e4, critical=3.0))
    assert set(told) == {"mean", "any share", *(f"quantile {tau:g}" for tau in LEVELS)}
    assert told["mean"].value is None
    assert told["mean"].sending is None
    assert told["mean"].lying is None
    # A quarter in each zone, anywhere; the rest is symmetric around the middle.
    assert told["mean"].moved[0] == pytest.approx(0.96 * (0.5 - zone / 4), abs=EXACT)
    # Lies are 0.04 of a quarter at an end, so 0.25 / 0.96 of the honest are at the other one.
    assert told["mean"].honest[1] == pytest.approx((0.5 + zone / 4 - 0.04 * zone) / 0.96, abs=EXACT)
    assert told["quantile 0.05"].value is None
    assert told["quantile 0.05"].honest == pytest.approx((0.0, zone))
    assert told["quantile 0.5"].value == pytest.approx(0.5)


def test_a_uniform_circle_has_no_direction_to_turn() -> None:
    told = circle_reach(RING, np.full(12, 1 / 12), 0.1)
    assert told["direction"].moved[1] - told["direction"].moved[0] == pytest.approx(24)
    assert told["direction"].honest[1] - told["direction"].honest[0] == pytest.approx(24)
    assert told["resultant length"].honest[0] == 0.0
    assert told["resultant length"].moved == pytest.approx((0.0, 0.1))
    # On average, everybody is a quarter of the period away from any place.
    assert told["distribution"].moved[1] == pytest.approx(0.1 * 6)


def test_the_report_is_a_table() -> None:
    counts = np.rint(expected_counts(LINE, SKEWED, 1e5)).astype(np.int64)
    result = fit_test(LINE, counts, draws=67)
    shown = estimate(Task("shown", LINE.domain, epsilon=1.0, mechanism=LINE), counts)
    found = by_name(tuple(each for each in result.damage if each.share == 0.05))
    for tau, value in shown.quantiles.items():
        assert found[f"quantile {tau}"].value == pytest.approx(value.value)
    lines = str(result).splitlines()
    head = next(i for i, line in enumerate(lines) if "5 % liars" in line)
    assert [line.split("  ")[2] for line in lines[head + 1 :]] == [
        "mean",
        "standard deviation",
        *(f"quantile {tau:g}" for tau in LEVELS),
        "any share",
        "distribution",
    ]
    median = found["quantile 0.5"]
    row = next(line for line in lines if "quantile 0.5 " in line)
    assert f"{median.value:.4g}" in row
    assert f"{median.honest[0]:.4g} to {median.honest[1]:.4g}" in row
    assert f"+- {found['mean'].sending:.3g}" in next(line for line in lines if line.startswith("    mean"))
    assert f"within {found['distribution'].honest[1]:.4g}" in lines[-1]
    told = [each for each in result.to_dict()["damage"] if each["share"] == 0.05]
    assert [each["estimate"] for each in told] == list(found)
    assert {"variance", "any share", "distribution"} <= set(found)
    assert told[0]["lying"] == found["mean"].lying
