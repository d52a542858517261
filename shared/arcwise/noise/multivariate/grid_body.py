"""Pure epsilon-DP noise for attributes with joint limits of change: boxes cut by faces and balls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.checks import checked_integer
from arcwise.errors import ParameterError
from arcwise.noise.multivariate.grid_box import SENSITIVITY_MAX, BoxGridNoise
from arcwise.noise.multivariate.vector_grid import VectorGridNoise, checked_grid_points, checked_integers
from arcwise.randomness import SYSTEM, Randomness

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

    from arcwise.kernels.certificate import Certificate
    from arcwise.typing import BoolArray, IntArray

_BATCH = 2**14


class Face(NamedTuple):
    """The changes, in grid steps, for which the scalar product with `normal` is from -bound to bound.

    Attributes
    ----------
    normal
        d integers.
    bound
        A positive integer.
    core
        The bound for the points of shell 0: a non-negative integer, at most `bound`.
    """

    normal: tuple[int, ...]
    bound: int
    core: int


class Ball(NamedTuple):
    """The changes x, in grid steps, for which the sum of ``weights[j] x[j]**2`` is at most the squared bound.

    Attributes
    ----------
    weights
        d non-negative integers: all 1 for a ball, other numbers for an ellipsoid.
    bound
        A positive integer.
    core
        The bound for the points of shell 0: a non-negative integer, at most `bound`.
    """

    weights: tuple[int, ...]
    bound: int
    core: int


@dataclass(frozen=True)
class BodyGridNoise(VectorGridNoise):
    """Vectors of integer noise for changes in a convex body: a box that faces and balls cut.

    The possible joint change of d counts is often smaller than the changes of the separate counts allow. If
    one person moves between two bins of a histogram, one count falls as another rises. Body k contains the
    points with ``|x_j| <= core[j] + k sensitivities[j]`` that are in each face and each ball for the bound
    ``core + k bound``. Shell k is body k without body k - 1. A change within the body moves a point by at
    most one shell. So the probabilities of the shells of a box can also be used for these shells. They give
    the same privacy: pure epsilon-DP, exactly.

    Parameters
    ----------
    box
        The noise for the changes of single attributes.
    faces
        Triples as in `Face`.
    balls
        Triples as in `Ball`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or sums could overflow 64-bit integers.

    Notes
    -----
    A candidate is an index i and a uniform point of box i, as in `BoxGridNoise`. It is accepted if the point
    is in the body for i. Therefore, up to a common factor, each accepted point of shell k has the height
    ``sum over i >= k of P(i) / N_i``, like a point of the box's shell k. The number of candidates reveals
    nothing about the accepted one. Its mean is the volume of the box divided by the volume of the body, so
    this noise is only for few attributes. The mean is 3 for a ball of 4 attributes, 63 for a ball of 8
    attributes, and d! for the L1 ball of d attributes.

    The absolute scalar product and the square root of the weighted sum of squares are norms. So adding a
    vector within the bound changes them by at most the bound.

    When real values are brought to a grid, their change grows by less than one step in each attribute. So a
    face needs the bound ``ceil(bound + sum_j |normal_j|) - 1`` in steps. A ball needs the bound
    ``ceil(bound + sqrt(sum_j weights_j))``. Integers need no larger bound.

    Examples
    --------
    >>> noise = BodyGridNoise.optimal(1.0, (1, 1), faces=[((1, 1), 1)])  # one person moves between two bins
    >>> noise.certificate().delta
    0
    >>> disc = BodyGridNoise.optimal(1.0, (64, 64), balls=[((1, 1), 64)], steps=(0.5, 0.5))
    >>> disc.release([17.0, 4.5]).shape
    (2,)
    """

    box: BoxGridNoise
    faces: tuple[Face, ...] = ()
    balls: tuple[Ball, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.box, BoxGridNoise):
            raise ParameterError(f"box must be a BoxGridNoise, got {self.box!r}")
        d = self.box.dimension
        faces = [Face(*_checked(f"faces[{n}]", face, "normal", d)) for n, face in enumerate(self.faces)]
        balls = [Ball(*_checked(f"balls[{n}]", ball, "weights", d)) for n, ball in enumerate(self.balls)]
        if not faces and not balls:
            raise ParameterError("faces or balls must be given; without them use the BoxGridNoise itself")
        object.__setattr__(self, "faces", tuple(faces))
        object.__setattr__(self, "balls", tuple(balls))
        index, sides = self.box.largest()
        for body in self._bodies:
            bound = body.core + index * body.bound
            if not _fits(body, sides) or bound ** (1 if isinstance(body, Face) else 2) >= 2**62:
                raise ParameterError(f"{body!r} must be smaller: its sums do not fit into 64 bits")

    @classmethod
    def optimal(
        cls,
        epsilon: float,
        sensitivities: Sequence[int],
        *,
        faces: Iterable[tuple[Sequence[int], int]] = (),
        balls: Iterable[tuple[Sequence[int], int]] = (),
        power: float = 2.0,
        steps: Sequence[float] = (),
    ) -> BodyGridNoise:
        """Return the noise with the core closest to the body times the optimal gamma.

        Gamma depends only on the number of attributes, epsilon and the power, see `BoxStaircase.optimal`.

        Parameters
        ----------
        epsilon, sensitivities, power, steps
            As in `BoxGridNoise.optimal`.
        faces
            Pairs of a normal and a bound.
        balls
            Pairs of weights and a bound.
        """
        box = BoxGridNoise.optimal(epsilon, sensitivities, power=power, steps=steps)
        widest = max(range(box.dimension), key=box.sensitivities.__getitem__)
        gamma = (box.core[widest] + 0.5) / box.sensitivities[widest]

        def core(bound: object) -> tuple[int, int]:
            most = checked_integer("bound", bound, 1, SENSITIVITY_MAX)
            return most, min(most, max(0, round(gamma * most - 0.5)))

        return cls(
            box,
            tuple([Face(tuple(normal), *core(bound)) for normal, bound in faces]),
            tuple([Ball(tuple(weights), *core(bound)) for weights, bound in balls]),
        )

    @property
    def steps(self) -> tuple[float, ...]:  # type: ignore[override]  # read-only, as all fields are
        """The distance between two grid points, in the unit of each attribute; the same as for the box."""
        return self.box.steps

    def certificate(self, epsilon: float | None = None) -> Certificate:
        """Return the proved guarantee of the integers: pure epsilon-DP for changes within the body.

        This is the certificate of the box, because each shell has the height of the corresponding shell of
        the box (see the notes).

        Parameters
        ----------
        epsilon
            The epsilon of the statement. The default is that of the noise.

        Raises
        ------
        CertificateError
            When the integers exceed this epsilon.
        """
        return self.box.certificate(epsilon)

    def shell(self, k: ArrayLike) -> IntArray:
        """Return the index of the shell of grid points k, integers of shape (..., d), in the shape (...).

        Raises
        ------
        ParameterError
            When k are not such points, or are so far from 0 that the sums of a face or a ball exceed 64 bits.
        """
        points = checked_grid_points(k, self.dimension)
        farthest = [int(most) for most in np.abs(points).reshape(-1, self.dimension).max(axis=0, initial=0)]
        if not all(_fits(body, farthest) for body in self._bodies):
            raise ParameterError(f"k must be points whose sums fit into 64 bits, got one at {farthest}")
        shells = self.box.shell(points)
        for body in self._bodies:
            beyond = np.maximum(_norm(points, body) - body.core, 0)
            shells = np.maximum(shells, (beyond + body.bound - 1) // body.bound)
        return shells

    def draw_many(self, count: int, *, randomness: Randomness = SYSTEM) -> IntArray:
        """Return `count` vectors of noise in grid steps, shape (count, d), to be added to integers."""
        count = checked_integer("count", count, 0)
        out = np.empty((count, self.dimension), np.int64)
        done, tried, accepted = 0, 0, 0
        while done < count:
            # The number of candidates still needed, estimated from the share accepted so far.
            wanted = math.ceil((count - done) * 1.1 * (tried + 2) / (accepted + 1))
            candidates = np.empty((min(max(wanted, 16), _BATCH), self.dimension), np.int64)
            kept = candidates[self._within(candidates, randomness)]
            tried, accepted = tried + len(candidates), accepted + len(kept)
            part = kept[: count - done]
            out[done : done + len(part)] = part
            done += len(part)
        return out

    @property
    def _bodies(self) -> tuple[Face | Ball, ...]:
        return (*self.faces, *self.balls)

    def _within(self, candidates: IntArray, randomness: Randomness) -> BoolArray:
        """Fill the rows with candidates, and return for each row whether its candidate is accepted."""
        index, tail = self.box.fill(candidates, randomness)
        within = np.ones(len(candidates), dtype=bool)
        for body in self._bodies:
            within &= _norm(candidates, body) <= body.core + index * body.bound
        for row, (i, point) in tail.items():
            within[row] = all(_is_within(point, body, i) for body in self._bodies)
        return within


def _fits(body: Face | Ball, farthest: Sequence[int]) -> bool:
    """Return whether the sums of points within `farthest` in each component fit into 64 bits."""
    if isinstance(body, Face):
        return sum(abs(a) * h for a, h in zip(body.normal, farthest, strict=True)) < 2**62
    return sum(w * h**2 for w, h in zip(body.weights, farthest, strict=True)) < 2**62 > max(farthest) ** 2


def _norm(points: IntArray, body: Face | Ball) -> IntArray:
    """Return for each point the least integer bound that contains it, for points of shape (..., d)."""
    if isinstance(body, Face):
        return np.asarray(np.abs(points @ np.array(body.normal, dtype=np.int64)))
    squares = np.asarray(points**2 @ np.array(body.weights, dtype=np.int64))
    # A float's square root is off by less than 1 here.
    root = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    root += (root + 1) ** 2 <= squares
    root -= root**2 > squares
    return np.asarray(root + (root**2 < squares))


def _is_within(point: Sequence[int], body: Face | Ball, index: int) -> bool:
    """Return whether a point, with integers of any size, is in the body for the box of this index."""
    bound = body.core + index * body.bound
    if isinstance(body, Face):
        return abs(sum(a * x for a, x in zip(body.normal, point, strict=True))) <= bound
    return sum(w * x**2 for w, x in zip(body.weights, point, strict=True)) <= bound**2


def _checked(name: str, body: Any, first: str, dimension: int) -> tuple[tuple[int, ...], int, int]:
    try:
        numbers, bound, core = body
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be {first}, bound and core, got {body!r}") from None
    least = 0 if first == "weights" else -SENSITIVITY_MAX
    numbers = checked_integers(f"{name}.{first}", numbers, least, SENSITIVITY_MAX)
    if len(numbers) != dimension or not any(numbers):
        raise ParameterError(f"{name}.{first} must be {dimension} integers, not all 0, got {numbers!r}")
    bound = checked_integer(f"{name}.bound", bound, 1, SENSITIVITY_MAX)
    return numbers, bound, checked_integer(f"{name}.core", core, 0, bound)
