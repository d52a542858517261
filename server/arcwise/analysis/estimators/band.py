"""A band that holds the whole distribution function of an interval at once, and bins with intervals."""

from __future__ import annotations

from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.estimators.bounds import covariance
from arcwise.analysis.estimators.notes import all_notes
from arcwise.analysis.estimators.result import Band
from arcwise.analysis.estimators.shares import shares
from arcwise.analysis.grid import SINGLE_VALUES, coarse_notes, values_of
from arcwise.digits import written
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from arcwise.analysis.estimators.result import Value
    from arcwise.analysis.estimators.survey import Profile
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

_POINTS = 32
"""Of the band. More make its steps lower, and cost more time."""

_ALIKE = 8.0
"""About as many bounds that do not depend on one another as a band's: what its weights are made for."""

_DRAWS = 4096
"""Of the joint law of a band's bounds."""

_FEWEST_BEYOND = 40.0
"""Draws beyond the quantile from which on they tell it. With fewer Bonferroni does and loses little."""

_BINS = {False: 10, True: 12}
"""Of an interval and of a circle (30 degrees, two hours)."""

_NODES_PER_BIN = 6
"""Who stands between two nodes is seen at both: narrower bins would show little else."""


def cdf_band(survey: Profile, *, level: float = 0.95) -> Band:
    """Return a band that contains the population's whole distribution function with probability `level`.

    The survey has to be on an interval: on a circle a distribution function has no origin. The points of the
    band are quantiles of the fitted distribution.

    At m places the share below has an upper and a lower bound (`bounds`). All 2 m of them use the number of
    standard errors that their joint normal law requires, which is drawn with a fixed seed. Distribution
    functions increase, so between two places F is at least the lower end on the left and at most the upper
    end on the right: nothing is assumed in between.
    """
    mechanism, bounds = survey.mechanism, survey.bounds
    if mechanism.kernel.circular:
        raise ParameterError("mechanism must be on an interval: on a circle no place is the lowest")
    places = bounds.places
    wanted = (np.arange(_POINTS) + 0.5) / _POINTS
    cells = np.unique(np.searchsorted(np.cumsum(survey.probabilities)[:-1], wanted))
    if places.values is None:
        units = places.at[cells]
        pairs = [places.between(0.0, float(unit)) for unit in units]
    else:
        last = places.values.last[cells]
        units = places.values.units(last)
        pairs = [places.values_between(0, int(value)) for value in last]
    design = NormalDist().inv_cdf(1.0 - (1.0 - level) / _ALIKE)
    averages = bounds.averages([each for pair in pairs for each in pair], design)
    root = joint_root(covariance(averages), level)
    uppers = np.array([average.upper(root) for average in averages])
    high, rest = np.clip(uppers, 0.0, 1.0).reshape(-1, 2).T
    lows = np.maximum.accumulate(1.0 - rest)
    highs = np.minimum.accumulate(high[::-1])[::-1]
    return Band(
        tuple(mechanism.domain.from_unit(units).tolist()),
        tuple(np.minimum(lows, highs).tolist()),
        tuple(np.maximum(lows, highs).tolist()),
        f"bounds at {len(units)} places that hold for every population, all at once",
        all_notes(survey.few, coarse_notes(mechanism)),
    )


def joint_root(covariances: FloatArray, level: float) -> float:
    """Return how many standard errors up averages of a joint normal law all stay, at the level."""
    if (1.0 - level) * _DRAWS < _FEWEST_BEYOND:
        return NormalDist().inv_cdf(1.0 - (1.0 - level) / len(covariances))
    errors = np.sqrt(np.diag(covariances))
    errors[errors == 0.0] = 1.0
    correlation = covariances / np.outer(errors, errors)
    np.fill_diagonal(correlation, 1.0)  # one that has not moved yet is as if alone
    values, vectors = np.linalg.eigh(correlation)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(values)))
    largest = (draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T).max(axis=1)
    return float(np.quantile(largest, level, method="higher"))


def bins(survey: Profile, *, level: float = 0.95) -> dict[str, Value]:
    """Return the shares of equally wide bins, 10 of an interval or 12 of a circle, by "low:high".

    There are fewer bins where one would have less than six nodes, and none where only one would be left. On a
    lattice a bin holds values, and both of its ends are included; up to 24 values have a bin each. Each
    interval has the level by itself.
    """
    ends = bin_ends(survey.mechanism)
    return dict(zip(ends, shares(survey, ends.values(), level=level), strict=True))


def bin_ends(mechanism: Mechanism) -> dict[str, tuple[float, float]]:
    """Return where each of `bins` starts and ends, in the unit of the domain, by "low:high"."""
    kernel, domain = mechanism.kernel, mechanism.domain
    values = values_of(mechanism)
    if values is not None:
        number = values.size if values.size <= SINGLE_VALUES else _BINS[kernel.circular]
        parts = np.array_split(np.arange(values.size), number)
        ends = np.array([[part[0], part[-1]] for part in parts])
        pairs = np.asarray(domain.from_unit(values.units(ends))).tolist()
    else:
        number = min(_BINS[kernel.circular], kernel.nodes // _NODES_PER_BIN)
        if number < 2:
            return {}
        edges = np.asarray(domain.from_unit(np.arange(number) / number)).tolist()
        edges.append(edges[0] + domain.length)
        pairs = list(pairwise(edges))
        if not all(low < high for low, high in pairs):
            return {}  # a domain of a few floats: its bins cannot be told apart
    return {":".join(written(low, high, digits=9)): (low, high) for low, high in pairs}
