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
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np

from arcwise.analysis.estimators.grid import first_cell
from arcwise.analysis.estimators.places import Places
from arcwise.analysis.likelihood.distribution import leap_stages, thin, uniform_start
from arcwise.analysis.likelihood.em import EMSteps
from arcwise.analysis.likelihood.linear_maps import node_means
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from arcwise.mechanisms.base import Mechanism

    FloatArray: TypeAlias = NDArray[np.float64]
    IntArray: TypeAlias = NDArray[np.int64]

__all__ = [
    "METHOD",
    "SMOOTHED",
    "USUAL",
    "AnyAverage",
    "Average",
    "Bounds",
    "Evidence",
    "covariance",
    "difference_interval",
    "narrowed_root",
    "share_interval",
]

METHOD = "from the fitted distribution; bounds that hold for every population"
SMOOTHED = "the value is of a smoothed fit, the interval is not"
"""The method of a quantile or a share, and the note that goes with each."""

_MOST_NODES = 288
"""Nodes up to which the program has a variable for each. On more, weights are alike in blocks of codes."""

_BLOCKS = 128
"""Blocks of codes as long as nodes are far apart in a grid of so many."""

_LOOSE = 0.1
"""Of the squared distance: how far the program may be from solved. The weights are valid at any time."""

_BARRIER = 5.0
"""Of the squared distance: how far it is from solved at the start, in the barrier's terms."""

_MOST_STEPS = 30
_TRIALS = 8
"""Solutions for one functional, until the distance is about the one that was asked for."""

USUAL = 1.8
"""Standard errors for which the weights of shares are the best: those of level 0.95, for every level.

So a higher level has a wider interval; at 0.9999 other weights would make it narrower by about 6 %.
"""

_TOLD = 0.5
"""Standard errors taken off the estimated room between two bounds, before it narrows them."""

_TIE = 0.25
"""Nats: a fit to one part must predict the other one better by so much to be taken."""

_MOST_EM_STEPS = 3000

_SPREAD = 1e-6
"""Of the fit, spread over all nodes: codes that only nodes without people give are possible too."""

_LEAST = 1e-200
"""The least probability of a node, and the least multiplier."""


class Average(NamedTuple):
    """An average of weights over the reports, whose mean is at least a functional of the population.

    Attributes
    ----------
    value
        The average.
    weights
        Of both parts, shape (2, K').
    errors
        Shape (2 K',): what each code adds to the average's error. The product of the errors of two averages
        over the same reports is their estimated covariance.
    most
        The largest weight that a report could have.
    n
        How many reports there are.
    """

    value: float
    weights: FloatArray
    errors: FloatArray
    most: float
    n: float

    @property
    def variance(self) -> float:
        """An estimate of the average's variance."""
        return float(self.errors @ self.errors)

    def upper(self, root: float) -> float:
        """Return the upper bound that is `root` standard errors up.

        As Wilson's for a proportion, the standard error is that at the bound: as many reports of the largest
        weight as take the average there are part of the variance. So where no report has it yet, the bound is
        the one that a count of 0 has.
        """
        room = self.most - self.value
        if room <= 0.0 or root <= 0.0:  # at a level of a half no standard error is added
            return self.value
        scale, spread = self.n / root**2, self.variance * self.n
        linear = room - spread / room
        return self.value + (linear + math.sqrt(linear * linear + 4.0 * spread * (scale + 1.0))) / (
            2.0 * (scale + 1.0)
        )

    def roots(self, bound: float) -> float:
        """Return how many standard errors up a bound is: `upper`, the other way round."""
        up, room = bound - self.value, self.most - self.value
        if up <= 0.0:
            return 0.0
        spread = self.variance * self.n
        at_bound = spread + (room - spread / room - up) * up if up < room else 0.0
        return up * math.sqrt(self.n / at_bound) if at_bound > 0.0 else math.inf


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


class Bounds:
    """Upper bounds of linear functionals of the node distribution, for one array of counts.

    Parameters
    ----------
    mechanism
        With any kernel, on any domain.
    counts
        Reports per code, shape (K,), whole numbers, at least one report.

    Attributes
    ----------
    n
        How many reports there are.
    places
        Which nodes see people of a part of the domain: what functionals are made of.
    fitted
        A node distribution, shape (N,), by cells: for first guesses of where a bound is.
    """

    def __init__(self, mechanism: Mechanism, counts: FloatArray) -> None:
        self.n = float(counts.sum())
        self.places = Places(mechanism)
        self._mechanism = mechanism
        kernel = mechanism.kernel
        self._order = (np.arange(kernel.nodes) + first_cell(mechanism)) % kernel.nodes
        self._block = 1 if kernel.nodes <= _MOST_NODES else -(-kernel.nodes // _BLOCKS)
        parts = thin(counts, 2)
        self._known = bool(parts.sum(axis=1).all())
        self._parts = self._merged(parts)
        self._sizes = self._parts.sum(axis=1)
        self.fitted: FloatArray = np.full(kernel.nodes, 1.0 / kernel.nodes)
        if self._known:
            both = _fits(mechanism, parts[::-1])
            self.fitted = both.mean(axis=0)[self._order]
            self._programs = [_Program(self, fit) for fit in both]

    def average(self, functionals: FloatArray, root: float) -> Average:
        """Return an average whose mean is above a functional of the node distribution, whatever that is.

        Parameters
        ----------
        functionals
            Shape (A, N), by cells: any of them will do.
        root
            For how many standard errors the weights are to be the best.

        Notes
        -----
        Where the reports know no better bound than a functional's largest entry, it is that, without error.
        """
        if not self._known or not np.ptp(functionals[0]):
            most = float(functionals[0].max())
            return Average(most, np.full(self._parts.shape, most), np.zeros(self._parts.size), most, self.n)
        root = max(root, 0.1)  # at the lowest levels any weights will do
        weights = np.array([program.weights(functionals, root) for program in self._programs])
        sums = (self._parts * weights).sum(axis=1)
        errors = (weights - (sums / self._sizes)[:, None]) * np.sqrt(self._parts) / self.n
        return Average(float(sums.sum()) / self.n, weights, errors.ravel(), float(weights.max()), self.n)

    @cached_property
    def rows(self) -> FloatArray:
        """Code probabilities of the program's nodes, shape (M, K')."""
        return self._merged(self._mechanism.kernel.probabilities(self._order[self._knots]))

    @cached_property
    def _knots(self) -> IntArray:
        """Which nodes, by cells, the program has: all, or those between which means are straight lines.

        With weights that are alike in blocks of codes, a window's mean changes its slope only where the
        window begins or ends at a block. Other kernels' means are nearly straight, and `_Program.weights`
        adds what they are not.
        """
        kernel = self._mechanism.kernel
        if self._block == 1:
            return np.arange(kernel.nodes)
        taken = self._order % self._block == 0
        if isinstance(kernel, WindowKernel):
            ends = self._order + kernel.window
            taken |= (ends % kernel.codes if kernel.circular else ends) % self._block == 0
        taken[[0, -1]] = True
        return np.flatnonzero(taken)

    def at_knots(self, functional: FloatArray) -> FloatArray:
        """Return numbers at the program's nodes between which straight lines are above a functional."""
        if self._block == 1:
            return functional
        knots = self._knots
        inside = functional.copy()
        inside[knots] = -np.inf
        between = np.maximum.reduceat(inside, knots)  # from a knot to the next one
        result: FloatArray = np.maximum(functional[knots], np.maximum(between, np.roll(between, 1)))
        return result

    def mass(self, fit: FloatArray) -> FloatArray:
        """Return about the distribution over the program's nodes that a node distribution is."""
        knots = self._knots
        ordered = fit[self._order]
        if self._block > 1:
            nearest = np.searchsorted((knots[1:] + knots[:-1]) / 2, np.arange(len(ordered)))
            ordered = np.bincount(nearest, weights=ordered, minlength=len(knots)).astype(np.float64)
        return (1.0 - _SPREAD) * ordered + _SPREAD / len(ordered)

    def means(self, weights: FloatArray) -> FloatArray:
        """Return the mean of a weight per code for each node, shape (N,), by cells."""
        if self._block == 1:
            return self.rows @ weights
        every = np.repeat(weights, self._block)[: self._mechanism.kernel.codes]
        return node_means(self._mechanism.kernel, every)[self._order]

    def _merged(self, per_code: FloatArray) -> FloatArray:
        """Return numbers per code added up over those that share a weight, shape (M, K) to (M, K')."""
        if self._block == 1:
            return per_code
        starts = np.arange(0, per_code.shape[1], self._block)
        merged: FloatArray = np.add.reduceat(per_code, starts, axis=1)
        return merged


def covariance(averages: Sequence[AnyAverage]) -> FloatArray:
    """Return the estimated covariances of averages over the same reports, shape (M, M)."""
    errors = np.array([average.errors for average in averages])
    result: FloatArray = errors @ errors.T
    return result


def share_interval(bounds: Evidence, most: FloatArray, rest: FloatArray, level: float) -> tuple[float, float]:
    """Return the interval of a share, from functionals that are at least it and at least its complement.

    Parameters
    ----------
    bounds
        Of the counts.
    most, rest
        Of shape (A, N), by cells: above the share of a part of the domain, and above that of all else.
    level
        Of the interval.
    """
    over, under = (bounds.average(each, USUAL) for each in (most, rest))
    low, high = difference_interval(over, under, 1.0, level)
    low, high = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
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


class _Program:
    """The weights that are best where the population is about a fit.

    With ``H = n P diag(1/q) P'`` the information about the node distribution at the fit g, of all
    distributions f at the distance ``(f - g)' H (f - g) = root^2`` from it the one with the largest
    ``phi . f`` is the least favourable: the reports hardly tell it from g. Its stationarity,
    ``H (f - g) + nu = lambda phi + z`` with z >= 0, says that the weights ``(n (f - g)P/q + nu) / lambda``
    have means of at least phi. What rounding and an unfinished solution lack is added, so that this holds
    whatever the solver did.
    """

    def __init__(self, bounds: Bounds, fit: FloatArray) -> None:
        from scipy.linalg.lapack import dpotrf, dpotrs

        self._bounds = bounds
        self._fit = bounds.mass(fit)
        rows = bounds.rows
        self._codes = np.maximum(self._fit @ rows, _LEAST)
        scaled = rows * np.sqrt(bounds.n / self._codes)
        self._information: FloatArray = scaled @ scaled.T
        self._matrix = np.empty_like(self._information)
        # Where the solver starts; its matrix there gives about the standard error of a functional.
        self._start = 0.9 * self._fit + 0.1 / len(self._fit)
        barrier = _BARRIER / len(self._fit) / self._start**2
        self._factor = dpotrf(self._information + np.diag(barrier), lower=0)[0]
        self._level = dpotrs(self._factor, np.ones(len(self._fit)), lower=0)[0]
        self._reach = 1.0
        """By how many of these standard errors a functional moves for one of the distance: a guess."""
        half = (np.cumsum(self._fit) <= 0.5).astype(np.float64)
        if half.any():
            *_, self._reach = self._tried(half, USUAL * self._spread(half), USUAL)

    def weights(self, functionals: FloatArray, root: float) -> FloatArray:
        """Return weights for one of some functionals, shape (K',): the best for a bound `root` errors up."""
        options = [self._bounds.at_knots(each) for each in functionals]
        spreads = [root * self._spread(each) for each in options]
        about = [float(each @ self._fit) + spread for each, spread in zip(options, spreads, strict=True)]
        chosen = int(np.argmin(about))
        functional, phi, spread = functionals[chosen], options[chosen], spreads[chosen]
        if (
            float(phi.max()) - float(phi @ self._fit) < 0.05 * spread
        ):  # no bound is lower than the functional's largest entry
            return np.full(len(self._codes), float(functional.max()))
        change, pull, _ = self._tried(phi, spread, root)
        if pull <= _LEAST:
            return np.full(len(self._codes), float(functional.max()))
        weights: FloatArray = (change @ self._bounds.rows) * (self._bounds.n / pull) / self._codes
        return weights + float((functional - self._bounds.means(weights)).max())

    def _tried(self, phi: FloatArray, spread: float, root: float) -> tuple[FloatArray, float, float]:
        """Return a change of the fit at about the distance `root`, its multiplier, and by how many spreads.

        Where phi can move a little for nothing and then hardly, the distance jumps: the value is bracketed,
        and the change whose distance is nearest is taken.
        """
        middle = float(phi @ self._fit)
        low, high, reach = 0.0, 0.98 * (float(phi.max()) - middle) / spread, self._reach
        off, best = math.inf, (np.zeros_like(phi), _LEAST, reach)
        for _ in range(_TRIALS):
            reach = min(reach, high)
            change, pull = self._solved(phi, middle + reach * spread, root)
            distance = math.sqrt(max(float(change @ self._information @ change), 0.0)) / root
            miss = abs(math.log(max(distance, _LEAST)))
            if miss < off:
                off, best = miss, (change, pull, reach)
            if 0.6 < distance < 1.7 or (distance <= 0.6 and reach == high):
                break
            low, high = (reach, high) if distance < 1.0 else (low, reach)
            reach /= min(max(distance, 0.2), 5.0) ** 0.7
            if not low < reach < high:
                reach = 0.5 * (low + high)
        return best

    def _spread(self, phi: FloatArray) -> float:
        """Return about the standard error of a functional, for first guesses."""
        from scipy.linalg.lapack import dpotrs

        solved = dpotrs(self._factor, phi, lower=0)[0]
        variance = float(phi @ solved) - float(phi @ self._level) ** 2 / float(self._level.sum())
        return math.sqrt(max(variance, 1e-20))

    def _solved(self, phi: FloatArray, value: float, root: float) -> tuple[FloatArray, float]:
        """Return about the nearest change of the fit that gives phi a value, and its multiplier lambda.

        A primal-dual interior point method with Mehrotra's corrector, and one step length for both.
        """
        from scipy.linalg.lapack import dpotrf, dpotrs

        g, information, matrix = self._fit, self._information, self._matrix
        n, enough = len(g), _LOOSE * root**2
        a, b = np.stack([np.ones(n), phi]), np.array([1.0, value])
        near = 0.02 * abs(value - float(phi @ g))
        up = self._start * (phi - phi.min() + 0.02 * np.ptp(phi))
        up /= up.sum()
        here, there = float(phi @ self._start), float(phi @ up)
        part = min(max((value - here) / (there - here), 0.0), 0.95) if there > here else 0.0
        f = self._start + part * (up - self._start)
        z = _BARRIER * root**2 / n / f
        y = np.array([0.0, 1.0])
        fixed = information @ g
        for _ in range(_MOST_STEPS):
            lack = fixed - information @ f + y @ a + z
            slack = b - a @ f
            if float(f @ z) + float(np.abs(lack).max()) < enough and float(np.abs(slack).max()) < near:
                break
            np.copyto(matrix, information)  # a new array of this size would come from the system each time
            matrix.ravel()[:: n + 1] += z / f
            # LAPACK reads columns: to it this symmetric matrix is its own transpose.
            triangle, failed = dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
            level = dpotrs(triangle, a.T, lower=0)[0]
            (p, q), (_, r) = (a @ level).tolist()
            determinant = p * r - q * q
            if failed or not determinant > 0.0:
                break  # at the end of what floats can tell
            schur = np.array([[r, -q], [-q, p]]) / determinant
            mu = float(f @ z) / n
            complement = -f * z
            for corrector in (False, True):
                right = dpotrs(triangle, lack + complement / f, lower=0)[0]
                dy = schur @ (slack - a @ right)
                df = right + level @ dy
                dz = (complement - z * df) / f
                reach = 1.0 / max(1.0, -float(min((df / f).min(), (dz / z).min())) / 0.99)
                if not corrector:
                    ahead = float((f + reach * df) @ (z + reach * dz)) / n
                    complement = (ahead / mu) ** 3 * mu - f * z - df * dz
            moved = f + reach * df
            if not math.isfinite(float(moved.sum())):
                break
            f, z, y = np.maximum(moved, _LEAST), z + reach * dz, y + reach * dy
        return f - g, max(float(y[1]), _LEAST)


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
