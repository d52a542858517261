"""Comparison of noise by concentration about 0, which is a partial order.

Soria-Comas and Domingo-Ferrer 2013, Definitions 3 to 5: noise is smaller than other noise if every interval
between 0 and a point contains at least as much of its mass. Smaller noise has a smaller expected loss for
every loss that grows with ``|x|``. The order is partial: each of two kinds of noise may have more mass in
some interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from arcwise.errors import ParameterError
from arcwise.noise.base import DiscreteNoise, Noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.typing import FloatArray

Relation: TypeAlias = Literal["smaller", "equal", "larger", "incomparable"]

_QUANTILES = 4096
_MOST_INTEGERS = 2_000_000
_MOST_STEPS = 100_000
_TAIL = 1e-12
"""Differences between two masses beyond a point are ignored if the masses are below this."""
_EXACT = 1e-13
"""Differences up to this size, relative to the mass beyond the point, count as rounding."""


class Concentration(NamedTuple):
    """The result of a comparison of two kinds of noise.

    Attributes
    ----------
    relation
        "smaller" if the first noise has at least as much mass between 0 and every point, and more mass for
        some point; "larger" for the reverse; "equal"; or "incomparable" if each has more mass for some point.
    first_more_at
        The distance from 0 within which the first noise has the largest surplus of mass, in the unit of the
        noise; None if it never has more mass.
    second_more_at
        The same for the second.
    """

    relation: Relation
    first_more_at: float | None
    second_more_at: float | None


def compare_concentration(first: Noise, second: Noise) -> Concentration:
    """Compare two kinds of noise: the smaller noise has more mass within every distance from 0.

    Parameters
    ----------
    first, second
        Two kinds of noise, both on the reals or both on the integers. Noise with an atom at 0 counts as noise
        on the reals.

    Raises
    ------
    ParameterError
        When an argument is not one-dimensional noise, or one is on the reals and the other on the integers.

    Notes
    -----
    All noise here is symmetric, so the mass between 0 and a point x is ``P(X >= 0) - P(X > x)``, and only
    distances from 0 need to be compared. The masses are compared at 4,096 quantiles of each noise and at the
    steps of both, up to a tail of 1e-12. Relative differences below 1e-13 count as equal. On the integers,
    the masses are compared at every number.

    For one epsilon and sensitivity each staircase is minimal: no staircase with another gamma is smaller.
    Laplace noise is larger than the staircase that has the same mass as Laplace noise in every step (Figure
    1). It is not comparable with other staircases. For vectors, use `compare_vector_concentration`.

    Examples
    --------
    >>> from arcwise.noise import Laplace, Staircase
    >>> compare_concentration(Laplace(1.0), Laplace(2.0)).relation
    'larger'
    >>> compare_concentration(Staircase(1.0, 1.0, 0.2), Staircase(1.0, 1.0, 0.6)).relation
    'incomparable'
    """
    for name, noise in (("first", first), ("second", second)):
        if not isinstance(noise, Noise):
            raise ParameterError(f"{name} must be noise of one dimension, got {type(noise).__name__}")
    if isinstance(first, DiscreteNoise) != isinstance(second, DiscreteNoise):
        raise ParameterError("first and second must both be on the reals or both on the integers")
    points = _points(first, second)
    tails = [noise.sf(points) for noise in (first, second)]
    at_least_0 = [1.0 - (noise.sf(0.0)) for noise in (first, second)]  # P(X <= 0) = P(X >= 0)
    ahead = (at_least_0[0] - at_least_0[1]) - (tails[0] - tails[1])
    slack = _EXACT * np.maximum(*tails)
    if at_least_0[0] != at_least_0[1] or tails[0][0] != tails[1][0]:
        slack = slack + 4.0 * np.finfo(np.float64).eps
    first_more, second_more = bool((ahead > slack).any()), bool((ahead < -slack).any())
    relation: Relation = (
        "incomparable"
        if first_more and second_more
        else "smaller"
        if first_more
        else "larger"
        if second_more
        else "equal"
    )
    return Concentration(
        relation,
        float(points[np.argmax(ahead)]) if first_more else None,
        float(points[np.argmin(ahead)]) if second_more else None,
    )


def compare_vector_concentration(first: Sequence[Noise], second: Sequence[Noise]) -> Relation:
    """Compare two vectors of independent noise: the smaller vector is more concentrated about 0.

    Parameters
    ----------
    first, second
        The independent components of each vector. Both vectors have the same number of components, at least
        one.

    Returns
    -------
    str
        "smaller" if the first vector has at least as much mass in every set of Definition 4, and more mass in
        some such set. These are the sets that contain, with each of their points, the box between 0 and that
        point. The other results are "larger" for the reverse, "equal", and "incomparable".

    Raises
    ------
    ParameterError
        When the numbers of components differ, or two components cannot be compared.

    Notes
    -----
    Slabs, in which one component is bounded, are such sets. So each component of a smaller vector is smaller.
    Conversely, let all components of the first vector be smaller. Since components are independent, both
    vectors can be drawn together such that each component of the first is at most as far from 0 as that of
    the second, and has the same sign. Then the first vector is in every such set that contains the second.

    Examples
    --------
    >>> from arcwise.noise import Laplace
    >>> compare_vector_concentration([Laplace(2.0), Laplace(1.0)], [Laplace(1.0), Laplace(1.0)])
    'smaller'
    >>> compare_vector_concentration([Laplace(2.0), Laplace(1.0)], [Laplace(1.0), Laplace(2.0)])
    'incomparable'
    """
    if not 1 <= len(first) == len(second):
        raise ParameterError(
            f"first and second must have equally many components, at least 1, got {len(first)} and "
            f"{len(second)}"
        )
    found = {compare_concentration(*pair).relation for pair in zip(first, second, strict=True)} - {"equal"}
    if not found:
        return "equal"
    return found.pop() if len(found) == 1 else "incomparable"


def _points(first: Noise, second: Noise) -> FloatArray:
    """Return the compared distances, in ascending order from 0."""
    far = max(noise.ppf(1.0 - _TAIL) for noise in (first, second))
    if isinstance(first, DiscreteNoise) and far <= _MOST_INTEGERS:
        return np.arange(far + 1.0)
    upper = 0.5 + 0.5 * np.linspace(0.0, 1.0, _QUANTILES, endpoint=False)
    levels = np.concatenate([upper, 1.0 - np.geomspace(0.5, _TAIL, _QUANTILES)])
    parts = [np.maximum(noise.ppf(levels), 0.0) for noise in (first, second)]
    parts.append(np.array([0.0, far]))
    parts += [_steps(noise, far) for noise in (first, second)]
    points: FloatArray = np.unique(np.concatenate(parts))
    return points


def _steps(noise: Noise, far: float) -> FloatArray:
    """Return the places where the density of a staircase or of bounded noise falls, up to a distance."""
    from arcwise.noise.staircase import Staircase

    end = noise.support[1]
    ends = [end] if end <= far else []
    if isinstance(noise, Staircase):
        whole = np.arange(min(far / noise.sensitivity, _MOST_STEPS) + 1.0)
        return np.concatenate([whole, whole + noise.gamma]) * noise.sensitivity
    return np.array(ends, dtype=np.float64)
