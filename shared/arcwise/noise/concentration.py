"""The partial order of noise by concentration about 0, with comparisons in it.

Soria-Comas and Domingo-Ferrer 2013, Definitions 3 to 5: noise is smaller than other noise if every interval
between 0 and a point contains at least as much of its mass. The smaller one costs less for every loss that
grows with ``|x|``. The order is partial: each of two may have more mass somewhere.
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
"""Differences of mass beyond a point are ignored below this."""
_EXACT = 1e-13
"""Differences of this size, relative to the mass beyond the point, count as rounding."""


class Concentration(NamedTuple):
    """The result of a comparison of two kinds of noise.

    Attributes
    ----------
    relation
        "smaller" if the first has at least as much mass between 0 and every point, and more for some;
        "larger" for the reverse; "equal"; or "incomparable" if each has more for some point.
    first_more_at
        The distance from 0 up to which the first leads by most, in the unit of the noise; None if it never
        leads.
    second_more_at
        The same for the second.
    """

    relation: Relation
    first_more_at: float | None
    second_more_at: float | None


def compare_concentration(first: Noise, second: Noise) -> Concentration:
    """Return whether noise is smaller than other noise: more concentrated about 0 at every distance.

    Parameters
    ----------
    first, second
        Both on the reals, or both on the integers; an atom at 0 counts on the reals.

    Raises
    ------
    ParameterError
        When an argument is not one-dimensional noise, or one is on the reals and the other on the integers.

    Notes
    -----
    All noise here is symmetric, so the mass between 0 and a point x is ``P(X >= 0) - P(X > x)``, and it is
    enough to compare distances. The masses are compared at 4,096 quantiles of each and at their steps, up to
    a tail of 1e-12. Relative differences below 1e-13 count as equal. On the integers every number is
    compared.

    For one epsilon and sensitivity each staircase is minimal: no staircase with another gamma is smaller.
    Laplace noise is larger than the staircase with steps that have Laplace's mass (Figure 1), and not
    comparable with others. `compare_vector_concentration` is the order of vectors.

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
    """Return whether a vector of independent noise is smaller than another: more concentrated about 0.

    Parameters
    ----------
    first, second
        The independent components of each vector; the same number in both, at least one.

    Returns
    -------
    str
        "smaller" if the first has at least as much mass in every set that contains, with each of its points,
        the box between 0 and that point (Definition 4), and more in some such set; "larger" for the reverse;
        "equal"; or "incomparable".

    Raises
    ------
    ParameterError
        When the numbers of components differ, or two components cannot be compared.

    Notes
    -----
    Slabs, where one component is bounded, are such sets, so the components of smaller noise are smaller.
    Conversely, let all components be smaller. Since components are independent, noise of the first kind can
    be drawn together with the second so that no component is farther from 0 and none has the other sign. Then
    the first is in every such set that contains the second.

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
