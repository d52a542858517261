"""The least number of modes of a population, and the finest detail that its reports resolve.

The fitted distribution has many peaks that do not exist in the population: where noise hides details, the
likelihood does not determine them. So modes are counted by a test. The number is the smallest k for which
some distribution with k modes explains the reports as well as any distribution does, up to chance.
"""

from __future__ import annotations

import math
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.estimators.histogram import Modes, most_prominent
from arcwise.analysis.grid import bin_edges, first_cell, wave_phases
from arcwise.analysis.likelihood.linear_maps import code_laws, node_means

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator

    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

_MOST = 12  # modes counted at most
_WAVES = 32  # waves over the domain that the test uses: enough for `_MOST` modes
_FINEST = 128  # waves among which the shortest resolved wave is searched
_FAINT = 0.5  # a wave is left out if even its largest possible size is below this many standard errors

_CLEAR = 3.0
"""A frequency is resolved if its largest possible wave is at least this many standard errors high."""

_SHARPEST = 300.0
"""If the largest possible wave is more standard errors high than this, the test assumes fewer devices.

A more precise test would detect how values fall on the grid.
"""

_BINS = 4
"""Bins per half wave: with fewer bins, a histogram is further from the values than the fit."""

_CELLS = 64  # cells that the test uses at most

_DRAWS = 29
"""Samples drawn from the nearest distribution with k modes.

The distribution is rejected if the reports are further from it than all samples.
"""

_FEW_DRAWS, _FAR = 4, 8.0
"""After `_FEW_DRAWS` draws, a statistic `_FAR` standard deviations above their mean is rejected."""

_CERTAIN = 5.0
"""A squared distance this many standard deviations above its mean is rejected without any draws."""

_ALL_DRAWS = 60
"""Draws for all numbers of modes together. If they run out, the number of modes is still a lower bound."""

_NEVER = 1e-6  # least expected reports of a code, for the code to be used
_TIE = 1e-6  # smaller statistics are rounding errors
_LITTLE = 1e-9  # share of people spread over all cells, so that cells without people have a shape
_MOST_STEPS = 20_000  # most steps of a least squares problem, which takes some hundred at most
_COST = 2.0  # squared distance that each step of a distribution costs
_STEPS = 30  # most steps of a search


def count_modes(mechanism: Mechanism, frequencies: FloatArray, devices: float, fitted: FloatArray) -> Modes:
    """Return a lower bound of the number of modes of the population, at the level 0.95.

    `frequencies` is the share of each code among the reports, shape (K,), as precise as the shares of
    `devices` independent reports.

    Reports are described by waves over the domain: the scores of the codes for each wave, made uncorrelated,
    with unit variance. The statistic for k is the least squared distance from the observed waves to the waves
    of a distribution with k modes, minus the least squared distance to those of any distribution. It is
    compared with the statistics of reports drawn from the nearest distribution with k modes.
    """
    waves = _Waves(mechanism, fitted, devices)
    seen = waves.of(frequencies)
    least, spikes = waves.nearest(seen)
    # Seeded by the reports, so that equal reports give equal answers.
    draws = repeat(np.random.default_rng(np.frombuffer(frequencies.tobytes(), np.uint32)), _ALL_DRAWS)
    number = 1
    for k in range(1, _MOST + 1):
        starts = [most_prominent(heights, k, circular=waves.circular) for heights in (waves.heights, spikes)]
        cuts = next((each for each in starts if len(each) == waves.turns(k)), None)
        if cuts is None:  # the nearest distribution of all, some spikes, has fewer than k modes
            break
        number = k
        if not _rejected(waves, seen, waves.search(seen, cuts), least, draws):
            break
    return Modes(number, waves.resolved)


def _rejected(
    waves: _Waves, seen: FloatArray, nearest: _Nearest, least: float, draws: Iterator[Generator]
) -> bool:
    """Return whether the reports rule out every distribution with as many modes as the nearest one."""
    observed = nearest.distance - least
    if observed <= _TIE:
        return False
    if observed > waves.furthest:
        return True
    law = waves.law(waves.flattened(seen, nearest))
    drawn: list[float] = []
    for generator in draws:
        again = waves.of(generator.multinomial(int(waves.devices), law) / int(waves.devices))
        unbound = waves.nearest(again)[0]
        # The search may stop as soon as this draw is known to be nearer than the reports.
        drawn.append(waves.search(again, nearest.cuts, unbound + observed).distance - unbound)
        if drawn[-1] >= observed:
            return False
        far = len(drawn) >= _FEW_DRAWS and observed > np.mean(drawn) + _FAR * np.std(drawn, ddof=1)
        if far or len(drawn) == _DRAWS:
            return True
    return False


class _Nearest(NamedTuple):
    """The nearest distribution with a given number of modes: its squared distance, heights and turns."""

    distance: float
    heights: FloatArray
    cuts: list[int]


class _Waves:
    """Scores of the reports for waves over the domain, and distributions with nearly the same scores.

    Distributions are constant on cells with the widths `widths`, shape (M,); on these the fit has the heights
    `heights`, shape (M,). `furthest` is the largest squared distance due to chance. `resolved` is the number
    of bins for a histogram: `_BINS` for each half wave of the shortest resolved wave, or 0 if the bins would
    be no wider than a node's cell.
    """

    def __init__(self, mechanism: Mechanism, fitted: FloatArray, devices: float) -> None:
        kernel = self._kernel = mechanism.kernel
        self.circular = kernel.circular
        self._start = first_cell(mechanism)
        parts = np.diff(bin_edges(mechanism))
        size = -(-kernel.nodes // _CELLS)
        first = np.arange(0, kernel.nodes, size)
        self._cell_of = np.arange(kernel.nodes) // size
        self.widths = np.add.reduceat(parts, first)
        ordered = np.roll(fitted, -self._start)
        self.heights = np.add.reduceat(ordered, first) / self.widths
        # Within a cell people are spread as in the fit: an atom is on two nodes.
        within = ordered + _LITTLE * parts
        self._within = within / np.add.reduceat(within, first)[self._cell_of]

        places = (np.arange(kernel.nodes) + 0.5) / kernel.nodes
        phases = wave_phases(places, min(_FINEST, kernel.nodes - 1), circular=kernel.circular)
        raised = np.roll(np.vstack([np.zeros_like(phases[:1]), np.cos(phases)]) + 1.0, self._start, axis=1)
        laws = code_laws(kernel, raised / raised.sum(axis=1, keepdims=True))
        self._codes = code_laws(kernel, fitted[None])[0]
        # Only half of the chances are from the fit: otherwise a report from a place without fitted people
        # would outweigh all other reports together.
        chances = (self._codes + laws[0]) / 2.0
        scale = np.sqrt(devices / np.where(chances * devices > _NEVER, chances, math.inf))
        shifts = (laws[1:] - laws[0]) * scale
        sizes = np.sqrt((shifts**2).sum(axis=1))
        clear = np.flatnonzero(sizes >= _CLEAR)
        bins = _BINS * (int(clear[-1]) + 1) if len(clear) else 1
        self.resolved = bins if bins < kernel.nodes else 0
        taken = min(1.0, _SHARPEST / max(float(sizes.max()), _TIE))
        self.devices, scale = devices * taken**2, scale * taken
        kept = np.flatnonzero(sizes[:_WAVES] * taken >= _FAINT)
        factor, _ = np.linalg.qr(shifts[kept if len(kept) else [0]].T)
        self._scores = (factor.T * scale).T
        # The squared distance of the population's own waves from the observed waves is due to chance alone:
        # nearly a weighted sum of chi-square variables. If the population has k modes, the nearest
        # distribution with k modes is no further.
        spread = np.atleast_2d(np.cov(self._scores.T, aweights=self._codes, ddof=0)) / self.devices
        self.furthest = float(np.trace(spread) + _CERTAIN * math.sqrt(2.0) * np.linalg.norm(spread))
        columns = np.roll(node_means(kernel, self._scores.T), -self._start, axis=1)
        columns -= (self._codes @ self._scores)[:, None]
        self._columns = np.add.reduceat(columns * self._within, first, axis=1)
        columns = self._columns * self.widths
        turns = 2 if kernel.circular else 1
        self._sums = np.cumsum(np.pad(np.tile(columns, turns), ((0, 0), (1, 0))), axis=1)
        self._lengths = np.cumsum(np.append(0.0, np.tile(self.widths, turns)))

    def of(self, frequencies: FloatArray) -> FloatArray:
        """Return the waves of reports, shape (J,); the waves of the fit are 0."""
        waves: FloatArray = (frequencies - self._codes) @ self._scores
        return waves

    def law(self, heights: FloatArray) -> FloatArray:
        """Return the distribution of the codes that results from heights, shape (K,)."""
        nodes = np.roll((heights * self.widths)[self._cell_of] * self._within, self._start)
        law = code_laws(self._kernel, nodes[None] / nodes.sum())[0]
        total: FloatArray = law / law.sum()
        return total

    def turns(self, k: int) -> int:
        """Return the number of turns of heights with k modes."""
        return 2 * k if self.circular else 2 * k - 1

    def nearest(self, seen: FloatArray) -> tuple[float, FloatArray]:
        """Return the waves' squared distance to those of the nearest distribution, and its heights."""
        distance, mass = _nearest_mixture(self._columns, seen)
        return distance, mass / self.widths

    def search(self, seen: FloatArray, cuts: list[int], enough: float = 0.0) -> _Nearest:
        """Return the nearest distribution with as many turns as `cuts`, up to local minima.

        A distribution turns at either end of a mode's or a valley's plateau. Each cut moves to the other end
        of its plateau, so the distance can only shrink. The search stops below the distance `enough`.
        """
        best = self._turning(seen, cuts)
        for _ in range(_STEPS):
            if best.distance < enough:
                break
            found = self._turning(seen, self._moved(best))
            if found.distance > best.distance - _TIE:
                break
            best = found
        return best

    def flattened(self, seen: FloatArray, nearest: _Nearest) -> FloatArray:
        """Return heights near the nearest ones with fewer steps, shape (M,).

        The nearest distribution has steps due to noise, and reports drawn from it show fewer false modes than
        reports of a flat population. Neighbouring steps are merged, starting with those that change the
        distance least, as long as the merges cost at most 2 each on average (Akaike 1974). Merging creates no
        new mode.
        """
        first = np.flatnonzero(np.append(True, np.diff(nearest.heights) != 0.0))
        distance, removed = nearest.distance, 0
        heights = nearest.heights
        while len(first) > 1:
            widths = np.add.reduceat(self.widths, first)
            mass = np.add.reduceat(heights * self.widths, first)
            columns = np.add.reduceat(self._columns * self.widths, first, axis=1)
            both = (mass[1:] + mass[:-1]) / (widths[1:] + widths[:-1])
            level = mass / widths
            rest = self._columns @ (heights * self.widths) - seen
            moved = columns[:, 1:] * (both - level[1:]) + columns[:, :-1] * (both - level[:-1])
            distances = ((rest[:, None] + moved) ** 2).sum(axis=0)
            pair = int(np.argmin(distances))
            removed += 1
            if distances[pair] > distance + _COST * removed:
                break
            level[pair : pair + 2] = both[pair]
            heights = np.repeat(level, np.diff(np.append(first, len(heights))))
            first = np.delete(first, pair + 1)
        return heights

    def _turning(self, seen: FloatArray, cuts: list[int]) -> _Nearest:
        """Return the nearest distribution that turns at the cuts.

        A distribution that rises between two cuts is a mixture of uniform distributions that end at the
        second cut.
        """
        cells = len(self.widths)
        ends = [*cuts, cuts[0] + cells] if self.circular else [0, *cuts, cells]
        pieces = list(enumerate(pairwise(ends)))  # pieces with even numbers rise
        start = np.concatenate([np.full(b - a, a) if i % 2 else np.arange(a, b) for i, (a, b) in pieces])
        end = np.concatenate([np.arange(a, b) + 1 if i % 2 else np.full(b - a, b) for i, (a, b) in pieces])
        lengths = self._lengths[end] - self._lengths[start]
        distance, mass = _nearest_mixture((self._sums[:, end] - self._sums[:, start]) / lengths, seen)
        heights = mass / lengths
        for i, (a, b) in pieces:
            part = heights[a - ends[0] : b - ends[0]]
            part[:] = np.cumsum(part[::-1])[::-1] if i % 2 else np.cumsum(part)
        return _Nearest(distance, np.roll(heights, ends[0]), cuts)

    def _moved(self, nearest: _Nearest) -> list[int]:
        """Return other cuts at which the distribution turns: the far ends of its plateaus."""
        heights, cells = nearest.heights, len(self.widths)
        cuts = list(nearest.cuts)
        for i, old in enumerate(nearest.cuts):
            cut = old
            low = cuts[i - 1] - (cells if i == 0 else 0) if i or self.circular else 0
            high = cuts[i + 1] if i + 1 < len(cuts) else cuts[0] + cells if self.circular else cells
            sign = 1.0 if (i % 2 == 1) == self.circular else -1.0
            left = sign * heights[(cut - 1) % cells] if cut > low else -math.inf
            right = sign * heights[cut % cells] if cut < high else -math.inf
            step = -1 if left >= right else 1
            end = low if step < 0 else high
            level = sign * max(left, right)
            while cut != end and heights[(cut - (step < 0)) % cells] == level:
                cut += step
            cuts[i] = cut
        turn = cells * (cuts[0] // cells) if self.circular else 0
        return [cut - turn for cut in cuts]


def _nearest_mixture(columns: FloatArray, seen: FloatArray) -> tuple[float, FloatArray]:
    """Return the least squared distance of `seen`, shape (J,), to a mixture of columns, and the weights.

    Let D be the columns minus `seen`. The weights w >= 0 that minimise ``|D w|^2 + (1 - sum w)^2`` are, up to
    a factor, the weights with the sum 1 that minimise ``|D w|^2``. If d is the latter minimum, the former is
    ``d / (1 + d)``.
    """
    from scipy.optimize import nnls

    scale = math.sqrt(len(seen))
    stacked = np.vstack([(columns - seen[:, None]) / scale, np.ones(columns.shape[1])])
    weights, root = nnls(stacked, np.append(np.zeros(len(seen)), 1.0), maxiter=_MOST_STEPS)
    total = float(weights.sum())
    return len(seen) * root**2 / max(1.0 - root**2, _TIE), weights / total
