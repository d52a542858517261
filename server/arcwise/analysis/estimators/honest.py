"""Whether honest reports of some population may have an average: what notes on manipulated counts rest on.

An interval at the level 0.95 lies beyond what is possible in one survey of forty where the truth is at the
end of what is possible. So its ends accuse nobody.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.likelihood.linear_maps import node_means

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.kernels.base import Kernel
    from arcwise.typing import FloatArray

_ALARM = 1e-4
"""Of honest surveys, in which a note may speak of manipulated counts: one of several."""


def beyond_chance(
    kernel: Kernel, samples: Sequence[tuple[FloatArray, FloatArray, float]], *, trials: int = 1
) -> bool:
    """Return whether honest reports have so large a weighted sum of averages in 1 of 10,000 surveys at most.

    Each sample consists of the number per code, the reports per code and its weight. `trials` is the number
    of sums that might have been examined instead of this one.

    Chernoff's bound holds for every number of reports and for every population: inputs are mixtures of nodes,
    so the largest ``E exp(t v)`` is that of a node. The bound holds for every t; a few are tried.
    """
    above, variance = 0.0, 0.0
    for values, counts, weight in samples:
        n = float(counts.sum())
        value = float(counts @ values) / n
        above += weight * (value - float(node_means(kernel, values).max()))
        variance += weight**2 * float(counts @ (values - value) ** 2) / n**2
    if not above > 0.0:
        return False
    about = above / (variance + above**2 / 100)

    def probability(t: float) -> float:
        """Return the logarithm of the bound."""
        total = 0.0
        for values, counts, weight in samples:
            n, most = float(counts.sum()), float(values.max())
            largest = float(node_means(kernel, np.exp(t * weight / n * (values - most))).max())
            total += n * math.log(largest) + t * weight * (most - float(counts @ values) / n)
        return total

    return min(probability(about * 2.0**power) for power in range(-8, 5)) < math.log(_ALARM / trials)
