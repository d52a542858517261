"""Exact tests: whether two samples come from one population, or one sample from a given population.

Under either hypothesis the law of the counts is known: two samples of one population are a random division of
all their reports, and a given population gives each code a known probability. So p-values from simulations of
this law are exact for any number of reports and any population. The statistic looks for plausible differences
between populations: waves over the population's ranks, from the longest to the shortest (Neyman 1937). It
uses as many of them as show the largest difference (Fan 1996).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.grid import first_cell, wave_phases
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.likelihood.linear_maps import code_laws
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray, IntArray

_WAVES = 32
"""The most waves. On an interval, the crests of the shortest wave are a sixteenth of the population apart."""

_FAINTEST = 1e-6
"""Waves fainter in the reports than this part of the clearest wave are rounding errors."""

_DRAWS, _FEWEST_DRAWS = 999, 199
_CELLS = 1 << 22
"""Most counts drawn at a time. If `_DRAWS` draws have more counts, only `_FEWEST_DRAWS` are made."""

_NEVER = 1e-6  # most expected reports of all codes regarded as impossible, together
_LARGEST = 10**9  # most reports that numpy can divide at random


@dataclass(frozen=True)
class SmoothTest:
    """The outcome of a test of one hypothesis.

    The statistic is the largest of ``(z_1^2 + ... + z_m^2 - m) / sqrt(2 m)`` over m, with z the standardised
    waves, and `waves` is the m of the maximum. A small m means that the overall position of people differs, a
    large m that details differ. `draws` is the number of draws under the hypothesis for the p-value. The test
    treats each report as one from another device. `note` says how often caps let a device report; it is "" if
    they allow one report.
    """

    hypothesis: str
    p: float
    statistic: float
    waves: int
    draws: int
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the attributes, without an empty `note`."""
        return {name: each for name, each in asdict(self).items() if each != ""}

    def words(self, level: float) -> str:
        """Return the outcome at a level in words: a p-value up to ``1 - level`` speaks against it.

        With few draws, even the smallest possible p-value may exceed ``1 - level``; the words then say so.
        """
        smallest = self.p * (self.draws + 1) < 1.5
        if self.p <= 1.0 - level + 1e-9:
            verdict = "the reports speak against it"
        elif smallest:
            verdict = f"{self.draws} draws are too few to decide at level {level:g}"
        else:
            verdict = "no sign against it"
        given = ", if each report is from another device" if self.note else ""
        return f"{self.hypothesis}: {verdict} ({'p <= ' if smallest else 'p = '}{self.p:.2g}){given}"


def same_population(mechanism: Mechanism, counts: ArrayLike, other: ArrayLike) -> SmoothTest:
    """Test whether two samples come from one population, without assumptions about it.

    Both arrays hold integer numbers of reports per code, with at least one report each. No device is in both
    samples.

    Under the hypothesis, given all reports together, every division of them into samples of these sizes is
    equally likely (Fisher's permutation test). The waves, too, depend only on all reports together. So the
    p-value is exact: it is at most alpha with a probability of at most alpha.
    """
    first, second = (np.asarray(each).astype(np.int64) for each in (counts, other))
    sizes = int(first.sum()), int(second.sum())
    if not min(sizes):
        raise ParameterError("counts and other must hold at least one report each")
    pooled = first + second
    kernel = mechanism.kernel
    fitted = fit_held_out(mechanism, pooled.astype(np.float64)).probabilities
    # Add a little mass to each node: codes that only come from places without people are possible too.
    nodes = len(fitted)
    fitted = (1.0 - 1e-6) * fitted + 1e-6 / nodes
    scores = _scores(mechanism, fitted, code_laws(kernel, fitted[None])[0])
    scores -= pooled @ scores / pooled.sum()
    generator = np.random.default_rng([*first.tolist(), *second.tolist()])  # equal counts give equal answers
    # The scores of all reports sum to 0, so either sample is sufficient: the smaller one is drawn.
    smaller, n = min((first, sizes[0]), (second, sizes[1]), key=lambda each: each[1])
    rest = (sum(sizes) - n) / sum(sizes)

    def draw(number: int) -> FloatArray:
        if sum(sizes) < _LARGEST:
            parts = generator.multivariate_hypergeometric(pooled, n, number, method="marginals")
            return (parts @ scores) / math.sqrt(n * rest)
        # Drawing with replacement makes the variance larger, by 1 / rest. Other differences are below 1e-4: a
        # small part of this many reports seldom contains a report twice, and the waves of a large part are
        # normal.
        return (generator.multinomial(n, pooled / sum(sizes), number) @ scores) / math.sqrt(n)

    waves = (smaller @ scores) / math.sqrt(n * rest)
    return _tested("both samples come from one population", waves, draw, kernel.codes)


def same_as(mechanism: Mechanism, counts: ArrayLike, law: FloatArray) -> SmoothTest:
    """Test whether a sample comes from a given population.

    The counts are integer numbers of reports per code, with at least one report. `law` is the population's
    distribution over the nodes, shape (N,), as `simulate.node_law` returns it.
    """
    observed = np.asarray(counts).astype(np.int64)
    n = int(observed.sum())
    if not n:
        raise ParameterError("counts must hold at least one report")
    codes = code_laws(mechanism.kernel, law[None])[0]
    codes /= codes.sum()
    # Waves over the whole domain, since people may be where the given population has no one.
    scores = _scores(mechanism, 0.5 * law + 0.5 / len(law), codes)
    generator = np.random.default_rng(observed.tolist())

    def draw(number: int) -> FloatArray:
        return (generator.multinomial(n, codes, number) @ scores) / math.sqrt(n)

    waves = (observed @ scores) / math.sqrt(n)
    found = _tested("the sample comes from the given population", waves, draw, len(codes))
    # Regardless of the waves, the population hardly ever gives one of these codes, and no draw contains them.
    never = codes * (n * len(codes)) < _NEVER
    return replace(found, p=1.0 / (found.draws + 1)) if observed[never].any() else found


def _scores(mechanism: Mechanism, fitted: FloatArray, codes: FloatArray) -> FloatArray:
    """Return the score of each code for each wave, shape (K, J): uncorrelated under the law `codes`, mean 0.

    A wave is a cosine of the rank that `fitted` gives to a node; on a circle there are sines too. The score
    of a code is the mean of the wave over the values behind reports of this code. Each wave is made
    uncorrelated with all longer ones.
    """
    kernel = mechanism.kernel
    start = first_cell(mechanism)
    ordered = np.roll(fitted, -start)
    ranks = np.cumsum(ordered) - ordered / 2
    number = min(_WAVES, kernel.nodes - 1)
    phases = wave_phases(ranks, number, circular=kernel.circular)
    raised = np.roll(ordered * (1.0 + np.cos(phases)), start, axis=1)  # the maps take distributions
    totals = raised.sum(axis=1, keepdims=True)
    raised = np.vstack([fitted, raised / totals])
    laws = code_laws(kernel, raised)
    means = ((laws[1:] * totals - laws[0]) / laws[0]).T
    means -= codes @ means
    factor: FloatArray = np.asarray(np.linalg.qr(np.sqrt(codes)[:, None] * means, mode="r"))
    sizes = np.abs(np.diag(factor))
    # A window hides a wave if the window spans a whole number of the wave's periods; the reports show longer
    # and shorter waves.
    seen = np.flatnonzero(sizes > _FAINTEST * max(float(sizes.max()), 1e-9))
    if not len(seen):
        return np.zeros((kernel.codes, 1))
    means = means[:, seen]
    factor = np.asarray(np.linalg.qr(np.sqrt(codes)[:, None] * means, mode="r"))
    scores: FloatArray = np.linalg.solve(factor.T, means.T).T
    return scores


def _tested(hypothesis: str, waves: FloatArray, draw: Callable[[int], FloatArray], codes: int) -> SmoothTest:
    """Return the test with the rank of the observed statistic among those drawn under the hypothesis.

    `waves` are the observed standardised waves, shape (J,). `draw` takes a number M and returns M draws of
    such waves under the hypothesis, shape (M, J), each computed from `codes` counts.
    """
    draws = _DRAWS if codes * _DRAWS <= _CELLS else _FEWEST_DRAWS
    statistic, orders = _largest(waves[None])
    found, left = [], draws
    while left:
        number = min(left, max(_CELLS // codes, 1))
        found.append(_largest(draw(number))[0])
        left -= number
    # A draw that equals the observed statistic counts as reaching it; rounding may make them differ by this.
    least = statistic[0] - 1e-9 * max(abs(statistic[0]), 1.0)
    reached = int((np.concatenate(found) >= least).sum())
    return SmoothTest(hypothesis, (1 + reached) / (draws + 1), float(statistic[0]), int(orders[0]), draws)


def _largest(waves: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return each row's largest standardised sum of first squares, and its number of squares, shapes (M,)."""
    number = np.arange(1, waves.shape[1] + 1)
    sums = (np.cumsum(waves**2, axis=1) - number) / np.sqrt(2.0 * number)
    best = np.argmax(sums, axis=1)
    return sums[np.arange(len(sums)), best], best + 1
