"""Sums of averages over several samples of reports, which no device is in twice.

The difference of two populations' shares is bounded by the sum of an upper bound of one share and one of the
complement of the other; a share of a population that is made of strata by the weighted sum of their bounds.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.estimators.tails import furthest, roots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis.estimators.bounds import Average, Bounds
    from arcwise.analysis.estimators.places import Places
    from arcwise.analysis.estimators.tails import Sample
    from arcwise.typing import FloatArray


class Total(NamedTuple):
    """A sum of averages over independent samples, each times a positive factor."""

    averages: tuple[Average, ...]
    factors: tuple[float, ...]

    @property
    def value(self) -> float:
        """The sum."""
        return sum(f * each.value for f, each in zip(self.factors, self.averages, strict=True))

    @property
    def errors(self) -> FloatArray:
        """As of `Average`, one sample after the other."""
        return np.concatenate([f * each.errors for f, each in zip(self.factors, self.averages, strict=True)])

    @property
    def variance(self) -> float:
        """An estimate of the sum's variance."""
        return sum(f * f * each.variance for f, each in zip(self.factors, self.averages, strict=True))

    @property
    def samples(self) -> tuple[Sample, ...]:
        """As of `bounds.AnyAverage`."""
        parts = (
            part._replace(factor=f)
            for f, each in zip(self.factors, self.averages, strict=True)
            for part in each.samples
        )
        return tuple(sorted(parts, key=lambda part: -part.slope))

    def upper(self, root: float) -> float:
        """Return the upper bound that is `root` standard errors up: as of `Average`, with the sum's law."""
        return self.value + furthest(self.samples, root)

    def roots(self, bound: float) -> float:
        """Return how many standard errors up a bound is."""
        return max(roots(self.samples, bound - self.value), 0.0) if bound > self.value else 0.0


class Samples:
    """Bounds of the sum, over several samples, of a functional of each sample's population.

    Each sample has a positive factor in the sum.
    """

    def __init__(self, bounds: Sequence[Bounds], factors: Sequence[float]) -> None:
        self._bounds, self._factors = tuple(bounds), tuple(factors)
        # What a sample lacks in knowledge of its population adds up, its errors do in squares only. So the
        # best weights of a sample are those of fewer standard errors: of its part of the sum's.
        errors = np.array([f / math.sqrt(max(b.n, 1.0)) for f, b in zip(factors, bounds, strict=True)])
        self._parts = (errors / math.sqrt(float(errors @ errors))).tolist()

    def totals(self, several: Sequence[Sequence[FloatArray]], root: float) -> list[Total]:
        """Return sums of averages whose means are above the functionals, for each sum one sort a sample."""
        found = [
            each.averages([functionals[k] for functionals in several], root * part)
            for k, (each, part) in enumerate(zip(self._bounds, self._parts, strict=True))
        ]
        return [Total(tuple(averages), self._factors) for averages in zip(*found, strict=True)]


class Strata(Samples):
    """Bounds of shares of a population of which each stratum has a sample and a known weight.

    Every estimator takes it in place of `Bounds`. All strata have one mechanism; the weights are positive,
    with the sum 1.
    """

    @property
    def places(self) -> Places:
        """Which nodes see people of a part of the domain."""
        return self._bounds[0].places

    @cached_property
    def fitted(self) -> FloatArray:
        """A node distribution, shape (N,), by cells."""
        fitted: FloatArray = np.array(self._factors) @ np.array([each.fitted for each in self._bounds])
        return fitted

    def average(self, functionals: FloatArray, root: float) -> Total:
        """Return an average whose mean is above a functional of the population's node distribution."""
        return self.averages([functionals], root)[0]

    def averages(self, several: Sequence[FloatArray], root: float) -> list[Total]:
        """Return an `average` for each of several functionals."""
        return self.totals([[each] * len(self._bounds) for each in several], root)
