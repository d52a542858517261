"""Noise for changes that are not boxes: bodies on the grid and for experiments, independent parts."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.certificate import exp_lower_bound
from arcwise.noise import (
    Ball,
    BodyGridNoise,
    BodyStaircase,
    BoxGridNoise,
    BoxStaircase,
    Face,
    IndependentGridNoise,
    IndependentStaircase,
    Staircase,
)
from arcwise.randomness import InsecureSeededRandomness
from tests.noise.test_noise_vectors import FALSE_ALARM, Scripted
from tests.support.chances import chi_square

if TYPE_CHECKING:
    from collections.abc import Callable

MOVES = BodyGridNoise(BoxGridNoise(1.1, (1, 1), (0, 0)), (Face((1, 1), 1, 0),))
DIAMOND = BodyGridNoise(
    BoxGridNoise(0.7, (2, 2), (1, 2)), (Face((1, 1), 2, 1), Face((1, -1), 2, 2), Face((2, 0), 3, 0))
)
DISC = BodyGridNoise(BoxGridNoise(0.9, (4, 3), (1, 1)), balls=(Ball((1, 1), 4, 2), Ball((0, 2), 5, 0)))
BOTH = BodyGridNoise.optimal(1.5, (3, 3, 3), faces=[((1, 1, 1), 4)], balls=[((1, 2, 1), 3)])
THREE = BodyGridNoise.optimal(2.3, (4, 6, 5), faces=[((1, 1, 1), 7), ((1, 0, -2), 9)])


def holds(noise: BodyGridNoise, point: tuple[int, ...], cores: int, bounds: int) -> bool:
    """Return whether a point is in the body with these cores and bounds: in box, faces and balls."""
    box = zip(point, noise.box.core, noise.box.sensitivities, strict=True)
    return (
        all(abs(v) <= cores * c + bounds * s for v, c, s in box)
        and all(
            abs(sum(a * v for a, v in zip(f.normal, point, strict=True))) <= cores * f.core + bounds * f.bound
            for f in noise.faces
        )
        and all(
            sum(w * v * v for w, v in zip(b.weights, point, strict=True))
            <= (cores * b.core + bounds * b.bound) ** 2
            for b in noise.balls
        )
    )


@pytest.mark.parametrize(
    "noise", [MOVES, DIAMOND, DISC, BOTH, THREE], ids=["moves", "diamond", "disc", "both", "three"]
)
def test_changes_within_the_body_move_a_point_by_one_shell(noise: BodyGridNoise) -> None:
    reach = [range(-s, s + 1) for s in noise.box.sensitivities]
    changes = np.array([change for change in itertools.product(*reach) if holds(noise, change, 0, 1)])
    assert len(changes) > 1
    generator = np.random.default_rng(0)
    points = np.array(noise.box.sensitivities) * generator.integers(-3, 4, (300, noise.dimension))
    points += generator.integers(-3, 4, points.shape)
    moved = noise.shell(points[:, None] + changes) - noise.shell(points)[:, None]
    assert moved.min() == -1
    assert moved.max() == 1
    # So a change can reach at most the ratio of the box's heights.
    certificate = noise.certificate()
    assert certificate == noise.box.certificate()
    assert certificate.ratio is not None
    assert certificate.delta == 0
    assert certificate.ratio <= exp_lower_bound(noise.box.epsilon)
    with pytest.raises(CertificateError):
        noise.certificate(noise.box.epsilon * 0.99)


@pytest.mark.parametrize(
    "noise",
    [MOVES, DISC, *(pytest.param(noise, marks=pytest.mark.slow) for noise in (DIAMOND, BOTH, THREE))],
    ids=["moves", "disc", "diamond", "both", "three"],
)
def test_accepted_points_have_the_heights_of_their_shells(noise: BodyGridNoise) -> None:
    count = 150_000
    x = noise.draw_many(count, randomness=InsecureSeededRandomness(11))
    assert x.shape == (count, noise.dimension)
    reach = np.array(noise.box.sensitivities) * (30 if noise.dimension == 2 else 8)
    grid = np.stack(np.meshgrid(*[np.arange(-r, r + 1) for r in reach], indexing="ij"), axis=-1)
    shells = noise.shell(grid).ravel()
    # Written out: the shell of a point is the first that holds it by all of its bounds.
    for point in ((0, 0, 0), (3, 1, -2), (7, 7, 7), (-9, 0, 4)):
        k = 0
        p = point[: noise.dimension]
        while not holds(noise, p, 1, k):
            k += 1
        assert noise.shell(p) == k
    heights = np.exp(-noise.box.epsilon * shells)
    inside = (np.abs(x) <= reach).all(axis=1)
    flat = np.ravel_multi_index(tuple((x[inside] + reach).T), tuple(2 * reach + 1))
    assert inside.mean() > 0.99
    assert chi_square(np.bincount(flat, minlength=shells.size), heights / heights.sum()) > FALSE_ALARM


def test_candidates_of_the_tail_are_accepted_by_the_same_rule() -> None:
    """Integers of any size, one by one; an accepted point has at most the shell of its candidate."""
    top = 2**128 - 1
    kept = 0
    for noise in (MOVES, DIAMOND, DISC):
        for seed in range(200):
            source = Scripted(*[top] * 4)
            source._rest = InsecureSeededRandomness(seed)
            candidates = np.empty((1, 2), np.int64)
            index, tail = noise.box.fill(candidates, source)
            assert list(tail) == [0]
            i, point = tail[0]
            assert i > index[0] == len(noise.box._law.weights) - 1
            assert candidates[0].tolist() == point
            source = Scripted(*[top] * 4)
            source._rest = InsecureSeededRandomness(seed)
            accepted = bool(noise._within(candidates, source)[0])
            assert accepted == (noise.shell(candidates[0]) <= i)
            kept += accepted
    assert 300 < kept < 600


def test_one_draw_and_none() -> None:
    assert DIAMOND.draw(randomness=InsecureSeededRandomness(1)).shape == (2,)
    assert DIAMOND.draw_many(0).shape == (0, 2)
    assert DIAMOND.steps == (1.0, 1.0)
    released = MOVES.release([[3.0, 4.0]] * 7)
    assert released.shape == (7, 2)
    assert (released == np.rint(released)).all()


def test_cores_follow_gamma() -> None:
    noise = BodyGridNoise.optimal(0.5, (100, 100), faces=[((1, 1), 150)], steps=(0.01, 0.01))
    gamma = BoxStaircase.optimal(0.5, (1.0, 1.0)).core[0]
    assert noise.faces[0].core == pytest.approx(gamma * 150, abs=1.5)
    assert noise.steps == (0.01, 0.01)


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=2, max_size=2))
def test_rounded_changes_are_within_the_bound_of_the_notes(values: list[tuple[float, float]]) -> None:
    noise = BoxGridNoise(1.0, (1, 1), (0, 0), (0.25, 0.5))
    one, other = (noise.to_grid(v) for v in values)
    for normal in ((1, 1), (1, -3), (2, 5)):
        exact = sum(
            a * (Fraction(v) - Fraction(w)) / Fraction(step)
            for a, v, w, step in zip(normal, *values, noise.steps, strict=True)
        )
        moved = abs(int((one - other) @ np.array(normal)))
        assert moved <= math.ceil(abs(exact) + sum(map(abs, normal))) - 1
    for weights in ((1, 1), (3, 1)):
        changes = [(v - w) / step for v, w, step in zip(*values, noise.steps, strict=True)]
        most = math.sqrt(math.fsum(a * t**2 for a, t in zip(weights, changes, strict=True)))
        norm = int((one - other) ** 2 @ np.array(weights))
        assert norm <= math.ceil(most + math.sqrt(sum(weights))) ** 2


def disc(x: Any) -> Any:
    return (x**2).sum(axis=1) <= 1.0


def diamond(x: Any) -> Any:
    return (np.abs(x) / np.array([1.0, 2.0, 0.5])).sum(axis=1) <= 1.0


@pytest.mark.parametrize("epsilon", [0.4, 1.3, 6.0])
def test_a_body_has_its_shells(epsilon: float) -> None:
    noise = BodyStaircase.optimal(epsilon, (1.0, 1.0), disc, volume=math.pi)
    generator = np.random.default_rng(3)
    x = noise.rvs(60_000, generator=generator)
    norm = np.hypot(x[:, 0], x[:, 1])
    expected = np.maximum(np.ceil(norm - noise.gamma), 0).astype(int)
    assert (noise.shell(x) == expected).all()
    # Rings: M e^(-epsilon i) times their areas.
    radii = noise.gamma + np.arange(300)
    areas = math.pi * np.diff(radii**2, prepend=0.0)
    heights = noise.pdf(np.stack([radii * (1 - 1e-9), 0 * radii], axis=1))
    assert math.fsum(heights * areas) == pytest.approx(1.0, rel=1e-12)
    assert chi_square(np.bincount(np.minimum(expected, 299), minlength=300), heights * areas) > FALSE_ALARM
    # A uniform point of the disc has the variance 1/4 in each component.
    variance = noise.scale_moment(2) / 4
    assert (np.abs((x**2).mean(axis=0) - variance) < 6 * np.sqrt((x**4).mean(axis=0) / len(x))).all()
    # Directions are uniform.
    angles = np.floor((np.arctan2(x[:, 1], x[:, 0]) / (2 * math.pi) + 0.5) * 40).astype(int) % 40
    assert chi_square(np.bincount(angles, minlength=40), np.full(40, 1 / 40)) > FALSE_ALARM
    # No other gamma has less.
    for gamma in (0.0, 0.3, 0.7, 1.0):
        other = BodyStaircase(epsilon, (1.0, 1.0), disc, gamma)
        assert other.scale_moment(2) >= noise.scale_moment(2) * (1 - 1e-12)


def test_a_box_as_a_body_is_the_box() -> None:
    sides = np.array([1.0, 3.0, 0.25])
    body = BodyStaircase(0.8, tuple(sides), lambda x: (np.abs(x) <= sides).all(axis=1), 0.4, 8 * 0.75)
    box = BoxStaircase.proportional(0.8, tuple(sides), 0.4)
    x = np.random.default_rng(0).normal(0, 3, (2, 500, 3)) * sides
    assert (body.shell(x) == box.shell(x)).all()
    np.testing.assert_allclose(body.pdf(x), box.pdf(x), rtol=1e-12)
    np.testing.assert_allclose(body.scale_moment(2) * sides**2 / 3, box.var(), rtol=1e-12)
    assert body.estimate_volume(1000, generator=np.random.default_rng(1)) == 6.0


def test_a_core_that_is_a_point_and_a_volume_that_is_estimated() -> None:
    body = BodyStaircase(1.0, (1.0, 2.0, 0.5), diamond, 0.0)
    points = np.array([[0, 0, 0], [0.5, 1.0, 0.0], [0.5, 1.01, 0.0], [1e6, 0, 0]])
    assert body.shell(points).tolist() == [0, 1, 2, 10**6]
    # The volume of the diamond is 1/6 of that of its box.
    volume = body.estimate_volume(100_000, generator=np.random.default_rng(4))
    assert abs(volume / 8 - 1 / 6) < 5.5 * math.sqrt(5 / 36 / 1e5)
    assert body.rvs(generator=np.random.default_rng(4)).shape == (3,)
    assert body.rvs((2, 0), generator=np.random.default_rng(4)).shape == (2, 0, 3)
    with pytest.raises(ParameterError, match="volume must be given"):
        body.pdf([0, 0, 0])


def test_independent_staircases() -> None:
    noise = IndependentStaircase.optimal(1.5, (2.0, 7.0), shares=(2, 1))
    first, second = Staircase.optimal(1.0, 2.0, power=2), Staircase.optimal(0.5, 7.0, power=2)
    np.testing.assert_allclose([c.gamma for c in noise.components], [first.gamma, second.gamma], rtol=1e-9)
    assert noise.epsilon == pytest.approx(1.5, rel=1e-15)
    assert noise.dimension == 2
    x = np.array([[[0.3, -9.0], [4.0, 1.0]]])
    np.testing.assert_allclose(noise.pdf(x), first.pdf(x[..., 0]) * second.pdf(x[..., 1]), rtol=1e-9)
    np.testing.assert_allclose(noise.var(), [first.var(), second.var()], rtol=1e-9)
    assert (noise.cov() == np.diag(noise.var())).all()
    assert noise.entropy() == pytest.approx(first.entropy() + second.entropy(), rel=1e-9)
    drawn = noise.rvs((40_000,), generator=np.random.default_rng(8))
    assert drawn.shape == (40_000, 2)
    assert (np.abs((drawn**2).mean(axis=0) / noise.var() - 1) < 0.1).all()
    assert abs(np.corrcoef(np.abs(drawn).T)[0, 1]) < 5.5 / math.sqrt(40_000)
    assert noise.rvs(generator=np.random.default_rng(8)).shape == (2,)
    assert noise.component(1) == noise.components[1]
    # Released together, boxes need less.
    assert (
        BoxStaircase.optimal(1.5, (2.0, 7.0)).var() < IndependentStaircase.optimal(1.5, (2.0, 7.0)).var()
    ).all()


@pytest.mark.parametrize("epsilon", [0.3, 0.7, 1.0, 3.3])
@pytest.mark.parametrize("d", [1, 3, 6])
def test_shares_on_the_grid_add_up(epsilon: float, d: int) -> None:
    noise = IndependentGridNoise.optimal(epsilon, (3,) * d)
    certificate = noise.certificate(epsilon)
    assert certificate.delta == 0
    assert certificate.ratio is not None
    assert certificate.ratio <= exp_lower_bound(epsilon)
    assert certificate.spent_epsilon == pytest.approx(epsilon, rel=1e-9)
    assert noise.certificate().epsilon == pytest.approx(epsilon, rel=1e-12)


def test_independent_noise_on_the_grid() -> None:
    noise = IndependentGridNoise(
        (BoxGridNoise(0.5, (2, 3), (1, 1), (0.5, 0.25)), BoxGridNoise(1.25, (4,), (2,)))
    )
    assert noise.steps == (0.5, 0.25, 1.0)
    assert noise.dimension == 3
    assert noise.epsilon == 1.75
    x = noise.draw_many(20_000, randomness=InsecureSeededRandomness(5))
    assert x.shape == (20_000, 3)
    scaled = x * noise.steps
    assert (np.abs((scaled**2).mean(axis=0) / noise.var() - 1) < 0.1).all()
    # The first two attributes share an index, the third does not.
    correlations = np.corrcoef(np.abs(x).T)
    assert correlations[0, 1] > 0.1
    assert abs(correlations[0, 2]) < 5.5 / math.sqrt(20_000)
    assert noise.release([1.0, 2.0, 3.0]).shape == (3,)
    covered = (np.abs(scaled) <= noise.half_widths(0.9)).mean(axis=0)
    assert (covered > 0.9 - 5.5 * 0.3 / math.sqrt(20_000)).all()
    ratios = [part.certificate().ratio for part in noise.parts]
    assert noise.certificate().ratio == ratios[0] * ratios[1]  # type: ignore[operator]
    with pytest.raises(CertificateError):
        noise.certificate(1.7)


WIDE = BoxGridNoise(1.0, (2**32, 1), (0, 0))
POINT = BodyStaircase(1.0, (1.0, 1.0), lambda x: (x == 0).all(axis=1), 0.5)
BAD_FACES: tuple[tuple[Any, str], ...] = (
    ((), "faces or balls must be given"),
    ((((1, 1), 1),), r"faces\[0\] must be normal, bound and core"),
    ((((1,), 1, 0),), r"faces\[0\].normal must be 2 integers"),
    ((((0, 0), 1, 0),), r"faces\[0\].normal must be 2 integers, not all 0"),
    ((((1, 0.5), 1, 0),), r"faces\[0\].normal\[1\]"),
    ((((1, 1), 0, 0),), r"faces\[0\].bound"),
    ((((1, 1), 1, 2),), r"faces\[0\].core"),
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((partial(BodyGridNoise, MOVES.box, faces), message) for faces, message in BAD_FACES),
        (lambda: BodyGridNoise(3, ()), "box must be a BoxGridNoise"),  # type: ignore[arg-type]
        (lambda: BodyGridNoise(WIDE, balls=(Ball((1, 1), 2**32, 0),)), "do not fit into 64 bits"),
        (lambda: BodyGridNoise(WIDE, (Face((2**32, 1), 2**32, 0),)), "do not fit into 64 bits"),
        (
            lambda: BodyGridNoise(MOVES.box, balls=(Ball((1, -1), 1, 0),)),
            r"balls\[0\].weights\[1\] must be an integer from 0",
        ),
        (lambda: DISC.shell([[0, 0], [2**40, 0]]), "k must be points whose sums fit"),
        (lambda: BodyStaircase(1.0, (1.0,), lambda x: x[:, 0] > 0.5, 0.5), "contains must be true at 0"),
        (lambda: BodyStaircase(1.0, (1.0,), lambda x: x[:, 0], 0.5), "contains must return 1 truth values"),
        (lambda: BodyStaircase(1.0, (1.0,), disc, 1.5), "gamma"),
        (lambda: POINT.rvs(3, generator=np.random.default_rng(0)), "half_widths must be a box near the body"),
        (lambda: POINT.shell([1.0, 0.0]), "x must be within"),
        (lambda: IndependentGridNoise(()), "parts must be BoxGridNoise"),
        (lambda: IndependentStaircase((3,)), "components must be Staircase"),  # type: ignore[arg-type]
        (
            lambda: IndependentGridNoise.optimal(1.0, (1, 1), shares=(1,)),
            "shares and sensitivities must be equally long",
        ),
        (
            lambda: IndependentStaircase.optimal(1.0, (1.0, 1.0), shares=(1, 0)),
            r"shares\[1\] must be positive",
        ),
        (lambda: IndependentStaircase.optimal(1.0, (1.0,)).component(1), "index"),
    ],
)
def test_what_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


def test_norms_at_the_end_of_64_bits_are_exact() -> None:
    assert DISC.shell([2**29, 2**29 - 7]) == math.ceil((math.isqrt(2**58 + (2**29 - 7) ** 2) + 1 - 2) / 4)
