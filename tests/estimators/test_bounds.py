"""Bounds that hold for every population: their conditions, on every mechanism, for any reports."""

import math
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from arcwise.analysis import Value, estimate
from arcwise.analysis.estimators.bounds import USUAL, Average, Bounds, difference_interval
from arcwise.analysis.estimators.places import Places
from arcwise.analysis.estimators.quantiles import circular_quantiles, quantiles
from arcwise.analysis.estimators.shares import cdf_band, joint_root, share
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.grid import first_cell
from arcwise.analysis.likelihood.distribution import uniform_start
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.tasks import Task
from arcwise.typing import BoolArray, FloatArray
from tests.support.cases import mostly_slow
from tests.support.known import bounded
from tests.support.strategies import ALL_EXAMPLES, LATTICE_EXAMPLES, Example
from tests.support.surveys import drawn_counts

EXAMPLES = [*ALL_EXAMPLES, *LATTICE_EXAMPLES]

FINE = [
    OptimalPiecewise(Interval(0, 1), 2.0, nodes=300),
    OptimalPiecewise(Interval(0, 1), 2.0, nodes=512, placement="clamp"),
    OptimalPiecewise(Interval(0, 1), 4.0, nodes=1000),
    OptimalCircular(Circle(1), 2.0, nodes=300),
    OptimalCircular(Circle(1), 4.0, nodes=1000),
    OptimalPiecewise(Interval(0, 999, step=1), 4.0),
    OptimalPiecewise(Interval(0, 599, step=1), 2.0, placement="clamp"),
    OptimalCircular(Circle(700, step=1), 3.0),
]
"""On more nodes than the program has variables."""


def by_nodes(mechanism: Mechanism, functional: FloatArray) -> FloatArray:
    """Return a functional by node numbers, from one by cells."""
    return np.roll(functional, first_cell(mechanism))


def seen(mechanism: Mechanism, functional: FloatArray, units: FloatArray) -> FloatArray:
    """Return a functional's mean for people at places of the unit domain, as devices round them."""
    nodes = by_nodes(mechanism, functional)
    position = mechanism.positions(units)
    below = np.floor(position).astype(np.int64)
    part = position - below
    mean: FloatArray = (1.0 - part) * nodes[below] + part * nodes[(below + 1) % len(nodes)]
    return mean


def people(mechanism: Mechanism, ends: list[float], generator: np.random.Generator) -> FloatArray:
    """Return possible places of people: all values of a lattice, else ends, nodes and some in between."""
    lattice = mechanism.lattice
    if lattice is not None:
        return np.arange(lattice.size) / lattice.steps
    at = Places(mechanism).at
    hairs = np.array([end + side for end in ends for side in (-1e-7, 0.0, 1e-7)])
    units = np.concatenate([[0.0, 1.0], at, hairs, generator.random(50)])
    if mechanism.kernel.circular:
        units %= 1.0
    clipped: FloatArray = np.clip(units, 0.0, 1.0 - mechanism.kernel.circular * 2.0**-53)
    return clipped


def inside(units: FloatArray, first: float, last: float, *, circular: bool, by: float) -> BoolArray:
    """Return which places lie from `first` to `last`, within a tolerance."""
    if circular:
        found: BoolArray = (units - first + by) % 1.0 <= last - first + 2 * by
        return found
    both: BoolArray = (units >= first - by) & (units <= last + by)
    return both


def some_part(mechanism: Mechanism, generator: np.random.Generator) -> tuple[float, float]:
    """Return the start and the end of a part of the domain: anywhere, at nodes, or at the ends."""
    at = Places(mechanism).at
    lattice = mechanism.lattice
    if lattice is not None:
        at = np.arange(lattice.size) / lattice.steps
    choices = [generator.random(2), generator.choice(at, 2), np.array([0.0, generator.random()])]
    choices += [np.array([generator.choice(at), 1.0]), generator.choice(at) + np.array([0.0, 0.3 / len(at)])]
    first, last = np.sort(choices[generator.integers(len(choices))]).tolist()
    return first, last


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
def test_functionals_are_above_the_share_and_above_the_rest(example: Example) -> None:
    mechanism = example.make(1.0)
    places, circular = Places(mechanism), mechanism.kernel.circular
    generator = np.random.default_rng(1)
    for _ in range(40):
        first, last = some_part(mechanism, generator)
        most, rest = places.between(first, last)
        units = people(mechanism, [first, last], generator)
        part = inside(units, first, last, circular=circular, by=1e-12)
        beyond = ~part
        if places.values is None and last - first < 1.0:  # people at the bounds are also in the rest
            ends = [
                abs((units - end + 0.5 * circular) % 1.0 - 0.5 * circular) < 1e-12 for end in (first, last)
            ]
            beyond |= ends[0] & (first > 0.0 or circular) | ends[1] & (last < 1.0 or circular)
        for functionals, where in ((most, part), (rest, beyond)):
            for functional in functionals:
                found = seen(mechanism, functional, units)
                assert found[where].min(initial=1.0) >= 1.0 - 1e-6
                assert found.min() >= 0.0


def check_weights(mechanism: Mechanism, bounds: Bounds, functionals: FloatArray, root: float) -> None:
    """At every node, the weights of both parts have means of at least one of the functionals."""
    average = bounds.averages([functionals], root)[0]
    kernel = mechanism.kernel
    assert np.isfinite(average.weights).all()
    assert average.variance >= 0.0
    assert average.most == average.weights.max()
    for weights in average.weights:
        block = -(-kernel.codes // len(weights))
        assert -(-kernel.codes // block) == len(weights)
        means = kernel.matrix() @ np.repeat(weights, block)[: kernel.codes]
        lack = [float((by_nodes(mechanism, each) - means).max()) for each in functionals]
        assert min(lack) <= 1e-9 * max(1.0, float(np.abs(weights).max()))


@settings(max_examples=60)
@given(
    example=st.sampled_from(EXAMPLES),
    epsilon=st.sampled_from([0.3, 1.0, 4.0, 8.0]),
    n=st.sampled_from([2, 30, 1000, 10**5, 10**7]),
    spread=st.sampled_from([0.02, 0.3, 10.0]),
    root=st.floats(0.5, 4.0),
    seed=st.integers(0, 2**32),
)
@pytest.mark.slow
def test_weights_are_valid_at_every_node(
    example: Example, epsilon: float, n: int, spread: float, root: float, seed: int
) -> None:
    mechanism = example.make(epsilon)
    generator = np.random.default_rng(seed)
    truth = generator.dirichlet(np.full(mechanism.kernel.nodes, spread) + 1e-3)
    bounds = Bounds(mechanism, drawn_counts(mechanism, truth, n, seed))
    for _ in range(3):
        for functionals in bounds.places.between(*some_part(mechanism, generator)):
            check_weights(mechanism, bounds, functionals, root)


@pytest.mark.parametrize("mechanism", FINE, ids=repr)
@pytest.mark.slow
def test_fine_grids_have_weights_in_blocks_that_are_valid_and_tell_something(mechanism: Mechanism) -> None:
    nodes = mechanism.kernel.nodes
    generator = np.random.default_rng(nodes)
    truth = generator.dirichlet(np.full(nodes, 0.02))
    bounds = Bounds(mechanism, drawn_counts(mechanism, truth, 100_000, 1))
    for _ in range(8):
        for functionals in bounds.places.between(*some_part(mechanism, generator)):
            check_weights(mechanism, bounds, functionals, 1.8)
    average = bounds.averages([bounds.places.between(0.25, 0.6)[0]], 1.8)[0]
    blocks = 1 + np.count_nonzero(np.diff(average.weights, axis=1), axis=1)
    assert blocks.max() < min(mechanism.kernel.codes, 500)
    assert np.ptp(average.weights) > 0.0
    over, under = bounds.averages(bounds.places.between(0.25, 0.6), USUAL)
    low, high = difference_interval(over, under, 1.0, 0.95)
    at = bounds.places.at
    cells = np.roll(truth, -first_cell(mechanism))
    assert low <= float(cells[(at >= 0.25) & (at <= 0.6)].sum()) <= high
    assert high - low < 0.2


@given(
    value=st.floats(-1.0, 1.0),
    room=st.floats(1e-3, 10.0),
    share_=st.floats(0.0, 1.0),
    n=st.sampled_from([1.0, 30.0, 1e4, 1e9]),
)
def test_upper_bounds_are_above_and_increase_with_the_root(
    value: float, room: float, share_: float, n: float
) -> None:
    average = Average(value, np.zeros((2, 1)), np.sqrt([share_ * room / n]), value + room, n, 0.0)
    bounds = [average.upper(root) for root in (0.1, 1.0, 2.0, 5.0)]
    assert value <= bounds[0]
    assert bounds == sorted(bounds)


def of_count(seen_: int, n: int, most: float = 1.0, *, rest: bool = False) -> Average:
    """Return the average of a weight that this many reports have, or of the weight that all others have."""
    p = (n - seen_ if rest else seen_) / n
    variance = p * (1.0 - p)
    third = most**3 * variance * (1.0 - 2.0 * p)
    return Average(most * p, np.zeros((2, 1)), np.sqrt([most**2 * variance / n]), most, n, third)


@pytest.mark.parametrize(("n", "seen_"), [(10**5, 30_000), (10**6, 500_000), (10**6, 999_000)])
def test_the_upper_bound_of_a_large_count_is_wilsons(n: int, seen_: int) -> None:
    p, z, most = seen_ / n, 1.96, 2.5
    centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    up = of_count(seen_, n, most).upper(z) - most * p
    assert up == pytest.approx(most * ((centre + half) / (1 + z * z / n) - p), rel=0.02)


@pytest.mark.parametrize("n", [100, 100_000])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99, 0.9999])
def test_a_share_of_few_reports_is_held_as_often_as_promised(n: int, level: float) -> None:
    """Enumerates the probability of every count, for shares with 0.01 to 30 expected reports."""
    counts, expected = np.arange(100), np.geomspace(0.01, 30.0, 400)
    ends = np.array(
        [difference_interval(of_count(k, n), of_count(k, n, rest=True), 1.0, level) for k in counts.tolist()]
    )
    low, high = n * ends.T[:, :, None]
    missed = (expected < low - 1e-9) | (expected > high + 1e-9)
    misses = (binom.pmf(counts[:, None], n, expected / n) * missed).sum(axis=0)
    assert misses.max() <= (1.4 if level <= 0.95 else 3.0) * (1.0 - level)
    assert ends[0, 1] == pytest.approx(-math.log((1.0 - level) / 2) / n, rel=0.1)


def answers(mechanism: Mechanism, counts: FloatArray, level: float = 0.95) -> list[Value]:
    """Return shares and quantiles, with a fit that is unrelated to the reports."""
    low, middle = mechanism.domain.from_unit(np.array([0.0, 0.5])).tolist()
    part, whole = (Survey(mechanism, counts, probabilities=uniform_start(mechanism)) for _ in range(2))
    others = (
        circular_quantiles(whole, middle, level=level)
        if mechanism.kernel.circular
        else quantiles(whole, level=level)
    )
    return [share(part, low, middle, level=level), *others.values()]


@pytest.mark.parametrize(
    "number", mostly_slow(range(len(EXAMPLES)), every=2, ids=lambda number: repr(EXAMPLES[number]))
)
def test_reports_without_a_population_have_intervals_within_the_domain(number: int) -> None:
    """One report, two, and any number of one code; warnings are errors.

    Each example has each code and each number of reports once, and the pairing differs between examples.
    """
    mechanism = EXAMPLES[number].make(4.0)
    codes, domain = mechanism.kernel.codes, mechanism.domain
    start = domain.low if isinstance(domain, Interval) else 0.0
    for place, n in enumerate((1.0, 2.0, 5000.0)):
        counts = np.zeros(codes)
        counts[(0, codes // 3, codes - 1)[(place + number) % 3]] = n
        part, *others = answers(mechanism, counts)
        assert part.low is not None
        assert part.high is not None
        assert 0.0 <= part.low <= part.high <= 1.0
        for each in map(bounded, others):
            assert each.low <= each.high
            if each.value is not None:
                assert each.low <= each.value <= each.high
            if isinstance(domain, Interval):
                assert start <= each.low
                assert each.high <= start + domain.length
            else:
                assert each.high - each.low <= domain.length * (1 + 1e-9)
        if n == 2.0 and not mechanism.kernel.circular:
            band = cdf_band(Survey(mechanism, counts, probabilities=uniform_start(mechanism)))
            assert 0.0 <= min(band.low) <= max(band.high) <= 1.0


@pytest.mark.parametrize("example", [*EXAMPLES[:6], *LATTICE_EXAMPLES[:4]], ids=repr)
def test_equal_counts_have_equal_intervals_and_higher_levels_wider_ones(example: Example) -> None:
    mechanism = example.make(2.0)
    nodes, length = mechanism.kernel.nodes, mechanism.domain.length
    counts = drawn_counts(mechanism, np.random.default_rng(3).dirichlet(np.ones(nodes)), 5000, 3)
    several = [answers(mechanism, counts, level) for level in (0.8, 0.95, 0.999)]
    assert several[1] == answers(mechanism, counts.copy(), 0.95)
    for lower, higher in pairwise(several):
        # The search for a quantile's ends takes a few steps only.
        slack = [1e-6] + [0.02 * length] * (len(lower) - 1)
        for narrow, wide, by in zip(map(bounded, lower), map(bounded, higher), slack, strict=True):
            assert wide.low <= narrow.low + by
            assert narrow.high <= wide.high + by


def test_a_share_does_not_depend_on_what_was_asked_before() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0)
    counts = drawn_counts(mechanism, np.random.default_rng(3).dirichlet(np.ones(128)), 20_000, 3)
    fitted = uniform_start(mechanism)
    survey = Survey(mechanism, counts, probabilities=fitted)
    before = share(survey, 0.2, 0.5)
    quantiles(survey)
    cdf_band(survey)
    assert share(survey, 0.2, 0.5) == before
    assert share(Survey(mechanism, counts, probabilities=fitted), 0.2, 0.5) == before


@pytest.mark.parametrize("level", [0.5, 0.9999])
@pytest.mark.parametrize("domain", [Interval(0, 1, step=1), Interval(0, 2, step=1), Circle(3, step=1)])
def test_few_values_have_intervals_at_the_lowest_and_the_highest_level(
    domain: Interval | Circle, level: float
) -> None:
    task = Task("a", domain, epsilon=1.0)
    counts = np.full(task.mechanism.kernel.codes, 4000)
    counts[0] = 6000
    between = [(0.0, 1.0)]
    result = estimate(task, counts, level=level, bands=True, between=between)
    for value in map(bounded, (*result.shares.values(), *result.bins.values())):
        assert 0.0 <= value.low <= value.high <= 1.0


@pytest.mark.parametrize("bounds", [1, 8, 64])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.9999])
def test_the_joint_root_of_bounds_that_do_not_depend_on_one_another(bounds: int, level: float) -> None:
    """4,096 draws with a fixed seed are wrong by about 0.03."""
    exact = NormalDist().inv_cdf(level ** (1.0 / bounds))
    assert joint_root(np.eye(bounds), level) == pytest.approx(exact, abs=0.06)


def test_an_arc_of_a_whole_turn_holds_everybody_wherever_it_starts() -> None:
    mechanism = OptimalCircular(Circle(24), 2.0)
    places = Places(mechanism)
    for start in np.linspace(-2.0, 2.0, 97).tolist():
        most, rest = places.between(start, start + 1.0)
        assert most.min() == 1.0
        assert rest.max() == 0.0
