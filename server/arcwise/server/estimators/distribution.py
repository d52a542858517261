"""The distribution of the population: EM stopped where held-out reports are predicted best.

The most likely distribution of noisy reports is a few spikes. EM starts from the uniform distribution and
roughens as it goes; stopping early is the smoothing, and how early is chosen by cross-validation: five folds,
one number of steps for all, refit on all reports. Steps are taken in leaps (`EMSteps.leap`), so their number
is what the leaps amount to. The uniform distribution is left only where the held-out reports gain more than a
standard error by it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcwise.kernels.circulant import CirculantKernel
from arcwise.kernels.window import WindowKernel
from arcwise.server.estimators.em import EMFit, EMSteps, fit
from arcwise.server.estimators.few import join
from arcwise.server.estimators.grid import cell_edges, coarse_note, first_cell, values_of
from arcwise.server.estimators.result import Distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.kernels.base import Kernel
    from arcwise.mechanisms.base import Mechanism

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["distribution", "fit_held_out", "thin", "uniform_start"]

FOLDS = 5

# Numbers of steps whose held-out log-likelihoods are this close (nats, all folds together) are tied; the
# smallest is taken. A sampling error is many times larger; a larger tolerance would smooth too much.
_TIE = 0.25

# Standard errors by which the held-out log-likelihood must exceed that of a uniform population. Of uniform
# populations 1 % to 9 % exceed it (epsilon 0.5 to 4, interval and circle, 10^3 and 10^5 reports).
_STANDARD_ERRORS = 1.0

# Imagined reports of a uniform population in a held-out score, at most.
_IMAGINED = 128

# A leap of EM steps is at most such a part of the steps taken: the path stays within half a thousandth of the
# range (Wasserstein-1) of EM's own, and 3000 steps cost 534.
_LEAP = 12

# No leap starts past so many EM steps. At epsilon 0.5, 10^5 reports choose a thousand or two and 10^8 twenty
# thousand; held at 3000, their error would be six times as large.
_MOST_STEPS = 100_000

# Codes times stages: wide kernels stay within some seconds. T steps take about ``10 sqrt(T)`` stages, and one
# stage of a kernel without structure as long as one of N/20 times the codes with it.
_MOST_WORK = 2**24
_FEWEST_STEPS = 1000

# So many times the steps of the best score are enough to look for a better one: in 330 surveys (eleven
# populations, epsilon 0.5 to 6, 10^4 to 10^6 reports) none was found after it that exceeded it by the tie.
_PATIENCE = 3


def distribution(mechanism: Mechanism, fitted: EMFit, *, method: str | None = None) -> Distribution:
    """Return a fit as a histogram in the unit of the domain.

    Parameters
    ----------
    mechanism
        That the counts came from.
    fitted
        Of `fit_held_out`, unless `method` says otherwise.
    method
        In words, how the fit was made (`alternatives` has others).
    """
    smoothing = " (stopping early smooths)" if method is None else ""
    notes = [
        coarse_note(mechanism),
        f"the log-likelihood is within {fitted.gap:.3g} of its largest value{smoothing}",
        "no band: the cells have no intervals of their own",
    ]
    if method is None and fitted.iterations == 0:
        notes.insert(
            0,
            "0 steps were chosen: held-out reports were not predicted better than by a uniform population, "
            "or not by a standard error",
        )
    if mechanism.placement == "clamp":
        notes.insert(0, "the first and the last bin are the end zones: their mass is known, its place is not")
    if method is None:
        method = f"EM stopped by {FOLDS}-fold held-out likelihood after {fitted.iterations} steps"
    probabilities = np.roll(fitted.probabilities, -first_cell(mechanism))
    edges, values = cell_edges(mechanism), values_of(mechanism)
    places: FloatArray | None = None
    if values is not None:
        if not mechanism.kernel.circular:
            edges[[0, -1]] = -0.5 / values.steps, 1.0 + 0.5 / values.steps
        if mechanism.placement != "clamp":
            places = mechanism.domain.from_unit(values.units(values.first))
    return Distribution(
        tuple(mechanism.domain.from_unit(edges).tolist()),
        tuple(probabilities.tolist()),
        method,
        join(*notes),
        None if places is None else tuple(places.tolist()),
    )


def fit_held_out(mechanism: Mechanism, counts: FloatArray) -> EMFit:
    """Return EM's fit to all counts after the number of steps that predicts held-out reports best.

    Parameters
    ----------
    mechanism
        With any kernel, on any domain.
    counts
        Reports per code, shape (K,), whole numbers, at least one report.

    Notes
    -----
    Splitting the counts at random (multinomial thinning) is splitting the reports at random: reports of one
    code are alike. The split is seeded by the counts themselves, so equal counts give equal estimates.

    What is scored is not EM's fit q to the n training reports but ``(1-l) q + l q_start``, with
    ``l = m/(n+m)``: the prediction that also counts m imagined reports from a uniform population, one per
    node, but 128 at most, or a fine grid would drown the reports.
    Without it a held-out code that training never saw costs up to epsilon nats or so, and at a large epsilon
    a handful of these would outweigh all other reports and choose 0 steps. With many reports l vanishes.

    In a third of uniform populations the largest of many scores is above that of step 0, by chance. So 0
    steps are kept unless the gain of the best is more than its own standard error, from the variance over the
    reports of the log ratio of the two predictions: the rule of one standard error (Breiman, Friedman, Olshen
    and Stone 1984) for the simplest model only. Along the rest of the path it would smooth too
    much: there neighbours differ by little, and the tie of a quarter of a nat decides.
    """
    start = uniform_start(mechanism)
    held = thin(counts, FOLDS)
    training = counts - held
    if not training.sum(axis=1).all():  # a single report, or all in one fold
        return fit(mechanism.kernel, counts, iterations=0, start=start)
    # All reports go along with the folds: one more row costs little, and nothing has to be run again.
    steps = EMSteps(mechanism.kernel, np.vstack([training, counts]), start=start)
    limit = _most_steps(mechanism.kernel)
    pseudo = min(mechanism.kernel.nodes, _IMAGINED)
    share = (pseudo / (steps.totals[:-1] + pseudo))[:, None]
    uniform = steps.codes[:-1].copy()  # at step 0
    taken, scores, squares = [], [], []
    tied: list[tuple[float, EMFit]] = []  # those whose score is tied with the best, in order
    while True:
        taken.append(steps.iterations)
        gain = np.log((1.0 - share) * (steps.codes[:-1] / uniform) + share)
        gains = held * gain
        scores.append(float(gains.sum()))
        squares.append(float((gains * gain).sum()))
        best = int(np.argmax(scores))
        if scores[-1] >= scores[best] - _TIE:
            tied = [(score, fitted) for score, fitted in tied if score >= scores[best] - _TIE]
            tied.append((scores[-1], steps.current(-1)))
        # Past its maximum the score only falls: stop well behind it, and well below it.
        if steps.iterations >= max(50, 2 * taken[best]) and scores[-1] < scores[best] - 1.0:
            break
        # Where EM hardly moves any more, it hardly falls either: stop far behind it.
        if steps.iterations >= min(limit, max(_FEWEST_STEPS, _PATIENCE * taken[best])):
            break
        steps.leap(_stages(steps.iterations))
    variance = squares[best] - scores[best] ** 2 / counts.sum()
    if scores[best] <= _STANDARD_ERRORS * math.sqrt(max(variance, 0.0)):
        return fit(mechanism.kernel, counts, iterations=0, start=start)
    return tied[0][1]


def _most_steps(kernel: Kernel) -> int:
    work = kernel.codes
    if not isinstance(kernel, (WindowKernel, CirculantKernel)):
        work *= max(1, kernel.nodes // 20)
    return min(_MOST_STEPS, max(_FEWEST_STEPS, (_MOST_WORK // (10 * work)) ** 2))


def _stages(taken: int) -> int:
    """Return the stages of the longest leap of at most a twelfth of the steps taken, or 1."""
    return max(1, (math.isqrt(1 + 8 * taken // _LEAP) - 1) // 2)


def uniform_start(mechanism: Mechanism) -> FloatArray:
    """Return the node distribution of a uniform population: each node's share is the width of its cell.

    On a lattice it is its share of the values.
    """
    values = values_of(mechanism)
    if values is not None:
        return np.roll((values.last - values.first + 1) / values.size, first_cell(mechanism))
    return np.roll(np.diff(cell_edges(mechanism)), first_cell(mechanism))


def thin(counts: FloatArray, folds: int) -> FloatArray:
    """Return the counts split at random into `folds` arrays that add up to them, shape (folds, K)."""
    left = counts.astype(np.int64)
    generator = np.random.default_rng(left.tolist())
    parts = []
    for remaining in range(folds, 1, -1):
        part = generator.binomial(left, 1 / remaining)
        parts.append(part)
        left = left - part
    return np.array([*parts, left], dtype=np.float64)
