"""Numbers per code: their average over the reports estimates the mean, or the mean of a function.

The numbers may differ from the decoded reports: square wave, clamped noise and other mechanisms decode with a
bias, but their rows determine the mean. Stochastic rounding keeps means, so inputs between nodes have the
same mean as the nodes to which they are rounded. So with P the kernel's rows, numbers v are unbiased for
every population if ``P v`` equals the nodes' positions. Otherwise their bias is at most the largest
difference between ``P v`` and the positions. For another function of the position, the average estimates the
mean of the function at the rounded values: for the square, rounding to nodes h apart adds up to ``h^2 / 4``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.likelihood.distribution import uniform_start
from arcwise.analysis.likelihood.linear_maps import KEPT, code_laws, matrix_of, node_means
from arcwise.kernels.certificate import UNIT
from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms.window import mean_code

if TYPE_CHECKING:
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

_UNBIASED = 1e-9  # numbers count as unbiased up to this bias, on the unit interval

_DENSE = 1 << 18
"""Size of a window kernel's matrix up to which the numbers of least variance are computed."""

_LEAST_VARIANCE = "average of the unbiased numbers per code of least variance in a uniform population"


class Numbers(NamedTuple):
    """One number per code on the unit interval, shape (K,), their origin in words, and their bias.

    The bias is a bound on ``|P v - x|`` at every input x. If the bound is below 1e-9, the numbers count as
    unbiased, and the bias is 0.
    """

    values: FloatArray
    method: str
    bias: float = 0.0


def mean_numbers(mechanism: Mechanism, reports: float) -> Numbers:
    """Return the numbers per code whose average over the reports estimates the mean most accurately.

    They are the decoded reports if decoding is unbiased, and otherwise the unbiased numbers of least variance
    in a uniform population. But some rows hardly distinguish values near an end (wide noise that is clamped
    to the domain). Then unbiased numbers are huge or do not exist. Numbers with a bounded bias are used if
    their bias and error together are less than a third of the unbiased numbers' error. The mechanism is on an
    `Interval`.
    """
    if mechanism.unbiased:
        return Numbers(mechanism.code_units(), "average of unbiased decoded reports")
    kernel = mechanism.kernel
    positions = mechanism.node_units(np.arange(kernel.nodes, dtype=np.float64))
    if isinstance(kernel, WindowKernel) and kernel.nodes * kernel.codes > _DENSE:
        # The system is too large to solve, and this is unnecessary: the mean code is affine in the node, and
        # nodes are equidistant.
        intercept, slope = mean_code(kernel)
        steps = (np.arange(kernel.codes) - intercept) / slope
        values = positions[0] + (positions[-1] - positions[0]) / (kernel.nodes - 1) * steps
        return Numbers(values, "average of affine unbiased numbers per code")
    return _solver(mechanism).numbers(positions, reports)


def moment_numbers(mechanism: Mechanism, reports: float) -> tuple[Numbers, Numbers]:
    """Return the numbers per code for the mean and for the mean square of the rounded positions.

    Both are unbiased numbers with the least variance in a uniform population; positions are those of the
    nodes on the unit interval. As in `mean_numbers`, the numbers have a bounded bias if unbiased numbers
    would be huge. The mechanism is on an `Interval`.
    """
    kernel = mechanism.kernel
    positions = mechanism.node_units(np.arange(kernel.nodes, dtype=np.float64))
    if isinstance(kernel, WindowKernel):
        population = uniform_start(mechanism)
        return _window_numbers(kernel, positions, population), _window_numbers(
            kernel, positions**2, population
        )
    solver = _solver(mechanism)
    return solver.numbers(positions, reports), solver.numbers(positions**2, reports)


def _window_numbers(kernel: WindowKernel, target: FloatArray, population: FloatArray) -> Numbers:
    """Return the unbiased numbers of least variance for a quadratic function of the node, in O(K).

    For a polynomial in the code, the mean in a row is a polynomial in the node of the same degree, since the
    sum over W codes from s on is such a polynomial. So some quadratic v is unbiased. Any other unbiased
    numbers differ from v by some c with the same mean, zero, in every row. Two neighbouring windows differ by
    a code at each end, so c has the period W: it is c_r at the n_r codes with the remainder r modulo W. With
    b the weight of every code and g the extra weight in a window, ``sum_r (g + b n_r) c_r = 0``. Under this
    constraint ``sum_j q_j (v_j - c_r(j))^2``, with q the law of the codes, is least at
    ``c_r = m_r - lambda d_r / Q_r``. Here lambda is the multiplier of the constraint, ``d_r = g + b n_r``,
    Q_r is the probability of the codes of r, and m_r the mean of v over them.
    """
    k, w = kernel.codes, kernel.window
    basis = np.vander(np.linspace(-1.0, 1.0, k), 3).T
    means = np.stack([node_means(kernel, each) for each in basis])
    values: FloatArray = np.linalg.lstsq(means.T, target, rcond=None)[0] @ basis
    q = code_laws(kernel, population[None])[0]
    residues = np.arange(k) % w
    weights = np.bincount(residues, q)
    averages = np.bincount(residues, q * values) / weights
    d = kernel.extra / UNIT + kernel.background / UNIT * np.bincount(residues)
    periodic = averages - (d @ averages) / (d @ (d / weights)) * d / weights
    values -= periodic[residues]
    left_over = _left_over(np.abs(node_means(kernel, values) - target), node_means(kernel, np.abs(values)))
    return Numbers(values, _LEAST_VARIANCE, 0.0 if left_over <= _UNBIASED else left_over)


def _left_over(differences: FloatArray, sizes: FloatArray) -> float:
    """Return the largest difference, including possible rounding errors.

    Probabilities have relative errors of up to 2**-53.
    """
    return float(differences.max()) + 2.0**-52 * float(sizes.max())


class _Solver:
    """Numbers v with ``matrix v`` near a target and least ``sum_j q_j v_j^2``, with q the law of codes.

    With ``y_j = sqrt(q_j) v_j`` these are solutions of least norm: partial sums of the singular value
    decomposition, from the largest singular value on. Each component reduces the bias and adds variance. The
    unbiased numbers are the first partial sum with a bias below half of the allowed bias. The numbers with a
    bounded bias are the partial sum for which the bias plus two standard errors is least.
    """

    def __init__(self, matrix: FloatArray, population: FloatArray) -> None:
        self._matrix = matrix
        self._scale = np.sqrt(population @ matrix)
        left, sizes, right = np.linalg.svd(matrix / self._scale, full_matrices=False)
        used = sizes > sizes[0] * 2.0**-52
        self._left, self._sizes, self._right = left[:, used], sizes[used], right[used]

    def numbers(self, target: FloatArray, reports: float) -> Numbers:
        """Return the numbers for a target, shape (N,)."""
        shares = self._left.T @ target
        weights = shares / self._sizes
        bias = np.abs(target[:, None] - np.cumsum(self._left * shares, axis=1)).max(axis=0)
        reach = 2.0 * np.sqrt(np.cumsum(weights**2) / reports)

        def summed(components: int) -> tuple[FloatArray, float]:
            values: FloatArray = weights[:components] @ self._right[:components] / self._scale
            matrix = self._matrix
            return values, _left_over(np.abs(matrix @ values - target), matrix @ np.abs(values))

        best = int(np.argmin(reach + bias))
        enough = np.flatnonzero(bias <= _UNBIASED / 2)
        if enough.size and reach[enough[0]] <= 3.0 * (reach[best] + bias[best]):
            values, left_over = summed(int(enough[0]) + 1)
            if left_over <= _UNBIASED:
                return Numbers(values, _LEAST_VARIANCE)
        values, left_over = summed(best + 1)
        return Numbers(values, "average of numbers per code with a bounded bias", left_over)


@lru_cache(maxsize=KEPT)
def _solver(mechanism: Mechanism) -> _Solver:
    """Return the solver of a mechanism, cached per mechanism: one decomposition serves all targets."""
    return _Solver(matrix_of(mechanism.kernel), uniform_start(mechanism))
