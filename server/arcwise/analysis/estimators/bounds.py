"""Bounds of shares that hold for every population: averages of weights that are learned on other reports.

A weight per code, w, has an average over the reports whose mean is ``(P w) . f``, with P the kernel's rows
and f the node distribution. Where ``P w >= phi`` at every node, that mean is at least ``phi . f`` whatever
the population is, so the average and its standard error give an upper bound of ``phi . f``. Nothing is
assumed about the population, and nothing has to be estimated for the bound to hold: not where people are, nor
how many places nobody is at. How *low* the bound is depends on w, and the best one for a population close to
a fit solves a quadratic program (the least favourable distribution; Donoho 1994, Armstrong and Kolesar 2018).

The reports are split into two parts at random. Each part's weights are learned on the other one, so the
average is unbiased for its mean, and both averages are taken together: no report is lost. A part's
weights know of it only after how many steps of EM both fits predict the other part best, and which place is
asked about.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from arcwise.analysis.estimators.knots import Knots, anchors_of, is_fine
from arcwise.analysis.estimators.places import Places
from arcwise.analysis.estimators.tails import Again, Sample, furthest, roots
from arcwise.analysis.grid import first_cell
from arcwise.analysis.likelihood.distribution import leap_stages, thin, uniform_start
from arcwise.analysis.likelihood.em import EMSteps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis.estimators.programs import Near
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

METHOD = "from the fitted distribution; bounds that hold for every population"
SMOOTHED = "the value is of a smoothed fit, the interval is not"
"""The method of a quantile or a share, and the note that goes with each."""

USUAL = 1.8
"""Standard errors for which the weights of shares are the best: those of level 0.95, for every level.

So a higher level has a wider interval; at 0.9999 other weights would make it narrower by about 6 %.
"""

_TOLD = 0.5
"""Standard errors taken off the estimated room between two bounds, before it narrows them."""

_TIE = 0.25
"""Nats: a fit to one part must predict the other one better by so much to be taken."""

_MOST_EM_STEPS = 3000


class Average(NamedTuple):
    """An average of weights over the reports, whose mean is at least a functional of the population.

    `weights` are those of both parts of the reports, shape (2, K'). `errors` holds the contribution of each
    code to the average's error, shape (2 K',), and also of each node where devices report several times,
    shape (2 K' + N,): the dot product of the errors of two averages over the same reports is their estimated
    covariance. `most` is the largest weight that a report could have, and `third` the third central moment of
    the reports' weights.
    """

    value: float
    weights: FloatArray
    errors: FloatArray
    most: float
    n: float
    third: float
    again: Again | None = None

    @property
    def variance(self) -> float:
        """An estimate of the average's variance."""
        return float(self.errors @ self.errors)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """As of `AnyAverage`."""
        room = self.most - self.value
        own = self.errors[: self.weights.size]
        found = Sample(1.0, self.n, room, float(own @ own) * self.n, self.third, self.again)
        return (found,) if room > 0.0 else ()

    def upper(self, root: float) -> float:
        """Return the upper bound that is `root` standard errors up.

        As Wilson's for a proportion, the law of the average is that at the bound: as many reports of the
        largest weight as take the average there are part of it. So where no report has it yet, the bound is
        the one that a count of 0 has.
        """
        return self.value + furthest(self.samples, root)

    def roots(self, bound: float) -> float:
        """Return how many standard errors up a bound is: `upper`, the other way round."""
        return max(roots(self.samples, bound - self.value), 0.0) if bound > self.value else 0.0


class AnyAverage(Protocol):
    """An `Average` over one sample of reports, or a sum of averages over several (`totals.Total`)."""

    @property
    def value(self) -> float:
        """The average."""

    @property
    def variance(self) -> float:
        """An estimate of its variance."""

    @property
    def errors(self) -> FloatArray:
        """As of `Average`."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Each sample's part of the sum, as of `tails`, but for those that are at their largest weight."""

    def upper(self, root: float) -> float:
        """Return the upper bound that is `root` standard errors up."""

    def roots(self, bound: float) -> float:
        """Return how many standard errors up a bound is."""


class Evidence(Protocol):
    """What gives upper bounds of shares: `Bounds` of one sample of reports, or `totals.Strata` of several."""

    @property
    def places(self) -> Places:
        """Which nodes see people of a part of the domain: what functionals are made of."""

    @property
    def fitted(self) -> FloatArray:
        """A node distribution, shape (N,), by cells: for first guesses of where a bound is."""

    def average(self, functionals: FloatArray, root: float) -> AnyAverage:
        """Return an average whose mean is above a functional of the node distribution; as of `Bounds`."""

    def averages(self, several: Sequence[FloatArray], root: float) -> Sequence[AnyAverage]:
        """Return an average for each of several functionals; as of `Bounds`."""


class Bounds:
    """Upper bounds of linear functionals of the node distribution, for one array of counts.

    The counts are whole numbers, with at least one report. `parts`, shape (2, K), is the counts split in two
    at random, where that was done already; `others`, of the same shape, holds the two parts of other samples'
    reports from which the weights are learned too. At most `reports_per_device` reports, m, come from one
    device, each with its own randomness.

    An average bounds the share among the devices that reported, whoever they are, since its weights may have
    learned about them from the other half of the reports. That share varies about the population's like the
    share among n/m people.

    `places` makes functionals for parts of the domain. `fitted` is a node distribution, shape (N,), by cells,
    for first guesses of a bound.
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
        nodes = mechanism.kernel.nodes
        self._mechanism = mechanism
        parts = thin(counts, 2) if parts is None else parts
        self._known = bool(parts.sum(axis=1).all())
        self._parts = parts
        self._sizes = self._parts.sum(axis=1)
        self.fitted: FloatArray = np.full(nodes, 1.0 / nodes)
        if self._known:
            learned = parts if others is None else parts + others
            self._learned = _fits(mechanism, learned[::-1])
            self.fitted = np.roll(self._learned.mean(axis=0), -first_cell(mechanism))
        self._near: dict[tuple[int, ...], Near] = {}

    def average(self, functionals: FloatArray, root: float) -> Average:
        """Return an average whose mean is at least a functional of every node distribution.

        `functionals` has the shape (A, N), by cells, and the mean is at least one of its rows. The weights
        are the best ones for a bound `root` standard errors above the average. Where the reports give no
        better bound than a functional's largest entry, the average is that entry, without error.
        """
        return self.averages([functionals], root)[0]

    def averages(self, several: Sequence[FloatArray], root: float) -> list[Average]:
        """Return an `average` for each of several functionals: together they cost less than one by one."""
        result = [self._largest(each) for each in several]
        told = [k for k, each in enumerate(several) if self._known and np.ptp(each[0])]
        if not told:
            return result
        weights = np.empty((len(told), *self._parts.shape))
        # At the lowest levels any weights will do.
        self._solve([several[k] for k in told], max(root, 0.1), weights)
        sums = (self._parts * weights).sum(axis=2)
        centred = weights - (sums / self._sizes)[:, :, None]
        errors = centred * np.sqrt(self._parts) / self.n
        thirds = np.einsum("ijk,ijk->i", centred * errors, errors) * self.n
        for k, total, each, error, third in zip(
            told, sums.sum(axis=1), weights, errors, thirds.tolist(), strict=True
        ):
            value, errors_of = float(total) / self.n, self._with_devices(error.ravel(), several[k][0])
            again = self._again(value, several[k][0])
            result[k] = Average(value, each, errors_of, float(each.max()), self.n, third, again)
        return result

    def _again(self, value: float, functional: FloatArray) -> Again | None:
        """Return what the same devices add to the error of an average, or None where none reports again."""
        if not self._repeats:
            return None
        return Again(self._repeats, value, float(functional.min()), float(functional.max()))

    def _with_devices(self, errors: FloatArray, functional: FloatArray) -> FloatArray:
        """Return the errors of an average with what each node adds where devices report several times."""
        if not self._repeats:
            return errors
        away = functional - float(functional @ self.fitted)
        return np.append(errors, away * np.sqrt(self._repeats * self.fitted))

    def _solve(self, several: Sequence[FloatArray], root: float, weights: FloatArray) -> None:
        """Put the weights for each functional, shape (M, 2, K), where they belong."""
        from arcwise.analysis.estimators.programs import Near, Programs  # loads scipy

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


def covariance(averages: Sequence[AnyAverage]) -> FloatArray:
    """Return the estimated covariances of averages over the same reports, shape (M, M)."""
    errors = np.array([average.errors for average in averages])
    result: FloatArray = errors @ errors.T
    return result


def possible(low: float, high: float, *, least: float) -> tuple[float, float]:
    """Return the ends of an interval in order, and from `least` to 1: of a share 0, of a difference -1."""
    low, high = (min(max(end, least), 1.0) for end in (low, high))
    return min(low, high), max(low, high)


def difference_interval(
    over: AnyAverage, under: AnyAverage, whole: float, level: float
) -> tuple[float, float]:
    """Return the interval of a number x from averages whose means are at least x and ``whole - x``."""
    root = narrowed_root(over, under, whole, level)
    return whole - under.upper(root), over.upper(root)


def narrowed_root(over: AnyAverage, under: AnyAverage, whole: float, level: float) -> float:
    """Return how many standard errors both bounds of one number take.

    The number x cannot be at both ends of the room between the two means, which are at least x and
    ``whole - x``: where the room is wide beside the standard error, each end can miss on one side only, and
    takes fewer standard errors (Imbens and Manski 2004). The room is the mean of the two averages' sum less
    the whole, whatever the population is; half a standard error is taken off its estimate.
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
    """Return a smooth fit to each of two parts, shape (2, N): EM while it predicts the other part better."""
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
