"""A fitted node distribution as a histogram in the unit of the domain, and the nearest one with k modes.

Heights turn at cuts, which are numbered so that cut c is before cell c. On an interval the heights rise up to
the first cut and turn at each cut: k modes have ``2 k - 1`` cuts. On a circle there is one more cut in front,
at which heights begin to rise. Pieces between two cuts may be empty.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.estimators.result import Distribution
from arcwise.analysis.grid import SINGLE_VALUES, bin_edges, coarse_notes, first_cell, values_of
from arcwise.analysis.likelihood.distribution import FOLDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.analysis.likelihood.em import EMFit
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

_CANDIDATES = 4  # this many modes beyond k are also tried for the nearest k-modal histogram


class Modes(NamedTuple):
    """The least number of modes of a population, and the number of bins as wide as the resolved details.

    `bins` is 0 if the reports resolve details as narrow as a node's cell.
    """

    number: int
    bins: int


def histogram(
    mechanism: Mechanism, fitted: EMFit, modes: Modes | None = None, *, method: str | None = None
) -> Distribution:
    """Return a fit as a histogram in the unit of the domain.

    `method` describes how the fit was made; by default, it is a fit of `fit_held_out`.
    """
    smoothing = " (averaging iterates smooths)" if method is None else ""
    notes = [
        *coarse_notes(mechanism),
        f"the log-likelihood is within {fitted.gap:.3g} of its largest value{smoothing}",
        "no band: the cells have no intervals of their own",
    ]
    if method is None and fitted.iterations == 0:
        notes.insert(0, "uniform: there are too few reports to hold any out")
    if mechanism.end_zones:
        notes.insert(0, "the first and the last bin are the end zones: their mass is known, its place is not")
    if method is None:
        method = f"EM averaged by {FOLDS}-fold held-out likelihood, {fitted.iterations} steps in the mean"
    probabilities = np.roll(fitted.probabilities, -first_cell(mechanism))
    edges, values = bin_edges(mechanism), values_of(mechanism)
    places: FloatArray | None = None
    mean: float | None = None
    if not mechanism.kernel.circular and not mechanism.end_zones:
        units = mechanism.node_units(np.arange(mechanism.kernel.nodes, dtype=np.float64))
        mean = float(mechanism.domain.from_unit(fitted.probabilities @ units))
        notes.append("fitted_mean is biased towards the middle of the domain, and has no interval")
    if values is not None and not mechanism.end_zones:
        places = mechanism.domain.from_unit(values.units(values.first))
    single = places is not None and len(places) <= SINGLE_VALUES
    return Distribution(
        tuple(mechanism.domain.from_unit(edges).tolist()),
        tuple(probabilities.tolist()),
        method,
        tuple(notes),
        None if places is None else tuple(places.tolist()),
        mean,
        None if modes is None else modes.number,
        mechanism.domain.length / modes.bins if modes and modes.bins and not single else None,
    )


def as_drawn(distribution: Distribution, *, circular: bool) -> FloatArray:
    """Return the probabilities of the bins as charts show them, shape (N,).

    They have as many modes as the reports show, and are even over bins as wide as the resolution. If the
    modes of a distribution were not counted, the probabilities are those of the fit.
    """
    edges, fitted = np.array(distribution.edges), np.array(distribution.probabilities)
    if distribution.modes is None:
        return fitted
    cells, wide = len(fitted), distribution.resolution
    bins = cells if wide is None else min(max(round((edges[-1] - edges[0]) / wide), 1), cells)
    parts = np.array_split(np.arange(cells), bins)
    first = [part[0] for part in parts]
    # Scaled by a power of two, which is exact, so that squares do not overflow in any unit.
    lengths = np.ldexp(np.diff(edges), -int(np.frexp(edges[-1] - edges[0])[1]))
    widths = np.add.reduceat(lengths, first)
    heights = np.divide(np.add.reduceat(fitted, first), widths, out=np.zeros(bins), where=widths > 0)
    drawn = k_modal(heights, widths, distribution.modes, circular=circular)
    probabilities: FloatArray = np.repeat(drawn, [len(part) for part in parts]) * lengths
    return probabilities


def most_prominent(heights: FloatArray, k: int, *, circular: bool) -> list[int]:
    """Return the cuts of the k most prominent modes of heights, shape (M,), or of all if there are fewer.

    Modes are removed one after the other, each with the adjacent valley that it exceeds the least. The
    remaining modes have the largest persistence (Edelsbrunner, Letscher and Zomorodian 2002).
    """
    first = int(np.argmin(heights)) if circular else 0
    line = np.roll(heights, -first)
    distinct = np.flatnonzero(np.append(True, line[1:] != line[:-1]))  # the first cell of each plateau
    signs = np.sign(np.diff(line[distinct], prepend=-np.inf, append=-np.inf))
    turns = np.flatnonzero(signs[1:] != signs[:-1])  # mode, valley, ..., mode
    cells, levels = distinct[turns].tolist(), line[distinct[turns]].tolist()
    while len(cells) > 2 * k - 1:
        drops = [
            min(left, right) - valley
            for left, valley, right in zip(levels[::2], levels[1::2], levels[2::2], strict=False)
        ]
        valley = 2 * int(np.argmin(drops)) + 1
        lower = valley if levels[valley + 1] < levels[valley - 1] else valley - 1
        del cells[lower : lower + 2], levels[lower : lower + 2]
    return [first, *(first + cell for cell in cells)] if circular else cells


def k_modal(heights: FloatArray, widths: FloatArray, k: int, *, circular: bool) -> FloatArray:
    """Return the nearest heights with at most k modes, shape (M,): in least squares, weighted by widths.

    Between two cuts the nearest heights are those of isotonic regression (pooling adjacent violators; Barlow,
    Bartholomew, Bremner and Brunk 1972). The best cuts follow from the costs of all pieces, among the cuts of
    the k + 4 most prominent modes. The mass stays the same.
    """
    cuts = most_prominent(heights, k + _CANDIDATES, circular=circular)
    first = cuts.pop(0) if circular else 0
    line, parts = np.roll(heights, -first), np.roll(widths, -first)
    cuts = sorted({0, *(cut - first for cut in cuts), len(line)})
    costs = [_costs(sign * line, parts, cuts) for sign in (1.0, -1.0)]
    best, steps = costs[0][0], []
    for piece in range(1, 2 * k):
        total = best[:, None] + costs[piece % 2]
        steps.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [len(cuts) - 1]
    for step in reversed(steps):
        ends.append(int(step[ends[-1]]))
    result = np.empty(len(line))
    for piece, (start, end) in enumerate(pairwise([0, *(cuts[end] for end in reversed(ends))])):
        sign = (-1.0) ** piece
        if start < end:
            *_, (_, blocks) = _pooled(sign * line[start:end], parts[start:end])
            result[start:end] = sign * np.repeat([mean for mean, _, _ in blocks], [n for *_, n in blocks])
    return np.roll(result, first)


def _costs(heights: FloatArray, widths: FloatArray, cuts: list[int]) -> FloatArray:
    """Return the costs of making heights rise between two cuts, shape (C, C): infinite to an earlier cut."""
    costs = np.full((len(cuts), len(cuts)), np.inf)
    np.fill_diagonal(costs, 0.0)
    for row, start in enumerate(cuts[:-1]):
        spent = [cost for cost, _ in _pooled(heights[start:], widths[start:])]
        costs[row, row + 1 :] = [spent[end - start - 1] for end in cuts[row + 1 :]]
    return costs


def _pooled(
    heights: FloatArray, widths: FloatArray
) -> Iterator[tuple[float, list[tuple[float, float, int]]]]:
    """After each cell, yield the cost of making heights up to it rise, and blocks of (mean, width, cells)."""
    cost = 0.0
    blocks: list[tuple[float, float, int]] = []
    for height, part in zip(heights.tolist(), widths.tolist(), strict=True):
        mean, width, cells = height, part, 1
        while blocks and blocks[-1][0] >= mean:
            before, wide, many = blocks.pop()
            both = wide + width
            cost += wide * width / both * (before - mean) ** 2
            mean, width, cells = (wide * before + width * mean) / both, both, cells + many
        blocks.append((mean, width, cells))
        yield cost, blocks
