"""Numbers per code whose average over the reports is an unbiased mean, for a mechanism on an interval.

They need not be what a report decodes to: the square wave, clamped noise and others decode with a bias, and
yet their rows tell the mean. A mean over inputs between nodes is one over nodes, since stochastic rounding
keeps means; so the numbers v serve every population as soon as ``P v`` is the nodes' positions.
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

__all__ = ["Unbiased", "unbiased_numbers"]

_BIAS = 1e-9
"""The largest bias, on the unit interval, of numbers that are called unbiased."""

_DENSE = 1 << 18
"""Weights of a window kernel up to which the numbers of least variance are worth their solution."""


class Unbiased(NamedTuple):
    """One number per code, on the unit interval, shape (K,), and in words where they come from."""

    numbers: FloatArray
    method: str


def unbiased_numbers(mechanism: Mechanism) -> Unbiased | None:
    """Return numbers whose mean at every node is the node's position, to 1e-9; None where there are none.

    What reports decode to where that is unbiased; else, of all such numbers, those of least variance in a
    uniform population.

    Parameters
    ----------
    mechanism
        On an `Interval`.
    """
    if mechanism.unbiased:
        return Unbiased(mechanism.code_units(), "average of unbiased decoded reports")
    kernel = mechanism.kernel
    positions = mechanism.node_units(np.arange(kernel.nodes, dtype=np.float64))
    if isinstance(kernel, WindowKernel) and kernel.nodes * kernel.codes > _DENSE:
        # Too large to solve, and no need to: the mean code is affine in the node, and nodes are equidistant.
        intercept, slope = mean_code(kernel)
        steps = (np.arange(kernel.codes) - intercept) / slope
        return Unbiased(
            positions[0] + (positions[-1] - positions[0]) / (kernel.nodes - 1) * steps,
            "average of affine unbiased numbers per code",
        )
    numbers = _least_variance(kernel.matrix(), positions, uniform_start(mechanism))
    method = "average of the unbiased numbers per code of least variance in a uniform population"
    return None if numbers is None else Unbiased(numbers, method)


def _least_variance(matrix: FloatArray, positions: FloatArray, population: FloatArray) -> FloatArray | None:
    """Return the v with ``matrix v = positions`` of least ``sum_j q_j v_j^2``, q the codes of the population.

    With ``y_j = sqrt(q_j) v_j`` this is the solution of least norm, from the singular value decomposition.
    Components are taken from the largest singular value on, only until the bias is below half of what is
    allowed: small singular values buy nothing but variance.
    """
    scale = np.sqrt(population @ matrix)
    left, sizes, right = np.linalg.svd(matrix / scale, full_matrices=False)
    shares = left.T @ positions
    bias = np.abs(positions[:, None] - np.cumsum(left * shares, axis=1)).max(axis=0)
    enough = np.flatnonzero(bias <= _BIAS / 2)
    if not enough.size:
        return None
    used = slice(enough[0] + 1)
    numbers: FloatArray = (shares[used] / sizes[used]) @ right[used] / scale
    # What rounding may hide is counted as bias: a probability is known to 2**-53 of itself.
    hidden = 2.0**-52 * (matrix @ np.abs(numbers)).max()
    return numbers if np.abs(matrix @ numbers - positions).max() + hidden <= _BIAS else None
