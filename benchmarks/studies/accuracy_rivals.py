"""Histograms under local differential privacy, with reports of their own: what `accuracy.py` compares with.

Not a program. Both estimate how many users are in each of equal cells, from frequency oracles: randomised
response on the cells (GRR), or optimised unary encoding (OUE, Wang et al. 2017) where its variance is less.

- A *histogram* of some tens of bins, made non-negative by subtracting one number from all (Norm-Sub).
- A *hierarchy*: users are divided among the levels of a 4-ary tree, each reports its node at its level, and
  the leaves are the non-negative least squares of all levels, weighted by their variances (Hay et al. 2010 is
  that without the constraint; Li et al. 2020 have it with equal weights, as HH-ADMM).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from arcwise.typing import FloatArray, IntArray


__all__ = ["hierarchy", "histogram"]

BRANCHES = 4
ROUNDS = 300
"""Of ADMM; its error is then far below that of the reports."""


def histogram(users: IntArray, epsilon: float, generator: np.random.Generator) -> FloatArray:
    """Return the shares of the cells, shape (d,), estimated from one report of each user.

    Parameters
    ----------
    users
        Shape (d,): how many users are in each cell.
    epsilon
        Of each report.
    generator
        Of the reports.
    """
    shares, _ = oracle(users, epsilon, generator)
    return on_simplex(shares)


def hierarchy(users: IntArray, epsilon: float, generator: np.random.Generator) -> FloatArray:
    """Return the shares of the leaves of a 4-ary tree, shape (d,); d is a power of 4. Else as `histogram`."""
    depth = round(math.log(len(users), BRANCHES))
    left = users
    answers, precisions = [], []
    for level in range(depth):
        here = generator.binomial(left, 1 / (depth - level))
        left = left - here
        if not here.any():
            continue
        cells = BRANCHES ** (level + 1)
        shares, variance = oracle(here.reshape(cells, -1).sum(axis=1), epsilon, generator)
        answers.append(shares)
        precisions.append(1 / variance)
    return _least_squares(len(users), answers, precisions)


def oracle(users: IntArray, epsilon: float, generator: np.random.Generator) -> tuple[FloatArray, float]:
    """Return unbiased shares, shape (d,), and the variance of a rare one."""
    d, n, e = len(users), int(users.sum()), math.exp(epsilon)
    if d - 2 < 3 * e:  # GRR: the truth with probability p - q, else any of the d
        q = 1 / (e + d - 1)
        truth = generator.binomial(users, (e - 1) * q)
        counts = truth + generator.multinomial(n - truth.sum(), np.full(d, 1 / d))
        return (counts / n - q) / ((e - 1) * q), (d - 2 + e) / (n * (e - 1) ** 2)
    q = 1 / (e + 1)
    counts = generator.binomial(users, 0.5) + generator.binomial(n - users, q)
    return (counts / n - q) / (0.5 - q), 4 * e / (n * (e - 1) ** 2)


def on_simplex(shares: FloatArray) -> FloatArray:
    """Return the nearest probabilities: one number is subtracted from all that stay positive (Norm-Sub)."""
    falling = -np.sort(-shares)
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(shares) + 1)
    return np.asarray(np.maximum(shares - excess[np.flatnonzero(falling > excess)[-1]], 0.0))


def _least_squares(leaves: int, answers: list[FloatArray], precisions: list[float]) -> FloatArray:
    weights = np.array(precisions) / max(precisions)
    cells = tuple(len(answer) for answer in answers)
    inverse = _inverse(leaves, cells, tuple(weights.tolist()))
    target = np.zeros(leaves)
    for weight, answer in zip(weights, answers, strict=True):
        target += weight * np.repeat(answer, leaves // len(answer))
    x, scaled = np.full(leaves, 1 / leaves), np.zeros(leaves)
    for _ in range(ROUNDS):
        smooth = inverse @ (target + _RHO * (x - scaled))
        x = on_simplex(smooth + scaled)
        scaled += smooth - x
    return x


_RHO = 1.0


@lru_cache(maxsize=64)
def _inverse(leaves: int, cells: tuple[int, ...], weights: tuple[float, ...]) -> FloatArray:
    matrix = _RHO * np.eye(leaves)
    for many, weight in zip(cells, weights, strict=True):
        which = np.arange(leaves) // (leaves // many)
        matrix += weight * (which[:, None] == which)
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
