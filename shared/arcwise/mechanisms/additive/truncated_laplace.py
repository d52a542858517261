"""Truncated Laplace noise as a local mechanism on a grid: (epsilon, delta), and unbiased."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.additive.base import ApproximateAdditive, inner_epsilon
from arcwise.mechanisms.additive.grid import LEAST, fit_grid
from arcwise.mechanisms.window import check_interval, lattice_nodes

if TYPE_CHECKING:
    from arcwise.domains import Interval
    from arcwise.mechanisms.additive.grid import Tail
    from arcwise.noise import TruncatedLaplace


class TruncatedLaplaceMechanism(ApproximateAdditive):
    """The truncated Laplacian mechanism on a grid; (epsilon, delta)-LDP.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    delta
        More than 0, at most 1/2; what `certificate` shows is at most this, and close to it.
    nodes
        N, from 2 to 330. The default is the largest of 65, 33, 17, 9, 5, 3, 2 whose table takes less than
        200 kB in a task.
    reach
        How far the codes extend beyond either end of the interval, in its lengths, rounded to grid steps.
        The default holds all of the noise: nothing is clamped, and a decoded report is unbiased. A smaller
        reach clamps the rest into the end codes; delta stays, unbiasedness ends.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the table would be too large.
    CertificateError
        When the integers do not keep delta.

    Notes
    -----
    The rows are integrals of `arcwise.noise.TruncatedLaplace` with the sensitivity N-1 over the cells of the
    grid (Geng, Ding, Guo and Kumar, arXiv 1810.00877, Theorem 1). Rounding to the grid loses no delta: with
    the largest shift, the cells of one input that exceed e^epsilon times those of the other are the last
    N-1 steps of the noise, with the mass delta, wherever cells are cut.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = TruncatedLaplaceMechanism(Interval(0, 100), epsilon=1.0, delta=1e-6)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    141.4
    """

    __slots__ = ()

    name: ClassVar[str] = "truncated-laplace"
    version: ClassVar[int] = 1

    def __init__(
        self,
        domain: Interval,
        epsilon: float,
        delta: float,
        *,
        nodes: int | None = None,
        reach: float | None = None,
    ) -> None:
        from arcwise.noise.checks import checked_delta

        epsilon, delta = check_epsilon(epsilon), checked_delta(delta, 0.5)
        own = inner_epsilon(epsilon)  # so that no cell but the last ones exceeds e^epsilon by rounding
        nodes = lattice_nodes(check_interval(domain, type(self).__name__), nodes, otherwise=None)

        def build(inner: float) -> tuple[Tail, int, int]:
            noise, steps, margin = fit_grid(
                lambda steps: _whole_cells(own, inner, steps), nodes, reach, pure=False
            )
            return noise.sf, steps, margin

        self._spend(domain, epsilon, delta, build)


def _whole_cells(epsilon: float, delta: float, steps: int) -> TruncatedLaplace:
    """Return the noise with this delta, or a little less, of which no sliver of a cell is left at the ends.

    Where the last cell would have a weight below 2**31, the noise is lengthened until it has that weight.
    """
    from arcwise.noise import TruncatedLaplace

    noise = TruncatedLaplace(epsilon, delta, steps)
    last = math.ceil(noise.half_support - 0.5) - 0.5  # where the last cell begins
    if noise.sf(last) >= LEAST:
        return noise
    # With end = e^(-A / scale): sf(last) = (start - end) / (1 - end) / 2.
    start = math.exp(-last / noise.scale)
    end = (start - 2.0 * LEAST) / (1.0 - 2.0 * LEAST)
    if end < start * math.exp(-1.0 / noise.scale):  # the whole cell has no such weight: leave it
        return noise
    # And delta = (e^epsilon - 1) / (1 / end - 1) / 2.
    return TruncatedLaplace(epsilon, math.expm1(epsilon) / 2.0 * (end / (1.0 - end)), steps)
