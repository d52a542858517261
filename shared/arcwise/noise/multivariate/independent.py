"""Independent noise on several attributes: Laplace (for comparison), staircases, staircases on a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import certify, exact_epsilon
from arcwise.noise.base import checked_epsilon, checked_shape
from arcwise.noise.compared import Laplace
from arcwise.noise.multivariate.box import checked_lengths, checked_points
from arcwise.noise.multivariate.grid_box import BoxGridNoise
from arcwise.noise.multivariate.vector_grid import VectorGridNoise, checked_positive
from arcwise.noise.staircase import Staircase
from arcwise.randomness import SYSTEM, Randomness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from arcwise.kernels.certificate import Certificate
    from arcwise.noise.base import Size
    from arcwise.typing import FloatArray, IntArray


class ConfidenceDiamond(NamedTuple):
    """The set of all x for which the absolute values of the components add up to at most the radius.

    Attributes
    ----------
    radius
        In the unit of all attributes.
    volume
        The volume of the set, in this unit to the power of d.
    """

    radius: float
    volume: float


@dataclass(frozen=True, slots=True)
class IndependentLaplace:
    """d independent Laplace numbers of the scale ``sum(s) / epsilon``; epsilon-DP for all together.

    Parameters
    ----------
    epsilon
        More than 0, at most 50, for all attributes together.
    sensitivities
        s: d positive numbers; their sum is the L1 sensitivity.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.
    """

    epsilon: float
    sensitivities: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        sensitivities, _ = checked_lengths(self.sensitivities, self.sensitivities)
        object.__setattr__(self, "sensitivities", sensitivities)

    @property
    def dimension(self) -> int:
        """The number of attributes d."""
        return len(self.sensitivities)

    def component(self, index: int) -> Laplace:
        """Return the distribution of one component; it is the same for all components."""
        checked_integer("index", index, 0, self.dimension - 1)
        return Laplace(self.epsilon, math.fsum(self.sensitivities))

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Return the joint density at points x, shape (..., d), in the shape (...)."""
        return np.asarray(self.component(0).pdf(checked_points(x, self.dimension)).prod(axis=-1))

    def var(self) -> FloatArray:
        """Return the variances of the components, shape (d,)."""
        return np.full(self.dimension, self.component(0).var())

    def confidence_region(self, level: float) -> ConfidenceDiamond:
        """Return the region of least volume with this probability.

        The density depends only on the L1 norm, which has the gamma distribution of shape d. The volume is
        ``(2 radius)^d / d!`` (Soria-Comas and Domingo-Ferrer, Table 3, which rounds the radius first).
        """
        from scipy import special

        d = self.dimension
        outside = 1.0 - checked_real("level", level, above=0, below=1)
        radius = self.component(0).scale * float(special.gammainccinv(d, outside))
        return ConfidenceDiamond(radius, math.exp(d * math.log(2.0 * radius) - math.lgamma(d + 1.0)))

    def rvs(self, size: Size | None = None, *, generator: np.random.Generator) -> FloatArray:
        """Return joint samples for experiments, of shape ``size + (d,)``; not for privacy: see `Noise`."""
        shape = checked_shape(size, generator)
        return self.component(0).rvs((*shape, self.dimension), generator=generator)


@dataclass(frozen=True, slots=True)
class IndependentStaircase:
    """d independent `Staircase` numbers, each at its share of epsilon; epsilon-DP for all together.

    Parameters
    ----------
    components
        One `Staircase` for each attribute.

    Raises
    ------
    ParameterError
        When `components` is empty or contains other objects.

    Notes
    -----
    With the same epsilon, `BoxStaircase` has less variance for two or more attributes, because it makes use
    of their joint release. Use independent noise for attributes that are released one after the other.

    Examples
    --------
    >>> noise = IndependentStaircase.optimal(1.0, (1.0, 10.0), shares=(3, 1))
    >>> noise.epsilon, noise.component(0).epsilon
    (1.0, 0.75)
    """

    components: tuple[Staircase, ...]

    def __post_init__(self) -> None:
        components = tuple(self.components)
        if not components or not all(isinstance(each, Staircase) for each in components):
            raise ParameterError(f"components must be Staircase objects, at least one, got {components!r}")
        object.__setattr__(self, "components", components)

    @classmethod
    def optimal(
        cls,
        epsilon: float,
        sensitivities: Sequence[float],
        *,
        shares: Sequence[float] = (),
        power: float = 2.0,
    ) -> IndependentStaircase:
        """Return the noise with the least ``E|X_j|^power`` in each component, at its share of epsilon.

        Parameters
        ----------
        epsilon
            More than 0, at most 50, for all attributes together.
        sensitivities
            d positive numbers, each in the unit of its attribute.
        shares
            d positive numbers; epsilon is divided in proportion to them. The default is equal shares.
        power
            More than 0.
        """
        lengths, _ = checked_lengths(sensitivities, sensitivities)
        parts = _divided(epsilon, shares, len(lengths))
        pairs = zip(parts, lengths, strict=True)
        return cls(tuple([Staircase.optimal(part, s, power=power) for part, s in pairs]))

    @property
    def epsilon(self) -> float:
        """The epsilon of all components together, which is the sum of their epsilons."""
        return math.fsum([each.epsilon for each in self.components])

    @property
    def dimension(self) -> int:
        """The number of attributes d."""
        return len(self.components)

    def component(self, index: int) -> Staircase:
        """Return the distribution of one component."""
        return self.components[checked_integer("index", index, 0, self.dimension - 1)]

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Return the joint density at points x, shape (..., d), in the shape (...)."""
        points = checked_points(x, self.dimension)
        densities = [np.asarray(each.pdf(points[..., j])) for j, each in enumerate(self.components)]
        return np.asarray(np.prod(densities, axis=0))

    def var(self) -> FloatArray:
        """Return the variances of the components, shape (d,)."""
        return np.array([each.var() for each in self.components])

    def cov(self) -> FloatArray:
        """Return the covariance matrix, shape (d, d): diagonal."""
        return np.diag(self.var())

    def entropy(self) -> float:
        """Return the differential entropy in nats: the sum of the entropies of the components."""
        return math.fsum([each.entropy() for each in self.components])

    def rvs(self, size: Size | None = None, *, generator: np.random.Generator) -> FloatArray:
        """Return joint samples for experiments, of shape ``size + (d,)``; not for privacy: see `Noise`.

        For privacy use `IndependentGridNoise`.
        """
        shape = checked_shape(size, generator)
        return np.stack([each.rvs(shape, generator=generator) for each in self.components], axis=-1)


@dataclass(frozen=True)
class IndependentGridNoise(VectorGridNoise):
    """Vectors of integer noise with independently drawn parts; the epsilons of the parts add up.

    If each part has one attribute, this is `IndependentStaircase` on a grid, pure epsilon-DP. A part with
    several attributes is for attributes that are released together, while other attributes are released
    separately.

    Parameters
    ----------
    parts
        The noise for the first attributes, then the noise for the following attributes, and so on.

    Raises
    ------
    ParameterError
        When `parts` is empty or contains other objects.

    Examples
    --------
    >>> noise = IndependentGridNoise.optimal(1.0, (1, 20))
    >>> noise.certificate(1.0).delta
    0
    """

    parts: tuple[BoxGridNoise, ...]

    def __post_init__(self) -> None:
        parts = tuple(self.parts)
        if not parts or not all(isinstance(part, BoxGridNoise) for part in parts):
            raise ParameterError(f"parts must be BoxGridNoise objects, at least one, got {parts!r}")
        object.__setattr__(self, "parts", parts)

    @classmethod
    def optimal(
        cls,
        epsilon: float,
        sensitivities: Sequence[int],
        *,
        shares: Sequence[float] = (),
        power: float = 2.0,
        steps: Sequence[float] = (),
    ) -> IndependentGridNoise:
        """Return noise with one part for each attribute; each part has its share of epsilon.

        Parameters
        ----------
        epsilon
            More than 0, at most 50, for all attributes together.
        sensitivities, steps
            As in `BoxGridNoise`.
        shares
            d positive numbers; epsilon is divided in proportion to them. The default is equal shares.
        power
            The moment ``E|X_j|^power`` is minimised.
        """
        sensitivities = tuple(sensitivities)
        d = len(sensitivities)
        divided = _divided(epsilon, shares, d)
        rows = zip(divided, sensitivities, checked_positive("steps", steps, (1.0,) * d), strict=True)
        return cls(tuple([BoxGridNoise.optimal(part, (s,), power=power, steps=(w,)) for part, s, w in rows]))

    @property
    def steps(self) -> tuple[float, ...]:  # type: ignore[override]  # read-only, as all fields are
        """The distance between two grid points, in the unit of each attribute."""
        return sum([part.steps for part in self.parts], ())

    @property
    def epsilon(self) -> float:
        """The epsilon of all parts together: the sum of their epsilons, rounded up."""
        parts = [part.epsilon for part in self.parts]
        total = math.fsum(parts)
        return total if _adds_up(parts, total) else math.nextafter(total, math.inf)

    def certificate(self, epsilon: float | None = None) -> Certificate:
        """Return the proved guarantee of the integers: the ratios of the parts multiply to at most e^epsilon.

        Parameters
        ----------
        epsilon
            The epsilon of the statement. The default is that of the noise.

        Raises
        ------
        CertificateError
            When the integers exceed this epsilon.
        """
        ratio = math.prod([part.certificate().ratio or Fraction(0) for part in self.parts], start=Fraction(1))
        return certify(ratio, self.epsilon if epsilon is None else checked_epsilon(epsilon))

    def var(self) -> FloatArray:
        """Return the variances of the components in the units of the attributes, shape (d,)."""
        return np.concatenate([part.var() for part in self.parts])

    def half_widths(self, level: float) -> FloatArray:
        """Return the least x_j with ``P(|X_j| <= x_j) >= level`` in the units of the attributes, shape (d,).

        As in `BoxGridNoise.half_widths`, for each attribute separately.
        """
        return np.concatenate([part.half_widths(level) for part in self.parts])

    def draw_many(self, count: int, *, randomness: Randomness = SYSTEM) -> IntArray:
        """Return `count` vectors of noise in grid steps, shape (count, d), to be added to integers."""
        return np.concatenate([part.draw_many(count, randomness=randomness) for part in self.parts], axis=1)


def _divided(epsilon: float, shares: Sequence[float], dimension: int) -> list[float]:
    """Return d parts of epsilon with a sum of at most epsilon."""
    epsilon = checked_epsilon(epsilon)
    weights = checked_positive("shares", shares, (1.0,) * dimension)
    parts = [epsilon * (weight / math.fsum(weights)) for weight in weights]
    return parts if _adds_up(parts, epsilon) else [part * (1.0 - 2.0**-50) for part in parts]


def _adds_up(parts: Sequence[float], epsilon: float) -> bool:
    """Return whether the parts' epsilons, read as in certificates, add up to at most epsilon."""
    return sum(map(exact_epsilon, parts)) <= exact_epsilon(epsilon)
