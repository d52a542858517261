"""Rivals of `accuracy.py`: histograms under local differential privacy, with their own reports.

Not a program. The first two estimate how many users are in each of equal cells, from frequency oracles:
randomised response on the cells (GRR), or optimised unary encoding (OUE, Wang et al. 2017), the one with the
smaller variance.

- A *histogram* of some tens of bins, made non-negative by subtracting one number from all (Norm-Sub).
- A *hierarchy*: users are divided among the levels of a 4-ary tree, and each reports its node at its level.
  The leaves are the non-negative least squares of all levels, weighted by their variances (Hay et al. 2010
  omit the constraint; Li et al. 2020 use equal weights, as HH-ADMM).
- *Haar wavelets* (HaarHRR, Cormode et al. 2019): each user reports a coefficient of one level by Hadamard
  response.
- *Numbers with EM*: the Square Wave with smoothed EM (Li et al. 2020), and the Piecewise Mechanism (Wang et
  al. 2019) with EM, both to the stopping rule of the first paper. A circle is cut open at 0.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from arcwise.typing import FloatArray, IntArray


__all__ = ["haar", "hierarchy", "histogram", "numbers"]

BRANCHES = 4
_MOST_STEPS = 5000
ROUNDS = 300
"""Steps of ADMM; its error is then far below that of the reports."""


def histogram(users: IntArray, epsilon: float, generator: np.random.Generator) -> FloatArray:
    """Return the shares of the cells, shape (d,), estimated from one report of each user.

    Parameters
    ----------
    users
        Shape (d,): the number of users in each cell.
    epsilon
        Epsilon of each report.
    generator
        Generator of the reports.
    """
    shares, _ = oracle(users, epsilon, generator)
    return on_simplex(shares)


def hierarchy(users: IntArray, epsilon: float, generator: np.random.Generator) -> FloatArray:
    """Return the shares of the leaves of a 4-ary tree, shape (d,); d is a power of 4. See `histogram`."""
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


def haar(users: IntArray, epsilon: float, generator: np.random.Generator) -> FloatArray:
    """Return the shares of the cells, shape (d,); d is a power of 2. See `histogram`."""
    depth = len(users).bit_length() - 1
    cell = np.repeat(np.arange(len(users)), users)
    level = generator.integers(depth, size=len(cell))
    scale = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    shares = np.ones(1)
    for j in range(depth):
        mine = cell[level == j] >> (depth - 1 - j)
        node, sign = mine >> 1, 1 - 2 * (mine & 1)
        row = generator.integers(1 << j, size=len(mine))  # of the Hadamard matrix
        told = sign * (1 - 2 * (np.bitwise_count(row & node) & 1).astype(np.int64))
        told = np.where(generator.random(len(mine)) < 1 / (1 + math.exp(epsilon)), -told, told)
        sums = np.bincount(row, weights=told, minlength=1 << j)
        for k in range(j):
            pairs = sums.reshape(-1, 2, 1 << k)
            sums = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        left_more = np.clip(scale * sums / max(len(mine), 1), -shares, shares)  # or a cell were negative
        shares = np.stack([shares + left_more, shares - left_more], axis=1).ravel() / 2
    return shares


def numbers(
    values: FloatArray, epsilon: float, generator: np.random.Generator, *, square: bool
) -> FloatArray:
    """Return the shares of equal cells, estimated from one perturbed number of each user.

    Parameters
    ----------
    values
        Shape (n,), on [0, 1].
    epsilon, generator
        As for `histogram`.
    square
        True for the Square Wave with smoothed EM, False for the Piecewise Mechanism with EM.
    """
    e, d = math.exp(epsilon), 1024 if epsilon >= 8 else 512
    if square:
        half = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
        slope, shift, length, low, high = 1.0, -half, 2 * half, -half, 1 + half
    else:
        c = (math.sqrt(e) + 1) / (math.sqrt(e) - 1)
        slope, shift, length, low, high = c + 1, -c, c - 1, -c, c
    outside = high - low - length
    near = generator.random(len(values)) < e * length / (e * length + outside)
    first = slope * values + shift
    far = low + outside * generator.random(len(values))
    far += length * (far >= first)
    reports = np.where(near, first + length * generator.random(len(values)), far)
    edges = np.linspace(low, high, d + 1)
    counts, _ = np.histogram(reports, edges)
    firsts = (slope * (np.arange(d) + 0.5) / d + shift)[:, None]
    inside = np.clip(np.minimum(firsts + length, edges[1:]) - np.maximum(firsts, edges[:-1]), 0.0, None)
    rows = (np.diff(edges) + (e - 1) * inside) / (e * length + outside)
    f, before = np.full(d, 1 / d), -math.inf
    for _ in range(_MOST_STEPS):
        q = f @ rows
        now = float(counts @ np.log(q))
        if now - before < 1e-3 * (1 if square else e):
            break
        before = now
        f = f * (rows @ (counts / q))
        if square:
            wide = np.pad(f, 1, mode="edge")
            f = wide[:-2] + 2 * f + wide[2:]
        f /= f.sum()
    return f


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
    """Return the nearest probabilities: subtract one number from all that stay positive (Norm-Sub)."""
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
