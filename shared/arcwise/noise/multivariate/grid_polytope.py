"""Noise for privacy for attributes that cannot all change at once: boxes cut by faces, pure epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
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
    from arcwise.typing import IntArray

__all__ = ["Face", "PolytopeGridNoise"]

_BATCH = 2**14


class Face(NamedTuple):
    """Changes, in grid steps, whose scalar product with `normal` is from -bound to bound.

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


@dataclass(frozen=True)
class PolytopeGridNoise(VectorGridNoise):
    """Vectors of integers for changes in a polytope: the box of a `BoxGridNoise` cut by pairs of faces.

    What all of d counts can change by together is often less than what each can: if one person moves between
    two bins of a histogram, one count falls as another rises. Shell k holds the points outside of shell k - 1
    with ``|x_j| <= core[j] + k sensitivities[j]`` and ``|normal . x| <= face.core + k face.bound`` for each
    face. A change within the polytope moves a point by one shell at most, so the probabilities of a box's
    shells serve these, too, and it is as private: pure epsilon-DP, exactly.

    Parameters
    ----------
    box
        The noise for the changes of single attributes.
    faces
        Triples as in `Face`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or a face could overflow 64-bit integers.

    Notes
    -----
    A candidate is a box of index i and a uniform point of it, as in `BoxGridNoise`; it is accepted if it is
    within the faces for i. Up to one factor, each accepted point of shell k so has the height
    ``sum over i >= k of P(i) / N_i``, as a point of the box's shell k has. The number of candidates says
    nothing of the one that is accepted. Its mean is the volume of the box over that of the polytope, which
    limits this to few attributes: for the L1 ball of d attributes it is d!.

    Real values that are brought to a grid change by less than one step more in each attribute: a face then
    needs the bound ``ceil(bound + |normal_1| + ... + |normal_d|) - 1`` in steps. Integers need nothing.

    Examples
    --------
    >>> noise = PolytopeGridNoise.optimal(1.0, (1, 1), [((1, 1), 1)])  # one person moves between two bins
    >>> noise.certificate().delta
    0
    >>> noise.draw().shape
    (2,)
    """

    box: BoxGridNoise
    faces: tuple[Face, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.box, BoxGridNoise):
            raise ParameterError(f"box must be a BoxGridNoise, got {self.box!r}")
        faces = tuple([_checked_face(n, face, self.box.dimension) for n, face in enumerate(self.faces)])
        if not faces:
            raise ParameterError("faces must be at least one; without any use the BoxGridNoise itself")
        object.__setattr__(self, "faces", faces)
        index, sides = self.box.largest()
        for n, face in enumerate(faces):
            reach = sum(abs(a) * h for a, h in zip(face.normal, sides, strict=True))
            if max(reach, face.core + index * face.bound) >= 2**62:
                raise ParameterError(f"faces[{n}] must be smaller: its sums do not fit into 64 bits")

    @classmethod
    def optimal(
        cls,
        epsilon: float,
        sensitivities: Sequence[int],
        faces: Iterable[tuple[Sequence[int], int]],
        *,
        power: float = 2.0,
        steps: Sequence[float] = (),
    ) -> PolytopeGridNoise:
        """Return the member with the core nearest to the polytope times the optimal gamma.

        Gamma depends on the number of attributes, epsilon and the power alone, see `BoxStaircase.optimal`.

        Parameters
        ----------
        epsilon, sensitivities, power, steps
            As in `BoxGridNoise.optimal`.
        faces
            Pairs of a normal and a bound.
        """
        box = BoxGridNoise.optimal(epsilon, sensitivities, power=power, steps=steps)
        widest = max(range(box.dimension), key=box.sensitivities.__getitem__)
        gamma = (box.core[widest] + 0.5) / box.sensitivities[widest]
        found = []
        for normal, bound in faces:
            most = checked_integer("bound", bound, 1, SENSITIVITY_MAX)
            found.append(Face(tuple(normal), most, min(most, max(0, round(gamma * most - 0.5)))))
        return cls(box, tuple(found))

    @property
    def steps(self) -> tuple[float, ...]:  # type: ignore[override]  # read-only, as all fields are
        """The distance of two grid points, in the unit of each attribute: that of the box."""
        return self.box.steps

    def certificate(self, epsilon: float | None = None) -> Certificate:
        """Return what the integers prove: pure epsilon-DP for changes within the box and all faces.

        It is the certificate of the box, of whose shells these have the heights, see the notes.

        Parameters
        ----------
        epsilon
            Of the statement; that of the noise unless given.

        Raises
        ------
        CertificateError
            When the integers spend more.
        """
        return self.box.certificate(epsilon)

    def shell(self, k: ArrayLike) -> IntArray:
        """Return the index of the shell of grid points k, integers of shape (..., d), in the shape (...)."""
        points = checked_grid_points(k, self.dimension)
        beyond = np.maximum(np.abs(points @ self._normals) - self._cores, 0)
        bounds = self._bounds
        return np.asarray(np.maximum(self.box.shell(points), ((beyond + bounds - 1) // bounds).max(axis=-1)))

    def draw_many(self, count: int, *, randomness: Randomness = SYSTEM) -> IntArray:
        """Return `count` vectors of noise in grid steps, shape (count, d), to be added to integers."""
        count = checked_integer("count", count, 0)
        out = np.empty((count, self.dimension), np.int64)
        done, tried, accepted = 0, 0, 0
        while done < count:
            # As many candidates as are needed, by what was accepted so far.
            wanted = math.ceil((count - done) * 1.1 * (tried + 2) / (accepted + 1))
            candidates = np.empty((min(max(wanted, 16), _BATCH), self.dimension), np.int64)
            kept = candidates[self._within(candidates, randomness)]
            tried, accepted = tried + len(candidates), accepted + len(kept)
            part = kept[: count - done]
            out[done : done + len(part)] = part
            done += len(part)
        return out

    def _within(self, candidates: IntArray, randomness: Randomness) -> Any:
        """Fill the rows with candidates, and return which are accepted."""
        index, tail = self.box.fill(candidates, randomness)
        sums = np.abs(candidates @ self._normals)
        within = np.asarray((sums <= self._cores + index[:, None] * self._bounds).all(axis=1))
        for row, (i, point) in tail.items():
            products = [abs(sum(a * x for a, x in zip(f.normal, point, strict=True))) for f in self.faces]
            within[row] = all(p <= f.core + i * f.bound for p, f in zip(products, self.faces, strict=True))
        return within

    @cached_property
    def _normals(self) -> IntArray:
        return np.asarray(np.array([face.normal for face in self.faces], dtype=np.int64).T)

    @cached_property
    def _cores(self) -> IntArray:
        return np.array([face.core for face in self.faces], dtype=np.int64)

    @cached_property
    def _bounds(self) -> IntArray:
        return np.array([face.bound for face in self.faces], dtype=np.int64)


def _checked_face(n: int, face: Any, dimension: int) -> Face:
    try:
        normal, bound, core = face
    except (TypeError, ValueError):
        raise ParameterError(f"faces[{n}] must be a normal, a bound and a core, got {face!r}") from None
    normal = checked_integers(f"faces[{n}].normal", normal, -SENSITIVITY_MAX, SENSITIVITY_MAX)
    if len(normal) != dimension or not any(normal):
        raise ParameterError(f"faces[{n}].normal must be {dimension} integers, not all 0, got {normal!r}")
    bound = checked_integer(f"faces[{n}].bound", bound, 1, SENSITIVITY_MAX)
    return Face(normal, bound, checked_integer(f"faces[{n}].core", core, 0, bound))
