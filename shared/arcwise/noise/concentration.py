"""The order of noise by concentration about 0, and what is optimal in it.

Soria-Comas and Domingo-Ferrer 2013, Definitions 3 to 5: noise is smaller than other noise when every
interval between 0 and a point holds at least as much of its mass. Whatever the loss, as long as it grows with
``|x|``, the smaller one costs less. The order is partial: each of two may hold more somewhere.
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
"""Less mass than this beyond a point decides nothing."""
_EXACT = 1e-13
"""Differences of this size, relative to the mass beyond the point, are rounding."""


class Concentration(NamedTuple):
    """How one kind of noise compares with another.

    Attributes
    ----------
    relation
        "smaller" when the first holds at least as much mass between 0 and every point, and more for some;
        "larger" the other way round; "equal"; or "incomparable" when each holds more for some point.
    first_more_at
        The distance from 0 up to which the first is ahead by most; None where it never is. In the unit of the
        noise.
    second_more_at
        The same of the second.
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
        When an argument is no noise of one dimension, or one is on the reals and the other on the integers.

    Notes
    -----
    All noise here is symmetric, so the mass between 0 and a point x is ``P(X >= 0) - P(X > x)``, and
    distances are enough. The masses are compared at 4,096 quantiles of each and at their steps, up to a tail
    of 1e-12; where one is ahead by less than a 1e-13 part they count as equal. On the integers every number
    is compared.

    For one epsilon and sensitivity each staircase is minimal: none with another gamma is smaller. Laplace
    noise is larger than the staircase whose steps have Laplace's mass (Figure 1), and not comparable with
    others. `compare_vector_concentration` is the order of vectors.

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
    """Return whether a vector of independent noise is smaller than another, more concentrated about 0.

    Parameters
    ----------
    first, second
        The independent components of each vector, equally many, at least one.

    Returns
    -------
    str
        "smaller" when the first holds at least as much mass in every set that holds, with each of its points,
        the box between 0 and that point (Definition 4), and more in some; "larger" the other way round;
        "equal"; or "incomparable".

    Raises
    ------
    ParameterError
        When there are not equally many components, or two of them cannot be compared.

    Notes
    -----
    Slabs, where one component is bounded, are such sets: the components of smaller noise are smaller. If they
    all are, noise of the first kind can be drawn with the second so that no component is farther from 0 and
    none has the other sign, as components are independent: then the first is in every such set in which the
    second is.

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
    """Return the distances that are compared, ascending from 0."""
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
    """Return where the density of a staircase or of bounded noise falls, up to a distance."""
    from arcwise.noise.staircase import Staircase

    end = noise.support[1]
    ends = [end] if end <= far else []
    if isinstance(noise, Staircase):
        whole = np.arange(min(far / noise.sensitivity, _MOST_STEPS) + 1.0)
        return np.concatenate([whole, whole + noise.gamma]) * noise.sensitivity
    return np.array(ends, dtype=np.float64)
