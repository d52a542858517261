"""A band that holds the whole distribution function of an interval at once, and bins with intervals."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcwise.digits import written
from arcwise.errors import ParameterError
from arcwise.server.estimators.few import few_note, join
from arcwise.server.estimators.grid import cell_edges, coarse_note, values_of
from arcwise.server.estimators.profile import Profile
from arcwise.server.estimators.quantile_ends import Scale
from arcwise.server.estimators.quantiles import functional, rounding_reach
from arcwise.server.estimators.result import Band
from arcwise.server.estimators.shares import share
from arcwise.server.estimators.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from arcwise.mechanisms.base import Mechanism
    from arcwise.server.estimators.result import Value

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["bins", "cdf_band"]

_POINTS = 32
"""Of the band. More make its steps lower, and each point's interval wider: 3.2 standard errors with 32."""

_BINS = {False: 10, True: 12}
"""Of an interval and of a circle (30 degrees, two hours)."""

_SINGLE_VALUES = 24
"""Values of a lattice up to which each is a bin."""

_NODES_PER_BIN = 6
"""Rounding to nodes moves a bin's bounds by up to 1.5 nodes: narrower ones would show little else."""


def cdf_band(
    mechanism: Mechanism,
    counts: FloatArray,
    probabilities: FloatArray,
    *,
    level: float = 0.95,
    profile: Profile | None = None,
) -> Band:
    """Return a band that holds the population's distribution function everywhere at once, at the level.

    Parameters
    ----------
    mechanism
        On an interval.
    counts
        Reports per code, shape (K,), at least one report.
    probabilities
        The fitted node distribution, shape (N,): the band's points are its quantiles.
    level
        Of the band.
    profile
        Of these counts, where it is there already.

    Raises
    ------
    ParameterError
        On a circle, where a distribution function has no origin.

    Notes
    -----
    At m places the share below has a profile-likelihood interval of level ``1 - (1 - level)/m`` (Bonferroni),
    so all hold at once at the level. Distribution functions increase, so between two places F is at least
    the lower end on the left and at most the upper end on the right: nothing is assumed in between. The
    places are quantiles of the fit to the same counts, so for them Bonferroni is no theorem;
    `benchmarks/coverage.py` finds the band to cover 0.99.
    """
    if mechanism.kernel.circular:
        raise ParameterError("mechanism must be on an interval: on a circle no place is the lowest")
    with one_thread():
        profile = Profile(mechanism, counts) if profile is None else profile
        edges, reach = profile.edges, rounding_reach(mechanism)
        scale = Scale(cell_edges(mechanism), probabilities)
        wanted = [scale.back((k + 0.5) / _POINTS) for k in range(_POINTS)]
        # Within the first and the last cell nothing is told apart, on a lattice within none.
        units = np.unique(np.clip(wanted, edges[1], edges[-2]))
        if profile.values is not None:
            cells = np.unique(np.searchsorted(edges[1:-1], units))
            units = edges[1:][cells]
        each = 1.0 - (1.0 - level) / len(units)
        low = [profile.share_end(functional(edges, unit - reach), each, -1) for unit in units]
        high = [profile.share_end(functional(edges, unit + reach), each, +1) for unit in units]
    at = mechanism.domain.from_unit(
        units if profile.values is None else profile.values.units(profile.values.last[cells])
    )
    lows = np.maximum.accumulate(low)
    highs = np.minimum.accumulate(high[::-1])[::-1]
    return Band(
        tuple(at.tolist()),
        tuple(lows.tolist()),
        tuple(highs.tolist()),
        f"profile-likelihood intervals at {len(units)} places, Bonferroni",
        join(few_note(float(counts.sum())), profile.note(), coarse_note(mechanism)),
    )


def bins(
    mechanism: Mechanism,
    counts: FloatArray,
    probabilities: FloatArray,
    *,
    level: float = 0.95,
    profile: Profile | None = None,
) -> dict[str, Value]:
    """Return the shares of equally wide bins, 10 of an interval or 12 of a circle, by "low:high".

    Fewer where the nodes are so few that a bin would have less than six, and none where that leaves one. On a
    lattice bins are values, from the first to the last of a bin, both included: each by itself up to 24.

    Parameters
    ----------
    mechanism, counts, probabilities, profile
        As for `share`.
    level
        Of each interval by itself.
    """
    kernel, domain = mechanism.kernel, mechanism.domain
    values = values_of(mechanism)
    if values is not None:
        number = values.size if values.size <= _SINGLE_VALUES else _BINS[kernel.circular]
        parts = np.array_split(np.arange(values.size), number)
        ends = np.array([[part[0], part[-1]] for part in parts])
        pairs = np.asarray(domain.from_unit(values.units(ends))).tolist()
        return _shares(mechanism, counts, probabilities, pairs, level, profile)
    number = min(_BINS[kernel.circular], kernel.nodes // _NODES_PER_BIN)
    if number < 2:
        return {}
    bounds = np.asarray(domain.from_unit(np.arange(number) / number)).tolist()
    bounds.append(bounds[0] + domain.length)
    if not all(low < high for low, high in pairwise(bounds)):
        return {}  # a domain of a few floats: its bins cannot be told apart
    return _shares(mechanism, counts, probabilities, pairwise(bounds), level, profile)


def _shares(  # noqa: PLR0917
    mechanism: Mechanism,
    counts: FloatArray,
    probabilities: FloatArray,
    bounds: Iterable[tuple[float, float]],
    level: float,
    profile: Profile | None,
) -> dict[str, Value]:
    with one_thread():
        profile = Profile(mechanism, counts) if profile is None else profile
        return {
            ":".join(written(low, high, digits=9)): share(
                mechanism, counts, probabilities, low, high, level=level, profile=profile
            )
            for low, high in bounds
        }
