"""Vectors of integers for privacy: exact laws by enumeration, the certificate, and the sampler.

Statistical tests have a fixed seed and false-alarm rates of one in a million each.
"""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse

from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.certificate import exp_lower_bound
from arcwise.noise import BoxGridNoise, BoxStaircase, DiscreteStaircase, GridNoise, Staircase
from arcwise.noise.multivariate.grid_box import _uniform, wrapped
from arcwise.noise.multivariate.shell_law import INDEX_BITS, ShellLaw, below
from arcwise.randomness import InsecureSeededRandomness
from tests.support.chances import chi_square

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FALSE_ALARM = 1e-6
SMALL = (
    BoxGridNoise(0.9, (2, 1), (1, 0)),
    BoxGridNoise(0.6, (1, 3), (0, 3)),
    BoxGridNoise(4.2, (1, 1, 2), (1, 0, 1)),
    BoxGridNoise(2.5, (3,), (1,)),
    BoxGridNoise(33.0, (2, 2), (0, 1)),
)


class Scripted:
    """Gives these draws first, the most significant half first in 128-bit integers, then those of a seed."""

    secure = False

    def __init__(self, *draws: int) -> None:
        self.left = list(draws)
        self.taken = 0
        self._rest = InsecureSeededRandomness(1)

    def draw(self) -> tuple[int, int]:
        self.taken += 1
        if not self.left:
            return self._rest.draw()
        value = self.left.pop(0)
        return value % 2**64, value >> 64

    def draws(self, count: int) -> bytes:
        return b"".join(word.to_bytes(8, "little") for _ in range(count) for word in self.draw())


def boxes_of(noise: BoxGridNoise, count: int) -> list[list[int]]:
    """Return the half widths of the first boxes."""
    return [[c + i * s for c, s in zip(noise.core, noise.sensitivities, strict=True)] for i in range(count)]


def enumerated(noise: BoxGridNoise, shells: int) -> dict[tuple[int, ...], Fraction]:
    """Return the probabilities of the points of some shells, from written-out boxes and uniform points.

    The tail follows its definition, index by index, until it is negligible. Everything is in integers, in
    units of 2**-1500.
    """
    law, unit = noise._law, 1 << 1500
    last = len(law.weights)
    far = last + math.ceil(400 / noise.epsilon)
    sides = boxes_of(noise, far)
    points = [math.prod(2 * h + 1 for h in side) for side in sides]
    power, series = unit, []
    for n in points[last:]:
        series.append(power * n)
        power = power * law.decay.numerator // law.decay.denominator
    chance = [weight * unit >> INDEX_BITS for weight in law.weights]
    chance += [law.tail * unit * each // sum(series) >> INDEX_BITS for each in series]
    heights = [0]
    for i in range(far - 1, -1, -1):
        heights.append(heights[-1] + chance[i] // points[i])
    heights.reverse()
    found = {}
    for point in itertools.product(*[range(-h, h + 1) for h in sides[shells]]):
        index = next(i for i in range(far) if all(abs(x) <= h for x, h in zip(point, sides[i], strict=True)))
        found[point] = Fraction(heights[index], unit)
    return found


@pytest.mark.parametrize("noise", SMALL, ids=str)
def test_rows_by_enumeration(noise: BoxGridNoise) -> None:
    rows = enumerated(noise, 3)
    law = noise._law
    assert sum(law.weights) + law.tail == 2**INDEX_BITS
    # Every probability is the stated one, and near that of the law with e^-epsilon.
    b = math.exp(-noise.epsilon)
    boxes = [math.prod(2 * h + 1 for h in side) for side in boxes_of(noise, math.ceil(300 / noise.epsilon))]
    peak = 1 / (-math.expm1(-noise.epsilon) * math.fsum(b**i * n for i, n in enumerate(boxes)))
    for point, chance in rows.items():
        exact = noise.probability(point)
        assert abs(chance / exact - 1) < Fraction(1, 10**60)
        k = int(noise.shell(point))
        expected = peak * math.exp(-noise.epsilon * k)
        assert float(exact) == pytest.approx(expected, rel=1e-11)
        assert float(noise.pmf(point)) == pytest.approx(expected, rel=1e-11)
    # Points of all shells sum to 1; the number of points in a shell is the difference of two boxes.
    total, before = Fraction(0), 0
    for k in range(len(law.weights)):
        total += law.height(k) * (law.points(k) - before)
        before = law.points(k)
    # The rest is the tail: heights that fall by b, until they are negligible.
    last, rest = len(law.weights), 0.0
    for j in range(math.ceil(100 / noise.epsilon)):
        more = law.points(last + j) - law.points(last + j - 1)
        rest += float(law.height(last)) * float(law.decay) ** j * more
    assert float(1 - total) == pytest.approx(rest, rel=1e-10)


@pytest.mark.parametrize("noise", SMALL, ids=str)
def test_the_certificate_is_the_largest_ratio_of_all_pairs(noise: BoxGridNoise) -> None:
    law = noise._law
    bound = exp_lower_bound(noise.epsilon)
    # Every pair of points within the sensitivities, on the first shells.
    shells = {point: int(noise.shell(point)) for point in enumerated(noise, 3)}
    for point, k in shells.items():
        for change in itertools.product(*[range(-s, s + 1) for s in noise.sensitivities]):
            other = tuple(x + t for x, t in zip(point, change, strict=True))
            assert abs(shells.get(other, k) - k) <= 1
    # So the ratios are those of neighbouring shells: all that have weights, and one beyond for the rest.
    heights = [law.height(k) for k in range(len(law.weights) + 3)]
    ratios = [above / under for above, under in itertools.pairwise(heights)]
    assert all(1 <= each <= bound for each in ratios)
    assert ratios[-1] == ratios[-2] == 1 / law.decay
    certificate = noise.certificate()
    assert certificate.delta == 0
    assert certificate.epsilon == noise.epsilon
    assert certificate.ratio is not None
    assert max(ratios) <= certificate.ratio <= max(ratios) * (1 + Fraction(1, 2**200))
    assert certificate.ratio <= bound
    assert certificate.spent_epsilon == pytest.approx(noise.epsilon, rel=1e-12)
    assert noise.certificate(noise.epsilon * 1.5).epsilon == noise.epsilon * 1.5
    with pytest.raises(CertificateError):
        noise.certificate(noise.epsilon * 0.999)


def test_a_tail_that_falls_too_fast_is_no_certificate() -> None:
    law = ShellLaw(1.0, (2, 1), (1, 0))
    assert law.ratio <= exp_lower_bound(1.0)
    faster = ShellLaw(1.0, (2, 1), (1, 0))
    faster._decay = faster._decay * 9 // 10
    assert faster.ratio > exp_lower_bound(1.0)
    heavier = ShellLaw(1.0, (2, 1), (1, 0))
    heavier.weights[3] += 2 ** (INDEX_BITS - 50)
    assert heavier.ratio > exp_lower_bound(1.0)


@given(
    st.floats(0.05, 50), st.lists(st.tuples(st.integers(1, 2**32), st.floats(0, 1)), min_size=1, max_size=20)
)
def test_any_noise_has_its_certificate(epsilon: float, sides: list[tuple[int, float]]) -> None:
    sensitivities = tuple(s for s, _ in sides)
    core = tuple(min(s, round(s * share)) for s, share in sides)
    noise = BoxGridNoise(epsilon, sensitivities, core)
    law = noise._law
    assert min(law.weights) >= 0
    assert law.tail > 0
    assert sum(law.weights) + law.tail == 2**INDEX_BITS
    assert law.tail >> (INDEX_BITS - 80) == 0
    assert noise.certificate().spent_epsilon == pytest.approx(epsilon, rel=1e-11)


def test_a_uniform_integer_has_equally_many_draws() -> None:
    for n in (1, 2, 3, 7, 2**33 + 9, 2**50 - 1, 3 * 2**40):
        for x in (0, 1, n // 3, n - 1):
            # The draws whose multiple of n is in the stretch of x and leaves at least 2**128 mod n.
            first = -(-(x * 2**128 + 2**128 % n) // n)
            last = ((x + 1) * 2**128 - 1) // n
            if x >= n:
                continue
            assert last - first + 1 == 2**128 // n
            for draw in (first, last):
                source = Scripted()
                assert _uniform(n, draw, source) == x
                assert source.taken == 0
            if first and first * n - n >= x * 2**128:
                source = Scripted()
                _uniform(n, first - 1, source)
                assert source.taken == 1, (n, x)


def test_an_index_has_as_many_draws_as_its_weight() -> None:
    law = SMALL[0]._law
    low = 0
    for index, weight in enumerate(law.weights):
        for draw in (low, low + weight - 1):
            source = Scripted()
            assert law.sample(draw, source) == index
            assert source.taken == 0
        low += weight
    assert 2**INDEX_BITS - low == law.tail
    for draw in (low, 2**INDEX_BITS - 1):
        assert law.sample(draw, Scripted()) >= len(law.weights)


def test_uniform_integers_of_any_size() -> None:
    assert [below(1, Scripted()) for _ in range(2)] == [0, 0]
    assert below(2**128, Scripted(5)) == 5
    assert below(2**130, Scripted(2**128 - 1, 9)) == (3 << 128) + 9
    assert below(5, Scripted(7, 6, 8 + 4)) == 4  # rejected twice
    assert below(2**128 + 1, Scripted(1, 0)) == 2**128


def test_the_tail_is_drawn_as_it_is_defined() -> None:
    law = SMALL[1]._law
    last, source = len(law.weights), InsecureSeededRandomness(18)
    drawn = np.array([law._beyond(source) for _ in range(8_000)])
    far = 400
    terms = np.array([float(law.decay**j * law.points(last + j) / law.points(last)) for j in range(far)])
    assert (
        chi_square(np.bincount(np.minimum(drawn, far - 1), minlength=far), terms / terms.sum()) > FALSE_ALARM
    )


@pytest.mark.parametrize(
    ("noise", "cells"),
    [
        (BoxGridNoise(0.8, (5, 3, 8), (2, 0, 8)), (4, 3, 6)),
        (BoxGridNoise(2.0, (2, 40), (1, 11)), (1, 12)),
        pytest.param(BoxGridNoise(0.4, (1,) * 5, (0,) * 5), (4,) * 5, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_draws_follow_the_law(noise: BoxGridNoise, cells: Sequence[int]) -> None:
    """Shells, components, and points."""
    x = noise.draw_many(200_000, randomness=InsecureSeededRandomness(7))
    shells = noise.shell(x)
    law = noise._law
    counts = np.array([law.points(k) for k in range(400)], dtype=float)
    heights = np.array([float(law.height(k)) for k in range(400)])
    chances = heights * np.diff(counts, prepend=0.0)
    assert chi_square(np.bincount(np.minimum(shells, 399), minlength=400), chances) > FALSE_ALARM
    # Components, each compared with its own law: the boxes' uniform laws, summed over the others.
    for j in range(noise.dimension):
        reach = law.half_widths(len(law.weights))[j]
        marginal = np.zeros(2 * reach + 1)
        for i, weight in enumerate(law.weights):
            h = law.half_widths(i)[j]
            marginal[reach - h : reach + h + 1] += weight / 2**INDEX_BITS / (2 * h + 1)
        seen = np.bincount(x[:, j] + reach, minlength=2 * reach + 1)
        assert chi_square(seen, marginal) > FALSE_ALARM
    # Signs are independent of one another.
    signs = (x[(x != 0).all(axis=1)] > 0) @ (1 << np.arange(noise.dimension))
    size = 1 << noise.dimension
    assert chi_square(np.bincount(signs, minlength=size), np.full(size, 1 / size)) > FALSE_ALARM
    # The points of the middle of the grid, one by one.
    whole = x[(np.abs(x) <= np.array(cells)).all(axis=1)]
    box = [2 * c + 1 for c in cells]
    grid = np.stack(np.meshgrid(*[np.arange(-c, c + 1) for c in cells], indexing="ij"), axis=-1)
    flat = np.ravel_multi_index(tuple((whole + np.array(cells)).T), box)
    pmf = noise.pmf(grid).ravel()
    assert chi_square(np.bincount(flat, minlength=pmf.size), pmf / pmf.sum()) > FALSE_ALARM


def test_many_draws_are_the_single_ones() -> None:
    for noise in (*SMALL, BoxGridNoise(0.4, (2**32, 1, 2**31), (2**32, 0, 5))):
        source = InsecureSeededRandomness(3)
        single = [noise.draw(randomness=source).tolist() for _ in range(500)]
        many = noise.draw_many(500, randomness=InsecureSeededRandomness(3))
        assert many.tolist() == single
        assert many.dtype == np.int64


@pytest.mark.parametrize("noise", [SMALL[0], BoxGridNoise(0.4, (2**32, 7), (2**32, 3))], ids=str)
def test_draws_at_every_edge(noise: BoxGridNoise) -> None:
    """If the first 64 bits leave a draw open, all bits decide it, for one vector as for many."""
    law, top = noise._law, 2**128 - 1
    rows = []
    for end in (*law.ends[:3], law.ends[-1]):
        for draw in (end - 1, end):
            rows += [[draw >> 128, draw & top, 2**127 + 12345, 3]]
    index = 2
    start = law.ends[index - 1]
    for j, h in enumerate(law.half_widths(index)):
        n = 2 * h + 1
        for x in (1, n // 2, n - 1):
            edge = -(-(x << 128) // n)
            for draw in (edge - 1, edge, edge + 1, edge + (1 << 64), (edge >> 64) << 64):
                row = [start >> 128, start & top, 2**126, 2**125]
                row[2 + j] = draw
                rows.append(row)
    for row in rows:
        one, many = Scripted(*row), Scripted(*row)
        expected = noise.draw(randomness=one)
        assert noise.draw_many(1, randomness=many)[0].tolist() == expected.tolist()
        assert one.taken == many.taken
    # The tail: at least in the first shell without its own weight, or inside it.
    assert (noise.draw_many(3, randomness=Scripted(top, top)) != 0).any()


@pytest.mark.parametrize(
    ("k", "found"), [(5, 5), (-5, -5), (2**63, -(2**63)), (-(2**63) - 1, 2**63 - 1), (3 * 2**64 + 7, 7)]
)
def test_integers_beyond_64_bits_come_modulo(k: int, found: int) -> None:
    assert wrapped(k) == found


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 1.7])
def test_variances_are_those_of_the_optimum(epsilon: float) -> None:
    """The ratios of point 2: one GridNoise for each attribute costs 2 to 5 times the variance, this 1.00."""
    for d, worse in ((1, 1.0), (2, 2.0), (4, 3.2), (8, 4.3), (16, 5.0)):
        least = optimum(epsilon, d)
        noise = BoxGridNoise.for_values(epsilon, (3.0,) * d)
        assert noise.steps == (3 / 64,) * d
        np.testing.assert_allclose(noise.var() / 9, least, rtol=1e-3)
        # Rounding the values adds at most a quarter of a step squared.
        assert ((noise.var() + (3 / 64) ** 2 / 4) / 9 <= 1.01 * least).all()
        share = GridNoise.from_noise(Staircase.optimal(epsilon / d, power=2), step=1 / 64)
        if epsilon == 1.0:
            assert share.var() / least == pytest.approx(worse, rel=0.03)


def optimum(epsilon: float, dimension: int) -> float:
    """Return the least variance of box-shaped noise at sensitivity 1, by minimising sums written out."""
    i = np.arange(math.ceil((60 + 8 * dimension) / epsilon), dtype=float)

    def cost(gamma: float) -> float:
        weights = np.exp(-epsilon * i + dimension * np.log(np.maximum(i + gamma, 1e-300)))
        return float((weights @ (i + gamma) ** 2) / weights.sum() / 3)

    coarse = min(np.linspace(0.0, 1.0, 201), key=cost)
    return min(cost(g) for g in np.linspace(max(coarse - 0.005, 0), min(coarse + 0.005, 1), 101))


@pytest.mark.parametrize(
    ("epsilon", "d", "s", "power"),
    [(12.0, 8, 2, 2), (12.0, 8, 4, 2), (2.0, 3, 7, 2), (0.8, 1, 20, 2), (3.0, 2, 3, 1), (6.0, 3, 2, 0.5)],
)
def test_cores_are_the_best_of_all(epsilon: float, d: int, s: int, power: float) -> None:
    """Includes cases in which the rounded continuous optimum has twice the least variance."""

    def cost(noise: BoxGridNoise) -> float:
        law = noise._law
        total = Fraction(0)
        for i, weight in enumerate(law.weights):
            h = law.half_widths(i)[0]
            mean = 2 * math.fsum(k**power for k in range(1, h + 1)) / (2 * h + 1)
            total += Fraction(weight, 2**INDEX_BITS) * Fraction(mean)
        return float(total)

    chosen = cost(BoxGridNoise.optimal(epsilon, (s,) * d, power=power))
    assert chosen <= min(cost(BoxGridNoise(epsilon, (s,) * d, (c,) * d)) for c in range(s + 1)) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "d", "s", "reach"), [(4.0, 2, 2, 14), (2.0, 2, 1, 14), (3.0, 2, 3, 24), (3.1, 3, 1, 9)]
)
def test_no_noise_on_the_grid_has_less_variance(epsilon: float, d: int, s: int, reach: int) -> None:
    """By a linear program over all laws on the points within reach.

    Laws that are symmetric in the order and the signs of the components are enough: mixtures keep epsilon and
    the variance. Beyond the reach there are no constraints, so the program is slightly below the true
    minimum.
    """
    points = list(itertools.combinations_with_replacement(range(reach + 1), d))
    place = {point: n for n, point in enumerate(points)}
    copies, cost = np.zeros(len(points)), np.zeros(len(points))
    for point, n in place.items():
        copies[n] = len(set(itertools.permutations(point))) * 2 ** sum(x > 0 for x in point)
        cost[n] = copies[n] * sum(x * x for x in point) / d
    pairs = set()
    for point, n in place.items():
        for change in itertools.product(range(-s, s + 1), repeat=d):
            other = tuple(sorted(abs(x + t) for x, t in zip(point, change, strict=True)))
            if other in place and place[other] != n:
                pairs.add((n, place[other]))
    rows = np.arange(len(pairs))
    above, under = np.array(sorted(pairs)).T
    bounds = sparse.csr_array(
        (
            np.repeat([1.0, -math.exp(epsilon)], len(pairs)),
            (np.tile(rows, 2), np.concatenate([above, under])),
        ),
        shape=(len(pairs), len(points)),
    )
    least = optimize.linprog(
        cost, A_ub=bounds, b_ub=np.zeros(len(pairs)), A_eq=copies[None], b_eq=[1.0], method="highs"
    )
    assert BoxGridNoise.optimal(epsilon, (s,) * d).var()[0] == pytest.approx(least.fun, rel=1e-4)


def test_one_attribute_is_the_staircase_on_integers() -> None:
    for epsilon, s, r in ((0.7, 6, 2), (2.0, 1, 1), (5.0, 3, 3)):
        noise = BoxGridNoise(epsilon, (s,), (r - 1,))
        k = np.arange(-40, 41)
        np.testing.assert_allclose(noise.pmf(k[:, None]), DiscreteStaircase(epsilon, s, r).pmf(k), rtol=1e-12)
        assert noise.var()[0] == pytest.approx(DiscreteStaircase(epsilon, s, r).var(), rel=1e-12)


halves = st.integers(-(10**6), 10**6).map(lambda n: n / 2)
numbers = st.one_of(st.floats(-1e6, 1e6), halves)


@given(numbers, numbers, st.one_of(st.floats(1e-3, 1e3), st.sampled_from([0.1, 0.25, 1.0, 1 / 3])))
def test_rounding_to_the_grid_is_exact_and_adds_no_step(a: float, b: float, step: float) -> None:
    noise = BoxGridNoise(1.0, (1, 1), (0, 0), (step, step))
    points = noise.to_grid([a, b]).tolist()
    exact = [math.floor(Fraction(x) / Fraction(step) + Fraction(1, 2)) for x in (a, b)]
    assert points == exact
    change = abs(Fraction(a) - Fraction(b)) / Fraction(step)
    assert abs(points[0] - points[1]) <= math.ceil(change)


def test_halves_go_up() -> None:
    noise = BoxGridNoise(1.0, (1, 1), (0, 0))
    assert noise.to_grid([[-0.5, 0.5], [1.5, -1.5]]).tolist() == [[0, 1], [2, -1]]
    assert noise.to_grid([0.49999999999999994, -0.5000000000000001]).tolist() == [0, -1]
    assert noise.to_grid(np.array([3, -4], dtype=np.int16)).tolist() == [3, -4]
    assert noise.to_grid([2**62, -1e300]).tolist() == [2**50, -(2**50)]
    small = BoxGridNoise(1.0, (1,), (0,), (1e-300,))
    assert small.to_grid([1e300]).tolist() == [2**50]
    wide = BoxGridNoise(1.0, (1,), (0,), (1024.0,))
    assert wide.to_grid(np.array([[2**63 - 1], [-(2**63)]])).tolist() == [[2**43], [-(2**43)]]


@given(st.floats(1e-6, 1e6), st.floats(1e-3, 1.0))
def test_sensitivities_are_rounded_up(sensitivity: float, share: float) -> None:
    step = sensitivity * share
    noise = BoxGridNoise.for_values(2.0, (sensitivity,), steps=(step,))
    steps = noise.sensitivities[0]
    assert steps * Fraction(step) >= Fraction(sensitivity) > (steps - 1) * Fraction(step)


def test_a_release_is_on_the_grid_and_near() -> None:
    noise = BoxGridNoise.for_values(5.0, (1.0, 20.0), steps=(0.125, 0.5))
    values = np.array([[3.3, -70.2]] * 2000)
    released = noise.release(values, randomness=InsecureSeededRandomness(2))
    assert released.shape == values.shape
    assert (released % [0.125, 0.5] == 0).all()
    spread = np.sqrt(noise.var() / len(values))
    assert (np.abs(released.mean(axis=0) - noise.to_grid(values[0]) * [0.125, 0.5]) < 6 * spread).all()
    assert noise.release(values[0]).shape == (2,)
    assert noise.release(values.reshape(4, 500, 2)).shape == (4, 500, 2)
    assert noise.draw_many(0).shape == (0, 2)
    assert noise.release(np.empty((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("level", [0.02, 0.5, 0.95, 0.999])
def test_half_widths_are_the_smallest(level: float) -> None:
    for noise in (SMALL[0], SMALL[2], BoxGridNoise(1.3, (5, 9), (2, 9), (0.5, 3.0))):
        law = noise._law
        for j, width in enumerate((noise.half_widths(level) / noise.steps).tolist()):
            inside = []
            for x in (int(width) - 1, int(width)):
                sides = [2 * law.half_widths(i)[j] + 1 for i in range(len(law.weights))]
                chances = [w * min(2 * x + 1, n) / n for w, n in zip(law.weights, sides, strict=True)]
                inside.append(math.fsum(chances) / 2**INDEX_BITS)
            assert width == int(width)
            assert inside[0] < level <= inside[1]


def test_noise_is_a_value() -> None:
    noise = BoxGridNoise.optimal(1.0, np.array([64, 3]), steps=np.array([0.5, 2]))  # type: ignore[arg-type]
    assert noise == BoxGridNoise(1, (64, 3), noise.core, (0.5, 2.0))
    assert hash(noise) == hash(pickle.loads(pickle.dumps(noise)))
    assert pickle.loads(pickle.dumps(noise)) == noise != BoxGridNoise(1.0, (64, 3), noise.core)
    assert noise.dimension == 2
    best = BoxStaircase.optimal(1.0, (64.0, 3.0))
    assert all(abs(c + 0.5 - z) <= 2 for c, z in zip(noise.core, best.core, strict=True))
    law = ShellLaw(1.0, (64, 3), noise.core)
    assert law.weights == noise._law.weights


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *(
            (partial(BoxGridNoise, *arguments), message)
            for arguments, message in (
                ((0.0, (1,), (0,)), "epsilon"),
                ((51, (1,), (0,)), "epsilon"),
                ((1.0, (0,), (0,)), r"sensitivities\[0\] must be an integer from 1"),
                ((1.0, (1.0,), (0,)), r"sensitivities\[0\]"),
                ((1.0, (), ()), "sensitivities must be 1 to 64"),
                ((1.0, (1,) * 65, (0,) * 65), "sensitivities must be 1 to 64"),
                ((1.0, 3, (0,)), "sensitivities must be a sequence"),
                ((1.0, (1, 2), (0,)), "core must be 2 integers"),
                ((1.0, (1, 2), (0, 3)), "core must be 2 integers, each at most"),
                ((1.0, (1,), (-1,)), r"core\[0\]"),
                ((1.0, (1,), (0,), (0.0,)), r"steps\[0\] must be positive"),
                ((1.0, (1,), (0,), (1.0, 1.0)), "steps and sensitivities must be equally long"),
                ((1.0, (1,), (0,), "1"), "steps must be a sequence"),
                ((1e-4, (1,), (0,)), "epsilon must be large enough for at most 65536 shells"),
            )
        ),
        (lambda: SMALL[0].to_grid([math.nan, 0]), "values must be finite"),
        (lambda: SMALL[0].to_grid([1.0]), r"points must be real numbers of shape \(..., 2\)"),
        (lambda: SMALL[0].shell([0.5, 1.0]), r"k must be integers of shape \(..., 2\)"),
        (lambda: SMALL[0].draw_many(-1), "count"),
        (lambda: SMALL[0].half_widths(1.0), "level"),
        (lambda: BoxGridNoise.optimal(1.0, ()), "sensitivities must be 1 to 64"),
        (lambda: BoxGridNoise.for_values(1.0, (1.0,), steps=(1e-12,)), r"steps must be at least 2\*\*-32"),
        (lambda: BoxGridNoise.for_values(1.0, (5e-324,)), r"steps\[0\] must be positive"),
    ],
)
def test_what_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
