"""Bounds of shares that hold for every population: averages of weights learned on other reports.

Take a weight per code, w. The average of w over the reports has the expectation ``(P w) . f``, with P the
kernel's rows and f the node distribution. If ``P w >= phi`` at every node, this expectation is at least
``phi . f`` for any population. So the average and its standard error give an upper bound of ``phi . f``. The
bound needs neither an assumption about the population nor an estimate of it. How *low* the bound is depends
on w. The best w for a population close to a fit solves a quadratic program (the least favourable
distribution; Donoho 1994, Armstrong and Kolesar 2018).

The reports are split into two parts at random. Each part's weights are learned on the other one, so the
average is unbiased for its mean. Both averages are combined, so no report is lost. A part's weights depend on
the part itself in two ways only. The first is the number of EM steps: that after which the two fits together
predict each other's part best. The second is the place of interest.

The difference of two populations' shares is bounded by the sum of an upper bound of one share and an upper
bound of the complement of the other. A share of a population made of strata is bounded by the weighted sum of
the strata's bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.estimators.knots import Knots, anchors_of, is_fine
from arcwise.analysis.estimators.places import Places
from arcwise.analysis.estimators.programs import Near, Programs
from arcwise.analysis.estimators.tails import Again, Sample, furthest, roots
from arcwise.analysis.grid import first_cell
from arcwise.analysis.likelihood.distribution import leap_stages, thin, uniform_start
from arcwise.analysis.likelihood.em import EMSteps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

METHOD = "from the fitted distribution; bounds that hold for every population"
SMOOTHED = "the value is from a smoothed fit, the interval is not"
"""The method of quantiles and shares, and the note on each of them."""

USUAL = 1.8
"""Standard errors for which the weights of shares are best: those of level 0.95, used for every level.

At a higher level the interval is therefore wider than necessary; at 0.9999 other weights would make it about
6 % narrower.
"""

_TOLD = 0.5
"""Standard errors subtracted from the estimated room between two bounds before the room narrows them."""

_TIE = 0.25  # later fits are kept only if they predict each other's part better by this many nats

_MOST_EM_STEPS = 3000


class AnyAverage:
    """An `Average` over one sample of reports, or a `Total` over several.

    `samples` holds each sample's part of the sum, as in `tails`, except samples in which all reports have the
    largest weight.
    """

    value: float
    variance: float
    errors: FloatArray
    samples: tuple[Sample, ...]

    def upper(self, root: float) -> float:
        """Return the upper bound `root` standard errors above the average.

        As in Wilson's bound for a proportion, the law of the average is taken at the bound: enough reports
        are assumed to have the largest weight to move the average there. So if no report has this weight yet,
        the bound is that of a count of 0.
        """
        return self.value + furthest(self.samples, root)

    def roots(self, bound: float) -> float:
        """Return how many standard errors a bound is above the average: the inverse of `upper`."""
        return max(roots(self.samples, bound - self.value), 0.0) if bound > self.value else 0.0


@dataclass
class Average(AnyAverage):
    """An average of weights over the reports; its expectation is at least a functional of the population.

    `weights` are those of both parts of the reports, shape (2, K'). `errors` holds the contribution of each
    code to the average's error, shape (2 K',), and also of each node if devices report several times, shape
    (2 K' + N,). The dot product of the errors of two averages over the same reports is their estimated
    covariance. `most` is the largest possible weight of a report, and `third` the third central moment of the
    reports' weights.
    """

    value: float
    weights: FloatArray
    errors: FloatArray
    most: float
    n: float
    third: float
    again: Again | None = None

    def __post_init__(self) -> None:
        self.variance = float(self.errors @ self.errors)
        room, own = self.most - self.value, self.errors[: self.weights.size]
        sample = Sample(1.0, self.n, room, float(own @ own) * self.n, self.third, self.again)
        self.samples = (sample,) if room > 0.0 else ()


@dataclass
class Total(AnyAverage):
    """A sum of averages over independent samples, each times a positive factor."""

    averages: tuple[Average, ...]
    factors: tuple[float, ...]

    def __post_init__(self) -> None:
        pairs = list(zip(self.factors, self.averages, strict=True))
        self.value = sum(f * each.value for f, each in pairs)
        self.errors = np.concatenate([f * each.errors for f, each in pairs])
        self.variance = sum(f * f * each.variance for f, each in pairs)
        parts = [part._replace(factor=f) for f, each in pairs for part in each.samples]
        self.samples = tuple(sorted(parts, key=lambda part: -part.slope))


class Evidence(ABC):
    """A source of upper bounds of shares: `Bounds` of one sample of reports, or `Strata` of several.

    `places` creates functionals for parts of the domain. `fitted` is a node distribution, shape (N,), in the
    order of the cells; it gives first guesses of a bound.
    """

    places: Places
    fitted: FloatArray

    @abstractmethod
    def averages(self, several: Sequence[FloatArray], root: float) -> Sequence[AnyAverage]:
        """Return an average for each of several functionals; this costs less than separate calls.

        A functional has the shape (A, N), in the order of the cells. For every node distribution f, the
        expectation of its average is at least ``row . f`` for one of its rows. The weights are the best ones
        for a bound `root` standard errors above the average. If the reports give no better bound than a
        functional's largest entry, the average is that entry, without error.
        """


class Bounds(Evidence):
    """Upper bounds of linear functionals of the node distribution, for one array of counts.

    The counts must be integers, with at least one report. `parts`, shape (2, K), holds the counts split in
    two at random; they are split here unless given. `others`, of the same shape, holds the two parts of other
    samples' reports from which the weights are also learned. At most `reports_per_device` reports, m, come
    from one device, each with its own randomness.

    An average bounds the share among the devices that reported, not the share of the population, because its
    weights may have learned about these devices from the other half of the reports. The share among the
    devices varies around the population's share like a share among n/m people.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        counts: FloatArray,
        *,
        parts: FloatArray | None = None,
        others: FloatArray | None = None,
        reports_per_device: float = 1.0,
    ) -> None:
        self.n = float(counts.sum())
        self._repeats = (reports_per_device - 1.0) / self.n
        self.places = Places(mechanism)
        self._mechanism, nodes = mechanism, mechanism.kernel.nodes
        self._parts = parts = thin(counts, 2) if parts is None else parts
        self._sizes = parts.sum(axis=1)
        self._known = bool(self._sizes.all())
        self.fitted = np.full(nodes, 1.0 / nodes)
        if self._known:
            learned = parts if others is None else parts + others
            self._learned = _fits(mechanism, learned[::-1])
            self.fitted = np.roll(self._learned.mean(axis=0), -first_cell(mechanism))
        self._near: dict[tuple[int, ...], Near] = {}

    def averages(self, several: Sequence[FloatArray], root: float) -> list[Average]:
        """Return averages as specified in `Evidence`, each with its weights."""
        result = [self._largest(each) for each in several]
        told = [k for k, each in enumerate(several) if self._known and np.ptp(each[0])]
        if not told:
            return result
        weights = np.empty((len(told), *self._parts.shape))
        # At the lowest levels any weights are good enough.
        self._solve([several[k] for k in told], max(root, 0.1), weights)
        sums = (self._parts * weights).sum(axis=2)
        centred = weights - (sums / self._sizes)[:, :, None]
        errors = centred * np.sqrt(self._parts) / self.n
        thirds = np.einsum("ijk,ijk->i", centred * errors, errors) * self.n
        for k, total, each, error, third in zip(
            told, sums.sum(axis=1), weights, errors, thirds.tolist(), strict=True
        ):
            value, errors_of = float(total) / self.n, self._with_devices(error.ravel(), several[k][0])
            low, high = float(several[k][0].min()), float(several[k][0].max())
            again = Again(self._repeats, value, low, high) if self._repeats else None
            result[k] = Average(value, each, errors_of, float(each.max()), self.n, third, again)
        return result

    def _with_devices(self, errors: FloatArray, functional: FloatArray) -> FloatArray:
        """Return the errors of an average, plus one for each node if devices report several times."""
        if not self._repeats:
            return errors
        away = functional - float(functional @ self.fitted)
        return np.append(errors, away * np.sqrt(self._repeats * self.fitted))

    def _solve(self, several: Sequence[FloatArray], root: float, weights: FloatArray) -> None:
        """Store the weights for each functional in `weights`, shape (M, 2, K)."""
        fine, circular = is_fine(self._mechanism), self.places.circular
        every = [anchors_of(each[0], circular=circular) if fine else () for each in several]
        for anchors in every:
            if anchors not in self._near:
                knots = Knots(self._mechanism, anchors, self.n)
                self._near[anchors] = Near(knots, self.n, self._learned, USUAL)
        sizes = np.array([self._near[anchors].fit.shape[1] for anchors in every])
        for size in np.unique(sizes):
            rows = np.flatnonzero(sizes == size).tolist()
            number = {anchors: k for k, anchors in enumerate(dict.fromkeys(every[row] for row in rows))}
            programs = Programs([self._near[anchors] for anchors in number])
            of = [number[every[row]] for row in rows]
            weights[rows] = programs.weights([several[row] for row in rows], of, root)

    def _largest(self, functionals: FloatArray) -> Average:
        """Return a functional's largest entry as an average without error."""
        most = float(functionals[0].max())
        errors = self._with_devices(np.zeros(self._parts.size), np.zeros_like(self.fitted))
        return Average(most, np.full(self._parts.shape, most), errors, most, self.n, 0.0)


class Samples:
    """Bounds of the sum, over several samples, of functionals of their populations times positive factors."""

    def __init__(self, bounds: Sequence[Bounds], factors: Sequence[float]) -> None:
        self._bounds, self._factors = tuple(bounds), tuple(factors)
        # The samples' deficits add up, but only the squares of their errors do. So the best weights of a
        # sample are those for fewer standard errors: for the sample's part of the standard errors of the sum.
        errors = np.array([f / math.sqrt(max(b.n, 1.0)) for f, b in zip(factors, bounds, strict=True)])
        self._parts = (errors / math.sqrt(float(errors @ errors))).tolist()

    def totals(self, several: Sequence[Sequence[FloatArray]], root: float) -> list[Total]:
        """Return sums of averages with means above the functionals; a sum has one functional per sample."""
        found = [
            each.averages([functionals[k] for functionals in several], root * part)
            for k, (each, part) in enumerate(zip(self._bounds, self._parts, strict=True))
        ]
        return [Total(tuple(averages), self._factors) for averages in zip(*found, strict=True)]


class Strata(Evidence):
    """Bounds of shares of a population, given a sample and a known weight for each of its strata.

    All strata have one mechanism; the weights are positive and sum to 1.
    """

    def __init__(self, bounds: Sequence[Bounds], weights: Sequence[float]) -> None:
        self._samples = Samples(bounds, weights)
        self._many = len(bounds)
        self.places = bounds[0].places
        self.fitted = np.array(weights) @ np.array([each.fitted for each in bounds])

    def averages(self, several: Sequence[FloatArray], root: float) -> list[Total]:
        """Return averages as specified in `Evidence`; each includes the averages of the strata."""
        return self._samples.totals([[each] * self._many for each in several], root)


def covariance(averages: Sequence[AnyAverage]) -> FloatArray:
    """Return the estimated covariances of averages over the same reports, shape (M, M)."""
    errors = np.array([average.errors for average in averages])
    result: FloatArray = errors @ errors.T
    return result


def possible(low: float, high: float, *, least: float) -> tuple[float, float]:
    """Return the ends in order, clipped to `least` and 1: `least` is 0 for a share, -1 for a difference."""
    low, high = (min(max(end, least), 1.0) for end in (low, high))
    return min(low, high), max(low, high)


def difference_interval(
    over: AnyAverage, under: AnyAverage, whole: float, level: float
) -> tuple[float, float]:
    """Return the interval of a number x, from averages with means of at least x and ``whole - x``."""
    root = narrowed_root(over, under, whole, level)
    return whole - under.upper(root), over.upper(root)


def narrowed_root(over: AnyAverage, under: AnyAverage, whole: float, level: float) -> float:
    """Return the number of standard errors for both bounds of one number.

    The room is the distance between the two bounds that remains without errors, since the two averages have
    expectations of at least x and ``whole - x``. The number x cannot be at both ends of the room. If the room
    is wide compared with the standard error, each end can miss on one side only and needs fewer standard
    errors (Imbens and Manski 2004). For any population, the room is the expectation of the sum of the two
    averages, minus `whole`. Half a standard error is subtracted from the estimated room.
    """
    normal = NormalDist()
    one, two = normal.inv_cdf(level), normal.inv_cdf(0.5 + level / 2)
    error = math.sqrt(max(over.variance, under.variance))
    if not error:
        return two
    both = over.errors + under.errors
    told = over.value + under.value - whole - _TOLD * math.sqrt(float(both @ both))
    room = max(told, 0.0) / error
    for _ in range(20):
        middle = 0.5 * (one + two)
        if normal.cdf(middle + room) - normal.cdf(-middle) >= level:
            two = middle
        else:
            one = middle
    return two


def _fits(mechanism: Mechanism, parts: FloatArray) -> FloatArray:
    """Return a smooth fit to each of two parts, shape (2, N): EM until it predicts the other part best."""
    steps = EMSteps(mechanism.kernel, parts, start=uniform_start(mechanism))
    best, taken = -math.inf, 0
    kept: FloatArray = steps.probabilities.copy()
    while steps.iterations < _MOST_EM_STEPS:
        score = float((parts[::-1] * np.log(steps.codes)).sum())
        if score > best + _TIE:
            best, kept, taken = score, steps.probabilities.copy(), steps.iterations
        elif steps.iterations >= max(30, 2 * taken):
            break
        steps.leap(leap_stages(steps.iterations))
    return kept
