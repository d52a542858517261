"""The exact delta of a kernel: what (epsilon, delta)-LDP costs beyond epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.kernels.certificate import UNIT, Certificate, exp_lower_bound

if TYPE_CHECKING:
    from arcwise.kernels.base import Kernel

__all__ = ["certify_approximate", "exact_delta"]

# Pairs of rows whose delta in floats is within this of the largest are compared exactly. A float delta of two
# rows is a sum of terms with an error of 2**-51 times probabilities that sum to 1: far below.
_CLOSE = 2.0**-46


def exact_delta(kernel: Kernel, epsilon: float) -> int:
    """Return the least delta for which the kernel is (epsilon, delta)-LDP, in units of 2**-64, rounded up.

    ``max over inputs s, t of sum_j max(0, w[s][j] - e^epsilon w[t][j]) / 2**64``, with the rational lower
    bound of e^epsilon: the hockey-stick divergence of two rows. Floats only choose which pairs of rows are
    compared exactly. A value between two nodes has a mixture of their rows, and the divergence is convex in
    the pair of rows: no real input exceeds the nodes.
    """
    import numpy as np

    bound = exp_lower_bound(epsilon)
    firsts, seconds = kernel.compared_rows()
    second = np.array([[weight / UNIT for weight in row] for row in seconds]) * float(bound)
    floats = np.array(
        [
            np.maximum(np.array([weight / UNIT for weight in first]) - second, 0.0).sum(axis=1)
            for first in firsts
        ]
    )
    largest = 0
    for s, t in np.argwhere(floats >= floats.max() - _CLOSE).tolist():
        total = sum(
            excess
            for a, b in zip(firsts[s], seconds[t], strict=True)
            if (excess := a * bound.denominator - b * bound.numerator) > 0
        )
        largest = max(largest, total)
    return -(-largest // bound.denominator)


def certify_approximate(kernel: Kernel, epsilon: float) -> Certificate:
    """Return the certificate of a kernel at this epsilon with the delta that it exactly has."""
    return Certificate(epsilon=epsilon, delta=exact_delta(kernel, epsilon), ratio=kernel.ratio())
