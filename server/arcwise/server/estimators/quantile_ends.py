"""The two ends of a quantile's interval: where a share's likelihood-ratio statistic reaches its bound.

On an interval and on a circle that is cut open: both know the share below a place as a functional.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcwise.server.estimators.crossing import outer_crossing

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from arcwise.server.estimators.profile import Profile, Search

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["Scale", "quantile_ends", "signed_root"]


class Scale:
    """The unit interval stretched as a distribution has it: quantiles are about equally far apart there.

    Only for the search: it decides how fast an interval is found, not where it ends.

    Parameters
    ----------
    edges, probabilities
        A histogram, shapes (M+1,) and (M,).
    """

    def __init__(self, edges: FloatArray, probabilities: FloatArray) -> None:
        mass = probabilities + 0.02 * np.diff(edges)  # increases everywhere
        self._edges = edges
        self._upto = np.concatenate([[0.0], np.cumsum(mass / mass.sum())])

    def to(self, unit: float) -> float:
        """Return the place on the scale."""
        return float(np.interp(unit, self._edges, self._upto))

    def back(self, place: float) -> float:
        """Return the position on the unit interval."""
        return float(np.interp(place, self._upto, self._edges))


def signed_root(profile: Profile, below: FloatArray, tau: float, *, search: Search | None = None) -> float:
    """Return the signed root of the likelihood-ratio statistic of ``below . f = tau``.

    `below` is the share of each cell below a place t. The root is negative for t below the quantile and
    increases with t: if some F has ``F(t) = tau``, then at any t' between t and the quantile of the best fit
    a mixture of the two has ``F(t') = tau``, and no lower likelihood than F.
    """
    root = (profile if search is None else search).root(below, tau)
    return root if float(below @ profile.best.probabilities) > tau else -root


def quantile_ends(  # noqa: PLR0917
    profile: Profile,
    below: Callable[[float], FloatArray],
    tau: float,
    bound: float,
    scale: Scale,
    middle: float,
    limits: tuple[tuple[float, float], tuple[float, float]],
    *,
    at_middle: float = 0.0,
) -> tuple[float, float]:
    """Return both ends of the interval of the quantile of level `tau`.

    Parameters
    ----------
    profile
        Of the counts.
    below
        From a place to the share of each cell below it.
    tau, bound
        The quantile's level; the root of the statistic at which the interval ends.
    scale
        Of about the distribution of the counts.
    middle
        The most likely quantile, or the nearest place to it that can be tried.
    limits
        For each side the last place that can be tried, and the end when the bound is not reached there.
    at_middle
        The signed root at `middle`, where that is not the most likely quantile.

    Notes
    -----
    Both ends are moved out by half a cell where the interval reaches up to two cells to that side, and by
    less where it reaches further. Likelihoods take each cell's mass as spread evenly, and devices round to
    the two nodes around a value: people who are all at one place between two nodes are seen at both. On a
    lattice nothing is moved; the value whose cell an end lies in is the end (`quantiles.to_values`).
    """
    guess = bound * profile.spread(below(middle))
    half = profile.margin
    ends = []
    for side, (limit, beyond) in zip((-1, 1), limits, strict=True):
        start = side * at_middle
        if start >= bound:
            ends.append(middle)
            continue
        if middle == limit:
            ends.append(beyond)
            continue
        search = profile.search(bound)

        def root(place: float, side: int = side, search: Search = search) -> float:
            return side * signed_root(profile, below(scale.back(place)), tau, search=search)

        end = outer_crossing(root, bound, scale.to(middle), scale.to(limit), guess, at_middle=start)
        ends.append(beyond if end is None else scale.back(end))
    (_, least), (_, most) = limits
    if not half:
        return ends[0], ends[1]
    left, right = middle - ends[0], ends[1] - middle
    low = ends[0] - half * min(1.0, 4 * half / max(left, half))
    high = ends[1] + half * min(1.0, 4 * half / max(right, half))
    return max(low, least), min(high, most)
