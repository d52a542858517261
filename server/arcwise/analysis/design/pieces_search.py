"""The best m-piece density by optimisation, for many values of epsilon, without assumptions on its shape.

At the worst input, the search minimises ``sum_i h_i A_i / sum_i h_i w_i`` over the ends of m pieces and their
relative levels ``1 <= h_i <= e^epsilon``, where w_i is the width of a piece and A_i the integral of the loss
over it. Two facts make this exact and fast:

- The least ratio is at most v exactly if ``min sum_i h_i (A_i - v w_i) <= 0`` (Dinkelbach 1967). For given
  ends this is linear in each level separately, so a level is 1 or e^epsilon.
- With ends on a grid, the minimum over all ends and levels is a shortest path through (grid point, number of
  pieces, level): dynamic programming, with no local minima.

Then every end is moved, within the two grid cells next to it, to the minimum of the same expression. The
search does not assume where the high levels are. It finds that they form one window, and that more pieces do
not help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.threads import one_thread
from arcwise.checks import checked_bool, checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import check_epsilon

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.typing import BoolArray, FloatArray, IntArray

_CHUNK = 1024
"""Values of epsilon per batch, so that the arrays stay small."""

_ROUNDS = 60
"""Dinkelbach's iteration converges faster than linearly and never needs this many steps."""


class FoundPieces(NamedTuple):
    """Densities on the outputs at the worst input, one for each of n values of epsilon.

    `error`, shape (n,), is the expected loss; `edges`, shape (n, m+1), are the ends of the pieces, and
    `levels`, shape (n, m), their densities. Pieces that are not needed have the width 0.
    """

    error: FloatArray
    edges: FloatArray
    levels: FloatArray


class _Loss:
    """``|y - x|^power`` of outputs y in [0, 1] at an input x, and a grid that is fine where windows end."""

    def __init__(self, power: float, x: float) -> None:
        self.power, self.x = power, x
        fine = np.union1d(np.linspace(0.0, 1.0, 65), np.geomspace(1e-6, 1.0, 129))
        self.grid = np.union1d(x - x * fine, x + (1.0 - x) * fine)

    def __call__(self, y: FloatArray) -> FloatArray:
        loss: FloatArray = np.abs(y - self.x) ** self.power
        return loss

    def integral(self, y: FloatArray) -> FloatArray:
        z = y - self.x
        value: FloatArray = np.sign(z) * np.abs(z) ** (self.power + 1.0) / (self.power + 1.0)
        return value


@one_thread()
def search_pieces(
    m: int,
    epsilons: ArrayLike,
    power: float = 1.0,
    *,
    circular: bool = False,
    outputs: tuple[float, float] = (0.0, 1.0),
) -> FoundPieces:
    """Return the best densities with at most m pieces at the worst input, by optimisation.

    `power`, at least 1, is that of the loss. Inputs are in [0, 1], and outputs in the range `outputs`, which
    contains [0, 1]. The worst input is the end of [0, 1] with fewer outputs beyond it, or 0 if both ends have
    equally many. With `circular`, [0, 1] is a circle and the worst input is 1/2.

    Examples
    --------
    >>> search_pieces(5, [1.0]).error.round(6)
    array([0.377541])
    """
    m = checked_integer("m", m, 1)
    power = checked_real("power", power, least=1)
    circular = checked_bool("circular", circular)
    numbers = np.array([check_epsilon(float(epsilon)) for epsilon in np.ravel(np.asarray(epsilons))])
    low, high = (checked_real("outputs", end) for end in outputs)
    if low > 0.0 or high < 1.0 or (circular and (low, high) != (0.0, 1.0)):
        raise ParameterError(f"outputs must contain [0, 1], and equal it on a circle, got {outputs!r}")
    length = high - low
    # An input with fewer outputs nearby has a larger error. At 1/2 the circular distance is |y - 1/2|.
    x = 0.5 if circular else 0.0 if -low <= high - 1.0 else 1.0
    loss = _Loss(float(power), (x - low) / length)
    parts = [_search(m, numbers[i : i + _CHUNK], loss) for i in range(0, len(numbers), _CHUNK)]
    if not parts:
        return FoundPieces(np.empty(0), np.empty((0, m + 1)), np.empty((0, m)))
    error, edges, levels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return FoundPieces(error * length**power, low + length * edges, levels / length)


def _search(m: int, epsilons: FloatArray, loss: _Loss) -> FoundPieces:
    level = np.stack([np.ones_like(epsilons), np.exp(epsilons)])
    edges = np.tile(np.append(0.0, np.ones(m)), (len(epsilons), 1))  # start with the uniform density
    high = np.zeros((len(epsilons), m), dtype=bool)
    error = _ratio(edges, high, level, loss)
    for _ in range(_ROUNDS):
        ends, fresh_high = _shortest(m, error, level, loss)
        # Move ends to the best place in the cells around them, update the error, and repeat.
        fresh = error
        for _ in range(4):
            fresh_edges = _polish(ends, fresh_high, fresh, loss)
            fresh = _ratio(fresh_edges, fresh_high, level, loss)
        # The least sum for the error v has a ratio below v unless v is the least error.
        better = fresh < error * (1 - 1e-15)
        if not better.any():
            break
        error = np.where(better, fresh, error)
        edges[better], high[better] = fresh_edges[better], fresh_high[better]
    relative = np.where(high, level[1][:, None], 1.0)
    mass = (relative * np.diff(edges)).sum(axis=1, keepdims=True)
    return FoundPieces(error, edges, relative / mass)


def _shortest(m: int, error: FloatArray, level: FloatArray, loss: _Loss) -> tuple[IntArray, BoolArray]:
    """Return ends (grid indices, shape (n, m+1)) and levels (high or not, shape (n, m)) of the least sum."""
    grid, n = loss.grid, len(error)
    cells = np.diff(loss.integral(grid))[:, None] - np.diff(grid)[:, None] * error
    cost = np.full((m, 2, n), np.inf)
    cost[0] = 0.0
    came = np.zeros((len(cells), m, 2, n), dtype=bool)
    for index, cell in enumerate(cells):
        if index:  # a new piece may begin here, at the other level
            switched = cost[:-1, ::-1]
            better = switched < cost[1:]
            came[index, 1:] = better
            cost[1:] = np.where(better, switched, cost[1:])
        cost += level * cell
    last, which = np.divmod(np.argmin(cost.reshape(2 * m, n), axis=0), 2)
    ends = np.full((n, m + 1), len(grid) - 1)
    high = np.zeros((n, m), dtype=bool)
    everyone, piece = np.arange(n), last.copy()
    high[everyone, piece] = which == 1
    for index in range(len(cells) - 1, 0, -1):
        starts = came[index, piece, which, everyone]
        ends[everyone[starts], piece[starts]] = index
        piece = piece - starts
        which = np.where(starts, 1 - which, which)
        high[everyone, piece] = which == 1
    ends[:, 0] = 0
    return ends, high


def _polish(ends: IntArray, high: BoolArray, error: FloatArray, loss: _Loss) -> FloatArray:
    """Return the ends, each moved within its two cells to the least ``sum_i h_i (A_i - v w_i)``.

    The derivative by an end between the levels h and h' is ``(h - h') (L(end) - v)``. Bisection finds where
    its sign changes.
    """
    grid = loss.grid
    inner = (ends > 0) & (ends < len(grid) - 1)
    left = np.where(inner, grid[np.maximum(ends - 1, 0)], grid[ends])
    right = np.where(inner, grid[np.minimum(ends + 1, len(grid) - 1)], grid[ends])
    drop = np.zeros(ends.shape)  # the sign of h - h'
    drop[:, 1:-1] = high[:, :-1].astype(float) - high[:, 1:].astype(float)
    for _ in range(60):
        middle = 0.5 * (left + right)
        rising = drop * (loss(middle) - error[:, None]) > 0.0
        left, right = np.where(rising, left, middle), np.where(rising, middle, right)
    return np.where(inner, 0.5 * (left + right), grid[ends])


def _ratio(edges: FloatArray, high: BoolArray, level: FloatArray, loss: _Loss) -> FloatArray:
    """Return the expected loss of these pieces, shape (n,)."""
    relative = np.where(high, level[1][:, None], 1.0)
    value: FloatArray = (relative * np.diff(loss.integral(edges))).sum(axis=1)
    value /= (relative * np.diff(edges)).sum(axis=1)
    return value
