"""Find the output values of a table: solve a program with many outputs, then move a few of them.

1. *Many.* Solve the program on a fine grid of outputs, and gather its weight into K clusters.
2. *Move.* Sequential linear programming: a model to first order in the outputs gives a step inside a trust
   region; the exact program at the new outputs evaluates it.
3. *Relocate.* Move an output without weight to the place where a new output pays most: where the reduced cost
   of its column, by the program's multipliers, is lowest. Then repeat step 2.

Coordinates are as in `program`. Every intermediate table is feasible, and no step makes the table worse. With
a prior, step 3 is skipped, because even step 2 then gains less than a thousandth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.design import program
from arcwise.errors import ArcwiseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.analysis.design.program import Goal, Table
    from arcwise.typing import FloatArray

_GRID = 60
"""Number of outputs on either side of 0 in the first program."""

_MARGIN = 1.35
"""Reach of these outputs, divided by the least feasible reach. No unbiased table found needs more."""

_PRIOR_MARGIN = 2.0
"""The same ratio with a prior. The program then moves rarely needed outputs farther out."""

_ROUNDS = 4
"""The most relocations."""

_USED = 1e-7
"""An output counts as unused if its largest weight is below this."""

_QUANTUM = 2.0**-32
"""Outputs are multiples of this, so that their sums with nodes and each other are exact."""


def find_table(goal: Goal, outputs: int, notify: Callable[[float, float], None]) -> Table:
    """Return a table for a goal with at most `outputs` outputs, at least 2.

    `notify` is called with the finished share of the work, from 0 to 1, and the worst case so far on [-1, 1].
    """
    if not (goal.unbiased or goal.rounds) and goal.power == 1.0 and goal.nodes <= outputs:
        # For any weights of the inputs, moving an output to its weighted median, which is a node, loses
        # nothing.
        notify(0.1, 1.0)
        table = _must(program.solve(goal, goal.positions))
        return _must(program.solve(goal, table.outputs[table.top > _USED]))
    table = _descend(goal, _must(program.solve(goal, _start(goal, outputs))), notify, 0.1, 0.5)
    if goal.prior is not None:
        return _tidy(goal, table)
    for turn in range(_ROUNDS):
        moved = _relocate(goal, table)
        fresh = None if moved is None else program.solve(goal, moved)
        if fresh is None:
            break
        better = _descend(goal, fresh, notify, 0.5 + 0.1 * turn, 0.6 + 0.1 * turn)
        gain = table.worst - better.worst
        table = better if gain > 0 else table
        if gain < 1e-5 * table.worst:
            break
    notify(0.95, table.worst)
    return _tidy(goal, table)


def _must(table: Table | None) -> Table:
    if table is None:
        raise ArcwiseError("the solver found no table: HiGHS says the program is infeasible")
    return table


def _mirror(upper: FloatArray, outputs: int) -> FloatArray:
    """Return symmetric ascending outputs from the positive outputs, with 0 if their number is odd."""
    middle = np.zeros(outputs % 2)
    return np.concatenate([-upper[::-1], middle, upper])


def _start(goal: Goal, outputs: int) -> FloatArray:
    """Return outputs at the centres of the clusters of the weight of a program with many outputs."""
    if goal.prior is not None:
        grid = np.linspace(-1.0, 1.0, 2 * _GRID + 1) * goal.reach * _PRIOR_MARGIN
        centres = _clusters(grid, _must(program.solve(goal, grid)).top, outputs)
        centres[0] = min(centres[0], -goal.reach * (1 + 1e-9))
        centres[-1] = max(centres[-1], goal.reach * (1 + 1e-9))
        return centres
    reach = goal.reach * (_MARGIN if goal.unbiased else 1.0)
    grid = (np.arange(_GRID) + 0.5) / _GRID * reach
    weight = _must(program.solve(goal, _mirror(grid, 2 * _GRID))).top[_GRID:]
    centres = _clusters(grid, weight, outputs // 2)
    if goal.unbiased:
        # Plus and minus this largest output are feasible alone, regardless of the other outputs.
        centres[-1] = max(centres[-1], goal.reach * (1 + 1e-9))
    return _mirror(centres, outputs)


def _clusters(points: FloatArray, weight: FloatArray, count: int) -> FloatArray:
    """Return `count` distinct ascending centres of weighted points: k-means on a line (Lloyd)."""
    used = weight > _USED
    points, weight = points[used], weight[used]
    share = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
    centres = np.interp((np.arange(count) + 0.5) / count, share, points)
    for _ in range(100):
        nearest = np.argmin(np.abs(points[:, None] - centres), axis=1)
        mass = np.bincount(nearest, weight, count)
        moved = np.where(
            mass > 0, np.bincount(nearest, weight * points, count) / np.maximum(mass, 1e-300), centres
        )
        if np.array_equal(moved, centres):
            break
        centres = moved
    # If there are more centres than points, spread the coinciding centres. The moves improve them.
    return np.sort(centres) + np.arange(count) * 1e-6


def _descend(
    goal: Goal, table: Table, notify: Callable[[float, float], None], begin: float, end: float
) -> Table:
    """Return a table that no small move of the outputs improves."""
    radius = 0.05 * goal.reach
    steps = 60
    for step in range(steps):
        notify(begin + (end - begin) * step / steps, table.worst)
        proposal = program.move(goal, table, _limits(goal, table.outputs, radius))
        if proposal is None:
            radius /= 4
            continue
        outputs, predicted = proposal
        promised = table.worst - predicted
        if promised < 1e-6 * table.worst or radius < 1e-7:
            break
        fresh = program.solve(goal, outputs)
        ratio = -1.0 if fresh is None else (table.worst - fresh.worst) / promised
        if fresh is not None and ratio > 0:
            table = fresh
        radius *= 2.0 if ratio > 0.7 else 1.0 if ratio > 0.2 else 0.25
    return table


def _limits(goal: Goal, outputs: FloatArray, radius: float) -> FloatArray:
    """Return how far each output may move down and up: within the radius, and never past another output."""
    gap = 0.45 * np.diff(outputs)
    down = -np.minimum(radius, np.append(np.inf, gap))
    up = np.minimum(radius, np.append(gap, np.inf))
    if not goal.unbiased:
        down, up = np.maximum(down, -1.0 - outputs), np.minimum(up, 1.0 - outputs)
    if len(outputs) % 2 and goal.prior is None:
        down[len(outputs) // 2] = up[len(outputs) // 2] = 0.0
    return np.stack([down, up], axis=1)


def _relocate(goal: Goal, table: Table) -> FloatArray | None:
    """Return outputs with unused outputs moved to where they pay most, or None if no place pays."""
    k = len(table.outputs)
    upper, top = table.outputs[(k + 1) // 2 :], table.top[(k + 1) // 2 :]
    unused = np.flatnonzero(top < _USED)
    grid = np.linspace(0.0, goal.reach * (_MARGIN if goal.unbiased else 1.0), 1001)
    gain = -_reduced_costs(goal, table, grid)
    inner = np.arange(1, len(grid) - 1)
    peak = (gain[inner] >= gain[inner - 1]) & (gain[inner] > gain[inner + 1]) & (gain[inner] > 1e-7)
    peaks = inner[peak]
    places = grid[peaks[np.argsort(-gain[peaks], kind="stable")]][: len(unused)]
    if not places.size:
        return None
    upper = upper.copy()
    upper[unused[: len(places)]] = places
    upper = np.maximum.accumulate(np.sort(upper))
    # Outputs that coincide would stay together.
    upper = upper + np.arange(len(upper)) * 1e-7
    if not goal.unbiased:
        upper = np.minimum(upper, 1.0)
    return _mirror(upper, k)


def _reduced_costs(goal: Goal, table: Table, grid: FloatArray) -> FloatArray:
    """Return the reduced costs of pairs of outputs, at plus and minus each point of `grid`.

    In each row, a column has its high level if the row's price is negative, and its low level otherwise.
    """
    cut, total, mean = table.prices
    y = np.concatenate([-grid[::-1], grid])
    x = -1.0 + (table.cuts.pair + table.cuts.fraction) * 2.0 / (goal.nodes - 1)
    loss = cut[:, None] * np.abs(y - x[:, None]) ** goal.power
    price = -total[:, None] - mean[:, None] * y
    np.add.at(price, table.cuts.pair, (1 - table.cuts.fraction)[:, None] * loss)
    np.add.at(price, table.cuts.pair + 1, table.cuts.fraction[:, None] * loss)
    # A cell and its mirror image are one variable.
    folded = (price + price[::-1, ::-1])[: (goal.nodes + 1) // 2]
    best = np.where(folded < 0, folded, np.exp(-goal.epsilon) * folded)
    if goal.nodes % 2:
        best[-1] *= 0.5  # the middle row is its own image: both signs of y are the same cells
    both = best + best[:, ::-1]
    column: FloatArray = both.sum(axis=0)[len(grid) :]
    return column


def _tidy(goal: Goal, table: Table) -> Table:
    """Return the table without unused outputs, and with outputs that are short binary fractions."""
    used = table.top > _USED
    outputs = np.round(table.outputs[used] / _QUANTUM) * _QUANTUM
    if goal.unbiased:
        least = np.ceil(goal.reach / _QUANTUM) * _QUANTUM
        outputs[-1] = max(outputs[-1], least)
        outputs[0] = -outputs[-1] if goal.prior is None else min(outputs[0], -least)
    return _must(program.solve(goal, outputs))
