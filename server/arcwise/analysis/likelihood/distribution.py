"""The distribution of the population: an average of EM's iterates, weighted by held-out reports.

The most likely distribution of noisy reports is a few spikes. EM starts from the uniform distribution and
roughens with each step, so stopping early smooths. Averaging neighbours after each step (smoothed EM) is
another smoothing, and dropping the least likely nodes at the end suits users who share a few values. The best
choice for a population is unknown, so iterates of all three are averaged. Each iterate is weighted by how
well it predicts held-out reports in five folds, and is fitted again to all reports. Steps are taken in leaps
(`EMSteps.leap`); numbers of steps count the single steps to which leaps are equivalent. A last step on all
reports turns the population's distribution into that of the very users who reported.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.grid import cell_edges, first_cell, values_of
from arcwise.analysis.likelihood.em import EMFit, EMSteps, smoother
from arcwise.kernels.circulant import CirculantKernel
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from arcwise.kernels.base import Kernel
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

FOLDS = 5

# Weights are exp(_TRUST * score), because a score has errors, from the reports and from their random split.
_TRUST = 0.5

# The prior of a part of EM's path is the growth of the logarithm of the steps over it, some 8 in all. The
# iterate at which plain EM would stop has this prior too, and so have the iterates of smoothed EM together.
_PLAIN = 8.0
_SMOOTHED = {10: 2.0, 20: 2.0, 40: 2.0, 80: 2.0}

# At the end of the path, nodes less likely than these shares of the most likely node are dropped, and the
# others take some further steps. The fit to one atom is then two to three times as close to its users from
# epsilon 1 on, and the fit to two adjacent values ten times as close at epsilon 8. With this prior the fit to
# a uniform population is 5 % further from its users at epsilon 0.5 and 5,000 reports; with twice this prior
# it is 9 % further.
_KEPT = {0.01: 0.5, 0.03: 0.5, 0.1: 0.5}
_KEPT_STEPS = 3

# Plain EM stops when a step gains fewer nats than this, times e^epsilon (`alternatives.plain_em`).
_TOLERANCE = 1e-3

# Numbers of steps are tied if their held-out log-likelihoods are this close (nats, all folds together).
_TIE = 1.0

# Most simulated reports of a uniform population in a held-out score.
_IMAGINED = 128

# From this many reports on, one fold scores as reliably as all folds: two data sets are fitted instead of
# six.
_MANY_REPORTS = 10**8

# A leap of EM steps is at most 1 / _LEAP of the steps taken, and 3000 steps then cost as much as 290. With
# leaps of a twelfth they cost 534, and the path's average was 0.3 % further from the users (25 populations,
# epsilon 1 to 4).
_LEAP = 3

# No leap starts after this many EM steps. At epsilon 0.5, 10^5 reports choose one or two thousand steps, and
# 10^8 reports twenty thousand. With a limit of 3000 steps, the error of the latter would be six times as
# large.
_MOST_STEPS = 100_000

# Limits of codes times stages times data sets. At the limit a fit takes some 60 ms, or some seconds for a
# wide kernel without structure: one of its stages takes as long as a stage with structure and N/20 times the
# codes. T steps take about ``5 sqrt(T)`` stages, and each stage costs as much as `_STAGE` further codes.
# Twice these limits gain nothing up to 10^6 reports.
_MOST_WORK = 5 * 2**20
_MOST_DENSE_WORK = 3 * 2**24
_STAGE = 500
_FEWEST_STEPS = 1000

# This many times the steps of the best score are enough to search for a better one: in 330 surveys (eleven
# populations, epsilon 0.5 to 6, 10^4 to 10^6 reports) no later score exceeded it by the tie.
_PATIENCE = 3

_LEAST = float(np.finfo(np.float64).tiny)


def fit_held_out(mechanism: Mechanism, counts: FloatArray) -> EMFit:
    """Return the average of EM's and smoothed EM's iterates, weighted by held-out reports, plus one step.

    The counts must be integers, with at least one report. The result's `iterations` is the average number of
    steps, with the same weights. It is 0 only if no report can be held out; the fit is then uniform.

    Splitting the counts at random (multinomial thinning) is equivalent to splitting the reports at random,
    because reports of one code are identical. The split is seeded by the counts, so equal counts give equal
    estimates.

    The score is that of the prediction ``(1-l) q + l q_start``, with q EM's fit to the n training reports and
    ``l = m/(n+m)``. This is as if m simulated reports from a uniform population were added: one per node, but
    at most 128, so that a fine grid does not drown the reports. Without simulated reports, a held-out code
    that is not among the training reports costs up to about epsilon nats. At a large epsilon a few such codes
    would outweigh all other reports and choose 0 steps. With many reports l vanishes.

    An iterate's weight is ``exp(score/2)`` times a prior. Along the path of EM the prior is uniform in the
    logarithm of the steps. The iterate at which plain EM would stop has as much prior as the path, because
    few held-out reports cannot distinguish it from the start. Smoothed EM has as much prior too, and the
    nodes kept at the end have about a fifth of it. Choosing the best iterate, as in cross-validation, would
    follow the chance of the split and could not mix two iterates.

    The average estimates the population. The users are a sample of it, and a report says more about its own
    user: by Bayes' rule the expected distribution of the users' nodes is one EM step on all reports. At a
    small epsilon this step changes hardly anything. At a large epsilon, reports are as good as values, and
    the step is essential.
    """
    kernel, start = mechanism.kernel, uniform_start(mechanism)
    held = thin(counts, FOLDS)
    if counts.sum() >= _MANY_REPORTS:
        held = held[:1]
    training = counts - held
    if not training.sum(axis=1).all():  # there is a single report, or all reports are in one fold
        return EMSteps(kernel, counts, start=start).current(0)
    # All reports are fitted as one more row besides the folds, which costs little and saves a second run.
    sets = np.vstack([training, counts])
    average = _Average(held, pseudo=min(kernel.nodes, _IMAGINED))
    tolerance = _TOLERANCE * math.exp(mechanism.epsilon)
    steps = EMSteps(kernel, sets, start=start)
    _follow(steps, average, tolerance, _most_steps(kernel, len(sets)))
    for share, prior in _KEPT.items():
        steps.keep(share)
        for _ in range(_KEPT_STEPS):
            steps.step()
        average.add(steps, prior)
    steps, smooth = EMSteps(kernel, sets, start=start), smoother(kernel)
    for number, prior in _SMOOTHED.items():
        while steps.iterations < number:
            steps.step(smooth)
        average.add(steps, prior)
    users = EMSteps(kernel, counts, start=np.maximum(average.probabilities, _LEAST))
    users.step()
    return replace(users.current(0), iterations=round(average.iterations) + 1)


class _Average:
    """The mean of iterates, each weighted by a prior times a power of its held-out likelihood."""

    def __init__(self, held: FloatArray, *, pseudo: int) -> None:
        # The held-out reports of all folds together are all reports: a single fold also counts for the folds
        # left out.
        self._held = held * (FOLDS / len(held))
        totals = self._held.sum() - held.sum(axis=1, keepdims=True)
        self._share = pseudo / (totals + pseudo)
        self._uniform: FloatArray | None = None
        self._top, self._weight = -math.inf, 0.0
        self._sum: FloatArray | float = 0.0
        self._steps = 0.0

    def add(self, steps: EMSteps, prior: float) -> float:
        """Add the current iterate of `steps`, whose last row fits all reports, and return the score.

        The first iterate that is added must be the start of EM.
        """
        codes = steps.codes[:-1]
        if self._uniform is None:
            self._uniform = codes.copy()
        gain = np.log((1.0 - self._share) * (codes / self._uniform) + self._share)
        score = float((self._held * gain).sum())
        if score > self._top:
            shrink = math.exp(_TRUST * (self._top - score))
            self._sum, self._weight, self._steps = (
                self._sum * shrink,
                self._weight * shrink,
                self._steps * shrink,
            )
            self._top = score
        weight = prior * math.exp(_TRUST * (score - self._top))
        self._sum = self._sum + weight * steps.probabilities[-1]
        self._weight += weight
        self._steps += weight * steps.iterations
        return score

    @property
    def probabilities(self) -> FloatArray:
        """The mean, shape (N,)."""
        return np.asarray(self._sum / self._weight)

    @property
    def iterations(self) -> float:
        """The mean number of steps."""
        return self._steps / self._weight


def _follow(steps: EMSteps, average: _Average, tolerance: float, limit: int) -> None:
    """Add the path of EM from its start to far past its best score, and to the stop of plain EM."""
    best, at = average.add(steps, math.log(2.0)), 0
    taken, likelihood, stopped = 0, float(steps.log_likelihood()[-1]), False
    while True:
        steps.leap(leap_stages(taken))
        before, taken = taken, steps.iterations
        score = average.add(steps, math.log((1 + taken) / (1 + before)))
        if score > best + _TIE:
            best, at = score, taken
        if not stopped:
            old, likelihood = likelihood, float(steps.log_likelihood()[-1])
            if likelihood - old < tolerance * (taken - before):
                average.add(steps, _PLAIN)
                stopped = True
        # Past its maximum the score only falls: stop well past it, and well below it. If EM hardly moves, the
        # score hardly falls either: stop far past the maximum.
        past = taken >= max(50, 2 * at) and score < best - 1.0
        if (stopped and past) or taken >= limit:
            return
        if stopped and taken >= max(_FEWEST_STEPS, _PATIENCE * at):
            return


def _most_steps(kernel: Kernel, sets: int) -> int:
    work, most = kernel.codes, _MOST_WORK
    if not isinstance(kernel, (WindowKernel, CirculantKernel)):
        work, most = work * max(1, kernel.nodes // 20), _MOST_DENSE_WORK
    return min(_MOST_STEPS, max(_FEWEST_STEPS, (most // (5 * sets * (work + _STAGE))) ** 2))


def leap_stages(taken: int) -> int:
    """Return the stages of the longest leap of at most a third of the steps taken, or 1."""
    return max(1, (math.isqrt(1 + 8 * taken // _LEAP) - 1) // 2)


def uniform_start(mechanism: Mechanism) -> FloatArray:
    """Return the node distribution of a uniform population: each node's share is the width of its cell.

    On a lattice each node's share is its share of the values.
    """
    values = values_of(mechanism)
    if values is not None:
        return np.roll((values.last - values.first + 1) / values.size, first_cell(mechanism))
    return np.roll(np.diff(cell_edges(mechanism)), first_cell(mechanism))


def thin(counts: FloatArray, folds: int, *, draw: int = 0) -> FloatArray:
    """Return the counts split at random into `folds` arrays that sum to them, shape (folds, K).

    Equal counts with equal `draw` are split in the same way.
    """
    left = counts.astype(np.int64)
    generator = np.random.default_rng([*left.tolist(), draw] if draw else left.tolist())
    parts = []
    for remaining in range(folds, 1, -1):
        part = generator.binomial(left, 1 / remaining)
        parts.append(part)
        left = left - part
    return np.array([*parts, left], dtype=np.float64)
