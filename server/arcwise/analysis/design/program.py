"""The linear program of a table with given output values, and its first-order model for moving them.

Coordinates: the interval is [-1, 1], the N nodes are at equal distances, the K outputs are symmetric about 0
(ascending). By symmetry of the problem the table may be symmetric, ``P[i, j] = P[N-1-i, K-1-j]``: the mean of
a table and its mirror image keeps every constraint, and its worst case is no larger. So each such pair of
cells shares a variable, which halves the program. With a prior the problem is not symmetric, and every cell
has its own variable.

The variables are the worst case t (with a prior, the expected loss), a level top[j] for each code, and the
excess of each cell over the low level. With ``P[i, j] = e^-epsilon top[j] + excess[i, j]`` and
``0 <= excess[i, j] <= (1 - e^-epsilon) top[j]`` the ratio within each column is at most e^epsilon. The
program is solved with HiGHS's dual simplex through `scipy.optimize.linprog`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from arcwise.analysis.design.worst import (
    Peaks,
    mixture_peaks,
    node_losses,
    row_curves,
    row_pieces,
    variance_peaks,
)

if TYPE_CHECKING:
    from arcwise.typing import FloatArray, IntArray

_RTOL = 1e-9
"""A cut is added if the worst case exceeds the program's by more than this."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal that a table is designed for, with the loss ``|y-x|^power``.

    If `unbiased`, ``E y = x`` at every node, and the loss with power 2 is the variance. `rounds` is False if
    every possible value is a node; otherwise inputs may be between two nodes. `prior` is the probability of
    each node. With a prior, the expected loss is minimised; without it, the worst case.
    """

    epsilon: float
    nodes: int
    power: float
    unbiased: bool
    rounds: bool = True
    prior: tuple[float, ...] | None = None

    @property
    def positions(self) -> FloatArray:
        """The positions of the nodes on [-1, 1], shape (N,)."""
        return np.linspace(-1.0, 1.0, self.nodes)

    @property
    def reach(self) -> float:
        """The least value of the largest output: (e^epsilon + 1) / (e^epsilon - 1) if unbiased, else 1.

        The report's mean must be 1 at one end and -1 at the other, with ratios of at most e^epsilon. Duchi's
        mechanism, with outputs of plus and minus this size, attains both.
        """
        return 1.0 / math.tanh(self.epsilon / 2) if self.unbiased else 1.0

    def peaks(self, rows: FloatArray, outputs: FloatArray) -> Peaks:
        """Return the worst case between neighbouring nodes; by symmetry, half of the pairs is enough.

        If no input is between nodes, it returns the loss at each node. With a prior, it returns the expected
        loss.
        """
        if self.prior is not None or not self.rounds:
            losses = node_losses(rows, outputs, self.power)
            value = losses if self.prior is None else np.array([self.prior @ losses])
            return Peaks(value, np.zeros(len(value)))
        pairs = self.nodes // 2
        if self.unbiased:
            peaks = variance_peaks(rows @ outputs**2)
            return Peaks(peaks.value[:pairs], peaks.fraction[:pairs])
        pieces = row_pieces(self.nodes, outputs, self.power, pairs)
        return mixture_peaks(row_curves(rows, outputs, self.power), *pieces)


class Cuts(NamedTuple):
    """Inputs at which the worst case is bounded: `fraction` of the way from node `pair` to the next."""

    pair: IntArray
    fraction: FloatArray


class Table(NamedTuple):
    """A solved program.

    `worst` is the largest expected loss over all inputs on [-1, 1]; with a prior, it is the expected loss.
    `rows` are probabilities, shape (N, K); `top` is the largest weight that each code may have, shape (K,).
    `cuts` are the inputs that were needed. `prices` are three arrays of multipliers: of the cuts, of the sums
    of rows, and of the means of rows, with the shapes (C,), (N,) and (N,). Those of the cuts are
    non-negative; with a prior there is one such multiplier. Multipliers of rows that are left out by symmetry
    are zero.
    """

    worst: float
    rows: FloatArray
    top: FloatArray
    outputs: FloatArray
    cuts: Cuts
    prices: tuple[FloatArray, FloatArray, FloatArray]


def _first_cuts(nodes: int, *, rounds: bool = True) -> Cuts:
    """Return the first inputs: one half of the nodes, and one half of the midpoints between nodes.

    If no input is between nodes, it returns only the nodes.
    """
    if not rounds:
        return Cuts(np.arange((nodes + 1) // 2), np.zeros((nodes + 1) // 2))
    pair = np.repeat(np.arange(nodes // 2), 2)
    return Cuts(np.append(pair, pair[-1]), np.append(np.tile([0.0, 0.5], nodes // 2), 1.0))


class _Builder:
    """The program's columns, and its rows as sparse matrices."""

    def __init__(self, goal: Goal, outputs: FloatArray) -> None:
        n, k = goal.nodes, len(outputs)
        self.goal, self.outputs, self.low = goal, outputs, math.exp(-goal.epsilon)
        cells, codes, self.held = np.arange(n * k), np.arange(k), np.arange(n)
        if goal.prior is None:
            cells, codes = np.minimum(cells, cells[::-1]), np.minimum(codes, codes[::-1])
            self.held = self.held[: (n + 1) // 2]  # the rows with constraints on sum and mean
        canonical, inverse = np.unique(cells, return_inverse=True)
        self.code = codes
        self.tops = int(codes.max()) + 1
        self.first_excess = 1 + self.tops
        self.first_move = self.first_excess + len(canonical)
        self.cell = self.first_excess + inverse.reshape(n, k)
        self.column_top = 1 + self.code[canonical % k]
        # Loss and mean are divided by their largest size, so that all entries are of order 1.
        self.largest = max(1.0, float(np.abs(outputs).max()))
        self.scale = self.largest**goal.power

    def sums(self, row: IntArray, node: IntArray, factor: FloatArray, columns: int) -> Any:
        """Return a matrix; its row ``row[r]`` adds up ``sum_j factor[r, j] P[node[r], j]``."""
        k = factor.shape[1]
        at = np.repeat(row, k)
        cell, top = self.cell[node].ravel(), np.tile(1 + self.code, len(row))
        data = np.concatenate([factor.ravel(), self.low * factor.ravel()])
        where = np.concatenate([at, at]), np.concatenate([cell, top])
        return sparse.csr_matrix((data, where), shape=(int(row.max()) + 1, columns))

    def moves(self, row: IntArray, node: IntArray, slope: FloatArray, rows: FloatArray, columns: int) -> Any:
        """Return the derivatives of the sums of `sums` by the shift of each pair of outputs.

        With a prior, the derivatives are by the shift of each single output.
        """
        k = slope.shape[1]
        # The outputs of a pair move apart together. A single output in the middle does not move.
        sign = np.sign(np.arange(k) - (k - 1) / 2) if self.goal.prior is None else np.ones(k)
        data = (slope * rows[node] * sign).ravel()
        where = np.repeat(row, k), self.first_move + np.tile(self.code, len(row))
        return sparse.csr_matrix((data, where), shape=(int(row.max()) + 1, columns))

    def cut_terms(self, cuts: Cuts) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """Return (row, node, loss, derivative of the loss by the output) of both rows of every cut.

        With a prior there is one row, to which every node contributes.
        """
        goal = self.goal
        x = -1.0 + (cuts.pair + cuts.fraction) * 2.0 / (goal.nodes - 1)
        distance = self.outputs - (x if goal.prior is None else goal.positions)[:, None]
        loss = np.abs(distance) ** goal.power / self.scale
        slope = goal.power * np.sign(distance) * np.abs(distance) ** (goal.power - 1.0) / self.scale
        if goal.prior is not None:
            weight = np.array(goal.prior)[:, None]
            return np.zeros(goal.nodes, np.int64), np.arange(goal.nodes), weight * loss, weight * slope
        row = np.tile(np.arange(len(x)), 2)
        node = np.concatenate([cuts.pair, cuts.pair + 1])
        share = np.concatenate([1 - cuts.fraction, cuts.fraction])[:, None]
        return row, node, share * np.tile(loss, (2, 1)), share * np.tile(slope, (2, 1))

    def program(self, cuts: Cuts, rows: FloatArray | None) -> dict[str, Any]:
        """Return the arguments of `linprog`; with `rows`, outputs may move, to first order."""
        goal, k = self.goal, len(self.outputs)
        columns = self.first_move + (0 if rows is None else self.tops)
        held = self.held
        one = np.ones((len(held), k))
        equal, right = [self.sums(held, held, one, columns)], [np.ones(len(held))]
        if goal.unbiased:
            mean = self.sums(held, held, one * self.outputs / self.largest, columns)
            if rows is not None:
                mean = mean + self.moves(held, held, one / self.largest, rows, columns)
            equal.append(mean)
            right.append(goal.positions[held] / self.largest)
        row, node, loss, slope = self.cut_terms(cuts)
        worst = self.sums(row, node, loss, columns)
        if rows is not None:
            worst = worst + self.moves(row, node, slope, rows, columns)
        count = worst.shape[0]
        t = sparse.csr_matrix((-np.ones(count), (np.arange(count), np.zeros(count, int))), (count, columns))
        cells = len(self.column_top)
        at = np.arange(cells)
        ratio = sparse.csr_matrix(
            (
                np.concatenate([np.ones(cells), np.full(cells, self.low - 1.0)]),
                (np.concatenate([at, at]), np.concatenate([self.first_excess + at, self.column_top])),
            ),
            shape=(cells, columns),
        )
        cost = np.zeros(columns)
        cost[0] = 1.0
        return {
            "c": cost,
            "A_ub": sparse.vstack([worst + t, ratio], format="csr"),
            "b_ub": np.zeros(count + cells),
            "A_eq": sparse.vstack(equal, format="csr"),
            "b_eq": np.concatenate(right),
        }


def _run(program: dict[str, Any], bounds: FloatArray) -> Any:
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return linprog(**program, bounds=bounds, method="highs-ds", options=options)


def solve(goal: Goal, outputs: FloatArray) -> Table | None:
    """Return the best table with these outputs, or None if none exists (outputs too close to 0).

    Cuts between nodes are added until the worst case over all inputs equals that of the program.
    """
    builder = _Builder(goal, outputs)
    cuts = _first_cuts(goal.nodes, rounds=goal.rounds)
    bounds = np.tile([0.0, np.inf], (builder.first_move, 1))
    while True:
        result = _run(builder.program(cuts, None), bounds)
        if result.x is None:
            return None
        top = result.x[1 + builder.code]
        rows = builder.low * top + result.x[builder.cell]
        peaks = goal.peaks(rows, outputs)
        worst = float(peaks.value.max())
        settled = goal.prior is not None or not goal.rounds  # the program contains all inputs
        fresh = None if settled else _new_cuts(cuts, peaks, result.x[0] * builder.scale * (1 + _RTOL))
        if fresh is None:
            return Table(worst, rows, top, outputs, cuts, _prices(builder, cuts, result))
        cuts = Cuts(np.append(cuts.pair, fresh.pair), np.append(cuts.fraction, fresh.fraction))


def move(goal: Goal, table: Table, limits: FloatArray) -> tuple[FloatArray, float] | None:
    """Return new outputs for a table, and the worst case that a first-order model predicts for them.

    `limits`, shape (K, 2), holds the largest moves of each output, down and up. Without a prior only the
    upper half is used. The result is None if the solver finds no new outputs.
    """
    builder = _Builder(goal, table.outputs)
    moving = limits if goal.prior is not None else limits[::-1][: builder.tops]
    free = np.tile([0.0, np.inf], (builder.first_move, 1))
    result = _run(builder.program(table.cuts, table.rows), np.concatenate([free, moving]))
    if result.x is None:
        return None
    if goal.prior is not None:
        return table.outputs + result.x[builder.first_move :], result.x[0] * builder.scale
    upper = result.x[builder.first_move :][::-1]  # from the middle outwards
    k = len(table.outputs)
    outputs = table.outputs.copy()
    outputs[k // 2 :] += upper
    if k % 2:
        outputs[k // 2] = 0.0
    outputs[: k // 2] = -outputs[::-1][: k // 2]
    return outputs, result.x[0] * builder.scale


def _new_cuts(cuts: Cuts, peaks: Peaks, limit: float) -> Cuts | None:
    """Return the peaks above `limit` that are not cuts yet, or None."""
    above = np.flatnonzero(peaks.value > limit)
    known = [
        bool(np.any((cuts.pair == pair) & (np.abs(cuts.fraction - peaks.fraction[pair]) < 1e-8)))
        for pair in above
    ]
    fresh = above[~np.array(known, dtype=bool)]
    return Cuts(fresh, peaks.fraction[fresh]) if fresh.size else None


def _prices(builder: _Builder, cuts: Cuts, result: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    nodes, held = builder.goal.nodes, builder.held
    total, mean = np.zeros(nodes), np.zeros(nodes)
    total[held] = result.eqlin.marginals[: len(held)]
    if builder.goal.unbiased:
        mean[held] = result.eqlin.marginals[len(held) :] / builder.largest
    count = len(cuts.pair) if builder.goal.prior is None else 1
    cut = -result.ineqlin.marginals[:count] / builder.scale
    return cut, total, mean
