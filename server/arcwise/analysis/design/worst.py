"""The worst case over *all* inputs of rows with stochastic rounding between nodes.

An input between two nodes has the mixture of their rows. So its expected loss is ``(1-f) A(x) + f B(x)``.
Here f is the position of x between the nodes, from 0 to 1, and A and B are the losses of the two rows. This
module maximises such mixtures. Coordinates: nodes at equal distances on [-1, 1] (see `program`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.typing import FloatArray, IntArray

    Curves = Callable[[IntArray, FloatArray], tuple[FloatArray, FloatArray]]


class Peaks(NamedTuple):
    """For each pair of neighbouring nodes, shape (S,): the largest expected loss and its fraction."""

    value: FloatArray
    fraction: FloatArray


def node_losses(rows: FloatArray, outputs: FloatArray, power: float) -> FloatArray:
    """Return ``E|y-x|^power`` at each node, shape (N,); node s is at ``-1 + 2s/(N-1)``."""
    nodes = np.linspace(-1.0, 1.0, len(rows))
    losses: FloatArray = np.einsum("ij,ij->i", rows, np.abs(outputs - nodes[:, None]) ** power)
    return losses


def variance_peaks(second_moments: FloatArray) -> Peaks:
    """Return the exact peak of the variance between neighbouring nodes, for rows unbiased at the nodes.

    `second_moments`, shape (N,), holds ``E y^2`` of each row; node s is at ``-1 + 2s/(N-1)``.

    Let v and v' be the variances at two nodes at the distance h. The variance of the mixture is
    ``(1-f) v + f v' + f (1-f) h^2``, because the mixture is unbiased too. This is concave in f, so its
    maximum over [0, 1] is at ``f = 1/2 + (v' - v) / (2 h^2)``, moved into [0, 1].
    """
    nodes = np.linspace(-1.0, 1.0, len(second_moments))
    step = 2.0 / (len(nodes) - 1)
    variance = second_moments - nodes**2
    fraction = np.clip(0.5 + np.diff(variance) / (2 * step**2), 0.0, 1.0)
    value = (1 - fraction) * variance[:-1] + fraction * variance[1:] + fraction * (1 - fraction) * step**2
    return Peaks(value, fraction)


def row_curves(rows: FloatArray, outputs: FloatArray, power: float) -> Curves:
    """Return the function (pair, fraction) -> (A, B): losses ``E|y-x|^power`` of both rows at an input."""
    step = 2.0 / (len(rows) - 1)

    def curves(pair: IntArray, fraction: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = -1.0 + step * (pair + fraction)
        loss = np.abs(outputs - x[:, None]) ** power
        return np.einsum("ij,ij->i", rows[pair], loss), np.einsum("ij,ij->i", rows[pair + 1], loss)

    return curves


def row_pieces(
    nodes: int, outputs: FloatArray, power: float, pairs: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return pieces (pair, left, right) of the first `pairs` gaps between nodes, for `mixture_maximum`.

    Losses ``|y-x|^power`` are convex in x, so any pieces are valid. For power 1, pieces that end at the
    outputs have linear losses, so the chords of `mixture_maximum` are exact.
    """
    position = (outputs + 1.0) * (nodes - 1) / 2.0
    kinks = position[(position > 0.0) & (position < pairs)]
    parts = 1 if power == 1.0 else 4
    edges = np.unique(np.concatenate([kinks, np.arange(pairs * parts + 1) / parts]))
    pair = np.floor(0.5 * (edges[:-1] + edges[1:])).astype(np.int64)
    return pair, edges[:-1] - pair, edges[1:] - pair


def _chord_peaks(
    curves: Curves, pair: IntArray, left: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for each piece an upper bound, the fraction where it is, and the mixture's value there.

    A and B are convex, so they lie below their chords. So the mixture lies below a parabola.
    """
    a0, b0 = curves(pair, left)
    a1, b1 = curves(pair, right)
    width = right - left
    start = (1 - left) * a0 + left * b0
    slope = (1 - left) * (a1 - a0) + left * (b1 - b0) + width * (b0 - a0)
    bend = width * ((b1 - b0) - (a1 - a0))
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.where(bend < 0.0, np.clip(-slope / (2 * bend), 0.0, 1.0), 0.0)
    share = np.where((bend < 0.0) & np.isfinite(vertex), vertex, (slope + bend > 0.0).astype(float))
    fraction = left + share * width
    a, b = curves(pair, fraction)
    return start + share * (slope + share * bend), fraction, (1 - fraction) * a + fraction * b


def mixture_peaks(curves: Curves, pair: IntArray, left: FloatArray, right: FloatArray) -> Peaks:
    """Return for each pair the largest value found on its pieces, close to the peak, and its fraction."""
    _, fraction, value = _chord_peaks(curves, pair, left, right)
    order = np.lexsort((value, pair))
    last = np.flatnonzero(np.diff(pair[order], append=pair.max() + 1))
    best = order[last]
    return Peaks(value[best], fraction[best])


def mixture_maximum(curves: Curves, pair: IntArray, left: FloatArray, right: FloatArray) -> float:
    """Return an upper bound of the maximum over all pieces, at most a factor ``1 + 1e-10`` too large.

    The method is branch and bound. A piece is finished if its upper bound is not above the largest value
    found. Other pieces are halved, which divides the distance between chord and curve by four. `curves` maps
    (pair, fraction) to (A, B), each convex in the fraction on every piece. Each of the n pieces goes from
    `left` to `right`, as fractions within `pair`.
    """
    reached = ceiling = 0.0
    while True:
        upper, fraction, value = _chord_peaks(curves, pair, left, right)
        reached = max(reached, float(value.max()))
        # Below this width, chord and curve differ only by rounding.
        kept = (upper > reached * (1 + 1e-10)) & (right - left > 1e-12)
        ceiling = max(ceiling, float(upper[~kept].max(initial=0.0)))
        if not kept.any():
            return max(reached, ceiling)
        pair, left, right, fraction = pair[kept], left[kept], right[kept], fraction[kept]
        inner = (fraction > left) & (fraction < right)
        middle = np.where(inner, fraction, 0.5 * (left + right))
        pair = np.concatenate([pair, pair])
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
