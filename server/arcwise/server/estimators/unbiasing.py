"""Numbers per code whose average over the reports is the mean, for a mechanism on an interval.

They need not be what a report decodes to: the square wave, clamped noise and others decode with a bias, and
yet their rows tell the mean. A mean over inputs between nodes is one over nodes, since stochastic rounding
keeps means; so the numbers v serve every population as soon as ``P v`` is the nodes' positions, and their
bias is nowhere more than the largest difference of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms.window import mean_code
from arcwise.server.estimators.distribution import uniform_start

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.mechanisms.base import Mechanism

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["Numbers", "mean_numbers"]

_UNBIASED = 1e-9
"""The largest bias, on the unit interval, of numbers that are called unbiased."""

_DENSE = 1 << 18
"""Weights of a window kernel up to which the numbers of least variance are worth their solution."""


class Numbers(NamedTuple):
    """One number per code, on the unit interval, shape (K,), in words where they come from, and their bias.

    The bias is a bound on ``|P v - x|`` at every input; 0 where that is below 1e-9: unbiased numbers.
    """

    values: FloatArray
    method: str
    bias: float = 0.0


def mean_numbers(mechanism: Mechanism, reports: float) -> Numbers:
    """Return the numbers per code whose average over so many reports tells the most about the mean.

    What reports decode to where that is unbiased. Else the unbiased numbers of least variance in a uniform
    population. But some rows hardly tell values near an end apart (wide noise that is clamped to the domain),
    and unbiased numbers are huge or do not exist: where numbers with a bounded bias, bias and error together,
    reach less than a third as far, these are taken.

    Parameters
    ----------
    mechanism
        On an `Interval`.
    reports
        How many there are, at least 1.
    """
    if mechanism.unbiased:
        return Numbers(mechanism.code_units(), "average of unbiased decoded reports")
    kernel = mechanism.kernel
    positions = mechanism.node_units(np.arange(kernel.nodes, dtype=np.float64))
    if isinstance(kernel, WindowKernel) and kernel.nodes * kernel.codes > _DENSE:
        # Too large to solve, and no need to: the mean code is affine in the node, and nodes are equidistant.
        intercept, slope = mean_code(kernel)
        steps = (np.arange(kernel.codes) - intercept) / slope
        values = positions[0] + (positions[-1] - positions[0]) / (kernel.nodes - 1) * steps
        return Numbers(values, "average of affine unbiased numbers per code")
    return _solved(kernel.matrix(), positions, uniform_start(mechanism), reports)


def _solved(matrix: FloatArray, positions: FloatArray, population: FloatArray, reports: float) -> Numbers:
    """Return the v of least ``sum_j q_j v_j^2`` with ``matrix v`` near `positions`, q the population's codes.

    With ``y_j = sqrt(q_j) v_j`` these are solutions of least norm: partial sums of the singular value
    decomposition, from the largest singular value on. Each component takes away bias and adds variance. The
    unbiased numbers are the first sum whose bias is below half of what is allowed; those with a bias are the
    sum for which the bias and two standard errors together are least.
    """
    scale = np.sqrt(population @ matrix)
    left, sizes, right = np.linalg.svd(matrix / scale, full_matrices=False)
    shares = left.T @ positions
    used = sizes > sizes[0] * 2.0**-52
    left, right, weights = left[:, used], right[used], shares[used] / sizes[used]
    bias = np.abs(positions[:, None] - np.cumsum(left * shares[used], axis=1)).max(axis=0)
    reach = 2.0 * np.sqrt(np.cumsum(weights**2) / reports)

    def numbers(components: int) -> tuple[FloatArray, float]:
        values: FloatArray = weights[:components] @ right[:components] / scale
        # What rounding may hide is counted as bias: a probability is known to 2**-53 of itself.
        hidden = 2.0**-52 * float((matrix @ np.abs(values)).max())
        return values, float(np.abs(matrix @ values - positions).max()) + hidden

    best = int(np.argmin(reach + bias))
    enough = np.flatnonzero(bias <= _UNBIASED / 2)
    if enough.size and reach[enough[0]] <= 3.0 * (reach[best] + bias[best]):
        values, left_over = numbers(int(enough[0]) + 1)
        if left_over <= _UNBIASED:
            return Numbers(
                values, "average of the unbiased numbers per code of least variance in a uniform population"
            )
    values, left_over = numbers(best + 1)
    return Numbers(values, "average of numbers per code with a bounded bias", left_over)
