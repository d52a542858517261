"""The exact delta of a kernel, for (epsilon, delta)-LDP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.errors import CertificateError
from arcwise.kernels.certificate import UNIT, Certificate, exp_lower_bound

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from arcwise.kernels.base import Kernel
    from arcwise.typing import FloatArray

_MOST_WORK = 2**27
"""The largest number of comparisons of weights, plus 128 for each pair of rows; this takes two seconds. A
task is external input: without a limit, a task of one megabyte could take days.
"""


def exact_delta(kernel: Kernel, epsilon: float) -> int:
    """Return the least delta for which the kernel is (epsilon, delta)-LDP, in units of 2**-64, rounded up.

    Let ``w[s][j]`` be the weight of code j for the input s, and E the rational lower bound of e^epsilon. Then
    delta is ``max over inputs s, t of sum_j max(0, w[s][j] - E w[t][j]) / 2**64``: the largest hockey-stick
    divergence of two rows. A value between two nodes has a mixture of their rows, and the divergence is
    convex in the pair of rows, so no input between nodes has a larger delta than the nodes. Raises
    `CertificateError` if the kernel has too many rows and codes to compare all pairs of rows.

    The computation is exact. A term counts if ``w[s][j] > floor(E w[t][j])``, a comparison of integers. The
    counted terms add up to ``sum_j w[s][j] - E sum_j w[t][j]``, where both sums are over the codes j of these
    terms. They are sums of integers, computed from halves of 32 bits.
    """
    import numpy as np

    bound = exp_lower_bound(epsilon)
    firsts, seconds = kernel.compared_rows()
    pairs = len(firsts) * len(seconds)
    if pairs * (kernel.codes + 128) > _MOST_WORK:
        raise CertificateError(
            "nodes and codes must be fewer for an exact delta: pairs of rows, times codes + 128, must be at "
            f"most {_MOST_WORK:,}, got {pairs:,} pairs of {kernel.nodes:,} nodes, and {kernel.codes:,} codes"
        )
    # No weight exceeds 2**64 - 1, so floor(E w) can be cut off at this value. Each different weight is
    # multiplied once, because the kernels of noise have the same few weights in every row.
    different = set().union(*seconds)
    reach = {w: min(w * bound.numerator // bound.denominator, UNIT - 1) for w in different}
    reached = np.array([list(map(reach.__getitem__, row)) for row in seconds], np.uint64)
    high, low = _halves(np.array(seconds, np.uint64))
    largest = 0
    for first in firsts:
        row = np.array(first, np.uint64)
        counts = (row > reached).astype(np.float64)
        sums = [counts @ half for half in _halves(row)]
        sums += [np.einsum("ij,ij->i", counts, half) for half in (high, low)]
        for gain_high, gain_low, loss_high, loss_low in set(
            zip(*(part.astype(np.int64).tolist() for part in sums), strict=True)
        ):
            gain, loss = (gain_high << 32) + gain_low, (loss_high << 32) + loss_low
            largest = max(largest, gain * bound.denominator - loss * bound.numerator)
    return -(-largest // bound.denominator)


def _halves(weights: NDArray[np.uint64]) -> tuple[FloatArray, FloatArray]:
    """Return the upper and the lower 32 bits as floats; 2,097,152 of them add up without rounding."""
    import numpy as np

    upper, lower = weights >> np.uint64(32), weights & np.uint64(2**32 - 1)
    return upper.astype(np.float64), lower.astype(np.float64)


def certify_approximate(kernel: Kernel, epsilon: float) -> Certificate:
    """Return the certificate of a kernel at this epsilon, with its exact delta."""
    return Certificate(epsilon=epsilon, delta=exact_delta(kernel, epsilon), ratio=kernel.ratio())
