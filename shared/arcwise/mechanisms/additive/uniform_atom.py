"""Uniform noise with an atom at 0 as a local mechanism on a grid: (0, delta), and unbiased."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from arcwise.mechanisms.additive.base import ApproximateAdditive
from arcwise.mechanisms.additive.grid import LEAST, fit_grid
from arcwise.mechanisms.window import check_interval, lattice_nodes

if TYPE_CHECKING:
    from arcwise.domains import Interval
    from arcwise.mechanisms.additive.grid import Tail
    from arcwise.noise import UniformAtom


class UniformAtomMechanism(ApproximateAdditive):
    """The optimal (0, delta)-LDP additive mechanism, on a grid: its epsilon is 0.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    delta
        More than 0, less than 1; what `certificate` shows is at most this, and close to it.
    power
        The atom is the one with the least ``E|noise|^power``, positive.
    nodes
        N, from 2 to 330. The default is the largest of 65, 33, 17, 9, 5, 3, 2 whose table takes less than
        200 kB in a task.
    reach
        How far the codes extend beyond either end of the interval, in its lengths, rounded to grid steps.
        The default holds all of the noise, ``1 / (2 delta)`` lengths where there is no atom: nothing is
        clamped, and a decoded report is unbiased. A smaller reach clamps the rest into the end codes; delta
        stays, unbiasedness ends.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the table would be too large: below a delta of 1.4e-4 it
        takes ``nodes=2``, and below 2.8e-5 a `reach`.
    CertificateError
        When the integers do not keep delta.

    Notes
    -----
    The rows are integrals of `arcwise.noise.UniformAtom` with the sensitivity N-1 over the cells of the grid
    (Geng, Ding, Guo and Kumar, arXiv 1809.10224, Theorem 3). With the largest shift the two rows differ by
    the mass of N-1 cells around the middle, which is delta: rounding to the grid loses none.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = UniformAtomMechanism(Interval(0, 100), delta=0.1)
    >>> print(mechanism.certificate())
    epsilon = 0, delta = 0.1: exactly 1844674405509549640 / 2**64, rounded up (checked in rational arithmetic)
    """

    __slots__ = ()

    name: ClassVar[str] = "uniform-atom"
    version: ClassVar[int] = 1

    def __init__(
        self,
        domain: Interval,
        delta: float,
        *,
        power: float = 1.0,
        nodes: int | None = None,
        reach: float | None = None,
    ) -> None:
        from arcwise.noise import optimal_alpha
        from arcwise.noise.checks import checked_delta

        delta = checked_delta(delta, 1.0)
        nodes = lattice_nodes(check_interval(domain, type(self).__name__), nodes, otherwise=None)

        def build(inner: float) -> tuple[Tail, int, int]:
            alpha = optimal_alpha(inner, power)
            noise, steps, margin = fit_grid(
                lambda steps: _whole_cells(inner, steps, alpha), nodes, reach, pure=False
            )
            return noise.sf, steps, margin

        self._spend(domain, 0.0, delta, build)


def _whole_cells(delta: float, steps: int, alpha: float) -> UniformAtom:
    """Return the noise with this delta, or a little less, of which no sliver of a cell is left at the ends.

    Where the last cell would have a weight below 2**31, the noise is lengthened until it has that weight.
    """
    from arcwise.noise import UniformAtom

    noise = UniformAtom(delta, steps, alpha)
    last = math.ceil(noise.half_support - 0.5) - 0.5  # where the last cell begins
    if noise.sf(last) >= LEAST:
        return noise
    # sf(last) = (1 - alpha) (h - last) / (2 h), and delta = alpha + (1 - alpha) steps / (2 h).
    half = (1.0 - alpha) * last / (1.0 - alpha - 2.0 * LEAST)
    return UniformAtom(alpha + (1.0 - alpha) * steps / (2.0 * half), steps, alpha)
